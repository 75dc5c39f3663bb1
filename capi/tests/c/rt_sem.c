/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Semaphores and altsems, between workers and plain threads: each wakeup is taken once, in order,
 * and by the caller that was there first. */
#include "runtime.h"
#include "umcg/sem.h"

#define MANY 10

static Sem zeros;
static Sem with_three = UMCG_SEM_INIT(3);

/* ---- Each call ---- */

static void *each_call(void *arg)
{
    Sem s, full, three = UMCG_SEM_INIT(3);

    (void)arg;
    initsem(&s, 2);
    CHECK("down", downsem(&s, 1) == 1 && downsem(&s, 0) == 1 && umcg_sem_available(&s) == 0);
    check_set_errno(0);
    CHECK("no more", downsem(&s, 0) == 0 && check_errno() == EAGAIN);
    upsem(&s);
    CHECK("up, acquire", umcg_sem_available(&s) == 1 && umcg_sem_acquire(&s) == 0);
    FAILS("try", EAGAIN, umcg_sem_try_acquire(&s));
    FAILS("until the past", ETIMEDOUT, umcg_sem_acquire_until(&s, UMCG_POLL));
    FAILS("until now", ETIMEDOUT, umcg_sem_acquire_until(&s, in_ms(0)));
    FAILS("for a while", ETIMEDOUT, umcg_sem_acquire_until(&s, in_ms(1)));

    CHECK("release many", umcg_sem_release(&s, 5) == 0 && umcg_sem_available(&s) == 5);
    CHECK("many", umcg_sem_try_acquire_many(&s, 2) == 0 &&
                      umcg_sem_acquire_many(&s, 2, UMCG_NO_TIMEOUT) == 0);
    FAILS("try many", EAGAIN, umcg_sem_try_acquire_many(&s, 2));
    FAILS("too many", ETIMEDOUT, umcg_sem_acquire_many(&s, 2, in_ms(1)));
    CHECK("what is left is there", umcg_sem_try_acquire(&s) == 0 && umcg_sem_available(&s) == 0);
    CHECK("by the macro",
          umcg_sem_acquire_many(&three, 3, UMCG_POLL) == 0 && downsem(&three, 0) == 0);

    CHECK("as many as fit",
          umcg_sem_init(&full, UINT32_MAX - 1, 0) == 0 && umcg_sem_release(&full, 1) == 0);
    FAILS("one more", EOVERFLOW, umcg_sem_release(&full, 1));
    CHECK("none was added", umcg_sem_available(&full) == (int64_t)UINT32_MAX);
    CHECK("all of them",
          umcg_sem_try_acquire_many(&full, UINT32_MAX) == 0 && umcg_sem_available(&full) == 0);

    CHECK("barging", umcg_sem_init(&s, 1, UMCG_SEM_BARGING) == 0 && umcg_sem_acquire(&s) == 0 &&
                         downsem(&s, 0) == 0);
    FAILS("a flag that is not", EINVAL, umcg_sem_init(&s, 1, 2));
    FAILS("nothing to init", EINVAL, umcg_sem_init(NULL, 1, 0));
    FAILS("no semaphore", EINVAL, umcg_sem_acquire(NULL));
    FAILS("no semaphore", EINVAL, umcg_sem_try_acquire(NULL));
    FAILS("no semaphore", EINVAL, umcg_sem_release(NULL, 1));
    FAILS("no semaphore", EINVAL, umcg_sem_close(NULL));
    FAILS("no semaphore", EINVAL, umcg_sem_available(NULL));
    check_set_errno(0);
    CHECK("no semaphore", downsem(NULL, 1) == 0 && check_errno() == EINVAL);
    return NULL;
}

static void *each_call_of_any(void *arg)
{
    Sem s, full, *list[MANY + 1];

    (void)arg;
    initsem(&s, 0);
    initsem(&full, 0);
    for (int i = 0; i <= MANY; i++)
        list[i] = i == 7 ? &s : &full;
    FAILS("nothing in any", ETIMEDOUT, umcg_sem_any(list, 2, in_ms(1)));
    FAILS("nothing in many", ETIMEDOUT, umcg_sem_any(list, MANY, UMCG_POLL));
    upsem(&s);
    CHECK("the one that has one", altsems(list, MANY) == 7 && downsem(&s, 0) == 0);
    list[1] = NULL;
    CHECK("who has to be looked at only", umcg_sem_release(&full, 1) == 0 && altsems(list, 1) == 0);
    FAILS("a NULL in it", EINVAL, altsems(list, 2));
    FAILS("an empty list", EINVAL, altsems(list, 0));
    FAILS("less than that", EINVAL, altsems(list, -1));
    FAILS("no list", EINVAL, altsems(NULL, 1));

    list[1] = &s;
    CHECK("close",
          umcg_sem_release(&s, 1) == 0 && umcg_sem_close(&s) == 0 && umcg_sem_available(&s) == 1);
    FAILS("acquire from a closed one", ESHUTDOWN, umcg_sem_acquire(&s));
    FAILS("try it", ESHUTDOWN, umcg_sem_try_acquire(&s));
    FAILS("as one of many", ESHUTDOWN, altsems(list, 2));
    check_set_errno(0);
    CHECK("down", downsem(&s, 1) == 0 && check_errno() == ESHUTDOWN);
    return NULL;
}

static void no_semaphore(void) { initsem(NULL, 1); }
static void negative(void) { initsem(&zeros, -1); }
static void up_nothing(void) { upsem(NULL); }
static void up_full(void)
{
    Sem full = UMCG_SEM_INIT(UINT32_MAX);
    upsem(&full);
}

/* ---- Order ---- */

struct waiter {
    Sem *sem;
    uint32_t wants;
    uint64_t deadline;
    int done, error;
};

static void *waits(void *arg)
{
    struct waiter *waiter = (struct waiter *)arg;
    if (umcg_sem_acquire_many(waiter->sem, waiter->wants, waiter->deadline) != 0)
        waiter->error = check_errno();
    add(&waiter->done);
    return arg;
}

static int is_done(struct waiter *waiter)
{
    return __atomic_load_n(&waiter->done, __ATOMIC_ACQUIRE);
}

/* Returns when a waiter stands in the queue of a strong semaphore that has a wakeup, or `waiter`
 * has given up already. */
static void await_waiter(Sem *s, struct waiter *waiter)
{
    while (!is_done(waiter) && umcg_sem_try_acquire(s) == 0) {
        CHECK("back", umcg_sem_release(s, 1) == 0);
        umcg_sleep_ns(50000);
    }
}

/* A waiter that wants few does not overtake one that wants many; wakeups that were given cannot be
 * taken. `thread` says whether the first waiter is a plain thread. */
static void order(int thread)
{
    Sem s = UMCG_SEM_INIT(1);
    struct waiter large = {&s, 3, UMCG_NO_TIMEOUT, 0, 0}, small = {&s, 1, UMCG_NO_TIMEOUT, 0, 0},
                  late = {&s, 1, 0, 0, 0};
    umcg_worker_t *worker = NULL, *second;
    pthread_t first;

    if (thread)
        MUST(pthread_create(&first, NULL, waits, &large) == 0);
    else
        worker = spawn(waits, &large);
    await_waiter(&s, &large);
    late.deadline = in_ms(2);
    joined(spawn(waits, &late));
    CHECK("the wakeup is kept for the first",
          late.error == ETIMEDOUT && umcg_sem_available(&s) == 1);
    second = spawn(waits, &small);
    CHECK("still",
          umcg_sem_release(&s, 1) == 0 && downsem(&s, 0) == 0 && umcg_sem_available(&s) == 2);
    CHECK("nobody was served", !is_done(&large) && !is_done(&small));
    upsem(&s);
    CHECK("it was given away", downsem(&s, 0) == 0);
    await(&large.done, 1);
    CHECK("to the first", large.error == 0 && !is_done(&small) && umcg_sem_available(&s) == 0);
    upsem(&s);
    await(&small.done, 1);
    if (thread)
        MUST(pthread_join(first, NULL) == 0);
    else
        joined(worker);
    joined(second);
    CHECK("none is left", small.error == 0 && umcg_sem_available(&s) == 0);

    /* The first gives up, perhaps before it is seen to wait: the next is served with the wakeups it
     * waited for. */
    upsem(&s);
    large.deadline = in_ms(20);
    large.done = small.done = 0;
    worker = spawn(waits, &large);
    await_waiter(&s, &large);
    second = spawn(waits, &small);
    joined(worker);
    joined(second);
    CHECK("passed on", large.error == ETIMEDOUT && small.error == 0 && umcg_sem_available(&s) == 0);
}

static void *orders(void *arg)
{
    (void)arg;
    for (int i = 0; i < 10; i++)
        order(i % 2);
    return NULL;
}

/* ---- Sums: workers and threads together ---- */

static struct {
    Sem mutex;
    int rounds;
    long sum;
} guarded;

static void *counts(void *arg)
{
    for (int i = 0; i < guarded.rounds; i++) {
        if (i % 3 == 2)
            while (umcg_sem_acquire_until(&guarded.mutex, in_ms(i % 2)) != 0)
                CHECK("late", check_errno() == ETIMEDOUT);
        else
            CHECK("down", downsem(&guarded.mutex, 1) == 1);
        guarded.sum++;
        upsem(&guarded.mutex);
    }
    return arg;
}

static void together(function *fn, int workers, int threads)
{
    umcg_worker_t *worker[MANY];
    pthread_t thread[MANY];

    for (int i = 0; i < workers; i++)
        worker[i] = spawn(fn, NULL);
    for (int i = 0; i < threads; i++)
        MUST(pthread_create(&thread[i], NULL, fn, NULL) == 0);
    for (int i = 0; i < workers; i++)
        joined(worker[i]);
    for (int i = 0; i < threads; i++)
        MUST(pthread_join(thread[i], NULL) == 0);
}

static void *mutual_exclusion(void *arg)
{
    for (int flags = 0; flags <= UMCG_SEM_BARGING; flags++) {
        guarded.sum = 0;
        guarded.rounds = check_count("UMCG_TEST_UTHS", 3000) / 2;
        MUST(umcg_sem_init(&guarded.mutex, 1, flags) == 0);
        together(counts, 6, 3);
        CHECK("the sum",
              guarded.sum == 9L * guarded.rounds && umcg_sem_available(&guarded.mutex) == 1);
    }
    return arg;
}

/* One semaphore for the way there, and one back. */
static Sem there, back;
static int balls;

static void *returns(void *arg)
{
    for (int i = 0; i < guarded.rounds; i++) {
        CHECK("there", downsem(&there, 1) == 1 && balls == 2 * i + 1);
        balls++;
        upsem(&back);
    }
    return arg;
}

static void *plays(void *arg)
{
    pthread_t thread;

    guarded.rounds = check_count("UMCG_TEST_UTHS", 1000);
    for (int with_thread = 0; with_thread < 2; with_thread++) {
        umcg_worker_t *worker = NULL;
        balls = 0;
        if (with_thread)
            MUST(pthread_create(&thread, NULL, returns, NULL) == 0);
        else
            worker = spawn(returns, NULL);
        for (int i = 0; i < guarded.rounds; i++) {
            balls++;
            upsem(&there);
            CHECK("back", umcg_sem_acquire(&back) == 0 && balls == 2 * i + 2);
        }
        if (with_thread)
            MUST(pthread_join(thread, NULL) == 0);
        else
            joined(worker);
    }
    return arg;
}

/* ---- altsems ---- */

static struct {
    Sem sems[MANY];
    int given[MANY], taken[MANY];
    int rounds;
} alt;

static void *gives(void *arg)
{
    for (int i = 0; i < alt.rounds; i++) {
        int index = i * 7 % MANY;
        add(&alt.given[index]);
        upsem(&alt.sems[index]);
        if (i % 16 == 0)
            umcg_yield();
    }
    return arg;
}

/* Takes as many as one gives, each time from another part of the semaphores, and some of them are
   there twice: from few; from more than stand on the caller's stack; from one, without altsems.
   Only a part waits with a deadline, as others may take the wakeups that it needs. */
static void *takes(void *arg)
{
    static int next;
    int kind = __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED) % 3;
    int size = kind == 0 ? 5 : kind == 1 ? MANY + 3 : 1;
    Sem *list[MANY + 3];

    for (int got = 0, i = 0; got < alt.rounds; i++) {
        int index;
        for (int k = 0; k < size; k++)
            list[k] = &alt.sems[(i + (k < 2 ? 0 : k)) % MANY];
        if (size > MANY)
            index = altsems(list, size);
        else if (size > 1)
            index = umcg_sem_any(list, size, in_ms(1));
        else
            index = umcg_sem_acquire_until(list[0], in_ms(1));
        if (index < 0) {
            CHECK("late", check_errno() == ETIMEDOUT && size < MANY);
            continue;
        }
        MUST(index < size);
        add(&alt.taken[list[index] - alt.sems]);
        got++;
    }
    return arg;
}

static void *gives_and_takes(void *arg)
{
    static int next;
    return __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED) % 2 ? takes(arg) : gives(arg);
}

static void *altsems_sums(void *arg)
{
    alt.rounds = check_count("UMCG_TEST_UTHS", 2000) / MANY * MANY;
    for (int flags = 0; flags <= UMCG_SEM_BARGING; flags++) {
        memset(&alt.given, 0, sizeof alt.given);
        memset(&alt.taken, 0, sizeof alt.taken);
        for (int i = 0; i < MANY; i++)
            MUST(umcg_sem_init(&alt.sems[i], 0, flags) == 0);
        together(gives_and_takes, 6, 6);
        for (int i = 0; i < MANY; i++)
            CHECK("exactly one each time",
                  alt.given[i] == alt.taken[i] && umcg_sem_available(&alt.sems[i]) == 0);
    }
    return arg;
}

static void *altsems_once(void *arg)
{
    Sem **list = (Sem **)arg;
    int index = altsems(list, 3);
    CHECK("the one that was released", index == 0 || index == 1);
    return arg;
}

static void *altsems_twice_the_same(void *arg)
{
    Sem a = UMCG_SEM_INIT(0), b = UMCG_SEM_INIT(0), *list[3] = {&a, &a, &b};
    int counts[3] = {0, 0, 0};

    for (int i = 0; i < 20; i++) {
        umcg_worker_t *worker = spawn(altsems_once, list);
        umcg_sleep_ns(i % 2 * 200000); /* it waits already, or not */
        CHECK("two", umcg_sem_release(&a, 2) == 0);
        joined(worker);
        CHECK("takes one, and stands nowhere",
              umcg_sem_available(&a) == 1 && downsem(&a, 0) == 1 && downsem(&a, 0) == 0);
        CHECK("nor there",
              umcg_sem_available(&b) == 0 && umcg_sem_release(&b, 1) == 0 && downsem(&b, 0) == 1);
    }
    MUST(umcg_sem_release(&a, 600) == 0 && umcg_sem_release(&b, 600) == 0);
    for (int i = 0; i < 600; i++)
        counts[altsems(list, 3)]++;
    CHECK("none is preferred", counts[0] > 120 && counts[1] > 120 && counts[2] > 120);
    CHECK("each was taken", counts[2] == 600 - umcg_sem_available(&b));
    return arg;
}

/* ---- Being asked to end ---- */

struct call {
    Sem *sem;
    int which, begun, got;
};

enum { DOWN, ACQUIRE, UNTIL, MANY_WAKEUPS, ALTSEMS, ANY, CALLS };

static int takes_one(struct call *call)
{
    Sem never = UMCG_SEM_INIT(0), *list[2];

    list[0] = &never;
    list[1] = call->sem;
    switch (call->which) {
    case DOWN: return downsem(call->sem, 1) - 1;
    case ACQUIRE: return umcg_sem_acquire(call->sem);
    case UNTIL: return umcg_sem_acquire_until(call->sem, in_ms(60000));
    case MANY_WAKEUPS: return umcg_sem_acquire_many(call->sem, 1, UMCG_NO_TIMEOUT);
    case ALTSEMS: return altsems(list, 2);
    default: return umcg_sem_any(list, 2, in_ms(60000));
    }
}

/* Takes until it is cut short. */
static void *is_cut_short(void *arg)
{
    struct call *call = (struct call *)arg;

    add(&call->begun);
    while (check_set_errno(0), takes_one(call) >= 0)
        call->got++;
    CHECK("cut short", check_errno() == ECANCELED && umcg_cancelled() == 1);
    return arg;
}

/* A wakeup released while the worker is aborted is taken by it, or is still there. */
static void *aborted(void *arg)
{
    for (int round = 0; round < 40 * CALLS; round++) {
        Sem s = UMCG_SEM_INIT(0);
        struct call call = {&s, round % CALLS, 0, 0};
        umcg_worker_t *worker;

        MUST(umcg_sem_init(&s, 0, round / CALLS % 2 ? UMCG_SEM_BARGING : 0) == 0);
        worker = spawn(is_cut_short, &call);
        if (round % 8 < 6)
            await(&call.begun, 1);
        if (round % 8 == 1)
            umcg_sleep_ns(200000);
        upsem(&s);
        if (round % 8 == 2)
            umcg_yield();
        CHECK("abort", umcg_abort(worker) == 0);
        upsem(&s);
        joined(worker);
        CHECK("none is lost, and none doubled", call.got + umcg_sem_available(&s) == 2);
        CHECK("nobody stands there", umcg_sem_release(&s, 1) == 0 && downsem(&s, 0) == 1);
    }
    return arg;
}

/* An aborted worker takes a saved wakeup; in a shield it waits. */
static void *shielded(void *arg)
{
    struct call *call = (struct call *)arg;
    Sem own = UMCG_SEM_INIT(2), *list[1] = {&own};

    CHECK("shield", umcg_shield_begin() == 0);
    add(&call->begun);
    CHECK("waits on", umcg_sem_acquire(call->sem) == 0 && umcg_cancelled() == 1);
    FAILS("in time", ETIMEDOUT, umcg_sem_acquire_until(call->sem, in_ms(1)));
    CHECK("end", umcg_shield_end() == 0);
    CHECK("what is there", umcg_sem_acquire(&own) == 0 && altsems(list, 1) == 0);
    FAILS("and no more", ECANCELED, umcg_sem_acquire(&own));
    FAILS("and no more", ECANCELED, altsems(list, 1));
    check_set_errno(0);
    CHECK("down", downsem(&own, 1) == 0 && check_errno() == ECANCELED && downsem(&own, 0) == 0 &&
                      check_errno() == EAGAIN);
    return arg;
}

static void *shields(void *arg)
{
    Sem s = UMCG_SEM_INIT(0);
    struct call call = {&s, 0, 0, 0};
    umcg_worker_t *worker = spawn(shielded, &call);

    await(&call.begun, 1);
    CHECK("abort", umcg_abort(worker) == 0);
    umcg_sleep_ns(500000);
    upsem(&s);
    joined(worker);
    return arg;
}

/* Those that wait when it is closed, and those that come. */
static void *closed(void *arg)
{
    Sem s = UMCG_SEM_INIT(1);
    struct waiter waiters[4];
    umcg_worker_t *workers[4];

    for (int i = 0; i < 4; i++) {
        waiters[i].sem = &s;
        waiters[i].wants = 2;
        waiters[i].deadline = i % 2 ? in_ms(60000) : UMCG_NO_TIMEOUT;
        waiters[i].done = waiters[i].error = 0;
        workers[i] = spawn(waits, &waiters[i]);
    }
    await_waiter(&s, &waiters[0]);
    CHECK("close", umcg_sem_close(&s) == 0 && umcg_sem_close(&s) == 0);
    for (int i = 0; i < 4; i++) {
        joined(workers[i]);
        CHECK("is told", waiters[i].error == ESHUTDOWN);
    }
    return arg;
}

int main(void)
{
    check_start(60);
    if (!check_count("UMCG_TEST_SLOW", 0)) { /* Valgrind tells of the aborts at length */
        check_aborts("no semaphore", no_semaphore, "initsem");
        check_aborts("negative", negative, "-1");
        check_aborts("up of nothing", up_nothing, "upsem");
        check_aborts("up of a full one", up_full, "upsem");
    }
    CHECK("zeros", downsem(&zeros, 0) == 0 && (upsem(&zeros), downsem(&zeros, 1)) == 1);
    CHECK("by the macro", umcg_sem_available(&with_three) == 3);
    each_call(NULL); /* as a plain thread */
    each_call_of_any(NULL);
    in_runtime(each_call, NULL);
    in_runtime(each_call_of_any, NULL);
    in_runtime(orders, NULL);
    in_runtime(mutual_exclusion, NULL);
    in_runtime(plays, NULL);
    in_runtime(altsems_sums, NULL);
    in_runtime(altsems_twice_the_same, NULL);
    in_runtime(aborted, NULL);
    in_runtime(shields, NULL);
    in_runtime(closed, NULL);
    return check_done();
}
