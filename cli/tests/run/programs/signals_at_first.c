/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Handlers that make system calls while the program makes its first thread, and all signals that a
 * handler blocks meanwhile. */
#include "check.h"

#include <sys/syscall.h>
#include <sys/time.h>

static volatile sig_atomic_t handled;
static int null;

static void on_alarm(int signal)
{
    MUST(signal == SIGALRM);
    MUST(syscall(SYS_gettid) > 0 && write(null, "x", 1) == 1);
    handled++;
}

static void *returns(void *arg)
{
    return arg;
}

int main(void)
{
    struct itimerval often = {{0, 50}, {0, 50}}, never = {{0, 0}, {0, 0}};
    struct sigaction action;

    null = open("/dev/null", O_WRONLY);
    MUST(null >= 0);
    memset(&action, 0, sizeof action);
    action.sa_handler = on_alarm;
    action.sa_flags = SA_RESTART;
    sigfillset(&action.sa_mask);
    MUST(sigaction(SIGALRM, &action, NULL) == 0);
    MUST(setitimer(ITIMER_REAL, &often, NULL) == 0);
    while (handled < 10) {
    }
    join(spawn(returns, NULL));
    MUST(setitimer(ITIMER_REAL, &never, NULL) == 0);
    SHOWN("handlers make calls while the first thread is made");
    return 0;
}
