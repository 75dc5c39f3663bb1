/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Forks of a program with threads: the handlers of pthread_atfork, locks that they hold, children
 * that make threads of their own, forks from several threads at once, children of children. */
#include "check.h"

enum { THREADS = 6, FORKS = 8 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char order[16];
static _Thread_local int own;
static sem_t never;
static volatile int stop;

static void note(char letter)
{
    size_t length = strlen(order);

    MUST(length + 1 < sizeof order);
    order[length] = letter;
}

static void prepare_first(void)
{
    note('a');
    OK(pthread_mutex_unlock(&mutex));
}

static void prepare_second(void)
{
    OK(pthread_mutex_lock(&mutex));
    order[0] = 0;
    memset(order, 0, sizeof order);
    note('b');
}

static void parent_first(void)
{
    OK(pthread_mutex_lock(&mutex));
}

static void parent_second(void)
{
    OK(pthread_mutex_unlock(&mutex));
}

static void child_first(void)
{
    note('c');
}

static void child_second(void)
{
    note('d');
}

static void *counts(void *arg)
{
    int *counter = arg;

    MUST(own == 0);
    own = 5;
    for (int turn = 0; turn < 100; turn++) {
        OK(pthread_mutex_lock(&mutex));
        ++*counter;
        if (turn % 10 == 0)
            sched_yield();
        OK(pthread_mutex_unlock(&mutex));
    }
    return arg;
}

/* Only the thread that forked is in the child; threads, waits and timed waits work there. */
static void in_child(int expected)
{
    struct timespec limit = in_ms(CLOCK_REALTIME, 1);
    pthread_t threads[4];
    sem_t sem;
    int counter = 0;

    MUST(own == expected && gettid() == getpid());
    for (int at = 0; at < 4; at++)
        threads[at] = spawn(counts, &counter);
    for (int at = 0; at < 4; at++)
        join(threads[at]);
    MUST(counter == 400);
    OK(sem_init(&sem, 0, 0));
    FAILS(ETIMEDOUT, sem_timedwait(&sem, &limit));
    MUST(own == expected);
}

static void *forks(void *arg)
{
    own = (int)(intptr_t)arg + 1;
    usleep(100);
    for (int at = 0; at < FORKS; at++) {
        pid_t child = fork();

        MUST(child >= 0);
        if (child == 0) {
            in_child((int)(intptr_t)arg + 1);
            if (at == 0) {
                child = fork();
                if (child == 0) {
                    in_child((int)(intptr_t)arg + 1);
                    _exit(1);
                }
                MUST(exits(child, 1));
            }
            exit(at);
        }
        MUST(exits(child, at));
    }
    return NULL;
}

static void *other(void *arg)
{
    if (arg)
        down(&never);
    while (!stop)
        free(malloc(100));
    return arg;
}

static void handlers(void)
{
    pid_t child;

    OK(pthread_atfork(prepare_first, parent_first, child_first));
    OK(pthread_atfork(prepare_second, parent_second, child_second));
    child = fork();
    if (child == 0)
        _exit(strcmp(order, "bacd") != 0);
    MUST(exits(child, 0));
    OK(pthread_mutex_lock(&mutex));
    MUST(!strcmp(order, "ba"));
    OK(pthread_mutex_unlock(&mutex));
}

/* The child ends by pthread_exit of its only thread. */
static void *ends_by_thread_exit(void *arg)
{
    pid_t child = fork();

    if (child == 0)
        pthread_exit(arg);
    MUST(exits(child, 0));
    return arg;
}

int main(void)
{
    pthread_t waits, computes;

    OK(sem_init(&never, 0, 0));
    in_threads(THREADS, forks);
    SHOWN("several at once");
    waits = spawn(other, &never);
    computes = spawn(other, NULL);
    in_threads(2, forks);
    SHOWN("beside threads that wait and compute");
    join(spawn(ends_by_thread_exit, NULL));
    SHOWN("ends by pthread_exit");
    handlers();
    SHOWN("handlers in order");
    stop = 1;
    OK(sem_post(&never));
    join(waits);
    join(computes);
    return 0;
}
