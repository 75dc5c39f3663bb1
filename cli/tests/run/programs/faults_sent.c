/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Signals that most often are faults, sent to the process: one of the threads that let them through
 * handles each, and goes on as before. */
#include "check.h"

enum { THREADS = 4, ROUNDS = 60 };

static const int signals[] = {SIGFPE, SIGILL, SIGSYS, SIGABRT, SIGTRAP, SIGSEGV, SIGBUS};
enum { SIGNALS = sizeof signals / sizeof *signals };

static sem_t turn[THREADS];
static int pipes[2];
static _Atomic int handled, is_over;
static pthread_t sender;

static void handler(int signal)
{
    (void)signal;
    MUST(!pthread_equal(pthread_self(), sender));
    handled++;
}

static void *passes_turns(void *arg)
{
    int own = (int)(intptr_t)arg;
    volatile double work = own;
    sigset_t mask;

    while (!is_over) {
        down(&turn[own]);
        work = work * 1.5 + 1;
        MUST(sem_post(&turn[(own + 1) % THREADS]) == 0);
    }
    MUST(sem_post(&turn[(own + 1) % THREADS]) == 0);
    OK(pthread_sigmask(SIG_BLOCK, NULL, &mask));
    for (int signal = 1; signal < 32; signal++)
        MUST(sigismember(&mask, signal) == 0);
    /* It gets signals as before. */
    int before = handled;
    OK(pthread_kill(pthread_self(), SIGFPE));
    MUST(handled > before);
    return NULL;
}

/* Waits in the kernel, and lets the signals through. */
static void *reads(void *arg)
{
    char byte;

    while (read(pipes[0], &byte, 1) != 1)
        MUST(errno == EINTR);
    return arg;
}

/* Blocks them, and waits for one. */
static void *waits_for(void *arg)
{
    int number = (int)(intptr_t)arg, got;
    sigset_t one, all;

    sigfillset(&all);
    OK(pthread_sigmask(SIG_BLOCK, &all, NULL));
    sigemptyset(&one);
    sigaddset(&one, number);
    MUST(sem_post(&turn[0]) == 0);
    OK(sigwait(&one, &got));
    MUST(got == number);
    handled++;
    return arg;
}

/* The sender waits for that, off the servers. */
static void is_handled(int count)
{
    while (handled != count)
        sleep_ms(1);
}

int main(void)
{
    pthread_t threads[THREADS], reader;
    struct sigaction action;
    sigset_t all;

    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    sender = pthread_self();
    for (int at = 0; at < SIGNALS; at++)
        MUST(sigaction(signals[at], &action, NULL) == 0);
    for (int at = 0; at < THREADS; at++)
        MUST(sem_init(&turn[at], 0, at == 0) == 0);
    for (intptr_t at = 0; at < THREADS; at++)
        threads[at] = spawn(passes_turns, (void *)at);
    sigfillset(&all);
    OK(pthread_sigmask(SIG_BLOCK, &all, NULL));
    for (int round = 0; round < ROUNDS; round++) {
        MUST(kill(getpid(), signals[round % SIGNALS]) == 0);
        is_handled(round + 1);
    }
    is_over = 1;
    for (int at = 0; at < THREADS; at++)
        join(threads[at]);
    SHOWN("each was handled once");

    int count = handled;
    MUST(pipe(pipes) == 0);
    OK(pthread_sigmask(SIG_UNBLOCK, &all, NULL));
    reader = spawn(reads, NULL);
    OK(pthread_sigmask(SIG_BLOCK, &all, NULL));
    for (int round = 0; round < SIGNALS; round++) {
        MUST(kill(getpid(), signals[round]) == 0);
        is_handled(++count);
    }
    MUST(write(pipes[1], "x", 1) == 1);
    join(reader);
    SHOWN("also by a thread that reads");

    while (sem_trywait(&turn[0]) == 0)
        continue;
    for (int round = 0; round < SIGNALS; round++) {
        threads[0] = spawn(waits_for, (void *)(intptr_t)signals[round]);
        down(&turn[0]);
        MUST(kill(getpid(), signals[round]) == 0);
        join(threads[0]);
        is_handled(++count);
    }
    SHOWN("and by one that waits for them");
    return 0;
}
