/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Tubes, between workers and plain threads: each message comes out once, whole, and in order. */
#include "tube.h"

/* Sizes that are copied in different ways, and rooms. */
static const size_t sizes[] = {1, 4, 8, 16, 24, 1024, 1025, LARGEST};

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

int main(void)
{
    check_start(60);
    if (!check_count("UMCG_TEST_SLOW", 0)) { /* Valgrind tells of the aborts at length */
        check_aborts("no tube", send_nowhere, "tsend");
        check_aborts("no message", receive_to_nowhere, "trecv");
        check_aborts("a closed one", send_closed, "closed");
    }
    each_call(NULL); /* as a plain thread */
    in_runtime(each_call, NULL);
    orders(NULL);
    in_runtime(sums, NULL);
    return check_done();
}
