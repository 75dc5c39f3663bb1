/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A signal to the process comes while the only thread that lets it through is about to end: either
 * its handler runs, or the signal still waits for the process once the thread has ended. */
#include "check.h"

#define ROUNDS 3000

static sem_t go;
static volatile int handled;
static volatile unsigned work;

static void on_signal(int number)
{
    (void)number;
    handled = 1;
}

static void spin(unsigned turns)
{
    for (unsigned turn = 0; turn < turns; turn++)
        work++;
}

static sigset_t only(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    return set;
}

/* Waits first: it ends soon after somebody has woken it. */
static void *ends(void *arg)
{
    sigset_t set = only();

    OK(pthread_sigmask(SIG_UNBLOCK, &set, NULL));
    down(&go);
    spin(1000);
    return arg;
}

int main(void)
{
    static const struct timespec now;
    struct sigaction action = {.sa_handler = on_signal};
    sigset_t set = only();

    MUST(sigaction(SIGUSR1, &action, NULL) == 0);
    OK(pthread_sigmask(SIG_BLOCK, &set, NULL));
    OK(sem_init(&go, 0, 0));
    for (unsigned round = 0; round < ROUNDS; round++) {
        pthread_t thread = spawn(ends, NULL);

        handled = 0;
        if (round % 4 == 0)
            usleep(50); /* it waits by now */
        OK(sem_post(&go));
        spin(round * 17 % 6000);
        MUST(kill(getpid(), SIGUSR1) == 0);
        join(thread);
        if (!handled)
            MUST(sigtimedwait(&set, NULL, &now) == SIGUSR1);
        else
            FAILS(EAGAIN, sigtimedwait(&set, NULL, &now));
    }
    SHOWN("no signal was lost, and none came twice");
}
