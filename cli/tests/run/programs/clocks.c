/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Sleeps by each clock, in threads; the CPU time of the process. */
#include "check.h"
#include <sys/times.h>

/* Each clock goes on, and a sleep is not shorter than asked for. */
static void *sleeps(void *arg)
{
    static const clockid_t clocks[] = {CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_BOOTTIME, CLOCK_TAI};

    for (int at = 0; at < 4; at++) {
        struct timespec span = {0, 2000000}, limit, invalid = {0, -1};
        int64_t begin = now_ns(clocks[at]);

        OK(clock_nanosleep(clocks[at], 0, &span, NULL));
        MUST(now_ns(clocks[at]) - begin >= 2000000);
        limit = in_ms(clocks[at], 2);
        OK(clock_nanosleep(clocks[at], TIMER_ABSTIME, &limit, NULL));
        MUST(is_past(clocks[at], limit));
        OK(clock_nanosleep(clocks[at], TIMER_ABSTIME, &limit, NULL));
        RETURNS(EINVAL, clock_nanosleep(clocks[at], 0, &invalid, NULL));
    }
    RETURNS(EINVAL, clock_nanosleep(CLOCK_THREAD_CPUTIME_ID, 0, &(struct timespec){0, 1}, NULL));
    return arg;
}

int main(void)
{
    struct tms times_now;

    in_threads(6, sleeps);
    SHOWN("sleeps");
    MUST(times(&times_now) != -1 && times_now.tms_utime + times_now.tms_stime >= 0);
    return 0;
}
