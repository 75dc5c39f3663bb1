/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Messages of tubes in place: written where they will lie, read where they lie; small ones and
 * large ones. */
#include "runtime.h"
#include "umcg/tube.h"

/* Sizes that are copied under the lock of the tube, and sizes that are not. */
static const size_t sizes[] = {0, 1, 8, 1024, 1025, 4096};
#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

static void fill(void *place, size_t size, int number)
{
    memset(place, number & 255, size);
}

static int is_filled(const void *place, size_t size, int number)
{
    for (size_t i = 0; i < size; i++)
        if (((const unsigned char *)place)[i] != (number & 255))
            return 0;
    return 1;
}

#define NULL_WITH(what, code, call) \
    CHECK(what, (check_set_errno(0), (call) == NULL) && check_errno() == (code))

static void each_size(size_t size)
{
    Tube *t = newtube(size, 2), *hand = newtube(size, 0);
    void *one, *other;
    unsigned char message[4096];

    MUST(t != NULL && hand != NULL);
    one = umcg_tube_reserve(t);
    other = umcg_tube_reserve_until(t, in_ms(60000));
    MUST(one != NULL && other != NULL);
    CHECK("two places", one != other && umcg_tube_length(t) == 0);
    NULL_WITH("no more room", EAGAIN, umcg_tube_try_reserve(t));
    NULL_WITH("nor in time", ETIMEDOUT, umcg_tube_reserve_until(t, in_ms(1)));
    FAILS("nor to send", EAGAIN, umcg_tube_try_send(t, message));
    NULL_WITH("nothing is there", EAGAIN, umcg_tube_try_recv_ref(t));
    NULL_WITH("nor in time", ETIMEDOUT, umcg_tube_recv_ref_until(t, in_ms(1)));
    fill(one, size, 1);
    fill(other, size, 2);
    CHECK("in the order in which they are sent",
          umcg_tube_commit(t, other) == 0 && umcg_tube_commit(t, one) == 0);
    CHECK("two", umcg_tube_length(t) == 2);
    one = umcg_tube_recv_ref(t);
    MUST(one != NULL && is_filled(one, size, 2));
    if (size > 1024)
        FAILS("its place is not free", EAGAIN, umcg_tube_try_send(t, message));
    CHECK("done", umcg_tube_recv_done(t, one) == 0);
    fill(message, size, 3);
    CHECK("now it is", umcg_tube_try_send(t, message) == 0);
    CHECK("by a copy", umcg_tube_recv(t, message) == 0 && is_filled(message, size, 1));
    other = umcg_tube_try_recv_ref(t);
    MUST(other != NULL && is_filled(other, size, 3) && umcg_tube_recv_done(t, other) == 0);

    one = umcg_tube_try_reserve(t);
    MUST(one != NULL && umcg_tube_unreserve(t, one) == 0);
    for (int i = 0; i < 2; i++)
        CHECK("the room is there again", umcg_tube_try_send(t, message) == 0);
    for (int i = 0; i < 2; i++)
        MUST(umcg_tube_recv(t, message) == 0);

    FAILS("no place", EINVAL, umcg_tube_commit(t, NULL));
    FAILS("no place", EINVAL, umcg_tube_unreserve(t, NULL));
    FAILS("no place", EINVAL, umcg_tube_recv_done(t, NULL));
    one = umcg_tube_reserve(t);
    MUST(one != NULL);
    fill(one, size, 4);
    MUST(umcg_tube_commit(t, one) == 0 && (one = umcg_tube_reserve(t)) != NULL &&
         umcg_tube_close(t) == 0);
    FAILS("closed meanwhile", ESHUTDOWN, umcg_tube_commit(t, one));
    NULL_WITH("closed", ESHUTDOWN, umcg_tube_reserve(t));
    NULL_WITH("closed", ESHUTDOWN, umcg_tube_try_reserve(t));
    other = umcg_tube_recv_ref(t);
    MUST(other != NULL && is_filled(other, size, 4) && umcg_tube_recv_done(t, other) == 0);
    NULL_WITH("closed, and empty", ESHUTDOWN, umcg_tube_recv_ref(t));
    NULL_WITH("closed, and empty", ESHUTDOWN, umcg_tube_try_recv_ref(t));
    NULL_WITH("from hand to hand", EINVAL, umcg_tube_reserve(hand));
    NULL_WITH("nobody sends", EAGAIN, umcg_tube_try_recv_ref(hand));
    freetube(t);
    freetube(hand);
}

/* A place that was used up is not valid any more. A call that names it once too often changes
 * nothing. */
static void twice(size_t size)
{
    Tube *t = newtube(size, 2), *other = newtube(size, 2);
    void *place;
    unsigned char message[4096];

    MUST(t != NULL && other != NULL);
    for (int round = 0; round < 3; round++) {
        MUST((place = umcg_tube_reserve(t)) != NULL);
        fill(place, size, 7);
        FAILS("not where one begins", EINVAL, umcg_tube_commit(t, (char *)place + 1));
        FAILS("nor in the tube", EINVAL, umcg_tube_commit(t, message));
        FAILS("nor in the tube", EINVAL, umcg_tube_unreserve(t, message));
        FAILS("nor in the tube", EINVAL, umcg_tube_recv_done(t, message));
        FAILS("not one to be read", EINVAL, umcg_tube_recv_done(t, place));
        FAILS("a place of another tube", EINVAL, umcg_tube_commit(other, place));
        CHECK("sent", umcg_tube_commit(t, place) == 0);
        FAILS("sent twice", EINVAL, umcg_tube_commit(t, place));
        FAILS("sent, and given back", EINVAL, umcg_tube_unreserve(t, place));
        CHECK("one message", umcg_tube_length(t) == 1 && umcg_tube_length(other) == 0);
        MUST((place = umcg_tube_recv_ref(t)) != NULL);
        CHECK("it is that one", is_filled(place, size, 7));
        FAILS("what is read is not sent", EINVAL, umcg_tube_commit(t, place));
        CHECK("read", umcg_tube_recv_done(t, place) == 0);
        FAILS("read twice", EINVAL, umcg_tube_recv_done(t, place));
        MUST((place = umcg_tube_reserve(t)) != NULL);
        CHECK("given back", umcg_tube_unreserve(t, place) == 0);
        FAILS("given back twice", EINVAL, umcg_tube_unreserve(t, place));
        fill(message, size, 8);
        for (int i = 0; i < 2; i++)
            CHECK("there is room for two", umcg_tube_try_send(t, message) == 0);
        FAILS("and for no more", EAGAIN, umcg_tube_try_send(t, message));
        for (int i = 0; i < 2; i++)
            CHECK("both", umcg_tube_try_recv(t, message) == 0 && is_filled(message, size, 8));
    }
    freetube(t);
    freetube(other);
}

static void *sends_one(void *arg)
{
    unsigned char message[1100];
    fill(message, sizeof message, 9);
    tsend((Tube *)arg, message);
    return arg;
}

static void *alone(void *arg)
{
    Tube *hand = newtube(1100, 0);
    umcg_worker_t *worker = spawn(sends_one, hand);
    void *place;

    for (int i = 0; i < COUNT(sizes); i++)
        each_size(sizes[i]), twice(sizes[i]);
    place = umcg_tube_recv_ref(hand);
    CHECK("from hand to hand",
          place != NULL && is_filled(place, 1100, 9) && umcg_tube_recv_done(hand, place) == 0);
    joined(worker);
    freetube(hand);
    NULL_WITH("no tube", EINVAL, umcg_tube_reserve(NULL));
    NULL_WITH("no tube", EINVAL, umcg_tube_recv_ref_until(NULL, UMCG_POLL));
    FAILS("no tube", EINVAL, umcg_tube_commit(NULL, arg));
    return arg;
}

/* ---- Sums ---- */

static struct {
    Tube *tube;
    size_t size;
    int rounds, sum;
} all;

static void *writes(void *arg)
{
    int number;

    for (int i = 1; i <= all.rounds; i++) {
        void *place;
        while ((place = i % 3 ? umcg_tube_reserve(all.tube)
                              : umcg_tube_reserve_until(all.tube, in_ms(1))) == NULL)
            CHECK("late", check_errno() == ETIMEDOUT);
        if (i % 5 == 0) {
            CHECK("nothing", umcg_tube_unreserve(all.tube, place) == 0);
            continue;
        }
        number = i % 100;
        fill(place, all.size, number);
        CHECK("sent", umcg_tube_commit(all.tube, place) == 0);
    }
    return arg;
}

static void *reads(void *arg)
{
    void *place;

    while ((place = umcg_tube_recv_ref(all.tube)) != NULL) {
        int number = *(unsigned char *)place;
        CHECK("whole", is_filled(place, all.size, number));
        __atomic_add_fetch(&all.sum, number, __ATOMIC_RELAXED);
        CHECK("done", umcg_tube_recv_done(all.tube, place) == 0);
    }
    CHECK("closed", check_errno() == ESHUTDOWN);
    return arg;
}

static void *sums(void *arg)
{
    all.rounds = check_count("UMCG_TEST_UTHS", 1000);
    for (int i = 0; i < 6; i++) {
        umcg_worker_t *workers[4];
        pthread_t threads[2];
        int expected = 0;

        all.size = i % 2 ? 1000 : 8;
        all.sum = 0;
        MUST((all.tube = newtube(all.size, (unsigned long)(1 + i))) != NULL);
        for (int k = 1; k <= all.rounds; k++)
            expected += k % 5 == 0 ? 0 : k % 100;
        for (int k = 0; k < 4; k++)
            workers[k] = spawn(k % 2 ? reads : writes, NULL);
        for (int k = 0; k < 2; k++)
            MUST(pthread_create(&threads[k], NULL, k % 2 ? reads : writes, NULL) == 0);
        joined(workers[0]);
        joined(workers[2]);
        thread_joined(threads[0]);
        MUST(umcg_tube_close(all.tube) == 0);
        joined(workers[1]);
        joined(workers[3]);
        thread_joined(threads[1]);
        CHECK("each once", all.sum == 3 * expected && umcg_tube_length(all.tube) == 0);
        freetube(all.tube);
    }
    return arg;
}

/* ---- Being asked to end ---- */

struct call {
    Tube *tube;
    int reads, begun;
};

static void *is_cut_short(void *arg)
{
    struct call *call = (struct call *)arg;
    void *place;

    add(&call->begun);
    place = call->reads ? umcg_tube_recv_ref(call->tube) : umcg_tube_reserve(call->tube);
    CHECK("cut short", place == NULL && check_errno() == ECANCELED);
    return arg;
}

static void *aborted(void *arg)
{
    for (int round = 0; round < 40; round++) {
        size_t size = round % 4 < 2 ? 8 : 1000;
        struct call call = {newtube(size, 1), round % 2, 0};
        void *held = call.reads ? NULL : umcg_tube_reserve(call.tube);
        umcg_worker_t *worker = spawn(is_cut_short, &call);

        if (round % 3)
            await(&call.begun, 1);
        CHECK("abort", umcg_abort(worker) == 0);
        joined(worker);
        if (held != NULL) {
            fill(held, size, 5);
            CHECK("sent", umcg_tube_commit(call.tube, held) == 0);
            held = umcg_tube_try_recv_ref(call.tube);
            CHECK("and there", held != NULL && is_filled(held, size, 5) &&
                                   umcg_tube_recv_done(call.tube, held) == 0);
        }
        held = umcg_tube_try_reserve(call.tube);
        CHECK("nobody holds or wants the room",
              held != NULL && umcg_tube_unreserve(call.tube, held) == 0);
        freetube(call.tube);
    }
    return arg;
}

int main(void)
{
    check_start(60);
    in_runtime(alone, NULL);
    in_runtime(sums, NULL);
    in_runtime(aborted, NULL);
    for (int i = 0; i < COUNT(sizes); i++) /* as a plain thread */
        each_size(sizes[i]), twice(sizes[i]);
    return check_done();
}
