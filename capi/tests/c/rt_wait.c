/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Giving way, sleeping, parking, blocking, worker-locals. */
#include "runtime.h"

struct pair {
    umcg_handle_t one, other;
    int turn, rounds;
};

static void *plays(struct pair *pair, int me, umcg_handle_t *rival)
{
    for (int i = 0; i < pair->rounds; i++) {
        while (__atomic_load_n(&pair->turn, __ATOMIC_ACQUIRE) != me)
            CHECK("park", umcg_park() == 0);
        __atomic_store_n(&pair->turn, !me, __ATOMIC_RELEASE);
        if (i % 2)
            CHECK("unpark", umcg_unpark(*rival) == 0);
        else
            CHECK("hand_over", umcg_hand_over(*rival) == 0);
    }
    return NULL;
}

static void *plays_first(void *arg)
{
    struct pair *pair = (struct pair *)arg;
    __atomic_store_n(&pair->one, umcg_self(), __ATOMIC_RELEASE);
    while (!__atomic_load_n(&pair->other, __ATOMIC_ACQUIRE))
        umcg_yield();
    return plays(pair, 0, &pair->other);
}

static void *plays_second(void *arg)
{
    struct pair *pair = (struct pair *)arg;
    __atomic_store_n(&pair->other, umcg_self(), __ATOMIC_RELEASE);
    while (!__atomic_load_n(&pair->one, __ATOMIC_ACQUIRE))
        umcg_yield();
    plays(pair, 1, &pair->one);
    umcg_unpark(pair->one); /* it may have handed over last, and waits */
    return NULL;
}

/* Times of the clock on the wall as deadlines. */
static void realtime(void)
{
    uint64_t before = umcg_after_ns(0), now = check_now(CLOCK_REALTIME), then = now + 3000000;
    uint64_t deadline = umcg_at_realtime_ns(then);
    CHECK("a time to come", deadline > before && deadline <= umcg_after_ns(3000000));
    CHECK("is waited for", umcg_sleep_until_ns(deadline) == 0 && check_now(CLOCK_REALTIME) >= then);
    deadline = umcg_at_realtime_ns(now - 5000000000u);
    CHECK("a time that has passed",
          deadline != UMCG_NO_TIMEOUT && deadline < umcg_after_ns(0) - 4000000000u);
    CHECK("the first of all", umcg_at_realtime_ns(1) == 1);
    CHECK("never", umcg_at_realtime_ns(UMCG_NO_TIMEOUT) == UMCG_NO_TIMEOUT);
    CHECK("late", umcg_at_realtime_ns(UINT64_MAX) > umcg_after_ns(1000000000000000000u));
}

static void times(void)
{
    uint64_t then = in_ms(2);
    realtime();
    CHECK("sleep_until", umcg_sleep_until_ns(then) == 0 && check_now(CLOCK_MONOTONIC) >= then);
    then = in_ms(1);
    CHECK("sleep", umcg_sleep_ns(1000000) == 0 && check_now(CLOCK_MONOTONIC) >= then);
    then = check_now(CLOCK_MONOTONIC);
    CHECK("after", umcg_after_ns(5000000) >= then + 5000000 &&
                       umcg_after_ns(0) <= check_now(CLOCK_MONOTONIC));
    CHECK("long after", umcg_after_ns(UINT64_MAX) == UINT64_MAX && umcg_after_ns(0) >= then);
    CHECK("sleep until the past", umcg_sleep_until_ns(0) == 0 && umcg_sleep_until_ns(1) == 0);
    CHECK("yield", umcg_yield() == 0);
    umcg_unpark(umcg_self());
    CHECK("a notification is remembered", umcg_park_until(in_ms(60000)) == 0);
    while (umcg_park_until(UMCG_POLL) == 0)
        ;
    FAILS("park until the past", ETIMEDOUT, umcg_park_until(UMCG_POLL));
    FAILS("park for a while", ETIMEDOUT, umcg_park_until(in_ms(1)));
    FAILS("unpark nobody", EINVAL, umcg_unpark(NULL));
    FAILS("hand over to nobody", EINVAL, umcg_hand_over(NULL));
    CHECK("self stays", umcg_self() == umcg_self());
    CHECK("not cancelled", umcg_cancelled() == 0);
}

static void *parks(void *arg)
{
    umcg_handle_t *handle = (umcg_handle_t *)arg;
    while (__atomic_load_n(handle, __ATOMIC_ACQUIRE) == NULL)
        umcg_park();
    CHECK("the handle is the worker's own", umcg_self() == *handle);
    return NULL;
}

static void *starts_by_handle(void *arg)
{
    umcg_handle_t handle = *(umcg_handle_t *)arg;
    umcg_unpark(handle);
    return NULL;
}

static void *fails(void *arg)
{
    check_sleep_ms(1);
    check_set_errno(EXDEV);
    return arg;
}

static void *waiting(void *arg)
{
    struct pair pair = {NULL, NULL, 0, check_count("UMCG_TEST_WORKERS", 2000)};
    umcg_worker_t *one = spawn(plays_first, &pair), *other = spawn(plays_second, &pair);
    umcg_handle_t self = umcg_self();

    (void)arg;
    joined(one);
    joined(other);
    times();
    umcg_worker_t *third = spawn(starts_by_handle, &self);
    umcg_park();
    joined(third);
    check_set_errno(0);
    CHECK("blocking", umcg_blocking(fails, &pair) == &pair && check_errno() == EXDEV);
    check_set_errno(0);
    CHECK("blocking on nothing", umcg_blocking(NULL, NULL) == NULL && check_errno() == EINVAL);
    return NULL;
}

static void *names_worker(void *arg)
{
    umcg_handle_t handle = NULL;
    umcg_worker_t *worker = spawn(parks, &handle);

    (void)arg;
    __atomic_store_n(&handle, umcg_worker_handle(worker), __ATOMIC_RELEASE);
    CHECK("unpark it", umcg_unpark(handle) == 0);
    joined(worker);
    return NULL;
}

static umcg_local_t *first, *second, *plain;
static int destroyed;

static void on_first(void *value)
{
    CHECK("gone meanwhile", umcg_local_get(first) == NULL);
    umcg_yield();
    add(&destroyed);
    if (value == &first)
        umcg_local_set(second, &second); /* is destroyed in turn */
}

static void on_second(void *value)
{
    CHECK("its own", value == &second);
    add(&destroyed);
}

static void *locals(void *arg)
{
    int own = 0;
    CHECK("nothing at first", umcg_local_get(first) == NULL && umcg_local_get(plain) == NULL);
    for (int i = 0; i < 3; i++) {
        CHECK("set", umcg_local_set(first, &own) == 0 && umcg_local_set(plain, arg) == 0);
        umcg_yield();
        CHECK("get", umcg_local_get(first) == &own && umcg_local_get(plain) == arg);
    }
    umcg_local_set(first, arg ? &first : NULL);
    return NULL;
}

static void *all_locals(void *arg)
{
    int word;
    umcg_worker_t *workers[20];

    (void)arg;
    for (int i = 0; i < 20; i++)
        workers[i] = spawn(locals, i % 2 ? &word : NULL);
    for (int i = 0; i < 20; i++)
        joined(workers[i]);
    CHECK("each value was destroyed once, none that is NULL", destroyed == 20);
    return NULL;
}

int main(void)
{
    pthread_t thread;

    check_start(60);
    in_runtime(waiting, NULL);
    in_runtime(names_worker, NULL);
    times(); /* as a plain thread */
    MUST((first = umcg_local_create(on_first)) && (second = umcg_local_create(on_second)) &&
         (plain = umcg_local_create(NULL)));
    check_set_errno(0);
    CHECK("no key", umcg_local_get(NULL) == NULL && check_errno() == EINVAL);
    FAILS("no key", EINVAL, umcg_local_set(NULL, &first));
    in_runtime(all_locals, NULL);
    destroyed = 0;
    MUST(pthread_create(&thread, NULL, locals, &first) == 0 && pthread_join(thread, NULL) == 0);
    CHECK("a plain thread's too", destroyed == 2);
    return check_done();
}
