/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Signals that are waited for: sigwait, sigwaitinfo with values, sigtimedwait, signalfd, in several
 * threads; signals with values are queued in order. */
#include "check.h"
#include <poll.h>
#include <sys/signalfd.h>

enum { THREADS = 4, EACH = 50, QUEUED = 20 };

static int got, sums[THREADS];
static sem_t begun;

static sigset_t only(int signal)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, signal);
    return set;
}

static void send(int signal, int value)
{
    union sigval given = {.sival_int = value};

    MUST(sigqueue(getpid(), signal, given) == 0);
}

/* Several threads wait for the same signals. A value of 0 is the last for a thread. */
static void *takes_values(void *arg)
{
    sigset_t set = only(SIGRTMIN);
    siginfo_t info;

    for (;;) {
        int signal = sigwaitinfo(&set, &info);

        /* Another thread was faster. */
        if (signal == -1 && errno == EINTR)
            continue;
        MUST(signal == SIGRTMIN && info.si_code == SI_QUEUE && info.si_pid == getpid());
        if (info.si_value.sival_int == 0)
            return NULL;
        sums[(intptr_t)arg] += info.si_value.sival_int;
        __atomic_add_fetch(&got, 1, __ATOMIC_SEQ_CST);
    }
}

static void values(void)
{
    pthread_t threads[THREADS];
    int sum = 0;

    for (intptr_t at = 0; at < THREADS; at++)
        threads[at] = spawn(takes_values, (void *)at);
    for (int at = 1; at <= THREADS * EACH; at++)
        send(SIGRTMIN, at);
    for (int at = 0; at < THREADS; at++)
        send(SIGRTMIN, 0);
    for (int at = 0; at < THREADS; at++) {
        join(threads[at]);
        sum += sums[at];
    }
    MUST(got == THREADS * EACH && sum == THREADS * EACH * (THREADS * EACH + 1) / 2);
}

/* Queued before anybody waits: lower numbers first, each in order. */
static void *takes_in_order(void *arg)
{
    sigset_t set = only(SIGRTMIN + 2);
    siginfo_t info;

    sigaddset(&set, SIGRTMIN + 1);
    for (int at = 0; at < 2 * QUEUED; at++) {
        MUST(sigwaitinfo(&set, &info) == (at < QUEUED ? SIGRTMIN + 1 : SIGRTMIN + 2));
        MUST(info.si_value.sival_int == at % QUEUED);
    }
    return arg;
}

static void order(void)
{
    for (int at = 0; at < QUEUED; at++) {
        send(SIGRTMIN + 2, at);
        send(SIGRTMIN + 1, at);
    }
    join(spawn(takes_in_order, NULL));
}

static void *takes_one(void *arg)
{
    sigset_t set = only(SIGUSR1);
    int signal;

    OK(sem_post(&begun));
    OK(sigwait(&set, &signal));
    MUST(signal == SIGUSR1);
    return arg;
}

/* To a thread that waits, and to one that does not wait yet. */
static void to_a_thread(void)
{
    for (int round = 0; round < 20; round++) {
        pthread_t thread = spawn(takes_one, NULL);

        down(&begun);
        if (round % 2)
            usleep(500);
        OK(pthread_kill(thread, SIGUSR1));
        join(thread);
    }
}

static void *limited(void *arg)
{
    sigset_t set = only(SIGUSR1);
    struct timespec limit = {0, 5000000}, zero = {0, 0}, far = {1000, 0};
    int64_t begin = now_ns(CLOCK_MONOTONIC);

    FAILS(EAGAIN, sigtimedwait(&set, NULL, &limit));
    MUST(now_ns(CLOCK_MONOTONIC) - begin >= 5000000);
    FAILS(EAGAIN, sigtimedwait(&set, NULL, &zero));
    OK(pthread_kill(pthread_self(), SIGUSR1));
    MUST(sigtimedwait(&set, NULL, &zero) == SIGUSR1);
    OK(pthread_kill(pthread_self(), SIGUSR1));
    MUST(sigtimedwait(&set, NULL, &far) == SIGUSR1);
    return arg;
}

static void handle(int signal)
{
    (void)signal;
}

/* A handler for another signal ends the wait. */
static void *is_interrupted(void *arg)
{
    sigset_t set = only(SIGUSR1);

    FAILS(EINTR, sigwaitinfo(&set, NULL));
    return arg;
}

static void *reads_signals(void *arg)
{
    int fd = *(int *)arg;
    struct signalfd_siginfo info;

    for (int at = 0; at < QUEUED; at++) {
        MUST(read(fd, &info, sizeof info) == sizeof info);
        MUST(info.ssi_signo == (uint32_t)SIGRTMIN + 4 && info.ssi_int == at);
    }
    return NULL;
}

static void by_descriptor(void)
{
    sigset_t set = only(SIGRTMIN + 4);
    int fd = signalfd(-1, &set, SFD_CLOEXEC);
    struct pollfd one = {fd, POLLIN, 0};
    pthread_t thread;

    MUST(fd >= 0 && poll(&one, 1, 0) == 0);
    thread = spawn(reads_signals, &fd);
    for (int at = 0; at < QUEUED; at++) {
        if (at % 4 == 0)
            usleep(200);
        send(SIGRTMIN + 4, at);
    }
    join(thread);
    OK(pthread_kill(pthread_self(), SIGRTMIN + 4));
    MUST(poll(&one, 1, 1000) == 1 && one.revents == POLLIN);
    MUST(close(fd) == 0);
}

int main(void)
{
    struct sigaction action = {.sa_handler = handle};
    pthread_t thread;
    sigset_t set;

    OK(sem_init(&begun, 0, 0));
    OK(sigaction(SIGUSR2, &action, NULL));
    sigfillset(&set);
    sigdelset(&set, SIGUSR2);
    OK(pthread_sigmask(SIG_SETMASK, &set, NULL));
    values();
    SHOWN("values");
    order();
    SHOWN("in order");
    to_a_thread();
    SHOWN("to a thread");
    join(spawn(limited, NULL));
    SHOWN("limits of time");
    thread = spawn(is_interrupted, NULL);
    while (pthread_tryjoin_np(thread, NULL) == EBUSY) {
        OK(pthread_kill(thread, SIGUSR2));
        usleep(500);
    }
    SHOWN("interrupted");
    by_descriptor();
    SHOWN("by a descriptor");
    return 0;
}
