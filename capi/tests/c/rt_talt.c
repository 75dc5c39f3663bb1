/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* talt, and umcg_select, over tubes: each message comes out once. */
#include "tube.h"

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

int main(void)
{
    check_start(60);
    talt_alone(NULL); /* as a plain thread */
    select_alone(NULL);
    in_runtime(talt_alone, NULL);
    in_runtime(select_alone, NULL);
    in_runtime(talt_sums, NULL);
    return check_done();
}
