/*
 * Common to the C programs of `umcg bench run`.
 *
 * A program is called as `PROGRAM SECONDS [SIZE...]`. It works for about that long, checks its own
 * results, and prints "ops N seconds S all M" as its last line: N operations took S seconds, and
 * there were M in the whole life of the process, as some warm up. The lines before are the same in
 * every run: the bench compares them between its sides. A wrong result is one line on standard
 * error, and exit status 1.
 */
#ifndef UMCG_BENCH_COMMON_H
#define UMCG_BENCH_COMMON_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Ends the program if something is not as it has to be. */
static inline void check(int holds, const char *claim)
{
    if (holds)
        return;
    fprintf(stderr, "not so: %s\n", claim);
    exit(1);
}

#define CHECK(claim) check((claim) != 0, #claim)

static inline double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* The N-th argument as a number, or the default. */
static inline double argument(int argc, char **argv, int n, double usual)
{
    return argc > n ? atof(argv[n]) : usual;
}

static inline void report(uint64_t operations, double seconds, uint64_t all)
{
    printf("ops %llu seconds %.9f all %llu\n", (unsigned long long)operations, seconds,
           (unsigned long long)all);
    fflush(stdout);
}

/* Says when the time is over. The first eighth of it warms up and does not count. */
struct pace {
    double budget, start;
    /* Begun so far, and how many of them before `start`. */
    uint64_t begun, before;
    /* The clock is read when none of these bits are set in `begun`. */
    uint64_t mask;
    int is_warm;
};

static inline struct pace pace_of(double budget, uint64_t mask)
{
    struct pace pace = { budget, now(), 0, 0, mask, 0 };
    return pace;
}

/* Called before each operation by one thread: whether there is to be one. */
static inline int goes_on(struct pace *pace)
{
    if ((pace->begun & pace->mask) == 0) {
        double time = now();
        if (!pace->is_warm && pace->begun > 0 && time - pace->start >= pace->budget / 8) {
            pace->is_warm = 1;
            pace->before = pace->begun;
            pace->start = time;
        } else if (pace->is_warm && time - pace->start >= pace->budget) {
            return 0;
        }
    }
    pace->begun++;
    return 1;
}

/* Called when goes_on has said no. Each of its operations counts as so many. */
static inline void report_pace(const struct pace *pace, uint64_t each)
{
    double seconds = now() - pace->start;
    report((pace->begun - pace->before) * each, seconds, pace->begun * each);
}

static inline pthread_t start_thread(void *(*body)(void *), void *data)
{
    pthread_t thread;
    int error = pthread_create(&thread, NULL, body, data);
    if (error) {
        fprintf(stderr, "pthread_create: %s\n", strerror(error));
        exit(1);
    }
    return thread;
}

static inline void join_thread(pthread_t thread)
{
    CHECK(pthread_join(thread, NULL) == 0);
}

/* Work that no compiler shortens. */
static inline uint64_t compute(uint64_t state, uint64_t steps)
{
    while (steps-- > 0) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    return state;
}

#endif
