/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Tubes whose callers are asked to end, and tubes that the receiver of the last message frees. */
#include "tube.h"

/* ---- Being asked to end ---- */

struct call {
    Tube *tube, *never;
    int which, begun, done;
};

enum { PLAIN, UNTIL, MANY_AT_ONCE, TALT, SELECT, CALLS };

static int sends_one(struct call *call, int number)
{
    Talt alts[2] = {{call->never, &number, TALT_SEND}, {call->tube, &number, TALT_SEND}};
    umcg_op_t ops[2] = {UMCG_SEND(call->never, &number), UMCG_SEND(call->tube, &number)};

    switch (call->which) {
    case PLAIN: return umcg_tube_send(call->tube, &number);
    case UNTIL: return umcg_tube_send_until(call->tube, &number, in_ms(60000));
    case MANY_AT_ONCE: return (int)umcg_tube_send_many(call->tube, &number, 1, UMCG_NO_TIMEOUT);
    case TALT: return talt(alts, 2);
    default: return umcg_select(ops, 2, 0, UMCG_NO_TIMEOUT);
    }
}

static int receives_one(struct call *call, int *number)
{
    Talt alts[2] = {{call->never, number, TALT_RECEIVE}, {call->tube, number, TALT_RECEIVE}};
    umcg_op_t ops[2] = {UMCG_RECV(call->never, number), UMCG_RECV(call->tube, number)};

    switch (call->which) {
    case PLAIN: return umcg_tube_recv(call->tube, number);
    case UNTIL: return umcg_tube_recv_until(call->tube, number, in_ms(60000));
    case MANY_AT_ONCE: return (int)umcg_tube_recv_many(call->tube, number, 1, UMCG_NO_TIMEOUT);
    case TALT: return talt(alts, 2);
    default: return umcg_select(ops, 2, 0, UMCG_NO_TIMEOUT);
    }
}

/* Send, and receive, 0, 1, 2... until they are cut short. */
static void *sends_on(void *arg)
{
    struct call *call = (struct call *)arg;

    add(&call->begun);
    while (check_set_errno(0), sends_one(call, call->done) >= 0)
        call->done++;
    CHECK("cut short", check_errno() == ECANCELED && umcg_cancelled() == 1);
    return arg;
}

static void *receives_on(void *arg)
{
    struct call *call = (struct call *)arg;
    int number = -1;

    add(&call->begun);
    while (check_set_errno(0), receives_one(call, &number) >= 0) {
        CHECK("in order", number == call->done);
        call->done++;
    }
    CHECK("cut short", check_errno() == ECANCELED && umcg_cancelled() == 1 &&
                           (call->done == 0 || number == call->done - 1));
    return arg;
}

static void *aborted(void *arg)
{
    for (int round = 0; round < 24 * CALLS; round++) {
        size_t room = round / CALLS % 3;
        Tube *t = newtube(sizeof(int), room), *full = newtube(sizeof(int), 1),
             *empty = newtube(sizeof(int), 1);
        struct call sender = {t, full, round % CALLS, 0, 0},
                    receiver = {t, empty, round % CALLS, 0, 0};
        umcg_worker_t *one, *other;
        int number = 0, left = 0;

        tsend(full, &number);
        one = spawn(sends_on, &sender);
        other = spawn(receives_on, &receiver);
        if (round % 4)
            await(round % 4 > 1 ? &sender.begun : &receiver.begun, 1);
        if (round % 4 == 2)
            umcg_sleep_ns(100000);
        CHECK("abort", umcg_abort(round % 2 ? one : other) == 0);
        joined(round % 2 ? one : other);
        CHECK("abort", umcg_abort(round % 2 ? other : one) == 0);
        joined(round % 2 ? other : one);
        while (nbtrecv(t, &number) == 0)
            CHECK("in order", number == receiver.done + left++);
        CHECK("none is lost, and none doubled", sender.done == receiver.done + left);
        CHECK("nobody stands there",
              nbtsend(t, &number) == (room ? 0 : -1) && (!room || umcg_tube_length(t) == 1));
        CHECK("nor there", nbtrecv(full, &number) == 0 && nbtrecv(full, &number) == -1 &&
                               umcg_tube_length(empty) == 0);
        freetube(t);
        freetube(full);
        freetube(empty);
    }
    return arg;
}

/* An aborted worker does what need not wait. tsend and trecv wait on, and so does a worker in a
 * shield. */
static void *waits_on(void *arg)
{
    struct call *call = (struct call *)arg;
    Tube *own = newtube(sizeof(int), 1);
    int number = -1;

    add(&call->begun);
    trecv(call->tube, &number);
    CHECK("it came", number == 7 && umcg_cancelled() == 1);
    tsend(own, &number);
    CHECK("what is there", umcg_tube_recv(own, &number) == 0 && umcg_tube_send(own, &number) == 0);
    FAILS("no more", ECANCELED, umcg_tube_send(own, &number));
    CHECK("shield", umcg_shield_begin() == 0);
    FAILS("in time", ETIMEDOUT, umcg_tube_send_until(own, &number, in_ms(1)));
    CHECK("waits on",
          umcg_tube_recv(call->tube, &number) == 0 && number == 8 && umcg_shield_end() == 0);
    freetube(own);
    return arg;
}

static void *shields(void *arg)
{
    struct call call = {newtube(sizeof(int), 0), NULL, 0, 0, 0};
    umcg_worker_t *worker = spawn(waits_on, &call);

    await(&call.begun, 1);
    CHECK("abort", umcg_abort(worker) == 0);
    umcg_sleep_ns(500000);
    for (int number = 7; number < 9; number++)
        tsend(call.tube, &number);
    joined(worker);
    freetube(call.tube);
    return arg;
}

/* A worker that is asked to end when a part was sent learns how much, and is asked all the same. */
static void *sends_a_part(void *arg)
{
    struct call *call = (struct call *)arg;
    int numbers[5] = {0, 1, 2, 3, 4};

    add(&call->begun);
    CHECK("two were sent", umcg_tube_send_many(call->tube, numbers, 5, UMCG_NO_TIMEOUT) == 2);
    CHECK("to end all the same", umcg_cancelled() == 1);
    FAILS("none of the rest", ECANCELED,
          umcg_tube_send_many(call->tube, numbers + 2, 3, UMCG_NO_TIMEOUT));
    return arg;
}

static void *parts(void *arg)
{
    for (int round = 0; round < 20; round++) {
        struct call call = {newtube(sizeof(int), 2), NULL, 0, 0, 0};
        umcg_worker_t *worker = spawn(sends_a_part, &call);
        int number = -1;

        await(&call.begun, 1);
        while (round % 2 && umcg_tube_length(call.tube) != 2)
            umcg_yield();
        CHECK("abort", umcg_abort(worker) == 0);
        joined(worker);
        for (int at = 0; at < 2; at++)
            CHECK("what was sent", umcg_tube_recv(call.tube, &number) == 0 && number == at);
        FAILS("and no more", EAGAIN, nbtrecv(call.tube, &number));
        freetube(call.tube);
    }
    return arg;
}

/* ---- Freed by the receiver of the last message ---- */

struct request {
    Tube *reply;
    int number;
};

static Tube *requests;

static void *answers(void *arg)
{
    struct message message;
    struct request request;

    while (umcg_tube_recv(requests, &request) == 0) {
        memset(&message, 0, sizeof message);
        message.number = request.number;
        if (request.number % 3 == 0)
            tsend(request.reply, &message);
        else if (request.number % 3 == 1)
            CHECK("sent", umcg_tube_send_until(request.reply, &message, in_ms(60000)) == 0);
        else
            CHECK("sent", umcg_tube_send_many(request.reply, &message, 1, UMCG_NO_TIMEOUT) == 1);
    }
    return arg;
}

static void *asks(void *arg)
{
    int rounds = check_count("UMCG_TEST_UTHS", 1000);
    struct message message;

    for (int i = 0; i < rounds; i++) {
        struct request request = {newtube(i % 4 < 2 ? 8 : sizeof message, (size_t)(i % 2)), i};
        MUST(request.reply != NULL);
        tsend(requests, &request);
        trecv(request.reply, &message);
        freetube(request.reply);
        CHECK("the answer", message.number == i);
    }
    return arg;
}

static void *replies(void *arg)
{
    umcg_worker_t *workers[4];
    pthread_t threads[4];

    MUST((requests = newtube(sizeof(struct request), 2)) != NULL);
    for (int i = 0; i < 4; i++) {
        workers[i] = spawn(i % 2 ? asks : answers, NULL);
        MUST(pthread_create(&threads[i], NULL, i % 2 ? asks : answers, NULL) == 0);
    }
    for (int i = 1; i < 4; i += 2) {
        joined(workers[i]);
        thread_joined(threads[i]);
    }
    MUST(umcg_tube_close(requests) == 0);
    for (int i = 0; i < 4; i += 2) {
        joined(workers[i]);
        thread_joined(threads[i]);
    }
    freetube(requests);
    return arg;
}

int main(void)
{
    check_start(60);
    in_runtime(aborted, NULL);
    in_runtime(shields, NULL);
    in_runtime(parts, NULL);
    in_runtime(replies, NULL);
    return check_done();
}
