/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* pthread_kill to threads that compute, that wait for a mutex, a condition variable or a semaphore,
 * that sleep and that are in a system call: the handler runs in the thread meant, once a signal. */
#include "check.h"
#include <poll.h>

enum { THREADS = 6, SIGNALS = 30 };

static _Thread_local volatile int handled;
static _Thread_local int *own_count;
static volatile int stop;
static int counts[THREADS];
static pthread_t threads[THREADS];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static sem_t sem;
static int ends[2];

static void handler(int signal, siginfo_t *info, void *context)
{
    (void)context;
    MUST(signal == SIGUSR1 && info->si_code == SI_TKILL && info->si_pid == getpid());
    handled++;
    __atomic_add_fetch(own_count, 1, __ATOMIC_SEQ_CST);
}

static void compute(void)
{
    while (!stop)
        ;
}

static void wait_for_cond(void)
{
    OK(pthread_mutex_lock(&mutex));
    while (!stop)
        OK(pthread_cond_wait(&cond, &mutex));
    OK(pthread_mutex_unlock(&mutex));
}

static void wait_for_sem(void)
{
    down(&sem);
}

static void sleep_long(void)
{
    while (!stop) {
        struct timespec left = {1000, 0};

        FAILS(EINTR, nanosleep(&left, &left));
        MUST(left.tv_sec <= 1000 && left.tv_sec >= 900);
    }
}

static void read_pipe(void)
{
    char byte;
    ssize_t size;

    do
        size = read(ends[0], &byte, 1);
    while (size == -1 && errno == EINTR);
    MUST(size == 1);
}

static void poll_pipe(void)
{
    struct pollfd one = {ends[0], POLLPRI, 0};

    while (!stop)
        FAILS(EINTR, poll(&one, 1, -1));
}

static void (*const bodies[THREADS])(void) = {
    compute, wait_for_cond, wait_for_sem, sleep_long, read_pipe, poll_pipe,
};

static void *body(void *arg)
{
    intptr_t number = (intptr_t)arg;

    own_count = &counts[number];
    __atomic_add_fetch(own_count, 1, __ATOMIC_SEQ_CST);
    bodies[number]();
    MUST(handled + 1 == __atomic_load_n(own_count, __ATOMIC_SEQ_CST));
    return NULL;
}

static int count(int thread)
{
    return __atomic_load_n(&counts[thread], __ATOMIC_SEQ_CST);
}

/* One signal after the other to each thread: standard signals that pend do not add up. */
static void send_all(void)
{
    for (int round = 0; round < SIGNALS; round++)
        for (int at = 0; at < THREADS; at++) {
            int before = count(at);

            OK(pthread_kill(threads[at], SIGUSR1));
            while (count(at) == before)
                usleep(50);
            MUST(count(at) == before + 1);
        }
}

static void *blocked_until_let(void *arg)
{
    sigset_t set;

    own_count = arg;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    OK(pthread_sigmask(SIG_BLOCK, &set, NULL));
    OK(pthread_kill(pthread_self(), SIGUSR1));
    OK(pthread_kill(pthread_self(), SIGUSR1));
    sleep_ms(1);
    MUST(handled == 0);
    OK(sigpending(&set) == 0 && sigismember(&set, SIGUSR1) == 1 ? 0 : -1);
    OK(pthread_sigmask(SIG_UNBLOCK, &set, NULL));
    /* The one that is pending is delivered before the call returns. */
    MUST(handled == 1);
    OK(pthread_kill(pthread_self(), SIGUSR1));
    MUST(handled == 2);
    return arg;
}

int main(void)
{
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    static int other;

    OK(sigaction(SIGUSR1, &action, NULL));
    OK(sem_init(&sem, 0, 0));
    MUST(pipe(ends) == 0);
    for (intptr_t at = 0; at < THREADS; at++) {
        threads[at] = spawn(body, (void *)at);
        while (count((int)at) == 0)
            usleep(50);
    }
    send_all();
    SHOWN("each thread its signals");
    OK(pthread_mutex_lock(&mutex));
    stop = 1;
    OK(pthread_cond_broadcast(&cond));
    OK(pthread_mutex_unlock(&mutex));
    OK(sem_post(&sem));
    MUST(write(ends[1], "b", 1) == 1);
    for (int at = 0; at < THREADS; at++) {
        /* These two wait for a signal only. */
        while ((at == 3 || at == 5) && pthread_tryjoin_np(threads[at], NULL) == EBUSY) {
            OK(pthread_kill(threads[at], SIGUSR1));
            usleep(200);
        }
        if (at != 3 && at != 5)
            join(threads[at]);
    }
    SHOWN("all end");
    join(spawn(blocked_until_let, &other));
    SHOWN("blocked, then let through");
    OK(pthread_kill(pthread_self(), 0));
    RETURNS(EINVAL, pthread_kill(pthread_self(), 1000));
    return 0;
}
