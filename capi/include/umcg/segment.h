/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * umcg/segment.h - semaphores, altsems, events and tubes that processes share.
 *
 * A *segment* is a file, mostly one without a name, that several processes have mapped. It contains
 * objects that have names. The first process to ask for a name makes the object.
 *
 *     umcg_segment_t *segment = umcg_segment_create(NULL);
 *     umcg_segment_sem_t *free = umcg_segment_sem(segment, "free", 1);
 *     ... fork(), or another process with umcg_segment_open_fd() and a descriptor that came to it
 *     umcg_segment_sem_acquire(free); ... umcg_segment_sem_release(free, 1);
 *
 * Objects behave as those of umcg/sem.h, umcg/sync.h and umcg/tube.h do, in strong order over all
 * processes: the longest waiter is served first. They are for threads and for workers of both
 * kinds; a worker that waits leaves its server to others.
 *
 * A process may be killed at any moment without leaving others hanging. If it dies while it waits
 * it is passed over: anything it was given, and had not taken yet, goes to the next waiter, within
 * a second at most. If it had already taken a wakeup or a message, that is gone: only the program
 * can know whether to replace it. If it dies while it has an object's inner lock, the object is
 * dead: all present and later calls on it fail with EOWNERDEAD. The lock is held for some tens of
 * instructions, and for a tube also while a message is copied. A process that does nothing but send
 * and receive is killed just there in about one of ten cases.
 *
 * Contents that other processes write into the segment are never trusted: contents that contradict
 * themselves give EBADMSG. But a process that may write to the segment can take everything that is
 * in it. And a process that can truncate its file ends those that use it by SIGBUS. The file of a
 * segment without a name cannot be truncated.
 *
 * Once a process has done its first operation, no operation makes a system call while there are no
 * waiters; calls that open, name and free do. A child after fork(2) may use the segments and
 * objects it has inherited. All functions that take an object fail with
 *
 *     EINVAL       it is NULL
 *     EOWNERDEAD   a process died within its inner lock; for good
 *     EBADMSG      its contents are corrupt, or its inner lock is not given back; for good
 *     ENOSPC       the segment has no room for another waiter, or for another process; for now
 *
 * unless they say that they only look. The words of umcg/rt.h mean here what they mean there:
 * "anywhere", "may switch", "cancellable", deadlines. But a call that need not wait is not cut
 * short. A wait that is cut short, or whose deadline passes, has taken nothing. A wakeup or message
 * given to the waiter at that moment is not lost: the call returns with it, or the next waiter has
 * it.
 *
 * Deadlines are nanoseconds of CLOCK_MONOTONIC, 0 for never; umcg_after_ns makes one. Deadlines of
 * umcg_ctl, in umcg.h, are of CLOCK_REALTIME.
 */
#ifndef UMCG_SEGMENT_H
#define UMCG_SEGMENT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "sync.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A segment that this process has opened, and objects in it. */
typedef struct umcg_segment umcg_segment_t;
typedef struct umcg_segment_sem umcg_segment_sem_t;
typedef struct umcg_segment_event umcg_segment_event_t;
typedef struct umcg_segment_tube umcg_segment_tube_t;

/* How large a segment is to be. 0 means the default. Unused room takes no memory. */
typedef struct umcg_segment_options {
    size_t size;        /* of this structure, as the caller knows it */
    /* for the messages of all tubes, each rounded up to a multiple of 8; default 16 MiB, at most
     * 1 TiB */
    uint64_t bytes;
    uint32_t objects;   /* default 256, at most 65,536 */
    /* waits at a time, of all processes; a wait for many objects counts once for each of them;
     * default 1,024, at most 1,048,576 */
    uint32_t waiters;
    /* that have it open; a process that opens it twice counts twice; default 64, at most 4,096 */
    uint32_t processes;
    uint32_t flags;     /* 0: there are none yet */
} umcg_segment_options_t;

/* clang-format off */
#define UMCG_SEGMENT_OPTIONS_INIT {sizeof(umcg_segment_options_t), 0, 0, 0, 0, 0}
/* clang-format on */

/* ---- Segments ---- */

/*
 * umcg_segment_create - a new segment in memory, without a name. No process can shrink its file.
 * options may be NULL.
 *
 * Returns NULL on failure, with EINVAL: a number is too large, flags is not 0, or options' size is
 * less than its own (a size of 0 is, too); E2BIG: options that this library does not know are not
 * 0; and the errors of memfd_create(2), ftruncate(2) and mmap(2).
 *
 * Called from anywhere. May switch.
 */
umcg_segment_t *umcg_segment_create(const umcg_segment_options_t *options);

/*
 * umcg_segment_create_file - the same in a file that does not exist yet. Deleting the file is left
 * to the caller. Fails likewise, and as open(2), for example with EEXIST; EINVAL: path is NULL.
 *
 * Called from anywhere. May switch.
 */
umcg_segment_t *umcg_segment_create_file(const char *path, const umcg_segment_options_t *options);

/*
 * umcg_segment_open_fd, umcg_segment_open_file - opens a segment that exists already. The
 * descriptor must be open for reading and writing, and stays the caller's; the file must allow
 * both. Needs /proc.
 *
 * Returns NULL on failure, with ENODATA: the file is no segment, or is not made yet;
 * EPROTONOSUPPORT: it was made by a version of this library with another layout; EBADMSG: its
 * header is corrupt; ENOSPC: as many processes as it was made for have it open; EBADF; EINVAL: path
 * is NULL; and the errors of open(2) and mmap(2).
 *
 * Called from anywhere. Both may switch.
 */
umcg_segment_t *umcg_segment_open_fd(int fd);
umcg_segment_t *umcg_segment_open_file(const char *path);

/*
 * umcg_segment_fd - its descriptor, to be passed to another process: through a socket, or
 * duplicated, as exec(2) closes the descriptor itself. The caller must not close it. Fails with
 * EINVAL: segment is NULL.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_segment_fd(const umcg_segment_t *segment);

/*
 * umcg_segment_set_patience - how long this process waits for an inner lock, whose holder lives, to
 * be given back, before it takes the object for corrupt. Unless this is called: 5 seconds. Only
 * time in which this process was running counts: of a long time without a processor, no more than
 * 10 milliseconds do. Fails with EINVAL: segment is NULL.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_segment_set_patience(umcg_segment_t *segment, uint64_t patience_ns);

/*
 * umcg_segment_forget - takes the name from the object that has it, if that object is dead or
 * corrupt. The next process to ask for the name gets a new object. Processes that have the old
 * object still get its error. Its place in the segment, and that of its messages, is not used
 * again.
 *
 * Returns 1, or 0 if no object has the name or the object is in order. Fails with EINVAL: segment
 * or name is NULL, or the name is not valid; ENOSPC, EBUSY: as umcg_segment_sem.
 *
 * Called from anywhere. Does not switch, but may sleep briefly while a process makes an object.
 */
int umcg_segment_forget(umcg_segment_t *segment, const char *name);

/*
 * umcg_segment_close - gives the handle back. Handles of objects that came from it keep the segment
 * open until they are freed too. NULL is allowed, and does nothing.
 *
 * Called from anywhere. Does not switch.
 */
void umcg_segment_close(umcg_segment_t *segment);

/*
 * umcg_segment_sem, umcg_segment_event, umcg_segment_tube - a handle of the object with this name,
 * of 1 to 64 bytes in UTF-8. If there is no such object yet it is made: a semaphore with this many
 * wakeups; an event with the flags of umcg_event_init, UMCG_EVENT_SET and UMCG_EVENT_MANUAL; a tube
 * with room for capacity messages of size bytes, neither of them 0. The same name may be asked for
 * often.
 *
 * Returns NULL on failure, with EINVAL: segment or name is NULL, the name is not valid, flags has
 * other bits, or a size is 0 or more than the segment can have; EEXIST: the object that has this
 * name is of another kind or, if it is a tube, has other sizes; ENOSPC: the segment has no room for
 * another object, for its messages, or for another process; EBUSY: a process has been making an
 * object for too long.
 *
 * Called from anywhere. None switches, but each may sleep briefly while another caller makes an
 * object.
 */
umcg_segment_sem_t *umcg_segment_sem(const umcg_segment_t *segment, const char *name,
                                     uint32_t wakeups);
umcg_segment_event_t *umcg_segment_event(const umcg_segment_t *segment, const char *name,
                                         int flags);
umcg_segment_tube_t *umcg_segment_tube(const umcg_segment_t *segment, const char *name, size_t size,
                                       uint32_t capacity);

/*
 * umcg_segment_sem_free, umcg_segment_event_free, umcg_segment_tube_free - gives the handle back.
 * No thread or worker of this process may use it any more. The object stays. NULL is allowed, and
 * does nothing.
 *
 * Called from anywhere. None switches.
 */
void umcg_segment_sem_free(umcg_segment_sem_t *s);
void umcg_segment_event_free(umcg_segment_event_t *e);
void umcg_segment_tube_free(umcg_segment_tube_t *tube);

/* ---- Semaphores ---- */

/*
 * umcg_segment_sem_acquire, umcg_segment_sem_acquire_until - takes a wakeup; waits while there is
 * none.
 *
 * Called from anywhere. May switch. Cancellable.
 */
int umcg_segment_sem_acquire(umcg_segment_sem_t *s);
int umcg_segment_sem_acquire_until(umcg_segment_sem_t *s, uint64_t deadline_ns);

/*
 * umcg_segment_sem_acquire_many - takes this many wakeups, all at once. A waiter for many is not
 * overtaken by callers that want few.
 *
 * Called from anywhere. May switch. Cancellable.
 */
int umcg_segment_sem_acquire_many(umcg_segment_sem_t *s, uint32_t wakeups, uint64_t deadline_ns);

/*
 * umcg_segment_sem_try_acquire, umcg_segment_sem_try_acquire_many - takes a wakeup, or this many,
 * if they are there and no other caller waits. Fails with EAGAIN: they are not.
 *
 * Called from anywhere. Neither switches.
 */
int umcg_segment_sem_try_acquire(umcg_segment_sem_t *s);
int umcg_segment_sem_try_acquire_many(umcg_segment_sem_t *s, uint32_t wakeups);

/*
 * umcg_segment_sem_release - adds this many wakeups. Waiters get them in their order. Fails with
 * EOVERFLOW, and adds none: there would be more than 4,294,967,295.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_segment_sem_release(umcg_segment_sem_t *s, uint32_t wakeups);

/*
 * umcg_segment_sem_available - how many wakeups are saved. The number may be outdated at once. It
 * only looks.
 *
 * Called from anywhere. Does not switch.
 */
int64_t umcg_segment_sem_available(const umcg_segment_sem_t *s);

/*
 * umcg_segment_sem_waiters - how many wait for it, including dead waiters that have not been found
 * yet. The number may be outdated at once.
 *
 * Called from anywhere. Does not switch.
 */
ssize_t umcg_segment_sem_waiters(umcg_segment_sem_t *s);

/*
 * umcg_segment_sem_any - altsems of umcg/sem.h between processes: takes exactly one wakeup from
 * exactly one of n semaphores, and returns its index. Waits until there is one, until deadline_ns
 * at most. The semaphores come from one umcg_segment_t, and may be in the list more than once. If
 * several have wakeups, none is preferred.
 *
 * Fails with -1 and the error of one of the semaphores, if none of the others has a wakeup. Fails
 * with EINVAL also: the list is NULL or empty, has a NULL in it, or its semaphores come from
 * several umcg_segment_t.
 *
 * Called from anywhere. May switch. Cancellable.
 */
int umcg_segment_sem_any(umcg_segment_sem_t *const ss[], int n, uint64_t deadline_ns);

/* ---- Events ---- */

/*
 * umcg_segment_event_set - sets the event. One that is reset by hand lets all waiters through,
 * present and later, until it is reset. One that is reset automatically lets the longest waiter
 * through, or else the next caller.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_segment_event_set(umcg_segment_event_t *e);

/*
 * umcg_segment_event_pulse - the same for the present waiters only. Afterwards the event is not
 * set.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_segment_event_pulse(umcg_segment_event_t *e);

/*
 * umcg_segment_event_reset - undoes umcg_segment_event_set. Returns whether it was set, 1 or 0.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_segment_event_reset(umcg_segment_event_t *e);

/*
 * umcg_segment_event_is_set - whether it is set, 1 or 0. The answer may be outdated at once. It
 * only looks.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_segment_event_is_set(const umcg_segment_event_t *e);

/*
 * umcg_segment_event_waiters - as umcg_segment_sem_waiters.
 *
 * Called from anywhere. Does not switch.
 */
ssize_t umcg_segment_event_waiters(umcg_segment_event_t *e);

/*
 * umcg_segment_event_wait, umcg_segment_event_wait_until - waits until the event is set. The waiter
 * then sees everything that was done before umcg_segment_event_set.
 *
 * Called from anywhere. May switch. Cancellable.
 */
int umcg_segment_event_wait(umcg_segment_event_t *e);
int umcg_segment_event_wait_until(umcg_segment_event_t *e, uint64_t deadline_ns);

/*
 * umcg_segment_event_trywait - takes the event if it is set, without waiting. Fails with EAGAIN: it
 * is not set.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_segment_event_trywait(umcg_segment_event_t *e);

/* ---- Tubes ---- */

/*
 * umcg_segment_tube_send, umcg_segment_tube_send_until - sends a message, which is copied. Waits
 * while there is no room.
 *
 * Fails with ESHUTDOWN: the tube was closed; EINVAL also: message is NULL.
 *
 * Called from anywhere. May switch. Cancellable.
 */
int umcg_segment_tube_send(umcg_segment_tube_t *tube, const void *message);
int umcg_segment_tube_send_until(umcg_segment_tube_t *tube, const void *message,
                                 uint64_t deadline_ns);

/*
 * umcg_segment_tube_recv, umcg_segment_tube_recv_until - receives the message that was sent first.
 * Waits while there is none.
 *
 * Fails with ESHUTDOWN: the tube was closed, and is empty; EINVAL also: message is NULL.
 *
 * Called from anywhere. May switch. Cancellable.
 */
int umcg_segment_tube_recv(umcg_segment_tube_t *tube, void *message);
int umcg_segment_tube_recv_until(umcg_segment_tube_t *tube, void *message, uint64_t deadline_ns);

/*
 * umcg_segment_tube_try_send, umcg_segment_tube_try_recv - the same without waiting. Fail with
 * EAGAIN: there is no room, or no message, or others wait for it; otherwise as the calls above.
 *
 * Called from anywhere. Neither switches.
 */
int umcg_segment_tube_try_send(umcg_segment_tube_t *tube, const void *message);
int umcg_segment_tube_try_recv(umcg_segment_tube_t *tube, void *message);

/*
 * umcg_segment_tube_close - ends sending; messages that were sent can still be received. All other
 * waits fail with ESHUTDOWN. Nothing else closes a tube: a sender that died is not noticed.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_segment_tube_close(umcg_segment_tube_t *tube);

/*
 * umcg_segment_tube_length - how many messages are in it. The number may be outdated at once. It
 * only looks.
 *
 * Called from anywhere. Does not switch.
 */
ssize_t umcg_segment_tube_length(const umcg_segment_tube_t *tube);

/*
 * umcg_segment_tube_waiters - stores how many wait to receive and how many wait to send, counted as
 * umcg_segment_sem_waiters does. Either pointer may be NULL.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_segment_tube_waiters(umcg_segment_tube_t *tube, size_t *receivers, size_t *senders);

#if defined(__cplusplus) && __cplusplus >= 201103L
static_assert(sizeof(umcg_segment_options_t) == 24 + sizeof(size_t), "umcg_segment_options_t");
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
_Static_assert(sizeof(umcg_segment_options_t) == 24 + sizeof(size_t), "umcg_segment_options_t");
#endif

#ifdef __cplusplus
}
#endif

#endif /* UMCG_SEGMENT_H */
