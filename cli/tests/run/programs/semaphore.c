/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Semaphores: each post is taken once, tries and limits of time, posts from a signal handler, waits
 * that a handler interrupts, named semaphores. */
#include "check.h"
#include <limits.h>

enum { THREADS = 8, TURNS = 3000, SIGNALS = 50 };

static sem_t ping, pong, mutex, posted;
static long counter;

static void *answer(void *arg)
{
    for (int turn = 0; turn < TURNS; turn++) {
        down(&ping);
        OK(sem_post(&pong));
    }
    return arg;
}

static void ping_pong(void)
{
    pthread_t thread = spawn(answer, NULL);

    for (int turn = 0; turn < TURNS; turn++) {
        OK(sem_post(&ping));
        down(&pong);
    }
    join(thread);
}

static void *count(void *arg)
{
    for (int turn = 0; turn < TURNS; turn++) {
        down(&mutex);
        counter++;
        if (turn % 128 == 0)
            sched_yield();
        OK(sem_post(&mutex));
    }
    return arg;
}

static void tries_and_limits(void)
{
    sem_t sem;
    struct timespec limit = in_ms(CLOCK_REALTIME, 10);
    int value;

    OK(sem_init(&sem, 0, 1));
    OK(sem_trywait(&sem));
    FAILS(EAGAIN, sem_trywait(&sem));
    FAILS(ETIMEDOUT, sem_timedwait(&sem, &limit));
    MUST(is_past(CLOCK_REALTIME, limit));
    FAILS(ETIMEDOUT, sem_timedwait(&sem, &limit));
    limit = in_ms(CLOCK_MONOTONIC, 10);
    FAILS(ETIMEDOUT, sem_clockwait(&sem, CLOCK_MONOTONIC, &limit));
    MUST(is_past(CLOCK_MONOTONIC, limit));
    limit.tv_nsec = 2000000000;
    FAILS(EINVAL, sem_timedwait(&sem, &limit));
    OK(sem_post(&sem));
    limit = in_ms(CLOCK_REALTIME, -10);
    OK(sem_timedwait(&sem, &limit));
    OK(sem_getvalue(&sem, &value));
    MUST(value == 0);
    OK(sem_destroy(&sem));
    OK(sem_init(&sem, 0, SEM_VALUE_MAX));
    FAILS(EOVERFLOW, sem_post(&sem));
}

static void post_from_handler(int signal)
{
    (void)signal;
    OK(sem_post(&posted));
}

/* The thread that takes the signal also waits for the semaphore that the handler posts. */
static void *take_posts(void *arg)
{
    for (int at = 0; at < SIGNALS; at++) {
        OK(pthread_kill(pthread_self(), SIGUSR1));
        down(&posted);
    }
    return arg;
}

static void handlers_post(void)
{
    struct sigaction action = {.sa_handler = post_from_handler};
    pthread_t thread;

    OK(sem_init(&posted, 0, 0));
    OK(sigaction(SIGUSR1, &action, NULL));
    join(spawn(take_posts, NULL));
    /* A waiting thread: its own handler posts for it. The wait ends with EINTR, or has it. */
    thread = spawn(answer, NULL);
    for (int turn = 0; turn < TURNS; turn++) {
        if (turn % 100 == 0)
            OK(pthread_kill(thread, SIGUSR1));
        OK(sem_post(&ping));
        down(&pong);
    }
    join(thread);
}

static void *waits_until_interrupted(void *arg)
{
    FAILS(EINTR, sem_wait(arg));
    return NULL;
}

static void interrupted(void)
{
    sem_t never;
    pthread_t thread;
    int value, before;

    OK(sem_init(&never, 0, 0));
    thread = spawn(waits_until_interrupted, &never);
    /* A signal before the wait has no effect on it: so send them until the thread has ended. */
    OK(sem_getvalue(&posted, &before));
    while (pthread_tryjoin_np(thread, NULL) == EBUSY) {
        OK(pthread_kill(thread, SIGUSR1));
        sleep_ms(1);
    }
    OK(sem_getvalue(&posted, &value));
    MUST(value > before);
}

static void named(void)
{
    char name[64];
    sem_t *sem;

    snprintf(name, sizeof name, "/umcg-run-%d", (int)getpid());
    sem = sem_open(name, O_CREAT | O_EXCL, 0600, 1);
    MUST(sem != SEM_FAILED);
    MUST(sem_open(name, 0) == sem);
    OK(sem_close(sem));
    OK(sem_unlink(name));
    OK(sem_wait(sem));
    FAILS(EAGAIN, sem_trywait(sem));
    OK(sem_close(sem));
    MUST(sem_open(name, 0) == SEM_FAILED && errno == ENOENT);
}

int main(void)
{
    OK(sem_init(&ping, 0, 0));
    OK(sem_init(&pong, 0, 0));
    OK(sem_init(&mutex, 0, 1));
    ping_pong();
    SHOWN("ping-pong");
    in_threads(THREADS, count);
    MUST(counter == (long)THREADS * TURNS);
    SHOWN("exclusion");
    tries_and_limits();
    SHOWN("tries and limits of time");
    handlers_post();
    SHOWN("posts from a handler");
    interrupted();
    SHOWN("an interrupted wait");
    named();
    SHOWN("named");
    return 0;
}
