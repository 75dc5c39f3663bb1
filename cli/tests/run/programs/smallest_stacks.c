/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Threads with the smallest stack that there is wait for each other in all ways, and have used a
 * part of the stack by then. */
#include "check.h"

#define THREADS 12
#define ROUNDS 40

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t barrier;
static pthread_rwlock_t table = PTHREAD_RWLOCK_INITIALIZER;
static sem_t sem;
static int turn, total;

static void *takes_turns(void *arg)
{
    int number = (int)(intptr_t)arg;
    volatile char used[2048];

    for (size_t at = 0; at < sizeof used; at += 64)
        used[at] = 1;
    for (int round = 0; round < ROUNDS; round++) {
        struct timespec late = in_ms(CLOCK_REALTIME, 20000);

        OK(pthread_mutex_lock(&lock));
        while (turn % THREADS != number)
            OK(number % 2 ? pthread_cond_wait(&changed, &lock)
                          : pthread_cond_timedwait(&changed, &lock, &late));
        turn++;
        OK(pthread_cond_broadcast(&changed));
        OK(pthread_mutex_unlock(&lock));
        OK(pthread_rwlock_wrlock(&table));
        total++;
        OK(pthread_rwlock_unlock(&table));
        MUST(sem_post(&sem) == 0);
        down(&sem);
        if (round % 10 == 0) {
            int result = pthread_barrier_wait(&barrier);

            MUST(result == 0 || result == PTHREAD_BARRIER_SERIAL_THREAD);
        }
    }
    return NULL;
}

int main(void)
{
    pthread_attr_t smallest;
    pthread_t threads[THREADS];

    OK(pthread_attr_init(&smallest));
    OK(pthread_attr_setstacksize(&smallest, (size_t)sysconf(_SC_THREAD_STACK_MIN)));
    OK(pthread_barrier_init(&barrier, NULL, THREADS));
    MUST(sem_init(&sem, 0, 0) == 0);
    for (int at = 0; at < THREADS; at++)
        OK(pthread_create(&threads[at], &smallest, takes_turns, (void *)(intptr_t)at));
    for (int at = 0; at < THREADS; at++)
        join(threads[at]);
    printf("%d turns, %d changes\n", turn, total);
}
