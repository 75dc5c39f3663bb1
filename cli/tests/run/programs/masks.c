/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Signal masks: inherited by threads and children, kept over waits, changed for the time of
 * sigsuspend, ppoll and a handler; signals of the process go to the one thread that lets them. */
#include "check.h"
#include <poll.h>
#include <ucontext.h>

enum { THREADS = 6, SIGNALS = 40 };

static pthread_t taker;
static volatile int taken;
static sem_t begun, never;
static volatile int stop;
static __thread int is_blocked_now[65];
static __thread volatile int compared;

static sigset_t only(int signal)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, signal);
    return set;
}

static void change(int how, int signal)
{
    sigset_t set = only(signal);

    OK(pthread_sigmask(how, &set, NULL));
}

static int is_blocked(int signal)
{
    sigset_t set;

    OK(pthread_sigmask(SIG_SETMASK, NULL, &set));
    return sigismember(&set, signal);
}

static void take(int signal)
{
    MUST(signal == SIGUSR1 && pthread_equal(pthread_self(), taker));
    taken++;
}

/* A handler finds the mask that it interrupts in its context, and nothing else. */
static void compares(int signal, siginfo_t *info, void *context)
{
    const ucontext_t *interrupted = (const ucontext_t *)context;

    (void)info;
    MUST(signal == SIGUSR2);
    for (int at = 1; at <= SIGRTMAX; at++)
        if (at < 32 || at >= SIGRTMIN)
            MUST(sigismember(&interrupted->uc_sigmask, at) == is_blocked_now[at]);
    compared = 1;
}

/* Each thread has another mask, and finds it again after each wait. */
static void *keeps_its_mask(void *arg)
{
    int own = (int)(intptr_t)arg;

    MUST(is_blocked(SIGUSR1) && !is_blocked(SIGRTMIN + 1));
    change(SIG_BLOCK, SIGRTMIN + own);
    for (int turn = 0; turn < 20; turn++) {
        struct timespec soon = in_ms(CLOCK_REALTIME, 1);

        FAILS(ETIMEDOUT, sem_timedwait(&never, &soon));
        usleep(100);
        sched_yield();
        for (int at = 0; at < THREADS; at++)
            MUST(is_blocked(SIGRTMIN + at) == (at == own));
        for (int at = 1; at <= SIGRTMAX; at++)
            is_blocked_now[at] = is_blocked(at);
        compared = 0;
        OK(pthread_kill(pthread_self(), SIGUSR2));
        MUST(compared);
    }
    return NULL;
}

static void *takes_them(void *arg)
{
    taker = pthread_self();
    change(SIG_UNBLOCK, SIGUSR1);
    OK(sem_post(&begun));
    while (!stop)
        if (arg)
            usleep(100);
    return arg;
}

static void *never_gets_one(void *arg)
{
    struct timespec limit = in_ms(CLOCK_REALTIME, 600000);

    if (arg)
        OK(sem_timedwait(&never, &limit));
    else
        while (!stop)
            ;
    return arg;
}

/* The one that lets them through computes in the first round, and sleeps in the second. */
static void to_the_process(void)
{
    for (intptr_t sleeps = 0; sleeps < 2; sleeps++) {
        pthread_t threads[3];

        stop = taken = 0;
        threads[0] = spawn(never_gets_one, NULL);
        threads[1] = spawn(never_gets_one, &never);
        threads[2] = spawn(takes_them, (void *)sleeps);
        down(&begun);
        for (int at = 0; at < SIGNALS; at++) {
            int before = taken;

            MUST(kill(getpid(), SIGUSR1) == 0);
            while (taken == before)
                usleep(50);
            MUST(taken == before + 1);
        }
        stop = 1;
        OK(sem_post(&never));
        for (int at = 0; at < 3; at++)
            join(threads[at]);
    }
}

static volatile int seen;

static void look_at_mask(int signal)
{
    (void)signal;
    seen = is_blocked(SIGUSR2) && is_blocked(SIGHUP) && is_blocked(SIGTERM);
}

/* A mask for a while: of sigsuspend, of ppoll, of a handler. */
static void *for_a_while(void *arg)
{
    struct sigaction action = {.sa_handler = look_at_mask};
    sigset_t set, all;

    action.sa_mask = only(SIGHUP);
    OK(sigaction(SIGUSR2, &action, NULL));
    change(SIG_BLOCK, SIGUSR2);
    sigfillset(&all);
    sigdelset(&all, SIGUSR2);
    sigdelset(&all, SIGHUP);
    sigdelset(&all, SIGSEGV);
    for (int round = 0; round < 3; round++) {
        seen = 0;
        OK(pthread_kill(pthread_self(), SIGUSR2));
        if (round == 0)
            FAILS(EINTR, sigsuspend(&all));
        else if (round == 1)
            FAILS(EINTR, ppoll(NULL, 0, NULL, &all));
        else
            FAILS(EINTR, pselect(0, NULL, NULL, NULL, NULL, &all));
        MUST(seen && is_blocked(SIGUSR2) && !is_blocked(SIGHUP) && !is_blocked(SIGTERM));
    }
    OK(pthread_kill(pthread_self(), SIGUSR2));
    MUST(sigpending(&set) == 0 && sigismember(&set, SIGUSR2) == 1);
    signal(SIGUSR2, SIG_IGN);
    MUST(sigpending(&set) == 0 && sigismember(&set, SIGUSR2) == 0);
    return arg;
}

/* A child begins with the mask of the thread that forked, and with nothing pending. */
static void *forks(void *arg)
{
    pid_t child;

    change(SIG_BLOCK, SIGRTMIN + 3);
    OK(pthread_kill(pthread_self(), SIGRTMIN + 3));
    child = fork();
    if (child == 0) {
        sigset_t set;

        MUST(is_blocked(SIGRTMIN + 3) && is_blocked(SIGUSR1) && !is_blocked(SIGRTMIN + 4));
        MUST(sigpending(&set) == 0 && !sigismember(&set, SIGRTMIN + 3));
        _exit(0);
    }
    MUST(exits(child, 0));
    return arg;
}

int main(void)
{
    struct sigaction action = {.sa_handler = take};
    struct sigaction looks = {.sa_sigaction = compares, .sa_flags = SA_SIGINFO};

    OK(sem_init(&begun, 0, 0));
    OK(sem_init(&never, 0, 0));
    OK(sigaction(SIGUSR1, &action, NULL));
    OK(sigaction(SIGUSR2, &looks, NULL));
    change(SIG_BLOCK, SIGUSR1);
    in_threads(THREADS, keeps_its_mask);
    SHOWN("each thread its own");
    to_the_process();
    SHOWN("signals of the process");
    join(spawn(for_a_while, NULL));
    SHOWN("for a while");
    join(spawn(forks, NULL));
    SHOWN("inherited by a child");
    return 0;
}
