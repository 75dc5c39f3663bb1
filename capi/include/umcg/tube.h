/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * umcg/tube.h - tubes: messages of one size from those that send to those that receive, through a
 * buffer or from hand to hand.
 *
 *     Tube *letters = newtube(sizeof(struct letter), 32);
 *     ...
 *     tsend(letters, &letter);    in one worker or thread: copies it into the tube, waits while
 *                                 there is no room
 *     trecv(letters, &letter);    in another: copies it out, waits while there is none
 *
 * A tube has room for a number of messages. With none, each message goes straight from who sends it
 * to who receives it, and the one waits for the other. Any number of workers and threads of one
 * process may use either end.
 *
 * Messages of one sender are received in their order. Who waits longest is served first, and a
 * message that was given to a waiter cannot be taken by who comes later. What goes on before a
 * message is sent is seen by who has received it. A call that fails has sent or taken nothing.
 * Messages may be of any size, and stand at any address; one of more than 1024 bytes is copied
 * while others use the tube. One of 0 bytes stands nowhere: its address may be NULL.
 *
 * A tube is freed when nobody uses it any more. But who has received the last message that will
 * ever come need not wait for who sent it.
 *
 * Nothing here makes a system call unless the caller has to wait, or wakes a kernel thread that
 * sleeps.
 *
 * The words of umcg/rt.h mean here what they mean there: "anywhere", "may switch", "cancellable",
 * deadlines. But a call that need not wait is not cut short: an aborted worker still sends where
 * there is room, and receives what is there.
 *
 * Deadlines are nanoseconds of CLOCK_MONOTONIC, 0 for never; umcg_after_ns makes one. Those of
 * umcg_ctl, in umcg.h, are of CLOCK_REALTIME.
 */
#ifndef UMCG_TUBE_H
#define UMCG_TUBE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "../umcg.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct umcg_tube umcg_tube_t;

/* The name that it has in the paper. */
typedef umcg_tube_t Tube;

/* What talt may do. */
enum umcg_talt_op {
    TALT_SEND = 1,      /* sends the message m */
    TALT_RECEIVE = 2,   /* receives a message into m */
    TALT_NBSEND = 3,    /* likewise, if that can be done at once: talt does not wait for it */
    TALT_NBRECEIVE = 4
};

typedef struct umcg_talt {
    Tube *t;
    void *m;
    int op; /* an enum umcg_talt_op */
} umcg_talt_t;

typedef umcg_talt_t Talt;

/* ---- The paper's interface ---- */

/*
 * newtube - makes a tube with room for n messages of msz bytes. Fails with NULL and the errors of
 * umcg_tube_create.
 *
 * Called from anywhere. Does not switch.
 */
Tube *newtube(unsigned long msz, unsigned long n);

/*
 * freetube - frees a tube, with the messages that are in it. t may be NULL.
 *
 * Called from anywhere. Does not switch.
 */
void freetube(Tube *t);

/*
 * tsend, trecv - sends the message p; receives a message into p. Either waits as long as it takes.
 *
 * As they cannot say that they have failed, an abort does not cut them short; and if t or p is
 * NULL, or the tube was closed, that is said, and the process aborts. umcg_tube_send and
 * umcg_tube_recv return.
 *
 * Called from anywhere. May switch. Not cancellable.
 */
void tsend(Tube *t, void *p);
void trecv(Tube *t, void *p);

/*
 * nbtsend, nbtrecv - the same if it need not wait: returns 0 then. Fails with -1 and the errors of
 * umcg_tube_try_send.
 *
 * Called from anywhere. Neither switches.
 */
int nbtsend(Tube *t, void *p);
int nbtrecv(Tube *t, void *p);

/*
 * talt - does exactly one of na operations, and returns its index; the others are as if nobody had
 * asked.
 *
 * Those that do not wait are tried first. If none of them can be done it waits for the others; if
 * there are no others, it fails. Of those that can be done none is preferred. A tube may be there
 * more than once, both ways. Fails with -1 and the errors of umcg_tube_any.
 *
 * Called from anywhere. May switch. Cancellable.
 */
int talt(Talt a[], int na);

/* ---- The same, and more, with errors ---- */

/*
 * umcg_tube_create - makes a tube with room for capacity messages of size bytes.
 *
 * Fails with EINVAL: capacity is more than 268,435,455; ENOMEM: no memory for so many.
 *
 * Called from anywhere. Does not switch.
 */
Tube *umcg_tube_create(size_t size, size_t capacity);

/*
 * umcg_tube_destroy - freetube.
 *
 * Called from anywhere. Does not switch.
 */
void umcg_tube_destroy(Tube *t);

/*
 * umcg_tube_send, umcg_tube_send_until, umcg_tube_recv, umcg_tube_recv_until - sends the message p,
 * or receives one into p.
 *
 * Fail with ESHUTDOWN: the tube was closed, and to receive, there is nothing left in it; EINVAL: t
 * or p is NULL.
 *
 * Called from anywhere. May switch. Cancellable.
 */
int umcg_tube_send(Tube *t, const void *p);
int umcg_tube_send_until(Tube *t, const void *p, uint64_t deadline_ns);
int umcg_tube_recv(Tube *t, void *p);
int umcg_tube_recv_until(Tube *t, void *p, uint64_t deadline_ns);

/*
 * umcg_tube_try_send, umcg_tube_try_recv - the same if it need not wait: if there is room, or
 * somebody waits to receive; if there is a message, or somebody waits to send.
 *
 * Fail with EAGAIN: it would have to wait; and as umcg_tube_send does.
 *
 * Called from anywhere. Neither switches.
 */
int umcg_tube_try_send(Tube *t, const void *p);
int umcg_tube_try_recv(Tube *t, void *p);

/*
 * umcg_tube_send_many - sends n messages, which stand one behind the other at p, in their order,
 * many of them in one step. Those of other senders may come between.
 *
 * Returns how many it has sent. These are all of them; or fewer, if it was cut short, if the
 * deadline passed or if the tube was closed after the first. If none was sent, fails as
 * umcg_tube_send_until does.
 *
 * Called from anywhere. May switch. Cancellable.
 */
ssize_t umcg_tube_send_many(Tube *t, const void *p, size_t n, uint64_t deadline_ns);

/*
 * umcg_tube_recv_many - receives up to most messages, as many as are there; waits until there is
 * one.
 *
 * Returns how many. Fails as umcg_tube_recv_until does.
 *
 * Called from anywhere. May switch. Cancellable.
 */
ssize_t umcg_tube_recv_many(Tube *t, void *p, size_t most, uint64_t deadline_ns);

/*
 * umcg_tube_try_send_many, umcg_tube_try_recv_many - as many of n messages as can be sent, or
 * received, without waiting.
 *
 * Return how many. Fail as umcg_tube_try_send does if there is not one, unless n is 0.
 *
 * Called from anywhere. Neither switches.
 */
ssize_t umcg_tube_try_send_many(Tube *t, const void *p, size_t n);
ssize_t umcg_tube_try_recv_many(Tube *t, void *p, size_t n);

/*
 * umcg_tube_reserve, umcg_tube_reserve_until, umcg_tube_try_reserve - takes room for a message, and
 * returns the address at which it is to be written: one of more than 1024 bytes is written where it
 * will lie, and so is not copied. Others cannot have that room until umcg_tube_commit or
 * umcg_tube_unreserve, one of which is called, once, for each. The message gets its place in the
 * order when it is committed.
 *
 * Fail with NULL, and as umcg_tube_send, umcg_tube_send_until, umcg_tube_try_send; with EINVAL: the
 * tube is NULL, or has a capacity of 0; ENOMEM: no memory for a message.
 *
 * Called from anywhere. May switch, but for umcg_tube_try_reserve, and are cancellable then.
 */
void *umcg_tube_reserve(Tube *t);
void *umcg_tube_reserve_until(Tube *t, uint64_t deadline_ns);
void *umcg_tube_try_reserve(Tube *t);

/*
 * umcg_tube_commit, umcg_tube_unreserve - sends the message at p, which umcg_tube_reserve has
 * returned; sends nothing, and gives the room back. p is not used any more, even if the call fails
 * with ESHUTDOWN: the tube was closed meanwhile. Fail with EINVAL: the tube is NULL, or p is no
 * such address or was used up already; then nothing has changed.
 *
 * Called from anywhere. Neither switches.
 */
int umcg_tube_commit(Tube *t, void *p);
int umcg_tube_unreserve(Tube *t, void *p);

/*
 * umcg_tube_recv_ref, umcg_tube_recv_ref_until, umcg_tube_try_recv_ref - receives a message where
 * it lies, and returns its address: one of more than 1024 bytes is not copied, unless the tube has
 * a capacity of 0. It may be changed there. Its place is not free before umcg_tube_recv_done.
 *
 * Fail with NULL, and as umcg_tube_recv, umcg_tube_recv_until, umcg_tube_try_recv; with ENOMEM: no
 * memory for a message.
 *
 * Called from anywhere. May switch, but for umcg_tube_try_recv_ref, and are cancellable then.
 */
void *umcg_tube_recv_ref(Tube *t);
void *umcg_tube_recv_ref_until(Tube *t, uint64_t deadline_ns);
void *umcg_tube_try_recv_ref(Tube *t);

/*
 * umcg_tube_recv_done - the message at p, which umcg_tube_recv_ref has returned, has been read. p
 * is not used any more. Fails with EINVAL: as umcg_tube_commit.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_tube_recv_done(Tube *t, void *p);

/*
 * umcg_tube_close - lets nothing be sent any more: all that wait to send, and all that come, fail
 * with ESHUTDOWN. What is in it can be received; after that all that wait, and all that come, fail,
 * too. Fails with EINVAL: t is NULL.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_tube_close(Tube *t);

/*
 * umcg_tube_length, umcg_tube_capacity - how many messages are in it, which may be outdated at
 * once; how many it has room for. Fail with EINVAL: t is NULL.
 *
 * Called from anywhere. Neither switches.
 */
ssize_t umcg_tube_length(const Tube *t);
ssize_t umcg_tube_capacity(const Tube *t);

/*
 * umcg_tube_any - talt, until deadline_ns.
 *
 * Fails with EAGAIN: there are only such as it does not wait for, and none can be done; ESHUTDOWN:
 * the tube that it came to was closed; EINVAL: the array is NULL or empty, an op is not known, or a
 * t or an m is NULL.
 *
 * Called from anywhere. May switch. Cancellable.
 */
int umcg_tube_any(const Talt a[], int na, uint64_t deadline_ns);

#if defined(__cplusplus) && __cplusplus >= 201103L
static_assert(sizeof(umcg_talt_t) == 3 * sizeof(void *) &&
                  offsetof(umcg_talt_t, op) == 2 * sizeof(void *),
              "umcg_talt_t");
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
_Static_assert(sizeof(umcg_talt_t) == 3 * sizeof(void *) &&
                   offsetof(umcg_talt_t, op) == 2 * sizeof(void *),
               "umcg_talt_t");
#endif

#ifdef __cplusplus
}
#endif

#endif /* UMCG_TUBE_H */
