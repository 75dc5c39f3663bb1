/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * umcg/sync.h - mutexes, locks for readers and writers, condition variables, once-only
 * initialisation, barriers, wait groups, events; and waiting for any or all of some of them.
 *
 * They are for workers and plain threads of one process alike. A wait stops the worker, not its
 * server: use them in place of pthread_mutex_t and its like wherever a worker may wait. They are
 * used in the same way, except that errors are returned as -1 and errno, and times are deadlines. A
 * worker may move from one kernel thread to another while it holds a lock.
 *
 * Objects are part of the caller's own data. Each has an initialiser for static ones, and a
 * function for others. All zeros are a valid object too, except for a barrier. Do not copy or move
 * them. Nothing is to be done at their end: the memory may be reused once no call on the object is
 * running.
 *
 * The longest waiter is served first, and a lock or wakeup that was given to a waiter cannot be
 * taken by a later caller. Mutexes that are not fair are the exception. Nothing here makes a system
 * call unless the caller has to wait, or wakes a kernel thread that sleeps.
 *
 * The words of umcg/rt.h mean here what they mean there: "anywhere", "may switch", "cancellable",
 * deadlines. But a call that need not wait is not cut short. A wait that is cut short, or whose
 * deadline passes, has taken nothing and changed nothing. Some errors are not listed again below.
 * Every call fails with EINVAL if a pointer is NULL. A cancellable call fails with ECANCELED if it
 * had to wait and the caller was aborted. A call with a deadline fails with ETIMEDOUT if that has
 * passed.
 *
 * Deadlines are nanoseconds of CLOCK_MONOTONIC, 0 for never; umcg_after_ns makes one. Deadlines of
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

/* The members are private to the library. */
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

/* Flags of umcg_event_init and of UMCG_EVENT_INIT: the event is set at first; it is reset by hand.
 */
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
 * One worker or thread at a time holds a mutex. A running caller may take it before the waiters:
 * they may be overtaken, but not for ever. A *fair* mutex always goes to the longest waiter, which
 * is slower where many kernel threads contend. A mutex does not know its holder. Locking it again
 * while holding it waits for ever, and another thread or worker may unlock it.
 */

/*
 * umcg_mutex_init - makes *m an unlocked mutex, a fair one with UMCG_MUTEX_FAIR in flags. It must
 * not be in use yet.
 *
 * Fails with EINVAL: m is NULL, or another flag is set.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_mutex_init(umcg_mutex_t *m, int flags);

/*
 * umcg_mutex_lock - waits until the caller holds the mutex, as long as it takes, as
 * pthread_mutex_lock(3) does.
 *
 * Called from anywhere. May switch. Not cancellable.
 */
int umcg_mutex_lock(umcg_mutex_t *m);

/*
 * umcg_mutex_trylock - locks the mutex if it is unlocked. Fails with EBUSY: it is locked.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_mutex_trylock(umcg_mutex_t *m);

/*
 * umcg_mutex_lock_until - as umcg_mutex_lock, until deadline_ns. With UMCG_NO_TIMEOUT it waits
 * without a deadline, but can be cut short.
 *
 * Called from anywhere. May switch. Cancellable.
 */
int umcg_mutex_lock_until(umcg_mutex_t *m, uint64_t deadline_ns);

/*
 * umcg_mutex_unlock - unlocks the mutex. Fails with EPERM: it is not locked.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_mutex_unlock(umcg_mutex_t *m);

/* ---- Locks for readers and writers ---- */

/*
 * Many readers may hold the lock, or one writer. It is granted in the order in which the callers
 * came; readers that stand next to each other in the queue get it together. So readers that come
 * and go do not starve a writer. A reader must not lock it to read again while it holds it: it
 * would wait behind a writer that waits for it.
 */

/*
 * umcg_rwlock_init - makes *l an unlocked lock. It must not be in use yet.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_rwlock_init(umcg_rwlock_t *l);

/*
 * umcg_rwlock_rdlock, umcg_rwlock_wrlock - waits until the caller holds the lock, to read or to
 * write, as long as it takes.
 *
 * Called from anywhere. May switch. Not cancellable.
 */
int umcg_rwlock_rdlock(umcg_rwlock_t *l);
int umcg_rwlock_wrlock(umcg_rwlock_t *l);

/*
 * umcg_rwlock_tryrdlock, umcg_rwlock_trywrlock - locks it if that needs no wait. Fail with EBUSY:
 * the call would have to wait.
 *
 * Called from anywhere. Neither switches.
 */
int umcg_rwlock_tryrdlock(umcg_rwlock_t *l);
int umcg_rwlock_trywrlock(umcg_rwlock_t *l);

/*
 * umcg_rwlock_rdlock_until, umcg_rwlock_wrlock_until - as umcg_rwlock_rdlock and
 * umcg_rwlock_wrlock, until deadline_ns.
 *
 * Called from anywhere. May switch. Cancellable.
 */
int umcg_rwlock_rdlock_until(umcg_rwlock_t *l, uint64_t deadline_ns);
int umcg_rwlock_wrlock_until(umcg_rwlock_t *l, uint64_t deadline_ns);

/*
 * umcg_rwlock_unlock - unlocks it, for a reader or a writer. Fails with EPERM: it is not locked in
 * that way.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_rwlock_unlock(umcg_rwlock_t *l);

/*
 * umcg_rwlock_downgrade - makes the writer a reader; no other writer gets in between. Fails with
 * EPERM: it is not locked to write.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_rwlock_downgrade(umcg_rwlock_t *l);

/*
 * umcg_rwlock_uplock, umcg_rwlock_tryuplock, umcg_rwlock_uplock_until - locks it to read with the
 * right to *upgrade*: to become the writer without another writer getting in between. One caller at
 * a time may hold it so, beside plain readers. Otherwise as umcg_rwlock_rdlock,
 * umcg_rwlock_tryrdlock and umcg_rwlock_rdlock_until.
 *
 * Called from anywhere. May switch, except for umcg_rwlock_tryuplock. Only umcg_rwlock_uplock_until
 * is cancellable.
 */
int umcg_rwlock_uplock(umcg_rwlock_t *l);
int umcg_rwlock_tryuplock(umcg_rwlock_t *l);
int umcg_rwlock_uplock_until(umcg_rwlock_t *l, uint64_t deadline_ns);

/*
 * umcg_rwlock_upgrade, umcg_rwlock_tryupgrade, umcg_rwlock_upgrade_until - makes the caller, which
 * holds the lock by umcg_rwlock_uplock, the writer. Waits until the other readers have unlocked it,
 * ahead of all other waiters. Afterwards umcg_rwlock_unlock unlocks it. A call that fails leaves
 * the lock held as before.
 *
 * Fail with EPERM: the lock is not held by umcg_rwlock_uplock. umcg_rwlock_tryupgrade fails with
 * EBUSY: it would have to wait.
 *
 * Called from anywhere. May switch, except for umcg_rwlock_tryupgrade. Only
 * umcg_rwlock_upgrade_until is cancellable.
 */
int umcg_rwlock_upgrade(umcg_rwlock_t *l);
int umcg_rwlock_tryupgrade(umcg_rwlock_t *l);
int umcg_rwlock_upgrade_until(umcg_rwlock_t *l, uint64_t deadline_ns);

/*
 * umcg_rwlock_upunlock, umcg_rwlock_updowngrade - unlocks what umcg_rwlock_uplock has locked; makes
 * its holder a plain reader. Fail with EPERM: the lock is not held by umcg_rwlock_uplock.
 *
 * umcg_rwlock_downgrade_up - makes the writer a holder as by umcg_rwlock_uplock. Fails with EPERM:
 * it is not locked to write.
 *
 * Called from anywhere. None switches.
 */
int umcg_rwlock_upunlock(umcg_rwlock_t *l);
int umcg_rwlock_updowngrade(umcg_rwlock_t *l);
int umcg_rwlock_downgrade_up(umcg_rwlock_t *l);

/* ---- Condition variables ---- */

/*
 * umcg_cond_init - makes *c a condition variable. It must not be in use yet.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_cond_init(umcg_cond_t *c);

/*
 * umcg_cond_wait, umcg_cond_wait_until - unlocks the mutex, waits until the caller is woken, and
 * locks the mutex again.
 *
 * The wait ends when the caller is woken, when its deadline has passed or when it is cut short,
 * never without a reason. In each case the mutex is locked again. Check the condition again:
 * another caller may have locked the mutex first and changed it. The time to lock the mutex again
 * does not count towards the deadline. A wait that is cut short or late has not been woken: its
 * wakeup goes to the next waiter. The call always waits, so an aborted caller always fails.
 *
 * Fail with EPERM: the mutex is not locked.
 *
 * Called from anywhere, with the mutex locked. Switch. Cancellable.
 */
int umcg_cond_wait(umcg_cond_t *c, umcg_mutex_t *m);
int umcg_cond_wait_until(umcg_cond_t *c, umcg_mutex_t *m, uint64_t deadline_ns);

/*
 * umcg_cond_signal, umcg_cond_broadcast - wakes the longest waiter, or all waiters.
 *
 * Called from anywhere. Neither switches.
 */
int umcg_cond_signal(umcg_cond_t *c);
int umcg_cond_broadcast(umcg_cond_t *c);

/* ---- Once-only initialisation ---- */

/*
 * umcg_once - calls fn if that has not been done before. If another caller is running fn, waits
 * until it has returned. The effects of fn are visible when the call returns.
 *
 * A C++ exception that leaves fn leaves the call, and fn counts as not done: the next caller or
 * waiter calls it. Calling umcg_once again from within fn waits for ever. An abort cuts short the
 * wait, but not fn.
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
 * umcg_once_wait, umcg_once_wait_until - waits until fn has returned.
 *
 * Called from anywhere. May switch. Cancellable.
 */
int umcg_once_wait(umcg_once_t *o);
int umcg_once_wait_until(umcg_once_t *o, uint64_t deadline_ns);

/* ---- Barriers ---- */

/*
 * umcg_barrier_init - makes *b a barrier for this many parties. It must not be in use yet.
 *
 * Fails with EINVAL: b is NULL, or parties is 0.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_barrier_init(umcg_barrier_t *b, uint32_t parties);

/*
 * umcg_barrier_wait, umcg_barrier_wait_until - waits until all parties have arrived. Then all go
 * on, and the barrier begins anew.
 *
 * Returns 1 to the last party that arrives, and 0 to the others. A wait that fails does not count
 * as an arrival. Even the last party fails if it was aborted.
 *
 * Called from anywhere. May switch. Cancellable.
 */
int umcg_barrier_wait(umcg_barrier_t *b);
int umcg_barrier_wait_until(umcg_barrier_t *b, uint64_t deadline_ns);

/* ---- Wait groups ---- */

/*
 * A wait group counts things that are to be done. Add them before any caller waits for them.
 * Afterwards the group can be used again.
 */

/*
 * umcg_wait_group_init - makes *g a group with nothing to do. It must not be in use yet.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_wait_group_init(umcg_wait_group_t *g);

/*
 * umcg_wait_group_add - adds this many things to be done. Fails with EOVERFLOW: together they would
 * be more than 4,294,967,295.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_wait_group_add(umcg_wait_group_t *g, uint32_t more);

/*
 * umcg_wait_group_done - one thing is done. A waiter for the last one sees what was done before
 * this call. Fails with EPERM: nothing is to be done.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_wait_group_done(umcg_wait_group_t *g);

/*
 * umcg_wait_group_count - how many things are to be done. The number may be outdated at once.
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
 * An event is set or not. An event that is reset by hand stays set, and lets every waiter through,
 * until umcg_event_reset. An event that is reset automatically lets one waiter through each time it
 * is set: the longest waiter. If there is no waiter it stays set for the next one, and setting it
 * again adds nothing.
 */

/*
 * umcg_event_init - makes *e an event, with the flags UMCG_EVENT_SET and UMCG_EVENT_MANUAL. It must
 * not be in use yet.
 *
 * Fails with EINVAL: e is NULL, or another flag is set.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_event_init(umcg_event_t *e, int flags);

/*
 * umcg_event_set, umcg_event_pulse - sets the event; sets it only for the present waiters. If the
 * event is reset by hand a pulse lets all of them through, otherwise only the first. Afterwards it
 * is not set.
 *
 * Called from anywhere. Neither switches.
 */
int umcg_event_set(umcg_event_t *e);
int umcg_event_pulse(umcg_event_t *e);

/*
 * umcg_event_reset, umcg_event_is_set - undoes umcg_event_set; only looks. Return whether the event
 * was set, 1 or 0.
 *
 * Called from anywhere. Neither switches.
 */
int umcg_event_reset(umcg_event_t *e);
int umcg_event_is_set(const umcg_event_t *e);

/*
 * umcg_event_wait, umcg_event_wait_until - waits until the event is set. The waiter then sees
 * everything that was done before umcg_event_set.
 *
 * Called from anywhere. May switch. Cancellable.
 */
int umcg_event_wait(umcg_event_t *e);
int umcg_event_wait_until(umcg_event_t *e, uint64_t deadline_ns);

/*
 * umcg_event_trywait - takes the event if it is set, without waiting. Fails with EAGAIN: it is not
 * set.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_event_trywait(umcg_event_t *e);

/* ---- Any, or all, of many ---- */

/*
 * Both take operations as umcg_select does, of three kinds: UMCG_ACQUIRE takes a wakeup from a
 * semaphore, UMCG_LOCK locks a mutex, UMCG_HAPPENED waits for an event.
 *
 *     umcg_op_t all[] = {UMCG_HAPPENED(&started), UMCG_ACQUIRE(&tickets), UMCG_LOCK(&log)};
 *     umcg_wait_all(all, 3, UMCG_NO_TIMEOUT);
 */

/*
 * umcg_wait_any - does one of n operations, and returns its index. If several can be done at once,
 * it does the one with the lowest index. The others have no effect. An object may be in the list
 * more than once.
 *
 * Fails with ESHUTDOWN: the semaphore that was chosen was closed; EINVAL: the list is NULL or
 * empty, an operation is of another kind, or an object is NULL.
 *
 * Called from anywhere. May switch. Cancellable.
 */
int umcg_wait_any(const umcg_op_t *ops, int n, uint64_t deadline_ns);

/*
 * umcg_wait_all - waits until all n operations can be done at once, and does them together. Before
 * that it takes nothing and keeps no object from others. So it cannot deadlock with others that
 * wait for the same objects, in whatever order.
 *
 * Fails as umcg_wait_any does; with ESHUTDOWN if any of the semaphores is closed, and with EINVAL
 * if an object is in the list twice.
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
