/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A mutex, a condition variable, a semaphore and a barrier in memory that processes share, each
 * used by several threads of each process. */
#include "check.h"

enum { PROCESSES = 3, THREADS = 3, TURNS = 400 };

struct shared {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    pthread_barrier_t barrier;
    sem_t ping, pong, exclusive;
    long counter, counter_by_sem;
    int turn, serial;
};

static struct shared *shared;

static void *count(void *arg)
{
    int result;

    for (int turn = 0; turn < TURNS; turn++) {
        OK(pthread_mutex_lock(&shared->mutex));
        shared->counter++;
        if (turn % 50 == 0)
            sched_yield();
        OK(pthread_mutex_unlock(&shared->mutex));
        down(&shared->exclusive);
        shared->counter_by_sem++;
        OK(sem_post(&shared->exclusive));
    }
    result = pthread_barrier_wait(&shared->barrier);
    if (result == PTHREAD_BARRIER_SERIAL_THREAD)
        __atomic_add_fetch(&shared->serial, 1, __ATOMIC_RELAXED);
    MUST(shared->counter == (long)PROCESSES * THREADS * TURNS);
    return arg;
}

static void take_turns(int own)
{
    OK(pthread_mutex_lock(&shared->mutex));
    for (int at = 0; at < 200; at++) {
        while (shared->turn % PROCESSES != own)
            OK(pthread_cond_wait(&shared->changed, &shared->mutex));
        shared->turn++;
        OK(pthread_cond_broadcast(&shared->changed));
    }
    OK(pthread_mutex_unlock(&shared->mutex));
}

static void initialise(void)
{
    pthread_mutexattr_t mutex;
    pthread_condattr_t cond;
    pthread_barrierattr_t barrier;

    shared = shared_page();
    OK(pthread_mutexattr_init(&mutex));
    OK(pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED));
    OK(pthread_mutex_init(&shared->mutex, &mutex));
    OK(pthread_condattr_init(&cond));
    OK(pthread_condattr_setpshared(&cond, PTHREAD_PROCESS_SHARED));
    OK(pthread_cond_init(&shared->changed, &cond));
    OK(pthread_barrierattr_init(&barrier));
    OK(pthread_barrierattr_setpshared(&barrier, PTHREAD_PROCESS_SHARED));
    OK(pthread_barrier_init(&shared->barrier, &barrier, PROCESSES * THREADS));
    OK(sem_init(&shared->ping, 1, 0));
    OK(sem_init(&shared->pong, 1, 0));
    OK(sem_init(&shared->exclusive, 1, 1));
}

static void ping_pong(void)
{
    pid_t child = fork();
    sem_t *take = child ? &shared->pong : &shared->ping;
    sem_t *give = child ? &shared->ping : &shared->pong;

    MUST(child >= 0);
    for (int turn = 0; turn < 500; turn++) {
        if (child)
            OK(sem_post(give));
        down(take);
        if (!child)
            OK(sem_post(give));
    }
    if (!child)
        _exit(0);
    MUST(exits(child, 0));
}

int main(void)
{
    pid_t children[PROCESSES];

    initialise();
    for (int at = 0; at < PROCESSES; at++) {
        children[at] = fork();
        MUST(children[at] >= 0);
        if (children[at] == 0) {
            in_threads(THREADS, count);
            take_turns(at);
            _exit(0);
        }
    }
    for (int at = 0; at < PROCESSES; at++)
        MUST(exits(children[at], 0));
    MUST(shared->counter_by_sem == (long)PROCESSES * THREADS * TURNS);
    MUST(shared->serial == 1 && shared->turn == 200 * PROCESSES);
    SHOWN("mutex, condition variable and barrier of three processes");
    ping_pong();
    SHOWN("semaphores of two processes");
    return 0;
}
