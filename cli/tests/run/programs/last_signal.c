/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The last thread of a process that the initial thread has left runs the handlers of atexit with
 * its own mask: a signal that a handler sends to the process is delivered at once.
 *
 * run: ends SIGTERM */
#include "check.h"

static void at_exit(void)
{
    sigset_t mask;

    OK(pthread_sigmask(SIG_SETMASK, NULL, &mask));
    MUST(!sigismember(&mask, SIGTERM) && sigismember(&mask, SIGUSR2));
    SHOWN("at exit");
    kill(getpid(), SIGTERM);
    MUST(!"the signal is delivered before kill returns");
}

static void *ends_last(void *arg)
{
    sigset_t one;

    sigemptyset(&one);
    sigaddset(&one, SIGUSR2);
    OK(pthread_sigmask(SIG_BLOCK, &one, NULL));
    OK(pthread_join(*(pthread_t *)arg, NULL));
    SHOWN("the initial thread has ended");
    return NULL;
}

int main(void)
{
    static pthread_t initial;

    initial = pthread_self();
    OK(atexit(at_exit));
    spawn(ends_last, &initial);
    pthread_exit(NULL);
}
