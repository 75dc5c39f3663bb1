/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Read-write locks of all preferences: readers together, writers alone, limits of time, errors. */
#include "check.h"

enum { THREADS = 8, TURNS = 600 };

static pthread_rwlock_t lock;
static pthread_barrier_t together;
static int readers, writers;
static long writes;

static void *use(void *arg)
{
    unsigned random = (unsigned)(intptr_t)arg + 1;

    for (int turn = 0; turn < TURNS; turn++) {
        random = random * 1103515245 + 12345;
        if ((random >> 16) % 4 == 0) {
            OK(pthread_rwlock_wrlock(&lock));
            MUST(__atomic_add_fetch(&writers, 1, __ATOMIC_RELAXED) == 1);
            MUST(__atomic_load_n(&readers, __ATOMIC_RELAXED) == 0);
            writes++;
            if (turn % 16 == 0)
                sched_yield();
            __atomic_sub_fetch(&writers, 1, __ATOMIC_RELAXED);
        } else {
            OK(pthread_rwlock_rdlock(&lock));
            __atomic_add_fetch(&readers, 1, __ATOMIC_RELAXED);
            MUST(__atomic_load_n(&writers, __ATOMIC_RELAXED) == 0);
            if (turn % 16 == 0)
                sched_yield();
            __atomic_sub_fetch(&readers, 1, __ATOMIC_RELAXED);
        }
        OK(pthread_rwlock_unlock(&lock));
    }
    return NULL;
}

/* The barrier is passed only if all hold the lock at the same time. */
static void *read_together(void *arg)
{
    OK(pthread_rwlock_rdlock(&lock));
    pthread_barrier_wait(&together);
    OK(pthread_rwlock_unlock(&lock));
    return arg;
}

static void *is_refused(void *arg)
{
    int is_held_by_writer = (int)(intptr_t)arg;
    struct timespec limit = in_ms(CLOCK_REALTIME, 5);

    RETURNS(EBUSY, pthread_rwlock_trywrlock(&lock));
    RETURNS(ETIMEDOUT, pthread_rwlock_timedwrlock(&lock, &limit));
    MUST(is_past(CLOCK_REALTIME, limit));
    limit = in_ms(CLOCK_MONOTONIC, 5);
    RETURNS(ETIMEDOUT, pthread_rwlock_clockwrlock(&lock, CLOCK_MONOTONIC, &limit));
    MUST(is_past(CLOCK_MONOTONIC, limit));
    if (is_held_by_writer) {
        limit = in_ms(CLOCK_REALTIME, 5);
        RETURNS(EBUSY, pthread_rwlock_tryrdlock(&lock));
        RETURNS(ETIMEDOUT, pthread_rwlock_timedrdlock(&lock, &limit));
        MUST(is_past(CLOCK_REALTIME, limit));
    } else {
        OK(pthread_rwlock_tryrdlock(&lock));
        OK(pthread_rwlock_unlock(&lock));
    }
    return NULL;
}

static void *write_in_time(void *arg)
{
    struct timespec far = in_ms(CLOCK_REALTIME, 60000);

    OK(pthread_rwlock_timedwrlock(&lock, &far));
    OK(pthread_rwlock_unlock(&lock));
    return arg;
}

static void held(void)
{
    pthread_t thread;

    OK(pthread_rwlock_wrlock(&lock));
    RETURNS(EDEADLK, pthread_rwlock_rdlock(&lock));
    RETURNS(EDEADLK, pthread_rwlock_wrlock(&lock));
    join(spawn(is_refused, (void *)1));
    thread = spawn(write_in_time, NULL);
    sleep_ms(1);
    OK(pthread_rwlock_unlock(&lock));
    join(thread);
    OK(pthread_rwlock_rdlock(&lock));
    join(spawn(is_refused, (void *)0));
    OK(pthread_rwlock_unlock(&lock));
}

static void each_preference(const char *name, int preference)
{
    pthread_rwlockattr_t attributes;

    OK(pthread_rwlockattr_init(&attributes));
    OK(pthread_rwlockattr_setkind_np(&attributes, preference));
    OK(pthread_rwlock_init(&lock, &attributes));
    writes = 0;
    in_threads(THREADS, use);
    printf("%s: %ld writes\n", name, writes);
    in_threads(THREADS, read_together);
    held();
    OK(pthread_rwlock_destroy(&lock));
}

int main(void)
{
    OK(pthread_barrier_init(&together, NULL, THREADS));
    each_preference("readers first", PTHREAD_RWLOCK_PREFER_READER_NP);
    each_preference("writers first in name", PTHREAD_RWLOCK_PREFER_WRITER_NP);
    each_preference("writers first", PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    return 0;
}
