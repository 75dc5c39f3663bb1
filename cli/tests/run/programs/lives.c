/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Lives of threads: results by return and by pthread_exit, joins in chains, 2000 short threads,
 * detached threads, threads that create threads. */
#include "check.h"

enum { SHORT = 2000, CHAIN = 100, DETACHED = 500 };

static void *exits_deep_down(volatile int depth, void *arg)
{
    volatile char room[256];
    void *result = NULL;

    room[7] = (char)depth;
    if (depth > 0)
        result = exits_deep_down(depth - 1, arg);
    if (depth == 0)
        pthread_exit(arg);
    return room[7] ? result : NULL;
}

static void *returns_or_exits(void *arg)
{
    intptr_t number = (intptr_t)arg;

    return number % 2 ? exits_deep_down(20, arg) : arg;
}

/* A program may be between a call that fails and a look at its error. */
static void the_first_thread(void)
{
    pthread_t thread;
    int error;

    errno = EXDEV;
    error = pthread_create(&thread, NULL, returns_or_exits, NULL);
    MUST(errno == EXDEV || errno == ENOSYS); /* ENOSYS: the kernel has no clone3 */
    OK(error);
    join(thread);
}

static void short_threads(void)
{
    for (intptr_t at = 0; at < SHORT; at++)
        MUST(join(spawn(returns_or_exits, (void *)at)) == (void *)at);
}

static void *joins_the_one_before(void *arg)
{
    pthread_t *threads = arg;

    return (void *)((intptr_t)join(*threads) + 1);
}

static void *first_of_chain(void *arg)
{
    sleep_ms(2);
    return arg;
}

/* Each thread waits for the end of the one before. */
static void chain(void)
{
    pthread_t threads[CHAIN];

    threads[0] = spawn(first_of_chain, NULL);
    for (int at = 1; at < CHAIN; at++)
        threads[at] = spawn(joins_the_one_before, &threads[at - 1]);
    MUST((intptr_t)join(threads[CHAIN - 1]) == CHAIN - 1);
}

static sem_t ended;

static void *detached(void *arg)
{
    if ((intptr_t)arg % 3 == 0)
        OK(pthread_detach(pthread_self()));
    OK(sem_post(&ended));
    return NULL;
}

/* Detached by an attribute, by its creator, or by itself. */
static void detached_threads(void)
{
    pthread_attr_t attributes;
    pthread_t thread;

    OK(pthread_attr_init(&attributes));
    OK(pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED));
    for (intptr_t at = 0; at < DETACHED; at++) {
        OK(pthread_create(&thread, at % 3 == 1 ? &attributes : NULL, detached, (void *)at));
        if (at % 3 == 2)
            OK(pthread_detach(thread));
        if (at % 16 == 15)
            for (int one = 0; one < 16; one++)
                down(&ended);
    }
    for (int one = 0; one < DETACHED % 16; one++)
        down(&ended);
}

/* Each makes two more until the leaves; a result is the number of threads below. */
static void *grows(void *arg)
{
    intptr_t depth = (intptr_t)arg;
    pthread_t left, right;

    if (depth == 0)
        return (void *)1;
    left = spawn(grows, (void *)(depth - 1));
    right = spawn(grows, (void *)(depth - 1));
    return (void *)((intptr_t)join(left) + (intptr_t)join(right) + 1);
}

static void *creates_many(void *arg)
{
    for (intptr_t at = 0; at < 100; at++)
        MUST(join(spawn(returns_or_exits, (void *)at)) == (void *)at);
    return arg;
}

static void *sleeps(void *arg)
{
    sleep_ms(5);
    return arg;
}

static void joins_that_try(void)
{
    pthread_t thread = spawn(sleeps, &ended);
    struct timespec limit = in_ms(CLOCK_REALTIME, 1);
    void *result;
    int error;

    RETURNS(EDEADLK, pthread_join(pthread_self(), NULL));
    error = pthread_timedjoin_np(thread, &result, &limit);
    MUST(error == 0 || error == ETIMEDOUT);
    while (error != 0) {
        error = pthread_tryjoin_np(thread, &result);
        MUST(error == 0 || error == EBUSY);
        usleep(100);
    }
    MUST(result == &ended);
    thread = spawn(sleeps, NULL);
    limit = in_ms(CLOCK_MONOTONIC, 60000);
    OK(pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &limit));
}

int main(void)
{
    OK(sem_init(&ended, 0, 0));
    the_first_thread();
    SHOWN("errno");
    short_threads();
    SHOWN("short threads");
    chain();
    SHOWN("a chain of joins");
    detached_threads();
    SHOWN("detached");
    MUST((intptr_t)join(spawn(grows, (void *)6)) == 127);
    in_threads(8, creates_many);
    SHOWN("threads that create threads");
    joins_that_try();
    SHOWN("joins with limits");
    return 0;
}
