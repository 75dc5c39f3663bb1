/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Robust mutexes whose owner dies, as a thread and as a process, and mutexes that pass on their
 * holder's priority. */
#include "check.h"

enum { THREADS = 6, TURNS = 500 };

static pthread_mutex_t *mutex;
static sem_t holds;
static long counter;

static void initialise(pthread_mutex_t *at, int is_robust, int protocol, int is_shared)
{
    pthread_mutexattr_t attributes;

    OK(pthread_mutexattr_init(&attributes));
    OK(pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK));
    if (is_robust)
        OK(pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST));
    OK(pthread_mutexattr_setprotocol(&attributes, protocol));
    if (is_shared)
        OK(pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED));
    OK(pthread_mutex_init(at, &attributes));
    mutex = at;
}

static void *ends_with_it(void *arg)
{
    OK(pthread_mutex_lock(mutex));
    OK(sem_post(&holds));
    sleep_ms((long)(intptr_t)arg);
    return NULL;
}

/* The next to lock is told; once it has made the state consistent, the mutex is as new. */
static void owner_dies(long after_ms)
{
    pthread_t owner = spawn(ends_with_it, (void *)after_ms);

    down(&holds);
    RETURNS(EOWNERDEAD, pthread_mutex_lock(mutex));
    OK(pthread_mutex_consistent(mutex));
    OK(pthread_mutex_unlock(mutex));
    join(owner);
    OK(pthread_mutex_lock(mutex));
    OK(pthread_mutex_unlock(mutex));
}

static void *finds_it_lost(void *arg)
{
    RETURNS(ENOTRECOVERABLE, pthread_mutex_lock(mutex));
    return arg;
}

static void not_made_consistent(void)
{
    join(spawn(ends_with_it, NULL));
    down(&holds);
    RETURNS(EOWNERDEAD, pthread_mutex_trylock(mutex));
    OK(pthread_mutex_unlock(mutex));
    in_threads(4, finds_it_lost);
    OK(pthread_mutex_destroy(mutex));
}

static void *count(void *arg)
{
    for (int turn = 0; turn < TURNS; turn++) {
        OK(pthread_mutex_lock(mutex));
        counter++;
        if (turn % 32 == 0)
            sched_yield();
        OK(pthread_mutex_unlock(mutex));
    }
    return arg;
}

static void excludes(void)
{
    counter = 0;
    in_threads(THREADS, count);
    MUST(counter == (long)THREADS * TURNS);
}

static void *is_refused(void *arg)
{
    struct timespec soon = in_ms(CLOCK_REALTIME, 5);

    RETURNS(EBUSY, pthread_mutex_trylock(mutex));
    RETURNS(ETIMEDOUT, pthread_mutex_timedlock(mutex, &soon));
    RETURNS(EPERM, pthread_mutex_unlock(mutex));
    return arg;
}

static void inherits(void)
{
    OK(pthread_mutex_lock(mutex));
    RETURNS(EDEADLK, pthread_mutex_lock(mutex));
    join(spawn(is_refused, NULL));
    OK(pthread_mutex_unlock(mutex));
    excludes();
}

static void a_process_dies(void)
{
    pthread_mutex_t *shared = shared_page();
    pid_t child;

    initialise(shared, 1, PTHREAD_PRIO_NONE, 1);
    child = fork();
    if (child == 0) {
        OK(pthread_mutex_lock(shared));
        _exit(0);
    }
    MUST(exits(child, 0));
    RETURNS(EOWNERDEAD, pthread_mutex_lock(shared));
    OK(pthread_mutex_consistent(shared));
    OK(pthread_mutex_unlock(shared));
}

int main(void)
{
    static pthread_mutex_t robust, lost, inheriting, both;

    OK(sem_init(&holds, 0, 0));
    initialise(&robust, 1, PTHREAD_PRIO_NONE, 0);
    excludes();
    owner_dies(0);
    owner_dies(3);
    SHOWN("the owner dies");
    initialise(&lost, 1, PTHREAD_PRIO_NONE, 0);
    not_made_consistent();
    SHOWN("not recoverable");
    initialise(&inheriting, 0, PTHREAD_PRIO_INHERIT, 0);
    inherits();
    SHOWN("priority inheritance");
    initialise(&both, 1, PTHREAD_PRIO_INHERIT, 0);
    inherits();
    owner_dies(0);
    owner_dies(3);
    SHOWN("both");
    a_process_dies();
    SHOWN("a process dies");
    return 0;
}
