/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* umcg_select: exactly one of many operations, between workers and plain threads. */
#include <fcntl.h>
#include <limits.h>

#include "runtime.h"
#include "umcg/select.h"

#define MANY 12

static void *ends(void *arg)
{
    Sem *s = (Sem *)arg;
    if (s)
        MUST(umcg_sem_acquire(s) == 0);
    return arg;
}

/* A time is as a deadline is: 0 is never. */
static void *times(void *arg)
{
    umcg_op_t time = UMCG_AT(UMCG_NO_TIMEOUT);
    umcg_select_set_t *set = umcg_select_set_create(&time, 1, 0);

    FAILS("no time is never", ETIMEDOUT, umcg_select(&time, 1, 0, in_ms(1)));
    FAILS("nor in a set", ETIMEDOUT, umcg_select_set_wait_until(set, in_ms(1), NULL));
    umcg_select_set_destroy(set);
    time.value = UMCG_POLL;
    CHECK("this one has passed", umcg_select(&time, 1, 0, UMCG_NO_TIMEOUT) == 0);
    return arg;
}

static void *fair_or_not(void *arg)
{
    Sem s = UMCG_SEM_INIT(400), other = UMCG_SEM_INIT(400);
    Sem third = UMCG_SEM_INIT(400), none = UMCG_SEM_INIT(0);
    umcg_op_t ops[] = {UMCG_ACQUIRE(&s), UMCG_ACQUIRE(&other)}, never = UMCG_NEVER;
    umcg_op_t unlike[] = {UMCG_ACQUIRE(&third), UMCG_ACQUIRE(&none)};
    int counts[2] = {0, 0};

    for (int i = 0; i < 300; i++) {
        counts[umcg_select(ops, 2, 0, UMCG_NO_TIMEOUT)]++;
        /* Any wait that takes turns with it. */
        CHECK("the other call", umcg_select(&never, 1, 0, UMCG_POLL) == -1);
        CHECK("one that is unlike", umcg_select(unlike, 2, 0, UMCG_POLL) == 0);
    }
    CHECK("none is preferred", counts[0] > 90 && counts[1] > 90);
    CHECK("each was taken", umcg_sem_available(&s) == 400 - counts[0] &&
                                umcg_sem_available(&other) == 400 - counts[1]);
    for (int i = 0; i < 9; i++)
        CHECK("the first is", umcg_select(ops, 2, UMCG_SELECT_BIASED, UMCG_NO_TIMEOUT) == 0);
    return arg;
}

static void *each_kind(void *arg)
{
    Sem s = UMCG_SEM_INIT(2), none = UMCG_SEM_INIT(0), go = UMCG_SEM_INIT(0),
        shut = UMCG_SEM_INIT(0);
    umcg_worker_t *worker = spawn(ends, &go), *other = spawn(ends, &go);
    umcg_op_t ops[] = {UMCG_ACQUIRE(&s), UMCG_ACQUIRE(&none), UMCG_AT(in_ms(5)), UMCG_NEVER,
                       UMCG_ENDED(worker)};
    umcg_op_t many[MANY], wrong = UMCG_NEVER, twice[2] = {UMCG_ENDED(worker), UMCG_ENDED(worker)};

    CHECK("a wakeup", umcg_select(ops, 5, 0, UMCG_NO_TIMEOUT) == 0 && ops[0].error == 0);
    CHECK("at once",
          umcg_select(ops, 5, UMCG_SELECT_BIASED, UMCG_POLL) == 0 && umcg_sem_available(&s) == 0);
    CHECK("a time", umcg_select(ops, 5, 0, UMCG_NO_TIMEOUT) == 2 &&
                        check_now(CLOCK_MONOTONIC) >= ops[2].value);
    CHECK("it has passed", umcg_select(ops, 5, 0, UMCG_POLL) == 2);
    ops[2].kind = UMCG_OP_NONE;
    FAILS("a deadline", ETIMEDOUT, umcg_select(ops, 5, 0, in_ms(1)));
    FAILS("at once", ETIMEDOUT, umcg_select(ops, 5, 0, UMCG_POLL));
    FAILS("nothing at all", ETIMEDOUT, umcg_select(ops + 2, 2, 0, in_ms(1)));
    upsem(&go);
    upsem(&go);
    CHECK("an end",
          umcg_select(ops, 5, 0, UMCG_NO_TIMEOUT) == 4 && umcg_select(ops, 5, 0, UMCG_POLL) == 4);
    CHECK("its result", umcg_join_until(worker, NULL, UMCG_POLL) == 0);

    for (int i = 0; i < MANY; i++) {
        many[i] = ops[1];
        many[i].kind = i % 2 ? UMCG_OP_ACQUIRE : UMCG_OP_NONE;
    }
    FAILS("of many", ETIMEDOUT, umcg_select(many, MANY, 0, in_ms(1)));
    many[9].object = &s;
    upsem(&s);
    CHECK("one of many",
          umcg_select(many, MANY, 0, UMCG_NO_TIMEOUT) == 9 && umcg_sem_available(&s) == 0);
    many[10].kind = UMCG_OP_END;
    many[10].object = other;
    CHECK("an end of many",
          umcg_select(many, MANY, 0, UMCG_NO_TIMEOUT) == 10 && joined(other) == &go);

    CHECK("closed", umcg_sem_close(&shut) == 0);
    ops[0].object = &shut;
    CHECK("said of the operation",
          umcg_select(ops, 1, 0, UMCG_NO_TIMEOUT) == 0 && ops[0].error == ESHUTDOWN);
    ops[0].object = NULL;
    FAILS("no semaphore", EINVAL, umcg_select(ops, 2, 0, UMCG_POLL));
    FAILS("no array", EINVAL, umcg_select(NULL, 1, 0, UMCG_POLL));
    FAILS("an empty one", EINVAL, umcg_select(ops, 0, 0, UMCG_POLL));
    FAILS("a flag that is not", EINVAL, umcg_select(&wrong, 1, 2, UMCG_POLL));
    wrong.kind = 4;
    FAILS("a kind that is not", EINVAL, umcg_select(&wrong, 1, 0, UMCG_POLL));
    wrong.kind = UMCG_OP_END;
    FAILS("no worker", EINVAL, umcg_select(&wrong, 1, 0, UMCG_POLL));
    worker = spawn(ends, NULL);
    twice[0].object = twice[1].object = worker;
    FAILS("the same worker twice", EINVAL, umcg_select(twice, 2, 0, UMCG_POLL));
    CHECK("its end", umcg_select(twice, 1, 0, UMCG_NO_TIMEOUT) == 0 && joined(worker) == NULL);
    return arg;
}

/* ---- Descriptors ---- */

static void *writes_later(void *arg)
{
    int *ends = (int *)arg;
    umcg_sleep_ns(2000000);
    MUST(write(ends[1], "x", 1) == 1);
    return arg;
}

static void *closes_later(void *arg)
{
    int *ends = (int *)arg;
    umcg_sleep_ns(2000000);
    MUST(close(ends[1]) == 0);
    return arg;
}

static void *descriptors(void *arg)
{
    int ends[2];
    MUST(pipe(ends) == 0);
    char bytes[4096] = {0};
    Sem none = UMCG_SEM_INIT(0);
    umcg_op_t ops[] = {UMCG_ACQUIRE(&none), UMCG_READABLE(ends[0]), UMCG_READABLE(ends[0]),
                       UMCG_WRITABLE(ends[1])};
    umcg_op_t wrong = UMCG_READABLE(-1);
    umcg_worker_t *worker;

    CHECK("room", umcg_select(ops, 4, 0, UMCG_NO_TIMEOUT) == 3 && ops[3].error == 0);
    FAILS("nothing to read", ETIMEDOUT, umcg_select(ops, 3, 0, UMCG_POLL));
    FAILS("nor later", ETIMEDOUT, umcg_select(ops, 3, 0, in_ms(1)));
    worker = spawn(writes_later, ends);
    CHECK("a byte", umcg_select(ops, 2, 0, UMCG_NO_TIMEOUT) == 1 && ops[1].error == 0 &&
                        read(ends[0], bytes, 2) == 1);
    CHECK("who wrote it", joined(worker) == ends);
    MUST(write(ends[1], "y", 1) == 1);
    CHECK("either of both",
          umcg_select(ops, 3, 0, UMCG_NO_TIMEOUT) > 0 && read(ends[0], bytes, 2) == 1);

    MUST(fcntl(ends[1], F_SETFL, O_NONBLOCK) == 0 && fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0);
    while (write(ends[1], bytes, sizeof bytes) > 0)
        ;
    FAILS("no room", ETIMEDOUT, umcg_select(ops + 3, 1, 0, in_ms(1)));
    while (read(ends[0], bytes, sizeof bytes) > 0)
        ;
    worker = spawn(closes_later, ends);
    CHECK("no writer",
          umcg_select(ops, 2, 0, UMCG_NO_TIMEOUT) == 1 && read(ends[0], bytes, 1) == 0);
    CHECK("who closed it", joined(worker) == ends && close(ends[0]) == 0);
    ops[1].value = INT_MAX;
    CHECK("not open", umcg_select(ops, 2, 0, UMCG_NO_TIMEOUT) == 1 && ops[1].error == EBADF);
    FAILS("none at all", EINVAL, umcg_select(&wrong, 1, 0, UMCG_POLL));
    return arg;
}

struct self {
    Sem known, tried;
    umcg_worker_t *worker;
    umcg_select_set_t *set;
};

static void *waits_for_itself(void *arg)
{
    struct self *self = (struct self *)arg;
    MUST(umcg_sem_acquire(&self->known) == 0);
    umcg_op_t op = UMCG_ENDED(self->worker);
    FAILS("its own end", EDEADLK, umcg_select(&op, 1, 0, UMCG_POLL));
    CHECK("a set of its own end",
          umcg_select_set_create(&op, 1, 0) == NULL && check_errno() == EDEADLK);
    FAILS("a set of another one's", EDEADLK, umcg_select_set_wait(self->set, NULL));
    FAILS("until a time", EDEADLK, umcg_select_set_wait_until(self->set, in_ms(1), NULL));
    FAILS("or at once", EDEADLK, umcg_select_set_try_wait(self->set, NULL));
    upsem(&self->tried);
    return arg;
}

static void *itself(void *arg)
{
    struct self self = {UMCG_SEM_INIT(0), UMCG_SEM_INIT(0), NULL, NULL};
    self.worker = spawn(waits_for_itself, &self);
    umcg_op_t op = UMCG_ENDED(self.worker);
    self.set = umcg_select_set_create(&op, 1, 0);
    MUST(self.set != NULL);
    upsem(&self.known);
    MUST(umcg_sem_acquire(&self.tried) == 0);
    umcg_select_set_destroy(self.set);
    joined(self.worker);
    return arg;
}

/* ---- Sums ---- */

static struct {
    Sem sems[MANY];
    int taken[MANY];
    int rounds;
} all;

static void *gives(void *arg)
{
    for (int i = 0; i < all.rounds; i++)
        upsem(&all.sems[i * 5 % MANY]);
    return arg;
}

/* Takes from all of them, each time in another order, with a time between that passes now and then;
 * from half of them if there are few. */
static void *takes(void *arg)
{
    static int next;
    int size = __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED) % 2 ? MANY + 2 : 6;

    for (int got = 0, i = 0; got < all.rounds; i++) {
        umcg_op_t ops[MANY + 2];
        int index;
        for (int k = 0; k < size; k++) {
            umcg_op_t op = UMCG_ACQUIRE(&all.sems[(i * 5 + k) % MANY]);
            ops[k] = op;
        }
        ops[2].kind = UMCG_OP_TIME;
        ops[2].value = in_ms(i % 3);
        index = umcg_select(ops, size, i % 2 ? UMCG_SELECT_BIASED : 0,
                            i % 4 ? UMCG_NO_TIMEOUT : in_ms(1));
        if (index < 0)
            CHECK("late", check_errno() == ETIMEDOUT);
        if (index < 0 || index == 2)
            continue;
        MUST(index < size && ops[index].error == 0);
        add(&all.taken[(Sem *)ops[index].object - all.sems]);
        got++;
    }
    return arg;
}

static void *sums(void *arg)
{
    umcg_worker_t *workers[6];
    pthread_t threads[4];

    all.rounds = check_count("UMCG_TEST_UTHS", 1200) / MANY * MANY;
    for (int flags = 0; flags <= UMCG_SEM_BARGING; flags++) {
        memset(&all.taken, 0, sizeof all.taken);
        for (int i = 0; i < MANY; i++)
            MUST(umcg_sem_init(&all.sems[i], 0, flags) == 0);
        for (int i = 0; i < 6; i++)
            workers[i] = spawn(i % 2 ? gives : takes, NULL);
        for (int i = 0; i < 4; i++)
            MUST(pthread_create(&threads[i], NULL, i % 2 ? gives : takes, NULL) == 0);
        for (int i = 0; i < 6; i++)
            joined(workers[i]);
        for (int i = 0; i < 4; i++)
            MUST(pthread_join(threads[i], NULL) == 0);
        for (int i = 0; i < MANY; i++)
            CHECK("of each what was given",
                  all.taken[i] == 5 * all.rounds / MANY && umcg_sem_available(&all.sems[i]) == 0);
    }
    return arg;
}

/* ---- Being asked to end ---- */

struct call {
    Sem *sem;
    umcg_worker_t *child;
    int size, begun, got;
};

static void *is_cut_short(void *arg)
{
    struct call *call = (struct call *)arg;
    umcg_op_t ops[MANY] = {UMCG_ACQUIRE(call->sem), UMCG_ENDED(call->child), UMCG_AT(in_ms(60000))};
    int index;

    add(&call->begun);
    while ((index = umcg_select(ops, call->size, 0, UMCG_NO_TIMEOUT)) == 0)
        call->got++;
    CHECK("cut short", index == -1 && check_errno() == ECANCELED && umcg_cancelled() == 1);
    return arg;
}

/* Aborts a worker that takes wakeups, between two of them. */
static void cut_short(umcg_worker_t *worker, struct call *call, int round)
{
    if (round % 4)
        await(&call->begun, 1);
    if (round % 4 == 2)
        umcg_sleep_ns(200000);
    upsem(call->sem);
    CHECK("abort", umcg_abort(worker) == 0);
    upsem(call->sem);
    joined(worker);
    CHECK("none is lost, and none doubled", call->got + umcg_sem_available(call->sem) == 2);
    CHECK("nobody stands there", umcg_sem_release(call->sem, 1) == 0 && downsem(call->sem, 0) == 1);
}

static void *aborted(void *arg)
{
    for (int round = 0; round < 60; round++) {
        Sem s = UMCG_SEM_INIT(0), go = UMCG_SEM_INIT(0);
        umcg_worker_t *child = spawn(ends, &go), *worker;
        struct call call = {&s, child, round % 3 ? 3 : MANY, 0, 0};

        worker = spawn(is_cut_short, &call);
        cut_short(worker, &call, round);
        upsem(&go);
        CHECK("nor at the worker", joined(child) == &go);
    }
    return arg;
}

/* Ends that come while a caller waits for all of them. */
static void *all_ends(void *arg)
{
    Sem go = UMCG_SEM_INIT(0);
    umcg_op_t ops[MANY];

    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < MANY; i++) {
            umcg_op_t op = UMCG_ENDED(spawn(ends, &go));
            ops[i] = op;
        }
        for (int left = MANY; left > 0; left--) {
            int size = left, index;
            upsem(&go);
            index = umcg_select(ops, size, 0, UMCG_NO_TIMEOUT);
            MUST(index >= 0 && index < size);
            CHECK("it does not wait",
                  umcg_join_until((umcg_worker_t *)ops[index].object, NULL, UMCG_POLL) == 0);
            ops[index] = ops[size - 1];
        }
        CHECK("all", umcg_sem_available(&go) == 0);
    }
    return arg;
}

/* ---- Sets ---- */

static void *each_kind_of_set(void *arg)
{
    Sem s = UMCG_SEM_INIT(2), none = UMCG_SEM_INIT(0), go = UMCG_SEM_INIT(0);
    Tube *tube = newtube(sizeof(int), 1);
    umcg_worker_t *worker = spawn(ends, &go);
    int number = 0, error = 99;
    umcg_op_t ops[] = {UMCG_ACQUIRE(&s), UMCG_NEVER, UMCG_ACQUIRE(&none), UMCG_RECV(tube, &number)};
    umcg_op_t end = UMCG_ENDED(worker), time = UMCG_AT(in_ms(1)), never = UMCG_NEVER,
              wrong = UMCG_ACQUIRE(NULL);
    umcg_op_t again = UMCG_ACQUIRE(&s);
    umcg_select_set_t *set = umcg_select_set_create(ops, 4, 0);
    MUST(set != NULL);

    CHECK("a wakeup", umcg_select_set_wait(set, &error) == 0 && error == 0);
    CHECK("another", umcg_select_set_try_wait(set, NULL) == 0 && umcg_sem_available(&s) == 0);
    FAILS("no more", EAGAIN, umcg_select_set_try_wait(set, &error));
    FAILS("in time", ETIMEDOUT, umcg_select_set_wait_until(set, in_ms(1), &error));
    FAILS("nor before", ETIMEDOUT, umcg_select_set_wait_until(set, UMCG_POLL, &error));
    for (int i = 1; i <= 3; i++) {
        tsend(tube, &i);
        CHECK("a message", umcg_select_set_wait(set, &error) == 3 && error == 0 && number == i);
    }
    MUST(umcg_tube_close(tube) == 0);
    CHECK("closed", umcg_select_set_wait(set, &error) == 3 && error == ESHUTDOWN);
    CHECK("without it", umcg_select_set_change(set, 3, &never) == 0 &&
                            umcg_select_set_change(set, 1, &time) == 0);
    CHECK("a time", umcg_select_set_wait(set, &error) == 1 && error == 0 &&
                        check_now(CLOCK_MONOTONIC) >= time.value);
    CHECK("it has passed", umcg_select_set_wait_until(set, UMCG_POLL, NULL) == 1);
    CHECK("a worker", umcg_select_set_change(set, 1, &end) == 0);
    FAILS("a worker twice", EINVAL, umcg_select_set_change(set, 0, &end));
    CHECK("nor itself", umcg_select_set_change(set, 1, &end) == 0);
    FAILS("it runs", ETIMEDOUT, umcg_select_set_wait_until(set, in_ms(1), &error));
    upsem(&go);
    CHECK("its end",
          umcg_select_set_wait(set, &error) == 1 && umcg_select_set_wait(set, &error) == 1);
    CHECK("taken out", umcg_select_set_change(set, 1, &again) == 0 && joined(worker) == &go);
    upsem(&s);
    CHECK("in either place", umcg_select_set_wait(set, &error) < 2 && umcg_sem_available(&s) == 0);
    upsem(&none);
    CHECK("one", umcg_select_set_wait(set, &error) == 2);

    FAILS("no operation", EINVAL, umcg_select_set_change(set, 0, NULL));
    FAILS("no semaphore", EINVAL, umcg_select_set_change(set, 0, &wrong));
    FAILS("no such place", EINVAL, umcg_select_set_change(set, 4, &never));
    FAILS("nor such", EINVAL, umcg_select_set_change(set, -1, &never));
    umcg_select_set_destroy(set);
    CHECK("nobody stands there", umcg_sem_release(&s, 2) == 0 && downsem(&s, 0) == 1);

    freetube(tube);
    return arg;
}

static void *sets_that_are_wrong(void *arg)
{
    Sem s = UMCG_SEM_INIT(2);
    Tube *tube = newtube(sizeof(int), 1);
    int number = 0, error = 99;
    umcg_op_t ops[] = {UMCG_ACQUIRE(&s)}, send = UMCG_SEND(tube, &number), never = UMCG_NEVER,
              wrong = UMCG_ACQUIRE(NULL);
    umcg_select_set_t *other;

    MUST(umcg_tube_close(tube) == 0);
    other = umcg_select_set_create(&send, 1, UMCG_SELECT_BIASED);
    CHECK("to send",
          other != NULL && umcg_select_set_wait(other, &error) == 0 && error == ESHUTDOWN);
    umcg_select_set_destroy(other);
    umcg_select_set_destroy(NULL);
    errno = 0;
    CHECK("no operations", umcg_select_set_create(NULL, 1, 0) == NULL && check_errno() == EINVAL);
    CHECK("none of them", umcg_select_set_create(ops, 0, 0) == NULL && check_errno() == EINVAL);
    CHECK("a flag that is not",
          umcg_select_set_create(ops, 1, 2) == NULL && check_errno() == EINVAL);
    CHECK("a wrong one", umcg_select_set_create(&wrong, 1, 0) == NULL && check_errno() == EINVAL);
    FAILS("no set", EINVAL, umcg_select_set_wait(NULL, &error));
    FAILS("nor to try", EINVAL, umcg_select_set_try_wait(NULL, &error));
    FAILS("nor to change", EINVAL, umcg_select_set_change(NULL, 0, &never));
    freetube(tube);
    return arg;
}

/* Takes from all of them by one set, in its order or in none. */
static void *takes_by_set(void *arg)
{
    umcg_op_t ops[MANY];
    umcg_select_set_t *set;

    for (int k = 0; k < MANY; k++) {
        umcg_op_t op = UMCG_ACQUIRE(&all.sems[k]);
        ops[k] = op;
    }
    set = umcg_select_set_create(ops, MANY, arg ? UMCG_SELECT_BIASED : 0);
    MUST(set != NULL);
    for (int got = 0, i = 0; got < all.rounds; i++) {
        int error = 0,
            index = umcg_select_set_wait_until(set, i % 4 ? UMCG_NO_TIMEOUT : in_ms(1), &error);
        if (index < 0)
            CHECK("late", check_errno() == ETIMEDOUT);
        if (index < 0)
            continue;
        MUST(index < MANY && error == 0);
        add(&all.taken[index]);
        got++;
    }
    umcg_select_set_destroy(set);
    return NULL;
}

static void *sums_by_sets(void *arg)
{
    umcg_worker_t *workers[4];
    pthread_t threads[2];

    all.rounds = check_count("UMCG_TEST_UTHS", 1200) / MANY * MANY;
    memset(&all.taken, 0, sizeof all.taken);
    for (int i = 0; i < MANY; i++)
        MUST(umcg_sem_init(&all.sems[i], 0, 0) == 0);
    for (int i = 0; i < 4; i++)
        workers[i] = spawn(i % 2 ? gives : takes_by_set, i ? &all : NULL);
    for (int i = 0; i < 2; i++)
        MUST(pthread_create(&threads[i], NULL, i % 2 ? gives : takes_by_set, &all) == 0);
    for (int i = 0; i < 4; i++)
        joined(workers[i]);
    for (int i = 0; i < 2; i++)
        MUST(pthread_join(threads[i], NULL) == 0);
    for (int i = 0; i < MANY; i++)
        CHECK("of each what was given",
              all.taken[i] == 3 * all.rounds / MANY && umcg_sem_available(&all.sems[i]) == 0);
    return arg;
}

static void *set_is_cut_short(void *arg)
{
    struct call *call = (struct call *)arg;
    umcg_op_t op = UMCG_ACQUIRE(call->sem);
    umcg_select_set_t *set = umcg_select_set_create(&op, 1, 0);
    int index;

    add(&call->begun);
    while ((index = umcg_select_set_wait(set, NULL)) == 0)
        call->got++;
    CHECK("cut short", index == -1 && check_errno() == ECANCELED && umcg_cancelled() == 1);
    umcg_select_set_destroy(set);
    return arg;
}

static void *aborted_sets(void *arg)
{
    for (int round = 0; round < 60; round++) {
        Sem s = UMCG_SEM_INIT(0);
        struct call call = {&s, NULL, 1, 0, 0};
        umcg_worker_t *worker = spawn(set_is_cut_short, &call);

        cut_short(worker, &call, round);
    }
    return arg;
}

int main(void)
{
    check_start(60);
    in_runtime(each_kind, NULL);
    in_runtime(times, NULL);
    in_runtime(fair_or_not, NULL);
    in_runtime(descriptors, NULL);
    in_runtime(itself, NULL);
    in_runtime(sums, NULL);
    in_runtime(aborted, NULL);
    in_runtime(all_ends, NULL);
    in_runtime(each_kind_of_set, NULL);
    in_runtime(sets_that_are_wrong, NULL);
    in_runtime(sums_by_sets, NULL);
    in_runtime(aborted_sets, NULL);
    each_kind(NULL); /* as a plain thread */
    each_kind_of_set(NULL);
    sets_that_are_wrong(NULL);
    return check_done();
}
