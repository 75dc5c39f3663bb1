/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Signals that most often are faults, sent to the process: one of the threads that let them through
 * handles each, and goes on as before. */
#include "check.h"

enum { THREADS = 4, ROUNDS = 60 };

static const int signals[] = {SIGFPE, SIGILL, SIGSYS, SIGABRT, SIGTRAP, SIGSEGV, SIGBUS};
enum { SIGNALS = sizeof signals / sizeof *signals };

static sem_t turn[THREADS];
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

int main(void)
{
    pthread_t threads[THREADS];
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
        while (handled != round + 1)
            sleep_ms(1);
    }
    is_over = 1;
    for (int at = 0; at < THREADS; at++)
        join(threads[at]);
    SHOWN("each was handled once");
    return 0;
}
