/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Timers: alarm and setitimer by wall and by CPU time, timer_create with a signal to the process,
 * to a thread, and with a thread; timerfd; in programs whose threads wait and compute. */
#include "check.h"
#include <sys/time.h>
#include <sys/timerfd.h>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

static sem_t rung, begun;
static volatile int alarms, virtual_alarms, stop;
static volatile pid_t meant;
static _Thread_local volatile int rung_here;
static int values;

static void on_alarm(int signal)
{
    (void)signal;
    alarms++;
    OK(sem_post(&rung));
}

static void on_virtual_alarm(int signal)
{
    (void)signal;
    virtual_alarms++;
}

static void on_timer(int signal, siginfo_t *info, void *context)
{
    (void)context;
    MUST(signal == SIGRTMIN && info->si_code == SI_TIMER && info->si_value.sival_int == 7);
    MUST(meant == 0 || meant == gettid());
    rung_here++;
    OK(sem_post(&rung));
}

static void set_up(void)
{
    struct sigaction plain = {.sa_handler = on_alarm};
    struct sigaction virtual = {.sa_handler = on_virtual_alarm};
    struct sigaction timer = {.sa_sigaction = on_timer, .sa_flags = SA_SIGINFO};

    OK(sem_init(&rung, 0, 0));
    OK(sem_init(&begun, 0, 0));
    OK(sigaction(SIGALRM, &plain, NULL));
    OK(sigaction(SIGVTALRM, &virtual, NULL));
    OK(sigaction(SIGPROF, &virtual, NULL));
    OK(sigaction(SIGRTMIN, &timer, NULL));
}

static void *computes(void *arg)
{
    while (!stop)
        ;
    return arg;
}

/* All threads wait, or one of them computes. */
static void interval_timer(void)
{
    struct itimerval every = {{0, 2000}, {0, 2000}}, none = {{0, 0}, {0, 0}}, left;
    pthread_t thread;

    for (int has_computing = 0; has_computing < 2; has_computing++) {
        stop = 0;
        if (has_computing)
            thread = spawn(computes, NULL);
        MUST(setitimer(ITIMER_REAL, &every, NULL) == 0);
        for (int at = 0; at < 5; at++)
            down(&rung);
        MUST(getitimer(ITIMER_REAL, &left) == 0 && left.it_interval.tv_usec == 2000);
        MUST(setitimer(ITIMER_REAL, &none, NULL) == 0);
        stop = 1;
        if (has_computing)
            join(thread);
    }
    while (sem_trywait(&rung) == 0)
        ;
    MUST(alarm(1000) == 0);
    MUST(alarm(0) >= 900);
}

/* By the CPU time of the process: only computing makes it ring. */
static void *computes_until_rung(void *arg)
{
    while (virtual_alarms < 3)
        ;
    return arg;
}

static void by_cpu_time(void)
{
    struct itimerval every = {{0, 1000}, {0, 1000}}, none = {{0, 0}, {0, 0}};
    static const int kinds[] = {ITIMER_VIRTUAL, ITIMER_PROF};

    for (int at = 0; at < 2; at++) {
        virtual_alarms = 0;
        MUST(setitimer(kinds[at], &every, NULL) == 0);
        join(spawn(computes_until_rung, NULL));
        MUST(setitimer(kinds[at], &none, NULL) == 0);
    }
}

static timer_t start(struct sigevent *event, clockid_t clock, long first_ns, long every_ns)
{
    struct itimerspec time = {{0, every_ns}, {0, first_ns}};
    timer_t timer;

    MUST(timer_create(clock, event, &timer) == 0);
    MUST(timer_settime(timer, 0, &time, NULL) == 0);
    return timer;
}

static void *rings_here(void *arg)
{
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN};
    sigset_t set;
    timer_t timer;

    event.sigev_value.sival_int = 7;
    event.sigev_notify_thread_id = gettid();
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN);
    OK(pthread_sigmask(SIG_UNBLOCK, &set, NULL));
    meant = gettid();
    timer = start(&event, CLOCK_MONOTONIC, 1000000, 1000000);
    while (rung_here < 5)
        down(&rung);
    MUST(timer_delete(timer) == 0);
    return arg;
}

static void with_signals(void)
{
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN};
    sigset_t set;
    timer_t timer;

    event.sigev_value.sival_int = 7;
    timer = start(&event, CLOCK_REALTIME, 1000000, 0);
    down(&rung);
    MUST(timer_getoverrun(timer) == 0);
    MUST(timer_delete(timer) == 0);
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN);
    OK(pthread_sigmask(SIG_BLOCK, &set, NULL));
    for (int at = 0; at < 3; at++)
        join(spawn(rings_here, NULL));
    while (sem_trywait(&rung) == 0)
        ;
}

static void in_new_thread(union sigval value)
{
    MUST(gettid() != getpid());
    __atomic_add_fetch(&values, value.sival_int, __ATOMIC_SEQ_CST);
    OK(sem_post(&rung));
}

static void with_threads(void)
{
    struct sigevent event = {.sigev_notify = SIGEV_THREAD};
    timer_t timer;

    event.sigev_value.sival_int = 3;
    event.sigev_notify_function = in_new_thread;
    timer = start(&event, CLOCK_MONOTONIC, 1000000, 0);
    down(&rung);
    MUST(values == 3 && timer_delete(timer) == 0);
    timer = start(&event, CLOCK_MONOTONIC, 500000, 500000);
    for (int at = 0; at < 8; at++)
        down(&rung);
    MUST(timer_delete(timer) == 0);
}

static void *reads_timer(void *arg)
{
    struct itimerspec time = {{0, 1000000}, {0, 1000000}};
    int fd = timerfd_create(CLOCK_MONOTONIC, 0);
    uint64_t times, sum = 0;

    MUST(fd >= 0 && timerfd_settime(fd, 0, &time, NULL) == 0);
    while (sum < 5) {
        MUST(read(fd, &times, sizeof times) == sizeof times && times > 0);
        sum += times;
    }
    MUST(close(fd) == 0);
    return arg;
}

int main(void)
{
    set_up();
    interval_timer();
    SHOWN("wall time");
    by_cpu_time();
    SHOWN("CPU time");
    with_signals();
    SHOWN("signals");
    with_threads();
    SHOWN("threads");
    in_threads(4, reads_timer);
    SHOWN("descriptors");
    return 0;
}
