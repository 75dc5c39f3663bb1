/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Threads that wait by looking at a variable again and again. With calls of sched_yield in between,
 * each look lets another thread go on. Without them a thread goes on only because it is preempted.
 * There are more such threads than servers. */
#include "check.h"

enum { THREADS = 8, YIELDING = 2000, BUSY = 24, LOCKS = 3000 };

static volatile int token;
static int passes, yields;
static pthread_spinlock_t spinlock;
static long counter;

static void *pass_token(void *arg)
{
    int own = (int)(intptr_t)arg;

    for (int at = own; at < passes; at += THREADS) {
        while (token != at)
            if (yields)
                sched_yield();
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        token = at + 1;
    }
    return NULL;
}

static void pass(int times, int yielding)
{
    token = 0;
    passes = times;
    yields = yielding;
    in_threads(THREADS, pass_token);
    MUST(token == times);
}

static void *lock_spinlock(void *arg)
{
    for (int turn = 0; turn < LOCKS; turn++) {
        OK(pthread_spin_lock(&spinlock));
        counter++;
        OK(pthread_spin_unlock(&spinlock));
    }
    return arg;
}

static volatile int released;

static void *look(void *arg)
{
    while (!released)
        ;
    return arg;
}

/* More threads look than there are servers, and the only other thread sleeps. */
static void released_by_a_sleeper(void)
{
    pthread_t threads[THREADS];

    for (int at = 0; at < THREADS; at++)
        threads[at] = spawn(look, NULL);
    sleep_ms(20);
    released = 1;
    for (int at = 0; at < THREADS; at++)
        join(threads[at]);
}

/* All threads have waited once, and so have been where other threads are. */
static void *meet(void *arg)
{
    usleep(500);
    pthread_barrier_wait(arg);
    look(NULL);
    return NULL;
}

static void released_after_a_barrier(void)
{
    pthread_t threads[THREADS];
    pthread_barrier_t barrier;

    released = 0;
    OK(pthread_barrier_init(&barrier, NULL, THREADS + 1));
    for (int at = 0; at < THREADS; at++)
        threads[at] = spawn(meet, &barrier);
    pthread_barrier_wait(&barrier);
    sched_yield();
    released = 1;
    for (int at = 0; at < THREADS; at++)
        join(threads[at]);
}

int main(void)
{
    OK(pthread_spin_init(&spinlock, PTHREAD_PROCESS_PRIVATE));
    pass(YIELDING, 1);
    SHOWN("with yields");
    pass(BUSY, 0);
    SHOWN("without yields");
    in_threads(THREADS, lock_spinlock);
    MUST(counter == (long)THREADS * LOCKS);
    SHOWN("spin locks");
    released_by_a_sleeper();
    SHOWN("released by a sleeper");
    released_after_a_barrier();
    SHOWN("released after a barrier");
    return 0;
}
