/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Checks for the programs that run natively and under `umcg run`. For C and C++.
 *
 * A program is an ordinary one: it knows nothing of where it runs. It prints a line for each thing
 * that it has shown, the same ones in every run. A check that fails ends it with status 1.
 */
#ifndef CHECK_H
#define CHECK_H

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* It holds. */
#define MUST(holds)                                                     \
    do {                                                                \
        if (!(holds))                                                   \
            check_failed(__FILE__, __LINE__, #holds, strerror(errno)); \
    } while (0)

/* The call returns 0, as the functions of pthreads do. */
#define OK(call) RETURNS(0, call)

/* The call returns this error by its result, as the functions of pthreads do. */
#define RETURNS(error, call)                                                   \
    do {                                                                       \
        int check_result = (call);                                             \
        if (check_result != (error))                                           \
            check_failed(__FILE__, __LINE__, #call, strerror(check_result));  \
    } while (0)

/* The call returns -1, and this error by errno. */
#define FAILS(error, call)                                              \
    do {                                                                \
        errno = 0;                                                      \
        long check_result = (long)(call);                               \
        if (check_result != -1 || errno != (error))                     \
            check_failed(__FILE__, __LINE__, #call, strerror(errno));  \
    } while (0)

/* A thing that the program has shown. */
#define SHOWN(text) puts(text)

/* This machine cannot run the program's checks. */
#define SKIP(reason) \
    do {             \
        puts(reason); \
        exit(77);    \
    } while (0)

/* Other threads may hold the lock of any stream: only write and _exit. */
static inline void check_failed(const char *file, int line, const char *text, const char *error)
{
    char message[512];
    int size = snprintf(message, sizeof message, "%s:%d: FAILED: %s (%s)\n", file, line, text,
                        error);

    if (write(2, message, (size_t)size) < 0)
        _exit(2);
    _exit(1);
}

/* What a program has printed is visible when it hangs. */
__attribute__((constructor)) static void check_begins(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
}

/* ---- Threads ---- */

__attribute__((unused)) static pthread_t spawn(void *(*body)(void *), void *arg)
{
    pthread_t thread;

    OK(pthread_create(&thread, NULL, body, arg));
    return thread;
}

__attribute__((unused)) static void *join(pthread_t thread)
{
    void *result;

    OK(pthread_join(thread, &result));
    return result;
}

/* Runs the body in this many threads, with the arguments 0 and up, and waits for their ends. */
__attribute__((unused)) static void in_threads(int count, void *(*body)(void *))
{
    pthread_t threads[256];

    MUST(count <= 256);
    for (int at = 0; at < count; at++)
        threads[at] = spawn(body, (void *)(intptr_t)at);
    for (int at = 0; at < count; at++)
        join(threads[at]);
}

__attribute__((unused)) static void *idles(void *arg)
{
    sched_yield();
    return arg;
}

/* Threads that come and go, one after another and at the same time. */
__attribute__((unused)) static void several(void)
{
    for (int round = 0; round < 20; round++)
        join(spawn(idles, NULL));
    in_threads(8, idles);
}

/* ---- Time ---- */

__attribute__((unused)) static int64_t now_ns(clockid_t clock)
{
    struct timespec now;

    MUST(clock_gettime(clock, &now) == 0);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* The time in so many milliseconds, by this clock. */
__attribute__((unused)) static struct timespec in_ms(clockid_t clock, long ms)
{
    int64_t at = now_ns(clock) + ms * 1000000LL;
    struct timespec time;

    time.tv_sec = at / 1000000000LL;
    time.tv_nsec = at % 1000000000LL;
    return time;
}

/* Whether a moment of this clock has been reached. */
__attribute__((unused)) static int is_past(clockid_t clock, struct timespec time)
{
    return now_ns(clock) >= time.tv_sec * 1000000000LL + time.tv_nsec;
}

/* Sleeps, whatever signals arrive. */
__attribute__((unused)) static void sleep_ms(long ms)
{
    struct timespec until = in_ms(CLOCK_MONOTONIC, ms);

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        ;
}

/* Waits for a semaphore, whatever signals arrive. */
__attribute__((unused)) static void down(sem_t *sem)
{
    while (sem_wait(sem) != 0)
        MUST(errno == EINTR);
}

/* ---- Processes ---- */

/* The status of a child, once it has ended. */
__attribute__((unused)) static int status_of(pid_t child)
{
    int status;
    pid_t ended;

    do
        ended = waitpid(child, &status, 0);
    while (ended == -1 && errno == EINTR);
    MUST(ended == child);
    return status;
}

/* Whether a child has exited with this status, once it has ended. */
__attribute__((unused)) static int exits(pid_t child, int expected)
{
    int status = status_of(child);

    return WIFEXITED(status) && WEXITSTATUS(status) == expected;
}

/* Memory of one page that children share. */
__attribute__((unused)) static void *shared_page(void)
{
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    MUST(page != MAP_FAILED);
    return page;
}

#endif
