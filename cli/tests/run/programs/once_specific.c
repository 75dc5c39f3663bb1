/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* pthread_once, also when its routine is cancelled; values of keys by thread, and the order and the
 * number of calls of their destructors. */
#include "check.h"
#include <limits.h>

enum { THREADS = 16, KEYS = 40 };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int initialised;

/* The others wait in pthread_once meanwhile. */
static void initialise(void)
{
    sleep_ms(3);
    initialised++;
}

static void *use_once(void *arg)
{
    OK(pthread_once(&once, initialise));
    MUST(initialised == 1);
    return arg;
}

static pthread_once_t cancelled_once = PTHREAD_ONCE_INIT;
static int attempts;
static sem_t begun;

static void initialise_second_time(void)
{
    if (++attempts == 1) {
        OK(sem_post(&begun));
        for (;;)
            sleep(1000);
    }
}

static void *use_cancelled_once(void *arg)
{
    OK(pthread_once(&cancelled_once, initialise_second_time));
    return arg;
}

/* A routine that is cancelled counts as not called. */
static void cancelled(void)
{
    pthread_t first, second;

    OK(sem_init(&begun, 0, 0));
    first = spawn(use_cancelled_once, NULL);
    down(&begun);
    second = spawn(use_cancelled_once, NULL);
    sleep_ms(2);
    OK(pthread_cancel(first));
    MUST(join(first) == PTHREAD_CANCELED);
    MUST(join(second) == NULL && attempts == 2);
}

static pthread_key_t keys[KEYS], stubborn;
static int destroyed, rounds;

static void destroy(void *value)
{
    MUST(value != NULL);
    __atomic_add_fetch(&destroyed, (int)(intptr_t)value, __ATOMIC_RELAXED);
}

/* The value comes back each time. The C library gives up after some rounds. */
static void come_back(void *value)
{
    __atomic_add_fetch(&rounds, 1, __ATOMIC_RELAXED);
    MUST(pthread_getspecific(stubborn) == NULL);
    OK(pthread_setspecific(stubborn, value));
}

static void *use_keys(void *arg)
{
    int own = (int)(intptr_t)arg;

    for (int at = 0; at < KEYS; at++) {
        MUST(pthread_getspecific(keys[at]) == NULL);
        OK(pthread_setspecific(keys[at], (void *)(intptr_t)(own * KEYS + at)));
    }
    for (int turn = 0; turn < 10; turn++) {
        sched_yield();
        usleep(100);
        for (int at = 0; at < KEYS; at++)
            MUST(pthread_getspecific(keys[at]) == (void *)(intptr_t)(own * KEYS + at));
    }
    OK(pthread_setspecific(stubborn, &rounds));
    if (own % 2)
        pthread_exit(NULL);
    return NULL;
}

int main(void)
{
    int sum = THREADS * KEYS * (THREADS * KEYS - 1) / 2;

    in_threads(THREADS, use_once);
    SHOWN("once");
    cancelled();
    SHOWN("once, cancelled");
    for (int at = 0; at < KEYS; at++)
        OK(pthread_key_create(&keys[at], destroy));
    OK(pthread_key_create(&stubborn, come_back));
    in_threads(THREADS, use_keys);
    MUST(destroyed == sum);
    MUST(rounds == THREADS * PTHREAD_DESTRUCTOR_ITERATIONS);
    SHOWN("keys and their destructors");
    OK(pthread_key_delete(keys[0]));
    RETURNS(EINVAL, pthread_setspecific(keys[0], &sum));
    return 0;
}
