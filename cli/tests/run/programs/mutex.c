/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Mutexes of every type: exclusion, the errors of each type, and locks with a limit of time on both
 * clocks. */
#include "check.h"

enum { THREADS = 8, TURNS = 2000 };

static pthread_mutex_t mutex;
static long counter;
static int inside;

static void initialise(int type)
{
    pthread_mutexattr_t attributes;

    OK(pthread_mutexattr_init(&attributes));
    OK(pthread_mutexattr_settype(&attributes, type));
    OK(pthread_mutex_init(&mutex, &attributes));
    OK(pthread_mutexattr_destroy(&attributes));
}

/* Some turns give up the CPU with the mutex held, so that other threads have to wait. */
static void *count(void *arg)
{
    for (int turn = 0; turn < TURNS; turn++) {
        OK(pthread_mutex_lock(&mutex));
        MUST(inside++ == 0);
        if (turn % 64 == 0)
            sched_yield();
        counter++;
        inside--;
        OK(pthread_mutex_unlock(&mutex));
    }
    return arg;
}

static void *locks_for_another(void *arg)
{
    struct timespec real = in_ms(CLOCK_REALTIME, 20);
    struct timespec monotonic;
    int type = (int)(intptr_t)arg;

    RETURNS(EBUSY, pthread_mutex_trylock(&mutex));
    RETURNS(ETIMEDOUT, pthread_mutex_timedlock(&mutex, &real));
    MUST(is_past(CLOCK_REALTIME, real));
    monotonic = in_ms(CLOCK_MONOTONIC, 20);
    RETURNS(ETIMEDOUT, pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &monotonic));
    MUST(is_past(CLOCK_MONOTONIC, monotonic));
    real.tv_nsec = 1000000000;
    RETURNS(EINVAL, pthread_mutex_timedlock(&mutex, &real));
    if (type == PTHREAD_MUTEX_ERRORCHECK || type == PTHREAD_MUTEX_RECURSIVE)
        RETURNS(EPERM, pthread_mutex_unlock(&mutex));
    return NULL;
}

/* The holder lets go while this thread waits with a limit that is far away. */
static void *gets_it_in_time(void *arg)
{
    struct timespec far = in_ms(CLOCK_MONOTONIC, 60000);

    OK(pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &far));
    OK(pthread_mutex_unlock(&mutex));
    return arg;
}

static void again_by_the_holder(int type)
{
    struct timespec soon = in_ms(CLOCK_REALTIME, 5);

    if (type == PTHREAD_MUTEX_RECURSIVE) {
        OK(pthread_mutex_lock(&mutex));
        OK(pthread_mutex_trylock(&mutex));
        OK(pthread_mutex_timedlock(&mutex, &soon));
        for (int at = 0; at < 3; at++)
            OK(pthread_mutex_unlock(&mutex));
        return;
    }
    RETURNS(EBUSY, pthread_mutex_trylock(&mutex));
    if (type == PTHREAD_MUTEX_ERRORCHECK) {
        RETURNS(EDEADLK, pthread_mutex_lock(&mutex));
        RETURNS(EDEADLK, pthread_mutex_timedlock(&mutex, &soon));
        return;
    }
    RETURNS(ETIMEDOUT, pthread_mutex_timedlock(&mutex, &soon));
    MUST(is_past(CLOCK_REALTIME, soon));
}

static void each_type(const char *name, int type)
{
    pthread_t thread;

    initialise(type);
    counter = 0;
    in_threads(THREADS, count);
    MUST(counter == (long)THREADS * TURNS);

    OK(pthread_mutex_lock(&mutex));
    again_by_the_holder(type);
    join(spawn(locks_for_another, (void *)(intptr_t)type));
    thread = spawn(gets_it_in_time, NULL);
    sleep_ms(2);
    OK(pthread_mutex_unlock(&mutex));
    join(thread);
    if (type == PTHREAD_MUTEX_ERRORCHECK || type == PTHREAD_MUTEX_RECURSIVE)
        RETURNS(EPERM, pthread_mutex_unlock(&mutex));
    OK(pthread_mutex_destroy(&mutex));
    SHOWN(name);
}

int main(void)
{
    each_type("normal", PTHREAD_MUTEX_NORMAL);
    each_type("recursive", PTHREAD_MUTEX_RECURSIVE);
    each_type("errorcheck", PTHREAD_MUTEX_ERRORCHECK);
    each_type("adaptive", PTHREAD_MUTEX_ADAPTIVE_NP);
    return 0;
}
