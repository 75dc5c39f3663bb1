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
 * Each operation does what the documentation of Linux's ntsync driver says of the corresponding
 * one. But it makes no system calls except to stop and wake kernel threads, and takes any number of
 * objects. An object is *signaled* if a wait for it need not wait: an event or a timer that is set,
 * a semaphore whose count is not 0, a mutex that has no owner or is owned by the waiter's own
 * owner. To *take* an object is to reset an event or timer that is reset automatically, to count a
 * semaphore down, to own a mutex once more. The longest waiter is served first, whichever objects
 * it waits for.
 *
 * An object is named by a pointer, which counts its references: the first, which its maker has, and
 * one for each umcg_nt_dup. The object lives until all are closed. It also lives while a caller
 * waits for it, and while a living worker or thread owns it in its own name. A waiter that was
 * woken by an operation on an object may close it, even before the call that woke it has returned.
 * Workers and threads of one process may use an object together; signal handlers must not. A child
 * after fork(2) has the objects as they were, but its timers are not armed.
 *
 * The words of umcg/rt.h mean here what they mean there: "anywhere", "may switch", "cancellable",
 * deadlines. A call that need not wait is not cut short. A wait that ended by its deadline, by an
 * alert, or by being cut short has taken nothing.
 *
 * Deadlines are nanoseconds of CLOCK_MONOTONIC, 0 for never; umcg_after_ns makes one. Deadlines of
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
 * umcg_nt_dup - another reference to the object: the same pointer, to be closed once more. Returns
 * NULL for NULL.
 *
 * Called from anywhere. Does not switch.
 */
umcg_nt_t *umcg_nt_dup(umcg_nt_t *object);

/*
 * umcg_nt_close - gives a reference back. The caller must not use the pointer for that reference
 * any more. A timer whose last reference is closed never fires again. Does nothing for NULL.
 *
 * Called from anywhere. Does not switch.
 */
void umcg_nt_close(umcg_nt_t *object);

/* ---- Waiting ---- */

/*
 * umcg_nt_wait - waits for one of count objects, or, if all is not 0, for all of them, until
 * deadline_ns at most.
 *
 * For one: takes exactly one object, the first in the list that is signaled, and stores its index
 * to *index. An object may be in the list more than once. For all: takes nothing until all are
 * signaled at one moment, and then takes all in that moment; *index is 0 then. In an empty list no
 * object is signaled, and all are.
 *
 * Mutexes are taken for the calling worker or thread.
 *
 * alert may be NULL. Otherwise it is an event that also ends the wait: if it is set and the objects
 * are not to be had, it is taken, and *index is count.
 *
 * index may be NULL. With UMCG_POLL as the deadline the call only looks, and does not switch.
 *
 * Fails with EOWNERDEAD: one object was taken, or all were, and *index is stored, as above; but an
 * owner of a taken mutex ended, or was killed, while it held the mutex; ETIMEDOUT; ECANCELED;
 * EINVAL: the list is NULL and count is not 0, an object is NULL, alert is no event, or, for all,
 * an object is in the list twice or is also the alert.
 *
 * Called from anywhere. May switch. Cancellable.
 */
int umcg_nt_wait(umcg_nt_t *const objects[], uint32_t count, int all, umcg_nt_t *alert,
                 uint64_t deadline_ns, uint32_t *index);

/*
 * umcg_nt_wait_as - as umcg_nt_wait, but takes mutexes for this owner. Only the program knows when
 * that owner has died: see umcg_nt_mutex_kill.
 *
 * Fails as umcg_nt_wait does, and with EINVAL if owner is 0.
 *
 * Called from anywhere. May switch. Cancellable.
 */
int umcg_nt_wait_as(uint32_t owner, umcg_nt_t *const objects[], uint32_t count, int all,
                    umcg_nt_t *alert, uint64_t deadline_ns, uint32_t *index);

/* ---- Events ---- */

/*
 * umcg_nt_event_create - makes an event. If manual is not 0 it is reset by hand; otherwise it is
 * reset automatically, by the wait that takes it. It is set at first if signaled is not 0.
 *
 * Called from anywhere. Does not switch.
 */
umcg_nt_t *umcg_nt_event_create(int manual, int signaled);

/*
 * umcg_nt_event_set, umcg_nt_event_reset - sets the event; resets it. umcg_nt_event_pulse - sets it
 * for the present waits only, and resets it, in one step. All waits that this completes end, or
 * only the first if the event is reset automatically. Afterwards the event is not set.
 *
 * If previous is not NULL, each stores to *previous whether the event was set before. Fails with
 * EINVAL: it is no event.
 *
 * Called from anywhere. None switches.
 */
int umcg_nt_event_set(umcg_nt_t *event, int *previous);
int umcg_nt_event_reset(umcg_nt_t *event, int *previous);
int umcg_nt_event_pulse(umcg_nt_t *event, int *previous);

/*
 * umcg_nt_event_read - stores whether it is set, which may be outdated at once, and whether it is
 * reset by hand. Either pointer may be NULL. Fails with EINVAL: it is no event.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_nt_event_read(umcg_nt_t *event, int *signaled, int *manual);

/* ---- Semaphores ---- */

/*
 * umcg_nt_sem_create - makes a semaphore with this count, and this maximum.
 *
 * Fails with NULL and EINVAL: count is greater than max.
 *
 * Called from anywhere. Does not switch.
 */
umcg_nt_t *umcg_nt_sem_create(uint32_t count, uint32_t max);

/*
 * umcg_nt_sem_release - adds count. If previous is not NULL, stores the count before to *previous.
 *
 * Fails with EOVERFLOW, and changes nothing: the count would be more than its maximum; EINVAL: it
 * is no semaphore.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_nt_sem_release(umcg_nt_t *sem, uint32_t count, uint32_t *previous);

/*
 * umcg_nt_sem_read - stores its count, which may be outdated at once, and its maximum. Either
 * pointer may be NULL. Fails with EINVAL: it is no semaphore.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_nt_sem_read(umcg_nt_t *sem, uint32_t *count, uint32_t *max);

/* ---- Mutexes ---- */

/*
 * umcg_nt_mutex_create - makes a mutex. If owned is not 0, the calling worker or thread owns it.
 *
 * A mutex that a worker or thread owns in its own name when it ends, however it ends, is abandoned.
 * The next wait takes it, and fails with EOWNERDEAD.
 *
 * Called from anywhere. Does not switch.
 */
umcg_nt_t *umcg_nt_mutex_create(int owned);

/*
 * umcg_nt_mutex_create_as - makes a mutex that this owner has taken depth times, or one without an
 * owner if both are 0.
 *
 * Fails with NULL and EINVAL: one of them is 0 and the other is not, or the depth is more than
 * 268,435,455.
 *
 * Called from anywhere. Does not switch.
 */
umcg_nt_t *umcg_nt_mutex_create_as(uint32_t owner, uint32_t depth);

/*
 * umcg_nt_mutex_release - undoes one of the times that the calling worker or thread has taken the
 * mutex; umcg_nt_mutex_unlock - one of the times that this owner has taken it. If previous is not
 * NULL, stores to *previous how often it had been taken before. After 1 it has no owner.
 *
 * Fails with EPERM: it has another owner, or none; EINVAL: it is no mutex, or owner is 0.
 *
 * Called from anywhere. Neither switches.
 */
int umcg_nt_mutex_release(umcg_nt_t *mutex, uint32_t *previous);
int umcg_nt_mutex_unlock(umcg_nt_t *mutex, uint32_t owner, uint32_t *previous);

/*
 * umcg_nt_mutex_kill - declares its owner dead. The mutex is abandoned, however often that owner
 * had taken it.
 *
 * Fails with EPERM: it has another owner, or none; EINVAL: it is no mutex, or owner is 0.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_nt_mutex_kill(umcg_nt_t *mutex, uint32_t owner);

/*
 * umcg_nt_mutex_read - stores its owner, and how often that owner has taken it; 0 and 0 if it has
 * no owner. That may be outdated at once. Either pointer may be NULL.
 *
 * Fails with EOWNERDEAD: it is abandoned, and both are 0; EINVAL: it is no mutex.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_nt_mutex_read(umcg_nt_t *mutex, uint32_t *owner, uint32_t *depth);

/*
 * umcg_nt_self - the number by which the calling worker or thread owns mutexes in its own name. No
 * other living worker or thread has it. Such numbers are 2,147,483,648 and more; smaller ones are
 * for owners that the program defines itself.
 *
 * Called from anywhere. Does not switch.
 */
uint32_t umcg_nt_self(void);

/* ---- Timers ---- */

/*
 * umcg_nt_timer_create - makes a timer, which is not armed. It is an event that is set when its
 * time has come. It is reset when it is armed, and, unless manual is not 0, also by the wait that
 * takes it.
 *
 * Called from anywhere. Does not switch.
 */
umcg_nt_t *umcg_nt_timer_create(int manual);

/*
 * umcg_nt_timer_set - resets the timer, and arms it. It is set at due_ns, or now if that has
 * passed, and then after each period_ns, if that is not 0. If the timer is late, its later times do
 * not move, and several times that come at once count as one.
 *
 * Fails with EINVAL: it is no timer, or due_ns is 0; EAGAIN, ENOMEM: the thread that sets timers
 * could not be started.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_nt_timer_set(umcg_nt_t *timer, uint64_t due_ns, uint64_t period_ns);

/*
 * umcg_nt_timer_cancel - disarms the timer. If it is set it stays set. Returns 1 if it was armed,
 * and 0 if not. Fails with EINVAL: it is no timer.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_nt_timer_cancel(umcg_nt_t *timer);

/*
 * umcg_nt_timer_read - stores whether it is set, and when it will be set next, 0 if it is not
 * armed. Either pointer may be NULL. Fails with EINVAL: it is no timer.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_nt_timer_read(umcg_nt_t *timer, int *signaled, uint64_t *due_ns);

/*
 * umcg_nt_timer_set_100ns - the same in the units of Windows. due is in units of 100 nanoseconds:
 * from now if it is negative; otherwise since the beginning of 1601 by the realtime clock, as that
 * stands now. The period is in milliseconds.
 *
 * Fails as umcg_nt_timer_set does, and with EINVAL if the period is negative.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_nt_timer_set_100ns(umcg_nt_t *timer, int64_t due, int32_t period_ms);

/* ---- For porting: in the shape of WaitForMultipleObjects ---- */

#define UMCG_NT_MAXIMUM_WAIT_OBJECTS 64
#define UMCG_NT_INFINITE 0xFFFFFFFFu

#define UMCG_NT_WAIT_OBJECT_0 0x00u
#define UMCG_NT_WAIT_ABANDONED_0 0x80u
#define UMCG_NT_WAIT_IO_COMPLETION 0xC0u
#define UMCG_NT_WAIT_TIMEOUT 0x102u
#define UMCG_NT_WAIT_FAILED 0xFFFFFFFFu

/*
 * umcg_nt_wait_multiple - umcg_nt_wait with the results of Windows: UMCG_NT_WAIT_OBJECT_0 or
 * UMCG_NT_WAIT_ABANDONED_0 plus the index, UMCG_NT_WAIT_IO_COMPLETION for the alert,
 * UMCG_NT_WAIT_TIMEOUT, or UMCG_NT_WAIT_FAILED, with errno. These numbers leave room for at most 64
 * objects; as in Windows, there must be at least 1. It waits for at most this many milliseconds.
 *
 * umcg_nt_wait_single - the same for one object.
 *
 * Fails as umcg_nt_wait does, except for EOWNERDEAD and ETIMEDOUT.
 *
 * Called from anywhere. May switch. Cancellable.
 */
uint32_t umcg_nt_wait_multiple(uint32_t count, umcg_nt_t *const objects[], int all,
                               uint32_t milliseconds, umcg_nt_t *alert);
uint32_t umcg_nt_wait_single(umcg_nt_t *object, uint32_t milliseconds, umcg_nt_t *alert);

/*
 * If UMCG_NT_NAMES is defined before this header is included, it defines the names that Windows has
 * for these things. There are no security attributes, names, or completion routines, so those
 * arguments are ignored. "alertable" is not a flag but the event that alerts, or NULL.
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
    /* Negative numbers are more than a semaphore can count. */
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
