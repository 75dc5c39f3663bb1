/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * umcg/nt.h - the synchronisation objects of Windows NT in user mode: events, semaphores, mutexes
 * with owners, timers, and waits for any or all of them.
 *
 *     umcg_nt_t *list[] = {stop, jobs};
 *     uint32_t index;
 *     if (umcg_nt_wait(list, 2, 0, NULL, UMCG_NO_TIMEOUT, &index) == 0 && index == 1)
 *         ... there was a job, and it is taken
 *
 * What an operation does is what the document of Linux's ntsync driver says of its like; without
 * system calls, but for stopping and waking kernel threads, and for any number of objects. An
 * object is *signaled* when a wait for it need not wait: an event or a timer that is set, a
 * semaphore whose count is not 0, a mutex that nobody owns or the waiter's own owner does. To
 * *take* it is to reset the event or timer if it is reset automatically, to count the semaphore
 * down, to own the mutex once more. Who waits longest is served first, whatever it waits for.
 *
 * An object is named by a pointer, which counts its references: the first that its maker has, and
 * one for each umcg_nt_dup. It lives until all are closed; while somebody waits for it, too, and
 * while a worker or thread that lives owns it in its own name. Who is woken by an operation on an
 * object may close it, though the one that made the call may not have returned. Workers and threads
 * of one process may use an object together, and none in a signal handler. A child after fork(2)
 * has the objects as they were, but its timers are not armed.
 *
 * The words of umcg/rt.h mean here what they mean there: "anywhere", "may switch", "cancellable",
 * deadlines. A call that need not wait is not cut short. A wait that ended by its deadline, by an
 * alert, or as it was cut short has taken nothing.
 *
 * Deadlines are nanoseconds of CLOCK_MONOTONIC, 0 for never; umcg_after_ns makes one. Those of
 * umcg_ctl, in umcg.h, are of CLOCK_REALTIME.
 */
#ifndef UMCG_NT_H
#define UMCG_NT_H

#include <stddef.h>
#include <stdint.h>

#include "rt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An object. */
typedef struct umcg_nt umcg_nt_t;

/* ---- Handles ---- */

/*
 * umcg_nt_dup - another reference to the object: the same pointer, to be closed once more. NULL for
 * NULL.
 *
 * Called from anywhere. Does not switch.
 */
umcg_nt_t *umcg_nt_dup(umcg_nt_t *object);

/*
 * umcg_nt_close - gives a reference back; the pointer is not used for it any more. A timer whose
 * last reference goes is not set any more. Does nothing for NULL.
 *
 * Called from anywhere. Does not switch.
 */
void umcg_nt_close(umcg_nt_t *object);

/* ---- Waiting ---- */

/*
 * umcg_nt_wait - waits for one of count objects, or, if all is not 0, for all of them, until
 * deadline_ns at most.
 *
 * For one: takes exactly one of them; of those that are signaled, the first in the list; and stores
 * its index to *index. An object may be in the list more than once. For all: takes nothing until
 * all are signaled at one moment, and all in that moment; *index is 0 then. Of an empty list none
 * is signaled, and all are. Mutexes are taken for the calling worker or thread.
 *
 * If alert is not NULL it is an event that ends the wait, too: when it is set, and no objects are
 * to be had, it is taken, and *index is count.
 *
 * index may be NULL. With UMCG_POLL as the deadline it only looks, and does not switch.
 *
 * Fails with EOWNERDEAD: as above, an object was taken, or all were, and *index is stored, but it
 * is a mutex, or one of them is, whose owner ended, or was killed, while it had it; ETIMEDOUT;
 * ECANCELED; EINVAL: the list is NULL and count is not 0, an object is NULL, alert is no event, or,
 * for all, an object is in the list twice or is the alert, too.
 *
 * Called from anywhere. May switch. Cancellable.
 */
int umcg_nt_wait(umcg_nt_t *const objects[], uint32_t count, int all, umcg_nt_t *alert,
                 uint64_t deadline_ns, uint32_t *index);

/*
 * umcg_nt_wait_as - umcg_nt_wait, that takes mutexes for this owner. When that has died only the
 * caller knows: see umcg_nt_mutex_kill.
 *
 * Fails as umcg_nt_wait does, and with EINVAL if owner is 0.
 *
 * Called from anywhere. May switch. Cancellable.
 */
int umcg_nt_wait_as(uint32_t owner, umcg_nt_t *const objects[], uint32_t count, int all,
                    umcg_nt_t *alert, uint64_t deadline_ns, uint32_t *index);

/* ---- Events ---- */

/*
 * umcg_nt_event_create - makes an event, that is reset by hand if manual is not 0, and
 * automatically, by who takes it, if not; and is set if signaled is not 0.
 *
 * Called from anywhere. Does not switch.
 */
umcg_nt_t *umcg_nt_event_create(int manual, int signaled);

/*
 * umcg_nt_event_set, umcg_nt_event_reset - sets it; takes that back. umcg_nt_event_pulse - sets it
 * for the waits that stand at this moment, and takes that back, in one step: all that it completes
 * end, or the first if it is reset automatically; then it is not set.
 *
 * Each stores whether it was set before to *previous, if that is not NULL. Fails with EINVAL: it is
 * no event.
 *
 * Called from anywhere. None switches.
 */
int umcg_nt_event_set(umcg_nt_t *event, int *previous);
int umcg_nt_event_reset(umcg_nt_t *event, int *previous);
int umcg_nt_event_pulse(umcg_nt_t *event, int *previous);

/*
 * umcg_nt_event_read - stores whether it is set, which may be outdated at once, and whether it is
 * reset by hand. Either may be NULL. Fails with EINVAL: it is no event.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_nt_event_read(umcg_nt_t *event, int *signaled, int *manual);

/* ---- Semaphores ---- */

/*
 * umcg_nt_sem_create - makes a semaphore that counts from count, to max at most.
 *
 * Fails with NULL and EINVAL: count is greater than max.
 *
 * Called from anywhere. Does not switch.
 */
umcg_nt_t *umcg_nt_sem_create(uint32_t count, uint32_t max);

/*
 * umcg_nt_sem_release - adds so many, and stores how many there were before to *previous, if that
 * is not NULL.
 *
 * Fails with EOVERFLOW, and changes nothing: there would be more than its maximum; EINVAL: it is no
 * semaphore.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_nt_sem_release(umcg_nt_t *sem, uint32_t count, uint32_t *previous);

/*
 * umcg_nt_sem_read - stores its count, which may be outdated at once, and its maximum. Either may
 * be NULL. Fails with EINVAL: it is no semaphore.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_nt_sem_read(umcg_nt_t *sem, uint32_t *count, uint32_t *max);

/* ---- Mutexes ---- */

/*
 * umcg_nt_mutex_create - makes a mutex, that the calling worker or thread owns if owned is not 0.
 *
 * What a worker or thread owns in its own name when it ends, however it ends, is abandoned: the
 * next wait takes it, and is told so.
 *
 * Called from anywhere. Does not switch.
 */
umcg_nt_t *umcg_nt_mutex_create(int owned);

/*
 * umcg_nt_mutex_create_as - makes a mutex that this owner has taken so often; that nobody owns if
 * both are 0.
 *
 * Fails with NULL and EINVAL: one of them is 0 and the other not, or the depth is more than
 * 268,435,455.
 *
 * Called from anywhere. Does not switch.
 */
umcg_nt_t *umcg_nt_mutex_create_as(uint32_t owner, uint32_t depth);

/*
 * umcg_nt_mutex_release - undoes one of the times that the calling worker or thread has taken it;
 * umcg_nt_mutex_unlock - that this owner has. Stores how often that was before to *previous, if
 * that is not NULL: after 1 nobody owns it.
 *
 * Fails with EPERM: the owner is another, or nobody; EINVAL: it is no mutex, or owner is 0.
 *
 * Called from anywhere. Neither switches.
 */
int umcg_nt_mutex_release(umcg_nt_t *mutex, uint32_t *previous);
int umcg_nt_mutex_unlock(umcg_nt_t *mutex, uint32_t owner, uint32_t *previous);

/*
 * umcg_nt_mutex_kill - says that its owner has died: it is abandoned, however often that one had
 * taken it.
 *
 * Fails with EPERM: the owner is another, or nobody; EINVAL: it is no mutex, or owner is 0.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_nt_mutex_kill(umcg_nt_t *mutex, uint32_t owner);

/*
 * umcg_nt_mutex_read - stores its owner, and how often that one has taken it; 0 and 0 if nobody
 * owns it. That may be outdated at once. Either may be NULL.
 *
 * Fails with EOWNERDEAD: it is abandoned, and both are 0; EINVAL: it is no mutex.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_nt_mutex_read(umcg_nt_t *mutex, uint32_t *owner, uint32_t *depth);

/*
 * umcg_nt_self - the number by which the calling worker or thread owns mutexes in its own name:
 * that of no other that lives. Such numbers are 2,147,483,648 and more; those below are for who has
 * owners of its own.
 *
 * Called from anywhere. Does not switch.
 */
uint32_t umcg_nt_self(void);

/* ---- Timers ---- */

/*
 * umcg_nt_timer_create - makes a timer, which is not armed: an event that is set when its time has
 * come, and that is reset when it is armed, if manual is not 0, and otherwise also by who takes it.
 *
 * Called from anywhere. Does not switch.
 */
umcg_nt_t *umcg_nt_timer_create(int manual);

/*
 * umcg_nt_timer_set - resets it, and arms it: it is set at due_ns, or now if that has passed, and
 * then after each period_ns, if that is not 0. The times of what comes late are not moved, and what
 * would come twice at once comes once.
 *
 * Fails with EINVAL: it is no timer, or due_ns is 0; EAGAIN, ENOMEM: the thread that sets timers
 * could not be started.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_nt_timer_set(umcg_nt_t *timer, uint64_t due_ns, uint64_t period_ns);

/*
 * umcg_nt_timer_cancel - disarms it; if it is set it stays so. Returns 1 if it was armed, and 0 if
 * not. Fails with EINVAL: it is no timer.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_nt_timer_cancel(umcg_nt_t *timer);

/*
 * umcg_nt_timer_read - stores whether it is set, and when it will be next, 0 if it is not armed.
 * Either may be NULL. Fails with EINVAL: it is no timer.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_nt_timer_read(umcg_nt_t *timer, int *signaled, uint64_t *due_ns);

/*
 * umcg_nt_timer_set_100ns - the same in the units of Windows: due is in 100 nanoseconds, from now
 * if it is negative, and otherwise since the beginning of 1601 by the clock of the day, as that
 * stands now; the period is in milliseconds.
 *
 * Fails as umcg_nt_timer_set does, and with EINVAL if the period is negative.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_nt_timer_set_100ns(umcg_nt_t *timer, int64_t due, int32_t period_ms);

/* ---- For who ports: in the shape of WaitForMultipleObjects ---- */

#define UMCG_NT_MAXIMUM_WAIT_OBJECTS 64
#define UMCG_NT_INFINITE 0xFFFFFFFFu

#define UMCG_NT_WAIT_OBJECT_0 0x00u
#define UMCG_NT_WAIT_ABANDONED_0 0x80u
#define UMCG_NT_WAIT_IO_COMPLETION 0xC0u
#define UMCG_NT_WAIT_TIMEOUT 0x102u
#define UMCG_NT_WAIT_FAILED 0xFFFFFFFFu

/*
 * umcg_nt_wait_multiple - umcg_nt_wait with the results of Windows: UMCG_NT_WAIT_OBJECT_0 or
 * UMCG_NT_WAIT_ABANDONED_0 and the index, UMCG_NT_WAIT_IO_COMPLETION for the alert,
 * UMCG_NT_WAIT_TIMEOUT, or UMCG_NT_WAIT_FAILED, with errno. As these numbers leave room for no
 * more, there may be 64 objects at most, and as in Windows 1 at least. It waits for so many
 * milliseconds at most.
 *
 * umcg_nt_wait_single - the same for one object.
 *
 * Fails as umcg_nt_wait does, but for EOWNERDEAD and ETIMEDOUT.
 *
 * Called from anywhere. May switch. Cancellable.
 */
uint32_t umcg_nt_wait_multiple(uint32_t count, umcg_nt_t *const objects[], int all,
                               uint32_t milliseconds, umcg_nt_t *alert);
uint32_t umcg_nt_wait_single(umcg_nt_t *object, uint32_t milliseconds, umcg_nt_t *alert);

/*
 * With UMCG_NT_NAMES defined before this header is included, the names that Windows has for these
 * things. There are no security attributes, names, or completion routines, so those arguments are
 * not looked at; "alertable" is not a flag but the event that alerts, or NULL.
 */
#ifdef UMCG_NT_NAMES
#define INFINITE UMCG_NT_INFINITE
#define MAXIMUM_WAIT_OBJECTS UMCG_NT_MAXIMUM_WAIT_OBJECTS
#define WAIT_OBJECT_0 UMCG_NT_WAIT_OBJECT_0
#define WAIT_ABANDONED_0 UMCG_NT_WAIT_ABANDONED_0
#define WAIT_ABANDONED UMCG_NT_WAIT_ABANDONED_0
#define WAIT_IO_COMPLETION UMCG_NT_WAIT_IO_COMPLETION
#define WAIT_TIMEOUT UMCG_NT_WAIT_TIMEOUT
#define WAIT_FAILED UMCG_NT_WAIT_FAILED

typedef umcg_nt_t *HANDLE;

static inline uint32_t WaitForSingleObject(HANDLE object, uint32_t milliseconds)
{
    return umcg_nt_wait_single(object, milliseconds, NULL);
}

static inline uint32_t WaitForSingleObjectEx(HANDLE object, uint32_t milliseconds, HANDLE alert)
{
    return umcg_nt_wait_single(object, milliseconds, alert);
}

static inline uint32_t WaitForMultipleObjects(uint32_t count, const HANDLE *objects, int all,
                                              uint32_t milliseconds)
{
    return umcg_nt_wait_multiple(count, objects, all, milliseconds, NULL);
}

static inline uint32_t WaitForMultipleObjectsEx(uint32_t count, const HANDLE *objects, int all,
                                                uint32_t milliseconds, HANDLE alert)
{
    return umcg_nt_wait_multiple(count, objects, all, milliseconds, alert);
}

static inline HANDLE CreateEvent(const void *attributes, int manual, int signaled, const void *name)
{
    (void)attributes, (void)name;
    return umcg_nt_event_create(manual, signaled);
}

static inline int SetEvent(HANDLE event)
{
    return umcg_nt_event_set(event, NULL) == 0;
}

static inline int ResetEvent(HANDLE event)
{
    return umcg_nt_event_reset(event, NULL) == 0;
}

static inline int PulseEvent(HANDLE event)
{
    return umcg_nt_event_pulse(event, NULL) == 0;
}

static inline HANDLE CreateSemaphore(const void *attributes, int32_t count, int32_t max,
                                     const void *name)
{
    (void)attributes, (void)name;
    /* What is negative is more than there can be. */
    return max > 0 ? umcg_nt_sem_create((uint32_t)count, (uint32_t)max) : umcg_nt_sem_create(1, 0);
}

static inline int ReleaseSemaphore(HANDLE sem, int32_t count, int32_t *previous)
{
    uint32_t before = 0;
    int result = umcg_nt_sem_release(count > 0 ? sem : NULL, (uint32_t)count, &before);
    if (result == 0 && previous != NULL)
        *previous = (int32_t)before;
    return result == 0;
}

static inline HANDLE CreateMutex(const void *attributes, int owned, const void *name)
{
    (void)attributes, (void)name;
    return umcg_nt_mutex_create(owned);
}

static inline int ReleaseMutex(HANDLE mutex)
{
    return umcg_nt_mutex_release(mutex, NULL) == 0;
}

static inline HANDLE CreateWaitableTimer(const void *attributes, int manual, const void *name)
{
    (void)attributes, (void)name;
    return umcg_nt_timer_create(manual);
}

/* due is a LARGE_INTEGER, that is, the address of 64 bits with a sign. */
static inline int SetWaitableTimer(HANDLE timer, const void *due, int32_t period,
                                   const void *routine, void *argument, int resume)
{
    (void)routine, (void)argument, (void)resume;
    return umcg_nt_timer_set_100ns(due ? timer : NULL, due ? *(const int64_t *)due : 0, period) ==
           0;
}

static inline int CancelWaitableTimer(HANDLE timer)
{
    return umcg_nt_timer_cancel(timer) >= 0;
}

static inline int CloseHandle(HANDLE object)
{
    umcg_nt_close(object);
    return object != NULL;
}
#endif

#ifdef __cplusplus
}
#endif

#endif /* UMCG_NT_H */
