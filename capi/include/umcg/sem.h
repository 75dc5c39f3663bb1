/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * umcg/sem.h - semaphores, and a wakeup from whichever of many has one first (altsems).
 *
 * A semaphore saves wakeups: a release adds some; an acquire takes one, and waits while there is
 * none. It is *strong*: the longest waiter is served first, and a wakeup that was given to a waiter
 * cannot be taken by a later caller. A semaphore made with UMCG_SEM_BARGING instead lets any
 * running caller take a saved wakeup. It is faster when many threads contend for it; its waiters
 * may be overtaken, but not for ever.
 *
 * A Sem is part of the caller's own data. All zeros are a strong semaphore without wakeups, so one
 * that is static, or in memory from calloc(3), needs no call before it is used. Do not copy or move
 * it. Nothing is to be done at its end: its memory may be reused once no call on it is running and
 * no thread or worker waits for it. The caller that takes the last wakeup that will ever come may
 * reuse the memory at once, without waiting for the call that released it to return. A Sem is for
 * the threads and workers of one process.
 *
 * Nothing here makes a system call unless the caller has to wait, or wakes a kernel thread that
 * sleeps.
 *
 * The words of umcg/rt.h mean here what they mean there: "anywhere", "may switch", "cancellable",
 * deadlines. But a call that need not wait is not cut short: an aborted worker still takes a saved
 * wakeup. A wait that is cut short, or whose deadline passes, has taken nothing. If a wakeup is
 * given to the waiter at that moment it is not lost: the call returns with it.
 *
 * Deadlines are nanoseconds of CLOCK_MONOTONIC, 0 for never; umcg_after_ns makes one. Deadlines of
 * umcg_ctl, in umcg.h, are of CLOCK_REALTIME.
 */
#ifndef UMCG_SEM_H
#define UMCG_SEM_H

#include <stddef.h>
#include <stdint.h>

#include "../umcg.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The members are private to the library. */
typedef struct umcg_sem {
    uint64_t word;
    void *places;
    uint64_t hints;
} umcg_sem_t;

/* The name that it has in the paper. */
typedef umcg_sem_t Sem;

/* A strong semaphore with this many wakeups, at most 4,294,967,295, as in Sem tickets =
 * UMCG_SEM_INIT(2); */
/* clang-format off */
#define UMCG_SEM_INIT(wakeups) {(uint32_t)(wakeups), NULL, 0}
/* clang-format on */

/* Flags of umcg_sem_init. */
#define UMCG_SEM_BARGING 1

/* ---- The paper's interface ---- */

/*
 * initsem - makes *s a strong semaphore with val saved wakeups. It must not be in use yet.
 *
 * If s is NULL or val is negative, prints a message and aborts the process.
 *
 * Called from anywhere. Does not switch.
 */
void initsem(Sem *s, int val);

/*
 * downsem - takes a wakeup. If there is none, waits for one if block is not 0.
 *
 * Returns 1 if it took a wakeup; otherwise 0, with errno. EAGAIN: block is 0, and there was none or
 * others wait for them; ECANCELED: it had to wait, and the caller was aborted; ESHUTDOWN: the
 * semaphore was closed; EINVAL: s is NULL.
 *
 * block and the result follow the paper's text. The code that came with the paper has the opposite
 * flag, dontblock, and returns 0 or -1. A program written for that code compiles here, and means
 * the opposite.
 *
 * Called from anywhere. May switch if block is not 0, and is cancellable then.
 */
int downsem(Sem *s, int block);

/*
 * upsem - adds a wakeup. The longest waiter gets it at once.
 *
 * If s is NULL, or there are 4,294,967,295 wakeups already, prints a message and aborts the
 * process.
 *
 * Called from anywhere. Does not switch.
 */
void upsem(Sem *s);

/*
 * altsems - takes exactly one wakeup from exactly one of n semaphores, and returns its index. Waits
 * until there is one. The other semaphores are left as they are.
 *
 * A semaphore may be in the list more than once, in many lists at a time, and may be used by itself
 * meanwhile. If several have wakeups, none is preferred. Fails with -1 and the errors of
 * umcg_sem_any.
 *
 * Called from anywhere. May switch. Cancellable.
 */
int altsems(Sem *ss[], int n);

/* ---- The same, and more, with errors ---- */

/*
 * umcg_sem_init - makes *s a semaphore with this many wakeups: a strong one if flags is 0. It must
 * not be in use yet.
 *
 * Fails with EINVAL: s is NULL, or flags has anything but UMCG_SEM_BARGING.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_sem_init(Sem *s, uint32_t wakeups, int flags);

/*
 * umcg_sem_acquire, umcg_sem_acquire_until - takes a wakeup; waits while there is none.
 *
 * Fails with ESHUTDOWN: the semaphore was closed; EINVAL: s is NULL.
 *
 * Called from anywhere. May switch. Cancellable.
 */
int umcg_sem_acquire(Sem *s);
int umcg_sem_acquire_until(Sem *s, uint64_t deadline_ns);

/*
 * umcg_sem_acquire_many - takes this many wakeups, all at once. A waiter for many is not overtaken
 * by callers that want few.
 *
 * Fails as umcg_sem_acquire_until does.
 *
 * Called from anywhere. May switch. Cancellable.
 */
int umcg_sem_acquire_many(Sem *s, uint32_t wakeups, uint64_t deadline_ns);

/*
 * umcg_sem_try_acquire, umcg_sem_try_acquire_many - takes a wakeup, or this many, if they are there
 * and no other caller waits.
 *
 * Fails with EAGAIN: they are not; ESHUTDOWN: the semaphore was closed; EINVAL: s is NULL.
 *
 * Called from anywhere. Neither switches.
 */
int umcg_sem_try_acquire(Sem *s);
int umcg_sem_try_acquire_many(Sem *s, uint32_t wakeups);

/*
 * umcg_sem_release - adds this many wakeups. Waiters get them in their order.
 *
 * Fails with EOVERFLOW, and adds none: there would be more than 4,294,967,295; EINVAL: s is NULL.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_sem_release(Sem *s, uint32_t wakeups);

/*
 * umcg_sem_close - ends waiting for it: present and later waits fail with ESHUTDOWN. Saved wakeups
 * can still be added and counted, but not acquired. Fails with EINVAL: s is NULL.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_sem_close(Sem *s);

/*
 * umcg_sem_available - how many wakeups are saved. The number may be outdated at once. Fails with
 * EINVAL: s is NULL.
 *
 * Called from anywhere. Does not switch.
 */
int64_t umcg_sem_available(const Sem *s);

/*
 * umcg_sem_any - altsems, until deadline_ns.
 *
 * Fails with ESHUTDOWN: one of the semaphores was closed, and none had a wakeup; EINVAL: the list
 * is NULL or empty, or has a NULL in it.
 *
 * Called from anywhere. May switch. Cancellable.
 */
int umcg_sem_any(Sem *const ss[], int n, uint64_t deadline_ns);

#if defined(__cplusplus) && __cplusplus >= 201103L
static_assert(sizeof(umcg_sem_t) == 24 && alignof(umcg_sem_t) == 8, "umcg_sem_t");
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
_Static_assert(sizeof(umcg_sem_t) == 24 && _Alignof(umcg_sem_t) == 8, "umcg_sem_t");
#endif

#ifdef __cplusplus
}
#endif

#endif /* UMCG_SEM_H */
