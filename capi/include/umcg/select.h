/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * umcg/select.h - waiting for the first of many things: a wakeup from a semaphore, a message, a
 * mutex, an event, a time, the end of a worker.
 *
 *     umcg_op_t ops[] = {UMCG_ACQUIRE(&letters), UMCG_ENDED(writer), UMCG_AT(tomorrow)};
 *     switch (umcg_select(ops, 3, 0, UMCG_NO_TIMEOUT)) {
 *     case 0: ... there was a letter, and its wakeup is taken
 *     case 1: ... umcg_join(writer, &result) does not wait now
 *     case 2: ... it is tomorrow
 *     }
 *
 * Exactly one operation is done; the others have no effect. The words of umcg/rt.h and umcg/sem.h
 * mean here what they mean there.
 *
 * Deadlines are nanoseconds of CLOCK_MONOTONIC, 0 for never; umcg_after_ns makes one. Deadlines of
 * umcg_ctl, in umcg.h, are of CLOCK_REALTIME.
 */
#ifndef UMCG_SELECT_H
#define UMCG_SELECT_H

#include "rt.h"
#include "sem.h"
#include "tube.h"

#ifdef __cplusplus
extern "C" {
#endif

enum umcg_op_kind {
    /* is never done: for a place in the array that has nothing to wait for just now */
    UMCG_OP_NONE = 0,
    UMCG_OP_ACQUIRE = 1, /* takes a wakeup from the Sem object */
    /* the time value, in nanoseconds of CLOCK_MONOTONIC, has come; 0: never, as with deadlines */
    UMCG_OP_TIME = 2,
    /* the umcg_worker_t object has ended; the caller that waits here must still join or detach it
     */
    UMCG_OP_END = 3,
    /* poll reports POLLIN, POLLHUP or POLLERR for the descriptor value; nothing is read */
    UMCG_OP_READ = 8,
    UMCG_OP_WRITE = 9,   /* poll reports POLLOUT, POLLHUP or POLLERR; nothing is written */
    UMCG_OP_SEND = 4,    /* sends the message at the address value through the Tube object */
    UMCG_OP_RECEIVE = 5, /* receives a message of the Tube object into the address value */
    UMCG_OP_LOCK = 6,    /* locks the umcg_mutex_t object of umcg/sync.h */
    UMCG_OP_EVENT = 7    /* the umcg_event_t object is set, of umcg/sync.h */
};

/* An operation: one of the macros below. Only its member error is changed, and it may be used
 * again. */
typedef struct umcg_op {
    int kind;       /* an enum umcg_op_kind */
    /* for the operation that is done: 0, or ESHUTDOWN if the semaphore or tube was closed */
    int error;
    void *object;   /* the object of the operation */
    uint64_t value; /* its further argument */
} umcg_op_t;

/* clang-format off */
#define UMCG_NEVER           {UMCG_OP_NONE, 0, NULL, 0}
#define UMCG_ACQUIRE(sem)    {UMCG_OP_ACQUIRE, 0, (sem), 0}
#define UMCG_AT(time_ns)     {UMCG_OP_TIME, 0, NULL, (time_ns)}
#define UMCG_ENDED(worker)   {UMCG_OP_END, 0, (worker), 0}
#define UMCG_SEND(tube, p)   {UMCG_OP_SEND, 0, (tube), (uint64_t)(uintptr_t)(p)}
#define UMCG_RECV(tube, p)   {UMCG_OP_RECEIVE, 0, (tube), (uint64_t)(uintptr_t)(p)}
#define UMCG_LOCK(mutex)     {UMCG_OP_LOCK, 0, (mutex), 0}
#define UMCG_HAPPENED(event) {UMCG_OP_EVENT, 0, (event), 0}
#define UMCG_READABLE(fd)    {UMCG_OP_READ, 0, NULL, (uint64_t)(fd)}
#define UMCG_WRITABLE(fd)    {UMCG_OP_WRITE, 0, NULL, (uint64_t)(fd)}
/* clang-format on */

/* Flag of umcg_select: the operations are tried in their order, and the first that can be done is
 * taken. Without it none is preferred. */
#define UMCG_SELECT_BIASED 1

/*
 * umcg_select - does one of n operations, and returns its index. Waits until one can be done, until
 * deadline_ns at most.
 *
 * A semaphore, a tube, a mutex or an event may be in the array more than once. A time is taken only
 * if no other operation can be done at once.
 *
 * Fails with EINVAL: the array is NULL or empty, a kind or flag is not known, an object or a
 * message is NULL, or a worker is in the array twice; EDEADLK: the caller is among the workers.
 *
 * A descriptor is ready if poll says so. poll is asked first, and again once the runtime watches
 * the descriptor. For as long as the call takes, the runtime keeps a duplicate of it. The call
 * fails with EINVAL if a descriptor is negative. Otherwise the operation's error is EBADF if the
 * descriptor is not open; EMFILE, ENOMEM or ENOSPC if it cannot be waited for; and on a plain
 * thread EAGAIN or EIO if the global runtime, which is needed for that, has no threads or memory to
 * start.
 *
 * Called from anywhere. May switch. Cancellable.
 */
int umcg_select(umcg_op_t *ops, int n, int flags, uint64_t deadline_ns);

/* ---- The same operations again and again ---- */

/*
 * A *set* keeps operations for many waits. They stay in the queues of their objects from one wait
 * to the next, so a wait costs the same for two operations as for a hundred. But with UMCG_ENDED,
 * UMCG_READABLE or UMCG_WRITABLE among them a wait costs as much as umcg_select.
 *
 * One worker or thread at a time uses a set; it may be another each time. The objects and messages
 * of an operation must stay valid until the set is destroyed or the operation is changed: so join a
 * worker after that. Messages are read and written only while a caller waits for the set. The set
 * stands in an object's queue from when it was put in, which may be before the wait. So, once, it
 * may be served before a caller that came while no caller waited for the set.
 */
typedef struct umcg_select_set umcg_select_set_t;

/*
 * umcg_select_set_create - makes a set of n operations, which are copied. flags are those of
 * umcg_select.
 *
 * Fails with NULL and the errors of umcg_select: EINVAL, EDEADLK.
 *
 * Called from anywhere. Does not switch.
 */
umcg_select_set_t *umcg_select_set_create(const umcg_op_t *ops, int n, int flags);

/*
 * umcg_select_set_wait, umcg_select_set_wait_until - does one of the operations, and returns its
 * index. Waits until one can be done. If error is not NULL, the error that umcg_select would store
 * in the operation is stored to *error.
 *
 * Fail with EINVAL: the set is NULL; EDEADLK: the caller is among the workers.
 *
 * Called from anywhere. May switch. Cancellable.
 */
int umcg_select_set_wait(umcg_select_set_t *set, int *error);
int umcg_select_set_wait_until(umcg_select_set_t *set, uint64_t deadline_ns, int *error);

/*
 * umcg_select_set_try_wait - the same without waiting. Fails with EAGAIN: there was a moment at
 * which no operation could be done (the kernel alone knows this of descriptors); EINVAL: the set is
 * NULL; EDEADLK: the caller is among the workers.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_select_set_try_wait(umcg_select_set_t *set, int *error);

/*
 * umcg_select_set_change - replaces the operation with this index, for example when a time has
 * come. UMCG_NEVER takes the operation out.
 *
 * Fails with EINVAL: the set or op is NULL, there is no operation with this index, or as
 * umcg_select; EDEADLK.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_select_set_change(umcg_select_set_t *set, int index, const umcg_op_t *op);

/*
 * umcg_select_set_destroy - ends a set for which no caller waits. It may be NULL.
 *
 * Called from anywhere. Does not switch.
 */
void umcg_select_set_destroy(umcg_select_set_t *set);

#if defined(__cplusplus) && __cplusplus >= 201103L
static_assert(sizeof(umcg_op_t) == 2 * sizeof(int) + sizeof(void *) + sizeof(uint64_t),
              "umcg_op_t");
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
_Static_assert(sizeof(umcg_op_t) == 2 * sizeof(int) + sizeof(void *) + sizeof(uint64_t),
               "umcg_op_t");
#endif

#ifdef __cplusplus
}
#endif

#endif /* UMCG_SELECT_H */
