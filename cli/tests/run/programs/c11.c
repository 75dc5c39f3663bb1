/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The threads of C11: mutexes, condition variables, thread-specific storage, results of threads. */
#include "check.h"
#include <threads.h>

enum { THREADS = 8, TURNS = 1000 };

static mtx_t mutex;
static cnd_t changed;
static tss_t key;
static once_flag once = ONCE_FLAG_INIT;
static int counter, calls, destroyed;
static _Thread_local int own;

static void call(void)
{
    calls++;
}

static void destroy(void *value)
{
    (void)value;
    __atomic_add_fetch(&destroyed, 1, __ATOMIC_RELAXED);
}

static int count(void *arg)
{
    call_once(&once, call);
    MUST(tss_set(key, &own) == thrd_success);
    for (int turn = 0; turn < TURNS; turn++) {
        MUST(mtx_lock(&mutex) == thrd_success);
        counter++;
        own++;
        if (turn % 100 == 0)
            thrd_yield();
        MUST(mtx_unlock(&mutex) == thrd_success);
    }
    MUST(own == TURNS && tss_get(key) == &own);
    MUST(mtx_lock(&mutex) == thrd_success);
    MUST(cnd_broadcast(&changed) == thrd_success);
    MUST(mtx_unlock(&mutex) == thrd_success);
    if ((intptr_t)arg % 2)
        thrd_exit((int)(intptr_t)arg);
    return (int)(intptr_t)arg;
}

static void limits(void)
{
    struct timespec limit = in_ms(CLOCK_REALTIME, 3), pause = {0, 1000000};
    mtx_t timed;
    cnd_t never;

    MUST(mtx_init(&timed, mtx_timed) == thrd_success && cnd_init(&never) == thrd_success);
    MUST(mtx_lock(&timed) == thrd_success);
    MUST(mtx_timedlock(&timed, &limit) == thrd_timedout);
    MUST(mtx_trylock(&timed) == thrd_busy);
    MUST(cnd_timedwait(&never, &timed, &limit) == thrd_timedout);
    MUST(thrd_sleep(&pause, NULL) == 0);
    cnd_destroy(&never);
    mtx_destroy(&timed);
}

int main(void)
{
    thrd_t threads[THREADS];

    MUST(mtx_init(&mutex, mtx_plain | mtx_recursive) == thrd_success);
    MUST(cnd_init(&changed) == thrd_success);
    MUST(tss_create(&key, destroy) == thrd_success);
    for (int at = 0; at < THREADS; at++)
        MUST(thrd_create(&threads[at], count, (void *)(intptr_t)at) == thrd_success);
    mtx_lock(&mutex);
    while (counter < THREADS * TURNS)
        cnd_wait(&changed, &mutex);
    mtx_unlock(&mutex);
    for (int at = 0; at < THREADS; at++) {
        int result;

        MUST(thrd_join(threads[at], &result) == thrd_success && result == at);
    }
    MUST(calls == 1 && destroyed == THREADS);
    limits();
    SHOWN("threads of C11");
    return 0;
}
