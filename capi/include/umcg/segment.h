/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * umcg/segment.h - semaphores, altsems, events and tubes that processes share.
 *
 * A *segment* is a file, mostly one without a name, that several processes have mapped. It has
 * objects that have names; whoever asks for a name first makes the object.
 *
 *     umcg_segment_t *segment = umcg_segment_create(NULL);
 *     umcg_segment_sem_t *free = umcg_segment_sem(segment, "free", 1);
 *     ... fork(), or another process with umcg_segment_open_fd() and a descriptor that came to it
 *     umcg_segment_sem_acquire(free); ... umcg_segment_sem_release(free, 1);
 *
 * Objects mean what those of umcg/sem.h, umcg/sync.h and umcg/tube.h mean, in strong order over all
 * processes: who waits longest is served first. They are for threads and for workers of both kinds;
 * a worker that waits gives its server to others.
 *
 * A process may be killed at any moment, and leaves nobody hanging. One that dies while it waits is
 * passed over; what it was given, and had not taken yet, is given to the next, within a second at
 * most. One that has taken a wakeup or a message has taken it: whether it is to be replaced only
 * the program can know. One that dies while it has an object's inner lock leaves that object dead:
 * all who wait for it, and all who come, fail with EOWNERDEAD. The lock is held for some tens of
 * instructions, and of a tube also while a message is copied: a process that does nothing but send
 * and receive is killed just there in about one of ten cases.
 *
 * What others write into the segment is never trusted: contents that contradict themselves are
 * EBADMSG. But who may write to the segment can take all that is in it; and who can truncate its
 * file, which of one without a name nobody can, ends those that use it by SIGBUS.
 *
 * Without waiters nothing here makes a system call, once a process has done its first operation;
 * but all that opens, names and frees does. A child after fork(2) may use what it has inherited.
 * All functions that take an object fail with
 *
 *     EINVAL       it is NULL
 *     EOWNERDEAD   a process died within its inner lock; for good
 *     EBADMSG      its contents are corrupt, or its inner lock is not given back; for good
 *     ENOSPC       the segment has no room for another waiter, or for another process; for now
 *
 * unless they say that they only look. The words of umcg/rt.h mean here what they mean there:
 * "anywhere", "may switch", "cancellable", deadlines. But a call that need not wait is not cut
 * short. A wait that is cut short, or whose deadline passes, has taken nothing; what is given to a
 * waiter in that moment is not lost: the call returns with it, or the next has it.
 *
 * Deadlines are nanoseconds of CLOCK_MONOTONIC, 0 for never; umcg_after_ns makes one. Those of
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

/* How large a segment is to be; where there is 0, as many as stand here. What is not used takes no
 * memory. */
typedef struct umcg_segment_options {
    size_t size;        /* of this structure, as the caller knows it */
    /* for the messages of all tubes, each rounded up to a multiple of 8; 16 MiB, at most 1 TiB */
    uint64_t bytes;
    uint32_t objects;   /* 256, at most 65,536 */
    /* at a time, of all processes, one for many objects for each; 1,024, at most 1,048,576 */
    uint32_t waiters;
    uint32_t processes; /* that have it open, one that opens it twice for two; 64, at most 4,096 */
    uint32_t flags;     /* 0: there are none yet */
} umcg_segment_options_t;

/* clang-format off */
#define UMCG_SEGMENT_OPTIONS_INIT {sizeof(umcg_segment_options_t), 0, 0, 0, 0, 0}
/* clang-format on */

/* ---- Segments ---- */

/*
 * umcg_segment_create - a new segment in memory that has no name, and whose file nobody can shrink.
 * options may be NULL.
 *
 * Returns NULL on failure, with EINVAL: a number is too large, there are flags, or options' size is
 * less than its own (0 is); E2BIG: options that this library does not know are not 0; and as
 * memfd_create(2), ftruncate(2) and mmap(2).
 *
 * Called from anywhere. May switch.
 */
umcg_segment_t *umcg_segment_create(const umcg_segment_options_t *options);

/*
 * umcg_segment_create_file - the same in a file that is not there yet; it is the caller's to
 * delete. Fails likewise, and as open(2), as with EEXIST; EINVAL: path is NULL.
 *
 * Called from anywhere. May switch.
 */
umcg_segment_t *umcg_segment_create_file(const char *path, const umcg_segment_options_t *options);

/*
 * umcg_segment_open_fd, umcg_segment_open_file - a segment that somebody has made. The descriptor,
 * which stays the caller's, or the file has to be open, or to be opened, for reading and writing.
 * Needs /proc.
 *
 * Returns NULL on failure, with ENODATA: the file is no segment, or is not made yet;
 * EPROTONOSUPPORT: it was made by a version of this library with another layout; EBADMSG: its
 * header is corrupt; ENOSPC: as many processes as it was made for have it open; EBADF; EINVAL: path
 * is NULL; and as open(2) and mmap(2).
 *
 * Called from anywhere. Both may switch.
 */
umcg_segment_t *umcg_segment_open_fd(int fd);
umcg_segment_t *umcg_segment_open_file(const char *path);

/*
 * umcg_segment_fd - its descriptor, for another process: through a socket, or duplicated, for
 * exec(2) closes it. It is not to be closed. Fails with EINVAL: segment is NULL.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_segment_fd(const umcg_segment_t *segment);

/*
 * umcg_segment_set_patience - how long this process waits for an inner lock that is not given back,
 * by somebody who lives, before it takes the object for corrupt: 5 seconds until this is called.
 * Only time counts in which this process was there to look: where it gets no processor for long, no
 * more than 10 milliseconds of that do. Fails with EINVAL: segment is NULL.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_segment_set_patience(umcg_segment_t *segment, uint64_t patience_ns);

/*
 * umcg_segment_forget - takes the name from the object that has it, if that object is dead or
 * corrupt: who asks for the name next gets a new object. Those that have the old one are told of
 * its fault as before. Its place in the segment, and that of its messages, is not used again.
 *
 * Returns 1, or 0 if no object has the name or it is in order. Fails with EINVAL: segment or name
 * is NULL, or the name is none; ENOSPC, EBUSY: as umcg_segment_sem.
 *
 * Called from anywhere. Does not switch; but may sleep for a moment while somebody makes an object.
 */
int umcg_segment_forget(umcg_segment_t *segment, const char *name);

/*
 * umcg_segment_close - gives the handle back. Objects that came from it keep the segment open until
 * they are given back too. NULL is nothing to close.
 *
 * Called from anywhere. Does not switch.
 */
void umcg_segment_close(umcg_segment_t *segment);

/*
 * umcg_segment_sem, umcg_segment_event, umcg_segment_tube - a handle of the object of this name, of
 * 1 to 64 bytes in UTF-8. If there is none yet it is made: a semaphore with so many wakeups; an
 * event by flags as umcg_event_init has them, UMCG_EVENT_SET and UMCG_EVENT_MANUAL; a tube of so
 * many messages of so many bytes, neither of them 0. The same name may be asked for often.
 *
 * Returns NULL on failure, with EINVAL: segment or name is NULL, the name is none, flags has
 * others, or a size is 0 or more than the segment can have; EEXIST: the object that has this name
 * is of another kind or, of a tube, has other sizes; ENOSPC: the segment has no room for another
 * object, for its messages, or for another process; EBUSY: somebody who makes an object has not
 * come to an end for long.
 *
 * Called from anywhere. None switches; but each may sleep for a moment while somebody else makes an
 * object.
 */
umcg_segment_sem_t *umcg_segment_sem(const umcg_segment_t *segment, const char *name,
                                     uint32_t wakeups);
umcg_segment_event_t *umcg_segment_event(const umcg_segment_t *segment, const char *name,
                                         int flags);
umcg_segment_tube_t *umcg_segment_tube(const umcg_segment_t *segment, const char *name, size_t size,
                                       uint32_t capacity);

/*
 * umcg_segment_sem_free, umcg_segment_event_free, umcg_segment_tube_free - gives the handle back,
 * which nobody of this process uses any more. The object stays. NULL is nothing to free.
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
 * umcg_segment_sem_acquire_many - takes so many wakeups, all at once. Who waits for many is not
 * overtaken by who wants few.
 *
 * Called from anywhere. May switch. Cancellable.
 */
int umcg_segment_sem_acquire_many(umcg_segment_sem_t *s, uint32_t wakeups, uint64_t deadline_ns);

/*
 * umcg_segment_sem_try_acquire, umcg_segment_sem_try_acquire_many - takes a wakeup, or so many, if
 * they are there and nobody else waits. Fails with EAGAIN: they are not.
 *
 * Called from anywhere. Neither switches.
 */
int umcg_segment_sem_try_acquire(umcg_segment_sem_t *s);
int umcg_segment_sem_try_acquire_many(umcg_segment_sem_t *s, uint32_t wakeups);

/*
 * umcg_segment_sem_release - adds so many wakeups: waiters get them in their order. Fails with
 * EOVERFLOW, and adds none: there would be more than 4,294,967,295.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_segment_sem_release(umcg_segment_sem_t *s, uint32_t wakeups);

/*
 * umcg_segment_sem_available - how many wakeups are saved; that may be outdated at once. It only
 * looks.
 *
 * Called from anywhere. Does not switch.
 */
int64_t umcg_segment_sem_available(const umcg_segment_sem_t *s);

/*
 * umcg_segment_sem_waiters - how many wait for it, dead ones that nobody has found yet too; that
 * may be outdated at once.
 *
 * Called from anywhere. Does not switch.
 */
ssize_t umcg_segment_sem_waiters(umcg_segment_sem_t *s);

/*
 * umcg_segment_sem_any - altsems of umcg/sem.h between processes: takes exactly one wakeup from
 * exactly one of n semaphores, and returns its index; waits until there is one, until deadline_ns
 * at most. They come from one umcg_segment_t, and may be in the list more than once. Of those that
 * have wakeups none is preferred.
 *
 * Fails with -1 for what has befallen one of them, if none of the others has a wakeup; with EINVAL
 * also: the list is NULL or empty, has a NULL in it, or its semaphores come from several
 * umcg_segment_t.
 *
 * Called from anywhere. May switch. Cancellable.
 */
int umcg_segment_sem_any(umcg_segment_sem_t *const ss[], int n, uint64_t deadline_ns);

/* ---- Events ---- */

/*
 * umcg_segment_event_set - lets all through that wait, and that come, until it is reset; one that
 * is reset automatically lets the one through that waits longest, or the next that comes.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_segment_event_set(umcg_segment_event_t *e);

/*
 * umcg_segment_event_pulse - the same for those that wait at this moment: then it is not set.
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
 * umcg_segment_event_is_set - whether it is set, 1 or 0; that may be outdated at once. It only
 * looks.
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
 * umcg_segment_event_wait, umcg_segment_event_wait_until - waits until it is set; what was done
 * before is seen then.
 *
 * Called from anywhere. May switch. Cancellable.
 */
int umcg_segment_event_wait(umcg_segment_event_t *e);
int umcg_segment_event_wait_until(umcg_segment_event_t *e, uint64_t deadline_ns);

/*
 * umcg_segment_event_trywait - the same if it is set. Fails with EAGAIN: it is not.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_segment_event_trywait(umcg_segment_event_t *e);

/* ---- Tubes ---- */

/*
 * umcg_segment_tube_send, umcg_segment_tube_send_until - sends a message, which is copied; waits
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
 * umcg_segment_tube_recv, umcg_segment_tube_recv_until - receives the message that was sent first;
 * waits while there is none.
 *
 * Fails with ESHUTDOWN: the tube was closed, and is empty; EINVAL also: message is NULL.
 *
 * Called from anywhere. May switch. Cancellable.
 */
int umcg_segment_tube_recv(umcg_segment_tube_t *tube, void *message);
int umcg_segment_tube_recv_until(umcg_segment_tube_t *tube, void *message, uint64_t deadline_ns);

/*
 * umcg_segment_tube_try_send, umcg_segment_tube_try_recv - the same if nobody has to wait for it.
 * Fail with EAGAIN: there is no room, or no message, or others wait for it; and likewise.
 *
 * Called from anywhere. Neither switches.
 */
int umcg_segment_tube_try_send(umcg_segment_tube_t *tube, const void *message);
int umcg_segment_tube_try_recv(umcg_segment_tube_t *tube, void *message);

/*
 * umcg_segment_tube_close - nothing is sent any more; what was sent can be received. All that wait
 * in vain fail with ESHUTDOWN. Nobody knows of a dead sender: nothing else closes a tube.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_segment_tube_close(umcg_segment_tube_t *tube);

/*
 * umcg_segment_tube_length - how many messages are in it; that may be outdated at once. It only
 * looks.
 *
 * Called from anywhere. Does not switch.
 */
ssize_t umcg_segment_tube_length(const umcg_segment_tube_t *tube);

/*
 * umcg_segment_tube_waiters - how many wait to receive and to send, as umcg_segment_sem_waiters;
 * either place may be NULL.
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
