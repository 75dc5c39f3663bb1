/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * umcg/tube.h - tubes: messages of one size from senders to receivers, through a buffer or from
 * hand to hand.
 *
 *     Tube *letters = newtube(sizeof(struct letter), 32);
 *     ...
 *     tsend(letters, &letter);    in one worker or thread: copies it into the tube, waits while
 *                                 there is no room
 *     trecv(letters, &letter);    in another: copies it out, waits while there is none
 *
 * A tube has room for a number of messages, its capacity. With a capacity of 0, each message goes
 * straight from the sender to the receiver, and the one waits for the other. Any number of workers
 * and threads of one process may use either end.
 *
 * Messages of one sender are received in their order. The longest waiter is served first, and a
 * message that was given to a waiter cannot be taken by a later caller. The receiver of a message
 * sees everything that was done before it was sent. A call that fails has sent or taken nothing.
 * Messages may be of any size, and stand at any address. A message of more than 1024 bytes is
 * copied while others use the tube. The address of a message of 0 bytes is not used, and may be
 * NULL.
 *
 * Free a tube when no call on it is running. The caller that has received the last message that
 * will ever come may free it at once, without waiting for the sender's call to return.
 *
 * Nothing here makes a system call unless the caller has to wait, or wakes a kernel thread that
 * sleeps.
 *
 * The words of umcg/rt.h mean here what they mean there: "anywhere", "may switch", "cancellable",
 * deadlines. But a call that need not wait is not cut short: an aborted worker still sends if there
 * is room, and still receives a message that is there.
 *
 * Deadlines are nanoseconds of CLOCK_MONOTONIC, 0 for never; umcg_after_ns makes one. Deadlines of
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

/* The operations of talt. */
enum umcg_talt_op {
    TALT_SEND = 1,      /* sends the message m */
    TALT_RECEIVE = 2,   /* receives a message into m */
    TALT_NBSEND = 3,    /* the same without waiting: done only if it can be done at once */
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
 * tsend, trecv - sends the message p; receives a message into p. Both wait as long as it takes.
 *
 * They return no error, so an abort does not cut them short. If t or p is NULL, or the tube was
 * closed, they print a message and abort the process. umcg_tube_send and umcg_tube_recv return
 * errors instead.
 *
 * Called from anywhere. May switch. Not cancellable.
 */
void tsend(Tube *t, void *p);
void trecv(Tube *t, void *p);

/*
 * nbtsend, nbtrecv - the same without waiting. Return 0, or -1 with the errors of
 * umcg_tube_try_send.
 *
 * Called from anywhere. Neither switches.
 */
int nbtsend(Tube *t, void *p);
int nbtrecv(Tube *t, void *p);

/*
 * talt - does exactly one of na operations, and returns its index. The others have no effect.
 *
 * Operations that do not wait are tried first. If none of them can be done, talt waits for the
 * others; if there are no others, it fails. If several can be done, none is preferred. A tube may
 * be in the array more than once, in both directions. Fails with -1 and the errors of
 * umcg_tube_any.
 *
 * Called from anywhere. May switch. Cancellable.
 */
int talt(Talt a[], int na);

/* ---- The same, and more, with errors ---- */

/*
 * umcg_tube_create - makes a tube with room for capacity messages of size bytes.
 *
 * Fails with EINVAL: capacity is more than 268,435,455; ENOMEM: no memory for this many messages.
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
 * or receives a message into p.
 *
 * Fail with ESHUTDOWN: the tube was closed, and, for a receive, is empty; EINVAL: t or p is NULL.
 *
 * Called from anywhere. May switch. Cancellable.
 */
int umcg_tube_send(Tube *t, const void *p);
int umcg_tube_send_until(Tube *t, const void *p, uint64_t deadline_ns);
int umcg_tube_recv(Tube *t, void *p);
int umcg_tube_recv_until(Tube *t, void *p, uint64_t deadline_ns);

/*
 * umcg_tube_try_send, umcg_tube_try_recv - the same without waiting. A send needs room or a waiting
 * receiver; a receive needs a message or a waiting sender.
 *
 * Fail with EAGAIN: the call would have to wait; and as umcg_tube_send does.
 *
 * Called from anywhere. Neither switches.
 */
int umcg_tube_try_send(Tube *t, const void *p);
int umcg_tube_try_recv(Tube *t, void *p);

/*
 * umcg_tube_send_many - sends n messages, which stand one after the other at p, in their order,
 * many of them in one step. Messages of other senders may come between them.
 *
 * Returns how many it has sent. It sends fewer than n only if it was cut short, the deadline passed
 * or the tube was closed after the first. If it has sent none, it fails as umcg_tube_send_until
 * does.
 *
 * Called from anywhere. May switch. Cancellable.
 */
ssize_t umcg_tube_send_many(Tube *t, const void *p, size_t n, uint64_t deadline_ns);

/*
 * umcg_tube_recv_many - receives the messages that are there, up to most. Waits until there is one.
 *
 * Returns how many. Fails as umcg_tube_recv_until does.
 *
 * Called from anywhere. May switch. Cancellable.
 */
ssize_t umcg_tube_recv_many(Tube *t, void *p, size_t most, uint64_t deadline_ns);

/*
 * umcg_tube_try_send_many, umcg_tube_try_recv_many - sends or receives as many of n messages as it
 * can without waiting.
 *
 * Return how many. If there is not one, they fail as umcg_tube_try_send does, unless n is 0.
 *
 * Called from anywhere. Neither switches.
 */
ssize_t umcg_tube_try_send_many(Tube *t, const void *p, size_t n);
ssize_t umcg_tube_try_recv_many(Tube *t, void *p, size_t n);

/*
 * umcg_tube_reserve, umcg_tube_reserve_until, umcg_tube_try_reserve - takes room for a message, and
 * returns the address to write it to. A message of more than 1024 bytes is written where it will
 * lie, and so is not copied. Others cannot have that room until umcg_tube_commit or
 * umcg_tube_unreserve: call one of these, once, for each address. The message gets its place in the
 * order when it is committed.
 *
 * Fail with NULL, and as umcg_tube_send, umcg_tube_send_until, umcg_tube_try_send; with EINVAL: the
 * tube is NULL, or has a capacity of 0; ENOMEM: no memory for a message.
 *
 * Called from anywhere. May switch, except for umcg_tube_try_reserve, and are cancellable then.
 */
void *umcg_tube_reserve(Tube *t);
void *umcg_tube_reserve_until(Tube *t, uint64_t deadline_ns);
void *umcg_tube_try_reserve(Tube *t);

/*
 * umcg_tube_commit, umcg_tube_unreserve - sends the message at p, which umcg_tube_reserve has
 * returned; sends nothing, and gives the room back. p must not be used afterwards, even if the call
 * fails with ESHUTDOWN: the tube was closed meanwhile. Fail with EINVAL: the tube is NULL, or p is
 * not such an address or was already committed or given back; then nothing has changed.
 *
 * Called from anywhere. Neither switches.
 */
int umcg_tube_commit(Tube *t, void *p);
int umcg_tube_unreserve(Tube *t, void *p);

/*
 * umcg_tube_recv_ref, umcg_tube_recv_ref_until, umcg_tube_try_recv_ref - receives a message where
 * it lies, and returns its address. A message of more than 1024 bytes is not copied, unless the
 * tube has a capacity of 0. The message may be changed there. Its room becomes free by
 * umcg_tube_recv_done.
 *
 * Fail with NULL, and as umcg_tube_recv, umcg_tube_recv_until, umcg_tube_try_recv; with ENOMEM: no
 * memory for a message.
 *
 * Called from anywhere. May switch, except for umcg_tube_try_recv_ref, and are cancellable then.
 */
void *umcg_tube_recv_ref(Tube *t);
void *umcg_tube_recv_ref_until(Tube *t, uint64_t deadline_ns);
void *umcg_tube_try_recv_ref(Tube *t);

/*
 * umcg_tube_recv_done - ends the reading of the message at p, which umcg_tube_recv_ref has
 * returned. p must not be used afterwards. Fails with EINVAL: as umcg_tube_commit.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_tube_recv_done(Tube *t, void *p);

/*
 * umcg_tube_close - ends sending: present and later sends fail with ESHUTDOWN. Messages in the tube
 * can still be received. Once it is empty, present and later receives fail with ESHUTDOWN too.
 * Fails with EINVAL: t is NULL.
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
 * Fails with EAGAIN: all operations are ones that do not wait, and none can be done; ESHUTDOWN: the
 * tube that was chosen was closed; EINVAL: the array is NULL or empty, an op is not known, or a t
 * or an m is NULL.
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
