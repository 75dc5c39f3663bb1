/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * umcg/sync.h - mutexes, locks for readers and writers, condition variables, what is done once,
 * barriers, wait groups, events; and waiting for any or all of some of them.
 *
 * They are for workers and plain threads of one process alike. To wait stops the worker, not its
 * server: so they take the place of pthread_mutex_t and its like wherever a worker may wait, and
 * are used as those, but that errors are told by -1 and errno, and times are deadlines. A worker
 * may move from one kernel thread to another while it has a lock.
 *
 * Objects are part of the caller's own data. Each has an initialiser for static ones, and a
 * function for others; all zeros are an object too, except a barrier. They are not copied or moved,
 * nothing is to be done at their end, and their memory may be used for other things when nobody is
 * in a call on them any more.
 *
 * Who waits longest is served first, and what was given to a waiter cannot be taken by who comes
 * later, but for mutexes that are not fair. Nothing here makes a system call unless the caller has
 * to wait, or wakes a kernel thread that sleeps.
 *
 * The words of umcg/rt.h mean here what they mean there: "anywhere", "may switch", "cancellable",
 * deadlines. But a call that need not wait is not cut short. A wait that is cut short, or whose
 * deadline passes, has taken nothing and changed nothing. Where a call fails with no error of its
 * own below, it fails with EINVAL: a pointer is NULL; and, if it is cancellable, with ECANCELED: it
 * had to wait, and the caller was aborted; if it has a deadline, with ETIMEDOUT: that has passed.
 *
 * Deadlines are nanoseconds of CLOCK_MONOTONIC, 0 for never; umcg_after_ns makes one. Those of
 * umcg_ctl, in umcg.h, are of CLOCK_REALTIME.
 */
#ifndef UMCG_SYNC_H
#define UMCG_SYNC_H

#include <stddef.h>
#include <stdint.h>

#include "select.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What is in them is the library's affair. */
typedef struct umcg_mutex {
    uint64_t word;
    void *places;
    unsigned char is_fair;
    unsigned char guess;
} umcg_mutex_t;

typedef struct umcg_rwlock {
    uint64_t word;
    void *places;
} umcg_rwlock_t;

typedef struct umcg_cond {
    uint64_t word;
    void *places;
    uint64_t has_waiters;
} umcg_cond_t;

typedef struct umcg_once {
    uint64_t state, word;
    void *places;
} umcg_once_t;

typedef struct umcg_barrier {
    uint64_t word, waiting[2];
    uint32_t parties;
} umcg_barrier_t;

typedef struct umcg_wait_group {
    uint64_t word;
    void *places;
} umcg_wait_group_t;

typedef struct umcg_event {
    uint64_t word;
    void *places;
} umcg_event_t;

/* Flag of umcg_mutex_init. */
#define UMCG_MUTEX_FAIR 1

/* Flags of umcg_event_init, and of its initialiser: it is set at first; it is reset by hand. */
#define UMCG_EVENT_SET 1
#define UMCG_EVENT_MANUAL 4

/* clang-format off */
#define UMCG_MUTEX_INIT            {0, NULL, 0, 0}
#define UMCG_MUTEX_FAIR_INIT       {0, NULL, 1, 0}
#define UMCG_RWLOCK_INIT           {0, NULL}
#define UMCG_COND_INIT             {0, NULL, 0}
#define UMCG_ONCE_INIT             {0, 0, NULL}
#define UMCG_BARRIER_INIT(parties) {0, {0, 0}, (parties)}
#define UMCG_WAIT_GROUP_INIT       {0, NULL}
#define UMCG_EVENT_INIT(flags)     {(flags), NULL}
/* clang-format on */

/* ---- Mutexes ---- */

/*
 * A mutex is for one worker or thread at a time. It goes to who is running, and who waits for it
 * may be overtaken, but not for ever; a *fair* one goes to who waits longest, always, which is
 * slower where many kernel threads contend. It does not know who has it: to lock it again waits for
 * ever, and whoever has it may leave it to somebody else to unlock.
 */

/*
 * umcg_mutex_init - makes it a mutex that nobody has, a fair one with UMCG_MUTEX_FAIR in flags.
 * Nobody else uses it yet.
 *
 * Fails with EINVAL: m is NULL, or another flag is set.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_mutex_init(umcg_mutex_t *m, int flags);

/*
 * umcg_mutex_lock - waits until the caller has it, as long as it takes, as pthread_mutex_lock(3)
 * does.
 *
 * Called from anywhere. May switch. Not cancellable.
 */
int umcg_mutex_lock(umcg_mutex_t *m);

/*
 * umcg_mutex_trylock - the same if nobody has it. Fails with EBUSY: somebody has.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_mutex_trylock(umcg_mutex_t *m);

/*
 * umcg_mutex_lock_until - the same until deadline_ns; with UMCG_NO_TIMEOUT it is a lock that can be
 * cut short.
 *
 * Called from anywhere. May switch. Cancellable.
 */
int umcg_mutex_lock_until(umcg_mutex_t *m, uint64_t deadline_ns);

/*
 * umcg_mutex_unlock - lets others have it. Fails with EPERM: nobody has it.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_mutex_unlock(umcg_mutex_t *m);

/* ---- Locks for readers and writers ---- */

/*
 * Many may have it to read, or one to write. In the order in which they came, readers that stand
 * one behind the other together: so readers that come and go do not starve a writer. Who reads must
 * not lock it again while it does, as it would wait behind a writer that waits for it.
 */

/*
 * umcg_rwlock_init - makes it a lock that nobody has. Nobody else uses it yet.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_rwlock_init(umcg_rwlock_t *l);

/*
 * umcg_rwlock_rdlock, umcg_rwlock_wrlock - waits until the caller has it, to read or to write, as
 * long as it takes.
 *
 * Called from anywhere. May switch. Not cancellable.
 */
int umcg_rwlock_rdlock(umcg_rwlock_t *l);
int umcg_rwlock_wrlock(umcg_rwlock_t *l);

/*
 * umcg_rwlock_tryrdlock, umcg_rwlock_trywrlock - the same if it need not wait. Fail with EBUSY: it
 * would have to.
 *
 * Called from anywhere. Neither switches.
 */
int umcg_rwlock_tryrdlock(umcg_rwlock_t *l);
int umcg_rwlock_trywrlock(umcg_rwlock_t *l);

/*
 * umcg_rwlock_rdlock_until, umcg_rwlock_wrlock_until - the same until deadline_ns.
 *
 * Called from anywhere. May switch. Cancellable.
 */
int umcg_rwlock_rdlock_until(umcg_rwlock_t *l, uint64_t deadline_ns);
int umcg_rwlock_wrlock_until(umcg_rwlock_t *l, uint64_t deadline_ns);

/*
 * umcg_rwlock_unlock - gives up what the caller has of it, to read or to write. Fails with EPERM:
 * nobody has it so.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_rwlock_unlock(umcg_rwlock_t *l);

/*
 * umcg_rwlock_downgrade - makes a writer a reader, with nobody writing in between. Fails with
 * EPERM: nobody writes.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_rwlock_downgrade(umcg_rwlock_t *l);

/*
 * umcg_rwlock_uplock, umcg_rwlock_tryuplock, umcg_rwlock_uplock_until - locks it to read, and
 * perhaps to *upgrade*, that is, to write without that anybody else has written in between. One at
 * a time may have it so, beside plain readers. As umcg_rwlock_rdlock, umcg_rwlock_tryrdlock and
 * umcg_rwlock_rdlock_until.
 *
 * Called from anywhere. May switch, but for umcg_rwlock_tryuplock. Only umcg_rwlock_uplock_until is
 * cancellable.
 */
int umcg_rwlock_uplock(umcg_rwlock_t *l);
int umcg_rwlock_tryuplock(umcg_rwlock_t *l);
int umcg_rwlock_uplock_until(umcg_rwlock_t *l, uint64_t deadline_ns);

/*
 * umcg_rwlock_upgrade, umcg_rwlock_tryupgrade, umcg_rwlock_upgrade_until - makes who has it by
 * umcg_rwlock_uplock a writer; waits until the others that read have unlocked it, before all others
 * that wait. umcg_rwlock_unlock unlocks it then. One that fails still has it as before.
 *
 * Fail with EPERM: nobody has it by umcg_rwlock_uplock; umcg_rwlock_tryupgrade with EBUSY: it would
 * have to wait.
 *
 * Called from anywhere. May switch, but for umcg_rwlock_tryupgrade. Only umcg_rwlock_upgrade_until
 * is cancellable.
 */
int umcg_rwlock_upgrade(umcg_rwlock_t *l);
int umcg_rwlock_tryupgrade(umcg_rwlock_t *l);
int umcg_rwlock_upgrade_until(umcg_rwlock_t *l, uint64_t deadline_ns);

/*
 * umcg_rwlock_upunlock, umcg_rwlock_updowngrade - gives up what the caller has by
 * umcg_rwlock_uplock; makes that one a plain reader. Fail with EPERM: nobody has it so.
 *
 * umcg_rwlock_downgrade_up - makes a writer one that has it by umcg_rwlock_uplock. Fails with
 * EPERM: nobody writes.
 *
 * Called from anywhere. None switches.
 */
int umcg_rwlock_upunlock(umcg_rwlock_t *l);
int umcg_rwlock_updowngrade(umcg_rwlock_t *l);
int umcg_rwlock_downgrade_up(umcg_rwlock_t *l);

/* ---- Condition variables ---- */

/*
 * umcg_cond_init - makes it a condition variable. Nobody else uses it yet.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_cond_init(umcg_cond_t *c);

/*
 * umcg_cond_wait, umcg_cond_wait_until - unlocks the mutex, waits until the caller is woken, and
 * locks the mutex again.
 *
 * It ends when it was woken, when its deadline has passed or when it is cut short, never without a
 * reason; in each case with the mutex locked. What was waited for may be gone by then, as others
 * may lock the mutex before. The time to lock it again counts not. One that is cut short or late
 * has not been woken: that is the next one's. Always waits, and so an aborted caller always fails.
 *
 * Fail with EPERM: nobody has the mutex.
 *
 * Called from anywhere, with the mutex locked. Switch. Cancellable.
 */
int umcg_cond_wait(umcg_cond_t *c, umcg_mutex_t *m);
int umcg_cond_wait_until(umcg_cond_t *c, umcg_mutex_t *m, uint64_t deadline_ns);

/*
 * umcg_cond_signal, umcg_cond_broadcast - wakes who waits longest, or all that wait.
 *
 * Called from anywhere. Neither switches.
 */
int umcg_cond_signal(umcg_cond_t *c);
int umcg_cond_broadcast(umcg_cond_t *c);

/* ---- What is done once ---- */

/*
 * umcg_once - calls fn if nobody has before; if somebody is doing so, waits until it has returned.
 * What it did is seen then.
 *
 * A C++ exception that leaves fn leaves the call, and fn was not done: the next who comes or waits
 * does it. To call it again from within fn waits for ever. An abort cuts short the wait, but not
 * fn.
 *
 * Called from anywhere. May switch. Cancellable.
 */
int umcg_once(umcg_once_t *o, void (*fn)(void));

/*
 * umcg_once_is_done - whether fn has returned; 1 or 0.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_once_is_done(const umcg_once_t *o);

/*
 * umcg_once_wait, umcg_once_wait_until - waits until somebody has done it.
 *
 * Called from anywhere. May switch. Cancellable.
 */
int umcg_once_wait(umcg_once_t *o);
int umcg_once_wait_until(umcg_once_t *o, uint64_t deadline_ns);

/* ---- Barriers ---- */

/*
 * umcg_barrier_init - makes it a barrier for so many. Nobody else uses it yet.
 *
 * Fails with EINVAL: b is NULL, or parties is 0.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_barrier_init(umcg_barrier_t *b, uint32_t parties);

/*
 * umcg_barrier_wait, umcg_barrier_wait_until - waits until so many have come. Then all go on, and
 * it begins anew.
 *
 * Returns 1 to the one that came last, and 0 to the others. A wait that fails has not come. Even
 * who comes last fails if it was aborted.
 *
 * Called from anywhere. May switch. Cancellable.
 */
int umcg_barrier_wait(umcg_barrier_t *b);
int umcg_barrier_wait_until(umcg_barrier_t *b, uint64_t deadline_ns);

/* ---- Wait groups ---- */

/*
 * A wait group counts things that are to be done. They are added before anybody waits for them;
 * afterwards it can be used again.
 */

/*
 * umcg_wait_group_init - makes it a group with nothing to do. Nobody else uses it yet.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_wait_group_init(umcg_wait_group_t *g);

/*
 * umcg_wait_group_add - so much is to be done besides. Fails with EOVERFLOW: that is more than
 * 4,294,967,295 together.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_wait_group_add(umcg_wait_group_t *g, uint32_t more);

/*
 * umcg_wait_group_done - one thing is done; who waits for the last sees what was done before. Fails
 * with EPERM: nothing is to be done.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_wait_group_done(umcg_wait_group_t *g);

/*
 * umcg_wait_group_count - how much is to be done; may be outdated at once.
 *
 * Called from anywhere. Does not switch.
 */
int64_t umcg_wait_group_count(const umcg_wait_group_t *g);

/*
 * umcg_wait_group_wait, umcg_wait_group_wait_until - waits until nothing is to be done.
 *
 * Called from anywhere. May switch. Cancellable.
 */
int umcg_wait_group_wait(umcg_wait_group_t *g);
int umcg_wait_group_wait_until(umcg_wait_group_t *g, uint64_t deadline_ns);

/* ---- Events ---- */

/*
 * An event is set or not. One that is reset by hand stays set, and lets everybody through, until
 * umcg_event_reset. One that is not lets one through each time that it is set, who waits longest;
 * if nobody waits it stays set for the next, and to set it again adds nothing.
 */

/*
 * umcg_event_init - makes it an event, with the flags UMCG_EVENT_SET and UMCG_EVENT_MANUAL. Nobody
 * else uses it yet.
 *
 * Fails with EINVAL: e is NULL, or another flag is set.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_event_init(umcg_event_t *e, int flags);

/*
 * umcg_event_set, umcg_event_pulse - sets it; sets it for those that wait at this moment, all of
 * them or, if it is not reset by hand, the first, and then it is not set.
 *
 * Called from anywhere. Neither switches.
 */
int umcg_event_set(umcg_event_t *e);
int umcg_event_pulse(umcg_event_t *e);

/*
 * umcg_event_reset, umcg_event_is_set - undoes umcg_event_set; looks. Return whether it was set, 1
 * or 0.
 *
 * Called from anywhere. Neither switches.
 */
int umcg_event_reset(umcg_event_t *e);
int umcg_event_is_set(const umcg_event_t *e);

/*
 * umcg_event_wait, umcg_event_wait_until - waits until it is set; what was done before is seen
 * then.
 *
 * Called from anywhere. May switch. Cancellable.
 */
int umcg_event_wait(umcg_event_t *e);
int umcg_event_wait_until(umcg_event_t *e, uint64_t deadline_ns);

/*
 * umcg_event_trywait - the same if it is set. Fails with EAGAIN: it is not.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_event_trywait(umcg_event_t *e);

/* ---- Any, or all, of many ---- */

/*
 * Both take operations as umcg_select does, of these kinds: UMCG_ACQUIRE takes a wakeup from a
 * semaphore, UMCG_LOCK locks a mutex, UMCG_HAPPENED waits for an event.
 *
 *     umcg_op_t all[] = {UMCG_HAPPENED(&started), UMCG_ACQUIRE(&tickets), UMCG_LOCK(&log)};
 *     umcg_wait_all(all, 3, UMCG_NO_TIMEOUT);
 */

/*
 * umcg_wait_any - does one of n operations, and returns its index: of those that can be done at
 * once, the lowest. The others are as if nobody had asked. An object may be there more than once.
 *
 * Fails with ESHUTDOWN: the semaphore that it came to was closed; EINVAL: the list is NULL or
 * empty, an operation is of another kind, or an object is NULL.
 *
 * Called from anywhere. May switch. Cancellable.
 */
int umcg_wait_any(const umcg_op_t *ops, int n, uint64_t deadline_ns);

/*
 * umcg_wait_all - waits until all n operations can be done at once, and does them together. Before
 * that it takes nothing, and keeps nobody from anything: so it cannot deadlock with others that
 * wait for the same objects, in whatever order.
 *
 * Fails as umcg_wait_any does; with ESHUTDOWN if any of the semaphores is closed, and with EINVAL
 * if an object is there twice.
 *
 * Called from anywhere. May switch. Cancellable.
 */
int umcg_wait_all(const umcg_op_t *ops, int n, uint64_t deadline_ns);

/* clang-format off */
#if defined(__cplusplus) && __cplusplus >= 201103L
#define UMCG_SYNC_ASSERT(type, size) \
    static_assert(sizeof(type) == (size) && alignof(type) == 8, #type)
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#define UMCG_SYNC_ASSERT(type, size) \
    _Static_assert(sizeof(type) == (size) && _Alignof(type) == 8, #type)
#endif
/* clang-format on */
#ifdef UMCG_SYNC_ASSERT
UMCG_SYNC_ASSERT(umcg_mutex_t, 24);
UMCG_SYNC_ASSERT(umcg_rwlock_t, 16);
UMCG_SYNC_ASSERT(umcg_cond_t, 24);
UMCG_SYNC_ASSERT(umcg_once_t, 24);
UMCG_SYNC_ASSERT(umcg_barrier_t, 32);
UMCG_SYNC_ASSERT(umcg_wait_group_t, 16);
UMCG_SYNC_ASSERT(umcg_event_t, 16);
#undef UMCG_SYNC_ASSERT
#endif

#ifdef __cplusplus
}
#endif

#endif /* UMCG_SYNC_H */
