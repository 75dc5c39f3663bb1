/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Two timers interrupt each of four threads all the time, in calls, in handlers, and in between:
 * the threads' masks stay as they are. */
#include "check.h"

#define TURNS 20000

static void on_signal(int number)
{
    (void)number;
}

static timer_t sends(int number, long ns)
{
    struct sigevent event;
    struct itimerspec time;
    timer_t timer;

    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = number;
    event._sigev_un._tid = (int)syscall(SYS_gettid);
    MUST(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    memset(&time, 0, sizeof time);
    time.it_value.tv_nsec = ns;
    time.it_interval.tv_nsec = ns;
    MUST(timer_settime(timer, 0, &time, NULL) == 0);
    return timer;
}

static void *is_interrupted(void *arg)
{
    timer_t timers[2];
    sigset_t mask;
    int ends[2];
    char byte = 0;

    MUST(pipe(ends) == 0);
    timers[0] = sends(SIGUSR1, 70000);
    timers[1] = sends(SIGUSR2, 110000);
    for (int turn = 0; turn < TURNS; turn++) {
        MUST(write(ends[1], &byte, 1) == 1);
        MUST(read(ends[0], &byte, 1) == 1);
        OK(pthread_sigmask(SIG_BLOCK, NULL, &mask));
        MUST(!sigismember(&mask, SIGUSR1) && !sigismember(&mask, SIGUSR2));
    }
    for (int at = 0; at < 2; at++)
        MUST(timer_delete(timers[at]) == 0);
    MUST(close(ends[0]) == 0 && close(ends[1]) == 0);
    return arg;
}

int main(void)
{
    struct sigaction action;

    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    MUST(sigaction(SIGUSR1, &action, NULL) == 0);
    MUST(sigaction(SIGUSR2, &action, NULL) == 0);
    in_threads(4, is_interrupted);
    SHOWN("masks stay");
    return 0;
}
