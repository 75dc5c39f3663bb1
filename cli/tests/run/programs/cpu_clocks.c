/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* CPU time of threads: it grows in the thread that computes, hardly in one that waits, and others
 * can read it; that of the process is at least that of its threads.
 * run: known CPU clocks of threads count the time on their own kernel threads only */
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

int main(void)
{
    OK(sem_init(&begun, 0, 0));
    OK(sem_init(&done, 0, 0));
    OK(sem_init(&is_read, 0, 0));
    of_threads();
    SHOWN("CPU time of threads");
    return 0;
}
