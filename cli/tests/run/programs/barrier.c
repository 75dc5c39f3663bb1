/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Barriers of 64 threads: no thread is ahead of another by more than one round, one of them is the
 * serial thread of each round, and the last to leave may destroy the barrier at once. */
#include "check.h"

enum { THREADS = 64, ROUNDS = 40 };

static pthread_barrier_t barrier;
static int arrived[ROUNDS], serial;

static void *meet(void *arg)
{
    for (int round = 0; round < ROUNDS; round++) {
        int result;

        __atomic_add_fetch(&arrived[round], 1, __ATOMIC_RELAXED);
        result = pthread_barrier_wait(&barrier);
        MUST(__atomic_load_n(&arrived[round], __ATOMIC_RELAXED) == THREADS);
        if (result == PTHREAD_BARRIER_SERIAL_THREAD)
            __atomic_add_fetch(&serial, 1, __ATOMIC_RELAXED);
        else
            MUST(result == 0);
    }
    return arg;
}

static void *meet_once(void *arg)
{
    int result = pthread_barrier_wait(arg);

    MUST(result == 0 || result == PTHREAD_BARRIER_SERIAL_THREAD);
    return NULL;
}

/* Destroying waits until each thread has left the barrier. */
static void destroyed_at_once(void)
{
    for (int at = 0; at < 100; at++) {
        pthread_barrier_t *two = malloc(sizeof *two);
        pthread_t thread;

        OK(pthread_barrier_init(two, NULL, 2));
        thread = spawn(meet_once, two);
        meet_once(two);
        OK(pthread_barrier_destroy(two));
        memset(two, 0xff, sizeof *two);
        free(two);
        join(thread);
    }
}

int main(void)
{
    RETURNS(EINVAL, pthread_barrier_init(&barrier, NULL, 0));
    OK(pthread_barrier_init(&barrier, NULL, THREADS));
    in_threads(THREADS, meet);
    MUST(serial == ROUNDS);
    OK(pthread_barrier_destroy(&barrier));
    SHOWN("64 threads");
    destroyed_at_once();
    SHOWN("destroyed at once");
    return 0;
}
