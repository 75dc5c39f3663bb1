/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* CPU time of threads: it grows in the thread that computes, hardly in one that waits, and others
 * can read it, and it never goes back; that of the process is at least that of its threads. */
#include "check.h"
#include <sys/resource.h>

enum { COMPUTE_MS = 30 };

static sem_t begun, done, is_read;
static pthread_barrier_t barrier;

static int64_t usage_us(int of)
{
    struct rusage usage;

    MUST(getrusage(of, &usage) == 0);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000LL + usage.ru_utime.tv_usec +
           usage.ru_stime.tv_usec;
}

static void *computes(void *arg)
{
    int64_t begin = now_ns(CLOCK_THREAD_CPUTIME_ID), began_us = usage_us(RUSAGE_THREAD);
    clockid_t own;

    OK(pthread_getcpuclockid(pthread_self(), &own));
    /* It has waited before, so it may be anywhere. */
    pthread_barrier_wait(&barrier);
    while (now_ns(CLOCK_THREAD_CPUTIME_ID) - begin < COMPUTE_MS * 1000000LL)
        ;
    MUST(now_ns(own) - begin >= COMPUTE_MS * 1000000LL);
    MUST(usage_us(RUSAGE_THREAD) - began_us >= COMPUTE_MS * 1000 / 2);
    OK(sem_post(&done));
    /* Nobody can read the clock of a thread that has ended. */
    down(&is_read);
    return arg;
}

static void *waits(void *arg)
{
    int64_t begin = now_ns(CLOCK_THREAD_CPUTIME_ID), began_us = usage_us(RUSAGE_THREAD);

    pthread_barrier_wait(&barrier);
    OK(sem_post(&begun));
    for (int at = 0; at < 2; at++)
        down(&done);
    MUST(now_ns(CLOCK_THREAD_CPUTIME_ID) - begin < COMPUTE_MS * 1000000LL);
    MUST(usage_us(RUSAGE_THREAD) - began_us < COMPUTE_MS * 1000);
    return arg;
}

static void of_threads(void)
{
    int64_t process = now_ns(CLOCK_PROCESS_CPUTIME_ID), process_us = usage_us(RUSAGE_SELF);
    pthread_t threads[3];
    clockid_t clock;
    int64_t read;

    OK(pthread_barrier_init(&barrier, NULL, 3));
    threads[0] = spawn(waits, NULL);
    threads[1] = spawn(computes, NULL);
    threads[2] = spawn(computes, NULL);
    down(&begun);
    OK(pthread_getcpuclockid(threads[1], &clock));
    do
        read = now_ns(clock);
    while (read < COMPUTE_MS * 1000000LL / 2);
    OK(sem_post(&is_read));
    OK(sem_post(&is_read));
    for (int at = 0; at < 3; at++)
        join(threads[at]);
    MUST(now_ns(CLOCK_PROCESS_CPUTIME_ID) - process >= 2 * COMPUTE_MS * 1000000LL);
    MUST(usage_us(RUSAGE_SELF) - process_us >= COMPUTE_MS * 1000);
}

enum { LOOKS = 2000, ROUNDS = 40 };

static sem_t to, fro;
static _Atomic int stops;

/* Computes a little, and lets the other one run. */
static void *takes_turns(void *arg)
{
    sem_t *own = arg, *other = own == &to ? &fro : &to;
    int64_t last = 0;

    for (int round = 0; round < LOOKS; round++) {
        down(own);
        int64_t now = now_ns(CLOCK_THREAD_CPUTIME_ID);

        MUST(now >= last);
        last = now;
        for (volatile int at = 0; at < 2000; at++)
            ;
        OK(sem_post(other));
    }
    return arg;
}

static void *spins(void *arg)
{
    /* It has waited, so it is anywhere from here on. */
    down(&begun);
    while (!stops)
        ;
    return arg;
}

/* The clock of a thread, as others see it, and as the thread does. */
static void never_back(void)
{
    int64_t process = now_ns(CLOCK_PROCESS_CPUTIME_ID), last = 0;
    pthread_t spinner = spawn(spins, NULL), threads[2];
    clockid_t clock;

    OK(pthread_getcpuclockid(spinner, &clock));
    OK(sem_init(&to, 0, 1));
    OK(sem_init(&fro, 0, 0));
    OK(sem_post(&begun));
    threads[0] = spawn(takes_turns, &to);
    threads[1] = spawn(takes_turns, &fro);
    for (int at = 0; at < ROUNDS; at++) {
        int64_t now = now_ns(clock);

        MUST(now >= last);
        MUST(now <= now_ns(CLOCK_PROCESS_CPUTIME_ID));
        last = now;
        sleep_ms(1);
    }
    join(threads[0]);
    join(threads[1]);
    while (now_ns(clock) < last + 5000000)
        ;
    last = now_ns(clock);
    stops = 1;
    join(spinner);
    MUST(last <= now_ns(CLOCK_PROCESS_CPUTIME_ID) - process + 3000000);
}

static void *begins(void *arg)
{
    *(int64_t *)arg = now_ns(CLOCK_THREAD_CPUTIME_ID);
    return NULL;
}

/* A new thread has used next to nothing, whichever threads there were before it. */
static void of_new_threads(void)
{
    int64_t first;

    for (int at = 0; at < ROUNDS; at++) {
        join(spawn(begins, &first));
        MUST(first < 3000000);
    }
}

/* The errors are those of the kernel. */
static void errors(void)
{
    struct timespec time;
    struct rusage usage;
    clockid_t clock;

    OK(pthread_getcpuclockid(pthread_self(), &clock));
    FAILS(EFAULT, clock_gettime(clock, (struct timespec *)8));
    FAILS(EFAULT, clock_gettime(CLOCK_THREAD_CPUTIME_ID, (struct timespec *)8));
    FAILS(EFAULT, getrusage(RUSAGE_THREAD, (struct rusage *)8));
    /* The clock of a thread that there is not. */
    FAILS(EINVAL, clock_gettime((clockid_t)(~(1u << 27) << 3 | 6), &time));
    FAILS(EINVAL, clock_gettime(99, &time));
    FAILS(EINVAL, getrusage(99, &usage));
    MUST(clock_gettime(CLOCK_MONOTONIC, &time) == 0 && time.tv_nsec < 1000000000);
}

int main(void)
{
    OK(sem_init(&begun, 0, 0));
    OK(sem_init(&done, 0, 0));
    OK(sem_init(&is_read, 0, 0));
    of_threads();
    SHOWN("CPU time of threads");
    never_back();
    SHOWN("never back");
    of_new_threads();
    SHOWN("of new threads");
    errors();
    SHOWN("errors");
    return 0;
}
