/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Tubes, between workers and plain threads: each message comes out once, whole, and in order. */
#include "runtime.h"
#include "umcg/select.h"

#define MANY 12
#define LARGEST 1200

/* Sizes that are copied in different ways, and rooms. */
static const size_t sizes[] = {1, 4, 8, 16, 24, 1024, 1025, LARGEST};
static const size_t rooms[] = {0, 1, 3};
#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

/* A message of `size` bytes from `number`, and whether it is that. */
static void fill(unsigned char *message, size_t size, int number)
{
    for (size_t i = 0; i < size; i++)
        message[i] = (unsigned char)((size_t)number + 7 * i);
}

static int is_filled(const unsigned char *message, size_t size, int number)
{
    for (size_t i = 0; i < size; i++)
        if (message[i] != (unsigned char)((size_t)number + 7 * i))
            return 0;
    return 1;
}

/* ---- Each call ---- */

static void sizes_and_rooms(void)
{
    unsigned char many[5 * LARGEST + 1], *message = many + 1; /* at no particular address */

    for (int i = 0; i < COUNT(sizes); i++) {
        size_t size = sizes[i];
        Tube *t = newtube(size, 3);
        MUST(t != NULL);
        CHECK("empty", umcg_tube_length(t) == 0 && umcg_tube_capacity(t) == 3);
        FAILS("nothing there", EAGAIN, nbtrecv(t, message));
        for (int round = 0; round < 5; round++) {
            for (int k = 0; k < 3; k++) {
                fill(message, size, 3 * round + k);
                if (k == 0)
                    tsend(t, message);
                else if (k == 1)
                    CHECK("try", nbtsend(t, message) == 0);
                else
                    CHECK("send", umcg_tube_send_until(t, message, UMCG_POLL) == 0);
            }
            FAILS("full", EAGAIN, nbtsend(t, message));
            FAILS("full for a while", ETIMEDOUT,
                  umcg_tube_send_until(t, message, in_ms(round == 0)));
            CHECK("three", umcg_tube_length(t) == 3);
            for (int k = 0; k < 3; k++) {
                memset(message, 0, size);
                if (k == 0)
                    trecv(t, message);
                else if (k == 1)
                    CHECK("try", umcg_tube_try_recv(t, message) == 0);
                else
                    CHECK("receive", umcg_tube_recv(t, message) == 0);
                CHECK("what was sent", is_filled(message, size, 3 * round + k));
            }
            FAILS("empty for a while", ETIMEDOUT,
                  umcg_tube_recv_until(t, message, in_ms(round == 0)));
        }
        for (int k = 0; k < 5; k++)
            fill(message + (size_t)k * size, size, k);
        CHECK("many at once", umcg_tube_try_send_many(t, message, 2) == 2);
        CHECK("as many as there is room", umcg_tube_try_send_many(t, message + 2 * size, 3) == 1);
        FAILS("no room", EAGAIN, umcg_tube_try_send_many(t, message, 1));
        FAILS("no room in time", ETIMEDOUT, umcg_tube_send_many(t, message, 2, in_ms(1)));
        memset(message, 0, 5 * size);
        CHECK("two", umcg_tube_try_recv_many(t, message, 2) == 2);
        CHECK("what was sent", is_filled(message, size, 0) && is_filled(message + size, size, 1));
        CHECK("the rest", umcg_tube_recv_many(t, message, 5, UMCG_NO_TIMEOUT) == 1 &&
                              is_filled(message, size, 2));
        FAILS("none", EAGAIN, umcg_tube_try_recv_many(t, message, 5));
        FAILS("none in time", ETIMEDOUT, umcg_tube_recv_many(t, message, 5, in_ms(1)));
        CHECK("none of none", umcg_tube_recv_many(t, message, 0, UMCG_NO_TIMEOUT) == 0);
        CHECK("to send, either", umcg_tube_try_send_many(t, message, 0) == 0);
        CHECK("as many as there was room", umcg_tube_send_many(t, message, 5, in_ms(1)) == 3);
        freetube(t); /* with three in it */
    }
}

static void closed_and_wrong(void)
{
    uint64_t message = 1;
    Tube *t = newtube(sizeof message, 2), *hand = newtube(sizeof message, 0),
         *nothing = newtube(0, 1);
    Talt alts[2] = {{t, &message, TALT_SEND}, {t, &message, 0}};

    MUST(t && hand && nothing);
    FAILS("nobody receives", EAGAIN, nbtsend(hand, &message));
    FAILS("nor sends", EAGAIN, nbtrecv(hand, &message));
    FAILS("nor in time", ETIMEDOUT, umcg_tube_send_until(hand, &message, in_ms(1)));
    tsend(nothing, NULL);
    FAILS("one of nothing", EAGAIN, nbtsend(nothing, NULL));
    CHECK("it is there", umcg_tube_recv(nothing, NULL) == 0 && umcg_tube_length(nothing) == 0);

    CHECK("close",
          umcg_tube_send(t, &message) == 0 && umcg_tube_close(t) == 0 && umcg_tube_close(t) == 0);
    FAILS("send", ESHUTDOWN, umcg_tube_send(t, &message));
    FAILS("try", ESHUTDOWN, nbtsend(t, &message));
    FAILS("many", ESHUTDOWN, umcg_tube_send_many(t, &message, 1, UMCG_NO_TIMEOUT));
    FAILS("talt", ESHUTDOWN, talt(alts, 1));
    CHECK("what is there comes out", umcg_tube_recv(t, &message) == 0);
    FAILS("and no more", ESHUTDOWN, umcg_tube_recv(t, &message));
    FAILS("try", ESHUTDOWN, nbtrecv(t, &message));
    FAILS("many", ESHUTDOWN, umcg_tube_recv_many(t, &message, 1, UMCG_NO_TIMEOUT));

    FAILS("no tube", EINVAL, umcg_tube_send(NULL, &message));
    FAILS("no tube", EINVAL, umcg_tube_try_recv(NULL, &message));
    FAILS("no tube", EINVAL, umcg_tube_recv_many(NULL, &message, 1, UMCG_POLL));
    FAILS("no tube", EINVAL, umcg_tube_close(NULL));
    FAILS("no tube", EINVAL, umcg_tube_length(NULL));
    FAILS("no tube", EINVAL, umcg_tube_capacity(NULL));
    FAILS("no message", EINVAL, umcg_tube_recv(t, NULL));
    FAILS("no message", EINVAL, nbtsend(t, NULL));
    FAILS("no operation", EINVAL, talt(alts, 2));
    alts[1].op = TALT_NBSEND;
    alts[1].t = NULL;
    FAILS("no tube", EINVAL, talt(alts, 2));
    FAILS("no array", EINVAL, talt(NULL, 1));
    FAILS("an empty one", EINVAL, talt(alts, 0));
    FAILS("less than that", EINVAL, umcg_tube_any(alts, -1, UMCG_POLL));
    check_set_errno(0);
    CHECK("too much room", newtube(1, 1ul << 28) == NULL && check_errno() == EINVAL);
    check_set_errno(0);
    CHECK("no memory", umcg_tube_create(SIZE_MAX / 2, 3) == NULL && check_errno() == ENOMEM);
    freetube(t);
    freetube(hand);
    freetube(nothing);
    freetube(NULL);
}

static void *each_call(void *arg)
{
    sizes_and_rooms();
    closed_and_wrong();
    return arg;
}

static void send_nowhere(void) { tsend(NULL, &check_failures); }
static void receive_to_nowhere(void) { trecv(newtube(1, 1), NULL); }
static void send_closed(void)
{
    Tube *t = newtube(sizeof check_failures, 1);
    umcg_tube_close(t);
    tsend(t, &check_failures);
}

/* ---- Order: on one server, where a worker that has begun and runs no more stands in a queue ----
 */

struct waiter {
    Tube *tube;
    int number, begun;
    uint64_t deadline;
    int error;
};

static void *sends(void *arg)
{
    struct waiter *waiter = (struct waiter *)arg;
    add(&waiter->begun);
    if (umcg_tube_send_until(waiter->tube, &waiter->number, waiter->deadline) != 0)
        waiter->error = check_errno();
    return arg;
}

static void *receives(void *arg)
{
    struct waiter *waiter = (struct waiter *)arg;
    add(&waiter->begun);
    if (umcg_tube_recv_until(waiter->tube, &waiter->number, waiter->deadline) != 0)
        waiter->error = check_errno();
    return arg;
}

static umcg_worker_t *begun(function *fn, struct waiter *waiter)
{
    umcg_worker_t *worker = spawn(fn, waiter);
    await(&waiter->begun, 1);
    umcg_sleep_ns(1000); /* if it has given way since */
    return worker;
}

static void in_order(size_t room)
{
    Tube *t = newtube(sizeof(int), room);
    struct waiter waiters[5];
    umcg_worker_t *workers[5];
    int number = -1;

    for (size_t i = 0; i < room; i++)
        tsend(t, &number);
    for (int round = 0; round < 2; round++) { /* senders, then receivers */
        for (int i = 0; i < 5; i++) {
            struct waiter waiter = {t, round ? -1 : i, 0, i == 1 ? in_ms(5) : UMCG_NO_TIMEOUT, 0};
            waiters[i] = waiter;
            workers[i] = begun(round ? receives : sends, &waiters[i]);
        }
        joined(workers[1]);
        CHECK("late", waiters[1].error == ETIMEDOUT);
        MUST(umcg_abort(workers[3]) == 0);
        joined(workers[3]);
        CHECK("cut short", waiters[3].error == ECANCELED);
        if (round == 0) {
            FAILS("who comes later", EAGAIN, nbtsend(t, &number));
            for (size_t i = 0; i < room; i++)
                CHECK("what is in it", nbtrecv(t, &number) == 0 && number == -1);
            for (int i = 0; i < 5; i += 2)
                CHECK("who waits longest", nbtrecv(t, &number) == 0 && number == i);
        } else {
            FAILS("who comes later", EAGAIN, nbtrecv(t, &number));
            for (number = 10; number < 13; number++)
                CHECK("somebody waits", nbtsend(t, &number) == 0);
        }
        for (int i = 0; i < 5; i += 2) {
            joined(workers[i]);
            CHECK("done", waiters[i].error == 0 && (round == 0 || waiters[i].number == 10 + i / 2));
        }
        CHECK("nothing is left", umcg_tube_length(t) == 0);
    }
    freetube(t);
}

static void *orders(void *arg)
{
    umcg_rt_options_t own = options();
    umcg_rt_t *rt;

    if (arg == NULL) {
        own.servers = 1;
        rt = umcg_rt_start(&own);
        MUST(rt != NULL);
        joined(spawn_in(rt, orders, &own));
        MUST(umcg_rt_stop(rt, UMCG_NO_TIMEOUT) == 0);
        return NULL;
    }
    for (int i = 0; i < COUNT(rooms); i++)
        in_order(rooms[i]);
    return NULL;
}

/* ---- Sums: workers and threads together ---- */

struct message {
    int sender, number;
    unsigned char filler[LARGEST];
};

static struct {
    Tube *tube;
    size_t size;
    int rounds, next_sender, received[MANY];
} all;

static void begin(size_t size, size_t room, int rounds)
{
    memset(&all, 0, sizeof all);
    all.size = size;
    all.rounds = rounds;
    all.tube = newtube(size, room);
    MUST(all.tube != NULL);
}

static void write_message(struct message *message, int sender, int number)
{
    message->sender = sender;
    message->number = number;
    fill(message->filler, all.size - offsetof(struct message, filler), sender + number);
}

/* That it is whole, and behind those of its sender that this receiver has seen. */
static void see(const struct message *message, int seen[MANY])
{
    MUST(message->sender < MANY);
    CHECK("whole", is_filled(message->filler, all.size - offsetof(struct message, filler),
                             message->sender + message->number));
    CHECK("in order", message->number >= seen[message->sender]);
    seen[message->sender] = message->number + 1;
    add(&all.received[message->sender]);
}

static void *sends_all(void *arg)
{
    int sender = __atomic_fetch_add(&all.next_sender, 1, __ATOMIC_RELAXED), sent = 0;
    struct message message, many[3];
    unsigned char packed[3 * sizeof(struct message)];

    while (sent < all.rounds) {
        if (sender % 3 == 0) {
            size_t count = all.rounds - sent < 3 ? (size_t)(all.rounds - sent) : 3;
            ssize_t some;
            for (int k = 0; k < 3; k++) {
                write_message(&many[k], sender, sent + k);
                memcpy(packed + (size_t)k * all.size, &many[k], all.size);
            }
            some =
                umcg_tube_send_many(all.tube, packed, count, sent % 2 ? UMCG_NO_TIMEOUT : in_ms(1));
            CHECK("in time", some > 0 || check_errno() == ETIMEDOUT);
            sent += some > 0 ? (int)some : 0;
            continue;
        }
        write_message(&message, sender, sent);
        if (sender % 3 == 1)
            tsend(all.tube, &message);
        else
            while (umcg_tube_send_until(all.tube, &message, in_ms(sent % 2)) != 0)
                CHECK("late", check_errno() == ETIMEDOUT);
        sent++;
    }
    return arg;
}

static void *receives_all(void *arg)
{
    static int next;
    int kind = __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED) % 3, seen[MANY] = {0};
    unsigned char packed[4 * sizeof(struct message)];
    struct message message;

    for (;;) {
        ssize_t some = kind == 0   ? umcg_tube_recv_many(all.tube, packed, 4, UMCG_NO_TIMEOUT)
                       : kind == 1 ? umcg_tube_recv(all.tube, packed)
                                   : umcg_tube_recv_until(all.tube, packed, in_ms(1));
        if (some < 0 && check_errno() == ETIMEDOUT)
            continue;
        if (some < 0)
            break;
        for (ssize_t k = 0; k < (kind ? 1 : some); k++) {
            memcpy(&message, packed + (size_t)k * all.size, all.size);
            see(&message, seen);
        }
    }
    CHECK("closed", check_errno() == ESHUTDOWN);
    return arg;
}

static void together(function *giver, function *taker)
{
    umcg_worker_t *givers[3], *takers[3];
    pthread_t giver_threads[3], taker_threads[2];

    for (int i = 0; i < 3; i++) {
        givers[i] = spawn(giver, NULL);
        takers[i] = spawn(taker, NULL);
        MUST(pthread_create(&giver_threads[i], NULL, giver, NULL) == 0);
        if (i < 2)
            MUST(pthread_create(&taker_threads[i], NULL, taker, NULL) == 0);
    }
    for (int i = 0; i < 3; i++) {
        joined(givers[i]);
        thread_joined(giver_threads[i]);
    }
    MUST(umcg_tube_close(all.tube) == 0);
    for (int i = 0; i < 3; i++) {
        joined(takers[i]);
        if (i < 2)
            thread_joined(taker_threads[i]);
    }
    freetube(all.tube);
}

static void *sums(void *arg)
{
    static const size_t some[] = {offsetof(struct message, filler), 40, sizeof(struct message)};

    for (int i = 0; i < 3 * COUNT(rooms); i++) {
        begin(some[i / COUNT(rooms)], rooms[i % COUNT(rooms)],
              check_count("UMCG_TEST_UTHS", 3000) / 15 * 3);
        together(sends_all, receives_all);
        for (int sender = 0; sender < 6; sender++)
            CHECK("each message once", all.received[sender] == all.rounds);
    }
    return arg;
}

/* ---- talt, and umcg_select ---- */

static void *talt_alone(void *arg)
{
    Tube *full = newtube(sizeof(int), 1), *empty = newtube(sizeof(int), 50),
         *hand = newtube(sizeof(int), 0);
    int numbers[MANY];
    Talt alts[MANY];

    for (int i = 0; i < MANY; i++) {
        Talt alt = {i % 2 ? full : empty, &numbers[i], i % 2 ? TALT_SEND : TALT_RECEIVE};
        numbers[i] = i;
        alts[i] = alt;
    }
    tsend(full, &numbers[0]);
    FAILS("none of few", ETIMEDOUT, umcg_tube_any(alts, 3, in_ms(1)));
    FAILS("none of many", ETIMEDOUT, umcg_tube_any(alts, MANY, UMCG_POLL));
    alts[0].op = TALT_NBRECEIVE;
    alts[1].op = TALT_NBSEND;
    FAILS("without waiting", EAGAIN, talt(alts, 2));
    FAILS("some waiting", ETIMEDOUT, umcg_tube_any(alts, 3, in_ms(1)));
    trecv(full, &numbers[0]);
    for (int i = 0; i < 8; i++) {
        tsend(empty, &numbers[5]); /* so 2 can be done, which would wait */
        CHECK("those that do not wait come first",
              talt(alts + 1, 3) == 0 && umcg_tube_length(full) == 1);
        CHECK("what was sent", nbtrecv(full, &numbers[0]) == 0 && numbers[0] == 1);
    }
    CHECK("then the others",
          talt(alts + 2, 1) == 0 && numbers[2] == 5 && umcg_tube_length(empty) == 7);
    alts[8].t = alts[9].t = hand;
    alts[8].op = TALT_SEND;
    alts[9].op = TALT_RECEIVE;
    FAILS("not to itself", ETIMEDOUT, umcg_tube_any(alts + 8, 2, in_ms(1)));
    freetube(full);
    freetube(empty);
    freetube(hand);
    return arg;
}

static void *select_alone(void *arg)
{
    Tube *full = newtube(sizeof(int), 1), *empty = newtube(sizeof(int), 250);
    int sent = 1, received = 0, counts[2] = {0, 0};
    umcg_op_t ops[3] = {UMCG_SEND(full, &sent), UMCG_RECV(empty, &received), UMCG_NEVER};
    Sem s = UMCG_SEM_INIT(1);

    for (int i = 0; i < 200; i++) {
        int index;
        tsend(empty, &i);
        index = umcg_select(ops, 2, 0, UMCG_NO_TIMEOUT);
        MUST(index == 0 || index == 1);
        CHECK("done", ops[index].error == 0 &&
                          (index == 0 ? nbtrecv(full, &received) == 0 : received == counts[1]));
        counts[index]++;
    }
    CHECK("none is preferred", counts[0] > 50 && counts[1] > 50);
    CHECK("each was done once",
          umcg_tube_length(empty) == counts[0] && umcg_tube_length(full) == 0);
    CHECK("the first is",
          umcg_select(ops, 2, UMCG_SELECT_BIASED, UMCG_POLL) == 0 && umcg_tube_length(full) == 1);
    CHECK("then the next", umcg_select(ops, 3, UMCG_SELECT_BIASED, UMCG_POLL) == 1);
    MUST(umcg_tube_close(empty) == 0);
    while (nbtrecv(empty, &received) == 0)
        ;
    ops[2].kind = UMCG_OP_ACQUIRE;
    ops[2].object = &s;
    CHECK("closed",
          umcg_select(ops, 3, UMCG_SELECT_BIASED, UMCG_POLL) == 1 && ops[1].error == ESHUTDOWN);
    CHECK("beside others",
          umcg_select(ops + 2, 1, 0, UMCG_POLL) == 0 && umcg_sem_available(&s) == 0);
    ops[0].value = 0;
    FAILS("no message", EINVAL, umcg_select(ops, 1, 0, UMCG_POLL));
    ops[0].object = NULL;
    FAILS("no tube", EINVAL, umcg_select(ops, 1, 0, UMCG_POLL));
    freetube(full);
    freetube(empty);
    return arg;
}

static struct {
    Tube *tubes[MANY];
    int count, rounds, sent[MANY], received[MANY];
} alt;

/* Sends through one of them, or receives from one: by talt, by umcg_select or by umcg_tube_any. */
static int one_of(int kind, int start, int *number, int sends)
{
    int size = alt.count + 2, index; /* two are there twice */
    Talt alts[MANY + 2];
    umcg_op_t ops[MANY + 2];

    for (int k = 0; k < size; k++) {
        Talt a = {alt.tubes[(start + k) % alt.count], number, sends ? TALT_SEND : TALT_RECEIVE};
        umcg_op_t send = UMCG_SEND(a.t, number), receive = UMCG_RECV(a.t, number);
        alts[k] = a;
        ops[k] = sends ? send : receive;
    }
    if (kind % 3 == 0)
        index = talt(alts, size);
    else if (kind % 3 == 1)
        index = umcg_select(ops, size, 0, UMCG_NO_TIMEOUT);
    else
        index = umcg_tube_any(alts, size, in_ms(kind % 2));
    return index < 0 ? -1 : (start + index) % alt.count;
}

static void *alternates(void *arg)
{
    static int next;
    int me = __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED), sends = me % 2;

    for (int done = 0, i = me; done < alt.rounds; i++) {
        int number = sends ? i : -1, index = one_of(i, i, &number, sends);
        if (index < 0) {
            CHECK("late", check_errno() == ETIMEDOUT);
            continue;
        }
        CHECK("a message", number >= 0);
        add(sends ? &alt.sent[index] : &alt.received[index]);
        done++;
    }
    return arg;
}

static void *talt_sums(void *arg)
{
    umcg_worker_t *workers[4];
    pthread_t threads[4];

    for (int i = 0; i < 2 * COUNT(rooms); i++) {
        memset(&alt, 0, sizeof alt);
        alt.count = i % 2 ? MANY : 5; /* more or fewer than stand on the caller's stack */
        alt.rounds = check_count("UMCG_TEST_UTHS", 1500) / 5;
        for (int k = 0; k < alt.count; k++)
            MUST((alt.tubes[k] = newtube(sizeof(int), rooms[i / 2])) != NULL);
        for (int k = 0; k < 4; k++) {
            workers[k] = spawn(alternates, NULL);
            MUST(pthread_create(&threads[k], NULL, alternates, NULL) == 0);
        }
        for (int k = 0; k < 4; k++) {
            joined(workers[k]);
            thread_joined(threads[k]);
        }
        for (int k = 0; k < alt.count; k++) {
            CHECK("what was sent was received",
                  alt.sent[k] == alt.received[k] && umcg_tube_length(alt.tubes[k]) == 0);
            freetube(alt.tubes[k]);
        }
    }
    return arg;
}

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
    if (!check_count("UMCG_TEST_SLOW", 0)) { /* Valgrind tells of the aborts at length */
        check_aborts("no tube", send_nowhere, "tsend");
        check_aborts("no message", receive_to_nowhere, "trecv");
        check_aborts("a closed one", send_closed, "closed");
    }
    each_call(NULL); /* as a plain thread */
    talt_alone(NULL);
    select_alone(NULL);
    in_runtime(each_call, NULL);
    in_runtime(talt_alone, NULL);
    in_runtime(select_alone, NULL);
    orders(NULL);
    in_runtime(sums, NULL);
    in_runtime(talt_sums, NULL);
    in_runtime(aborted, NULL);
    in_runtime(shields, NULL);
    in_runtime(replies, NULL);
    return check_done();
}
