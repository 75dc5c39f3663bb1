/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Signals of a fast timer come while the program makes its first thread. */
#include "check.h"
#include <sys/time.h>

enum { WAITS = 200 };

static volatile sig_atomic_t rings;

static void ring(int signal)
{
    (void)signal;
    rings++;
}

static void *waits(void *arg)
{
    for (int at = 0; at < WAITS; at++)
        usleep(50);
    return arg;
}

int main(void)
{
    struct sigaction action = {.sa_handler = ring};
    struct itimerval often = {{0, 50}, {0, 50}}, never = {{0, 0}, {0, 0}};

    OK(sigaction(SIGALRM, &action, NULL));
    OK(setitimer(ITIMER_REAL, &often, NULL));
    in_threads(2, waits);
    OK(setitimer(ITIMER_REAL, &never, NULL));
    MUST(rings > 0);
    SHOWN("first threads, and signals");
    return 0;
}
