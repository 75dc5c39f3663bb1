/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A signal without a handler ends the whole process, whichever thread sends it, and whatever the
 * others do. run: ends SIGTERM */
#include "check.h"

static sem_t never;

static void *waits(void *arg)
{
    down(&never);
    return arg;
}

static void *computes(void *arg)
{
    for (;;)
        ;
    return arg;
}

/* A child whose threads all wait, or one of which computes, ends by a signal from outside. */
static void from_outside(int signal, int has_computing)
{
    int ready[2], status;
    char byte;
    pid_t child;

    MUST(pipe(ready) == 0);
    child = fork();
    if (child == 0) {
        spawn(waits, NULL);
        spawn(waits, NULL);
        if (has_computing)
            spawn(computes, NULL);
        MUST(write(ready[1], "b", 1) == 1);
        waits(NULL);
    }
    MUST(read(ready[0], &byte, 1) == 1);
    usleep(1000);
    MUST(kill(child, signal) == 0);
    status = status_of(child);
    MUST(WIFSIGNALED(status) && WTERMSIG(status) == signal);
    MUST(close(ready[0]) == 0 && close(ready[1]) == 0);
}

static void *sends(void *arg)
{
    usleep(2000);
    SHOWN("terminated");
    MUST(kill(getpid(), SIGTERM) == 0);
    for (;;)
        pause();
    return arg;
}

int main(void)
{
    static const int signals[] = {SIGTERM, SIGKILL, SIGINT, SIGHUP, SIGUSR1, SIGALRM};

    OK(sem_init(&never, 0, 0));
    for (int at = 0; at < 12; at++)
        from_outside(signals[at / 2], at % 2);
    SHOWN("from outside");
    spawn(computes, NULL);
    spawn(waits, NULL);
    join(spawn(sends, NULL));
    return 0;
}
