/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Signals that most often are faults, sent to the process while each thread blocks them: they are
 * pending, until a thread waits for them or the program ignores them. */
#include "check.h"

static const int signals[] = {SIGFPE, SIGILL, SIGSYS, SIGTRAP, SIGSEGV, SIGBUS};
enum { SIGNALS = sizeof signals / sizeof *signals, ROUNDS = 4 };

static sem_t turn[2];
static _Atomic int is_over, handled;

static void *passes_turns(void *arg)
{
    int own = (int)(intptr_t)arg;

    while (!is_over) {
        down(&turn[own]);
        OK(sem_post(&turn[!own]));
    }
    OK(sem_post(&turn[!own]));
    return NULL;
}

static void handler(int signal)
{
    (void)signal;
    handled++;
}

static void is_pending(int signal)
{
    sigset_t pending;

    do
        MUST(sigpending(&pending) == 0);
    while (!sigismember(&pending, signal));
}

static void is_waited_for(int signal)
{
    struct timespec none = {0, 0};
    sigset_t one;
    int got;

    sigemptyset(&one);
    sigaddset(&one, signal);
    MUST(kill(getpid(), signal) == 0);
    OK(sigwait(&one, &got));
    MUST(got == signal);
    FAILS(EAGAIN, sigtimedwait(&one, NULL, &none));
    MUST(kill(getpid(), signal) == 0);
    is_pending(signal);
    /* It may be on its way to the waiter, so this may fail for a moment. */
    while ((got = sigtimedwait(&one, NULL, &none)) < 0)
        MUST(errno == EAGAIN);
    MUST(got == signal);
    FAILS(EAGAIN, sigtimedwait(&one, NULL, &none));
}

static void is_forgotten(int signal)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN}, handle = {.sa_handler = handler}, before;
    sigset_t one;

    MUST(kill(getpid(), signal) == 0);
    is_pending(signal);
    sleep_ms(20);
    MUST(sigaction(signal, &ignore, &before) == 0);
    MUST(sigaction(signal, &handle, NULL) == 0);
    sigemptyset(&one);
    sigaddset(&one, signal);
    OK(pthread_sigmask(SIG_UNBLOCK, &one, NULL));
    sleep_ms(20);
    MUST(handled == 0);
    OK(pthread_sigmask(SIG_BLOCK, &one, NULL));
    MUST(sigaction(signal, &before, NULL) == 0);
}

int main(void)
{
    pthread_t threads[2];
    sigset_t all;

    sigfillset(&all);
    OK(pthread_sigmask(SIG_BLOCK, &all, NULL));
    for (intptr_t at = 0; at < 2; at++)
        OK(sem_init(&turn[at], 0, at == 0));
    for (intptr_t at = 0; at < 2; at++)
        threads[at] = spawn(passes_turns, (void *)at);
    for (int round = 0; round < ROUNDS; round++)
        for (int at = 0; at < SIGNALS; at++)
            is_waited_for(signals[at]);
    SHOWN("each was waited for");
    for (int at = 0; at < SIGNALS; at++)
        is_forgotten(signals[at]);
    SHOWN("and forgotten");
    is_over = 1;
    join(threads[0]);
    join(threads[1]);
    return 0;
}
