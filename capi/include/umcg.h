/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * umcg.h - user mode concurrency groups on an unpatched kernel.
 *
 * Servers are kernel threads that schedule; workers are what they schedule. Whenever a worker
 * blocks, wakes, waits, ends, times out or runs for too long, a server learns of it as an event and
 * decides what runs next.
 *
 * A thread worker is a pthread that registered itself; it keeps its own thread-local storage, errno
 * and tid wherever it runs. A light worker (umcg_light_create) is a function and a stack; it uses
 * the thread-local storage of the server that runs it, so it must not keep the address of a
 * thread-local, errno included, across a call that may switch.
 *
 * Every function says where it may be called from and whether it may switch, that is, let other
 * code run in the caller's place before it returns. "Anywhere" means any thread or worker; no
 * function may be called from a signal handler unless it says so. Functions return -1 and set errno
 * on failure.
 */
#ifndef UMCG_H
#define UMCG_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Constants of umcg_ctl ---- */

/* Commands. */
#define UMCG_REGISTER_WORKER 1
#define UMCG_REGISTER_SERVER 2
#define UMCG_UNREGISTER 3
#define UMCG_WAKE 4
#define UMCG_WAIT 5
#define UMCG_CTX_SWITCH 6

/* Flag of UMCG_WAIT: this call repeats one that a signal ended with EINTR. */
#define UMCG_WAIT_FLAG_INTERRUPTED 1

/* Events: an event is worker_id | type. */
#define UMCG_WE_BLOCK 1   /* the worker blocked; its server runs on */
#define UMCG_WE_WAKE 2    /* a blocked worker could go on, or a worker has registered */
#define UMCG_WE_WAIT 3    /* the worker waits, or switched to another worker */
#define UMCG_WE_EXIT 4    /* the worker unregistered or ended */
#define UMCG_WE_TIMEOUT 5 /* the worker's deadline passed */
#define UMCG_WE_PREEMPT 6 /* the worker ran for longer than the preemption interval */

/* A worker id is any 64-bit number whose low UMCG_WORKER_ID_SHIFT bits are zero; by convention tid
 * << 5. */
#define UMCG_WORKER_ID_SHIFT 5
#define UMCG_EVENT_TYPE_MASK ((UINT64_C(1) << UMCG_WORKER_ID_SHIFT) - 1)

/* The two parts of an event. */
#define UMCG_EVENT_TYPE(event) ((int)((uint64_t)(event) & UMCG_EVENT_TYPE_MASK))
#define UMCG_EVENT_WORKER(event) ((uint64_t)(event) & ~UMCG_EVENT_TYPE_MASK)

/*
 * Deadlines of umcg_ctl are nanoseconds of CLOCK_REALTIME; these two values are special. Deadlines
 * of umcg/rt.h, and of the headers that go with it, are nanoseconds of CLOCK_MONOTONIC.
 */
#define UMCG_NO_TIMEOUT 0 /* wait for ever */
#define UMCG_POLL 1       /* in a server's UMCG_WAIT: do not wait at all */

/* ---- The call ---- */

/*
 * umcg_ctl - register, unregister, wait, wake and switch.
 *
 *   UMCG_REGISTER_SERVER   The caller becomes a server and goes on running.
 *   UMCG_REGISTER_WORKER   abs_timeout is the worker id. Event WAKE is queued; returns once a
 *                          server runs the worker.
 *   UMCG_UNREGISTER        The caller is a plain thread again; of a worker its server gets event
 *                          EXIT. By a plain thread: 0.
 *   UMCG_WAKE              Wakes one idle server; EAGAIN if there is none.
 *   UMCG_WAIT              A server: waits for events (next_tid 0, event_sz at least 2) or for
 *                          worker next_tid to stop being blocked. A worker: gives the processor
 *                          back, with a deadline if abs_timeout is not 0.
 *   UMCG_CTX_SWITCH        Runs worker next_tid in the caller's place. A server gets the worker's
 *                          event in events[0] and events of idle workers after it; a worker goes to
 *                          the idle list, with a deadline if abs_timeout is not 0.
 *
 * Parameters that a command does not use must be 0 or NULL. The events end with a 0 if there is
 * room for one. A worker may have two events, a WAIT and the TIMEOUT that followed. The two are
 * handed over together, so idle workers are taken only while two slots are left. WAIT with two
 * slots hands over one worker, as {event, 0} or {WAIT, TIMEOUT}. CTX_SWITCH with one or two slots
 * hands over only the event of the worker that ran.
 *
 * Returns 0, or -1 with errno:
 *   EINVAL     bad argument, unknown command, or not possible in the caller's or the named worker's
 *              state
 *   ESRCH      next_tid is no thread or light worker of this process
 *   ETIMEDOUT  the deadline passed, or a poll found nothing
 *   EINTR      a signal ended a server's UMCG_WAIT: repeat it with UMCG_WAIT_FLAG_INTERRUPTED
 *   EAGAIN     UMCG_WAKE found no idle server
 *   EFAULT     events is not writable (UMCG_CTX_SWITCH: the worker has run)
 *
 * Called from anywhere. REGISTER_WORKER, UNREGISTER by a worker, WAIT and CTX_SWITCH may switch;
 * the others do not.
 */
int umcg_ctl(uint32_t flags, uint32_t cmd, pid_t next_tid, uint64_t abs_timeout, uint64_t *events,
             int event_sz);

/* ---- Blocking ---- */

/*
 * umcg_blocking_begin - begins a scope in which the caller may block in the kernel.
 *
 * The worker's server gets event BLOCK and runs on at once. The code up to umcg_blocking_end runs
 * on the worker's home thread, with the worker's own kernel identity. (That of a light worker runs
 * on a helper thread.) Scopes nest; only the outermost counts. On a server or a plain thread it
 * does nothing. In a scope umcg_ctl's WAIT and CTX_SWITCH fail with EINVAL.
 *
 * Returns 0; 1 if the system gives no helper thread. In that case the scope has begun, but the
 * light worker stays on its server, which gets no BLOCK.
 *
 * Called from anywhere. Switches when called in a worker.
 */
int umcg_blocking_begin(void);

/*
 * umcg_blocking_end - ends the scope that umcg_blocking_begin opened.
 *
 * Event WAKE is queued, and the call returns once a server has switched to the worker. errno is
 * kept, so that the error of the blocking call can be read afterwards. Fails with EINVAL in a
 * worker without an open scope.
 *
 * Called from where the scope was opened. Switches when called in a worker.
 */
int umcg_blocking_end(void);

/*
 * umcg_notice_blocking - whether blocking that no scope announces is noticed.
 *
 * If it is noticed, a worker with storage of its own (a thread worker, or a full worker of
 * umcg/rt.h) that blocks in its own code gives its server BLOCK by itself, and WAKE when it can go
 * on: in a system call of the C library's that waits for another party, in a sleep, in a contended
 * lock, in a page fault. Workers of umcg/rt.h wait in user mode where that is possible. A page
 * fault, and a call that waits for a file, is noticed some milliseconds late.
 *
 * It begins with the first UMCG_REGISTER_WORKER, or when this is called with a number that is not
 * 0, and lasts as long as the process. A 0 before that prevents the former, as UMCG_NOTICE=0 in the
 * environment prevents both. Children of a fork notice nothing.
 *
 * Returns 0, or -1 with errno: EOPNOTSUPP where it is impossible (not x86-64, a sanitizer,
 * Valgrind, umcg run, or forbidden by the environment), EBUSY for a 0 when it has begun.
 *
 * Called from anywhere but a signal handler. Does not switch.
 */
int umcg_notice_blocking(int on);

/* ---- Preemption ---- */

/*
 * umcg_set_preemption - how long a worker may run before it is preempted (event PREEMPT).
 *
 * The interval is in nanoseconds of the server's own time and holds for every server of the
 * process; 0 turns preemption off. Unless it is set, preemption is on for servers that register by
 * umcg_ctl (10 ms), and off in the runtime of umcg/rt.h.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_set_preemption(uint64_t interval_ns);

/*
 * umcg_critical_begin, umcg_critical_end - begins or ends a section in which the calling worker is
 * not preempted.
 *
 * Sections nest. A preemption that falls due inside a section happens at the end of the outermost
 * one. In a worker, an end without a begin fails with EINVAL. On a server or a plain thread both do
 * nothing and return 0.
 *
 * Called from anywhere. umcg_critical_begin does not switch; umcg_critical_end may.
 */
int umcg_critical_begin(void);
int umcg_critical_end(void);

/* ---- Identity ---- */

/*
 * umcg_gettid - the caller's tid: a worker's own wherever it runs, otherwise the kernel's.
 *
 * A light worker's tid lies above every tid the kernel gives. libumcg also defines gettid() with
 * this meaning. Never fails.
 *
 * Called from anywhere, signal handlers included. Does not switch.
 */
pid_t umcg_gettid(void);

/*
 * umcg_set_name - names the calling worker, for messages and traces. The name is copied.
 *
 * Fails with EINVAL if the caller is not a worker or name is NULL.
 *
 * Called from a worker. Does not switch.
 */
int umcg_set_name(const char *name);

/* ---- Light workers ---- */

/* All zero bytes are valid and mean the defaults. */
typedef struct umcg_light_attr {
    size_t stack_size; /* in bytes, rounded up; 0: 64 KiB */
    const char *name;  /* copied; NULL: none */
} umcg_light_attr_t;

/*
 * umcg_light_create - makes a light worker that runs fn(arg).
 *
 * Its event WAKE is queued. It runs once a server switches to it, and ends (event EXIT) when fn
 * returns. A C++ exception that leaves fn ends the process: the worker's name is printed, and
 * std::terminate is called. attr may be NULL.
 *
 * Returns the worker's tid, for use as next_tid, or -1: EINVAL if worker_id has low bits set, fn is
 * NULL or the stack size is impossible; ENOMEM if there is no memory for its stack. Another server
 * may receive the WAKE before the call returns.
 *
 * Called from anywhere. Does not switch.
 */
pid_t umcg_light_create(uint64_t worker_id, void (*fn)(void *arg), void *arg,
                        const umcg_light_attr_t *attr);

#if defined(__cplusplus) && __cplusplus >= 201103L
static_assert(sizeof(umcg_light_attr_t) == 2 * sizeof(void *), "umcg_light_attr_t");
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
_Static_assert(sizeof(umcg_light_attr_t) == 2 * sizeof(void *), "umcg_light_attr_t");
#endif

#ifdef __cplusplus
}
#endif

#endif /* UMCG_H */
