/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A signal has been handled, in the only thread that lets it through, when a call returns that
 * stops its timer, or that takes its handler away: also one which the timer sent just before, and
 * one that another thread sent before the thread's last call. So the default action, which ends the
 * process, is for signals that come after the change.
 * run: ends SIGALRM */
#include "check.h"
#include <sys/time.h>

enum { ROUNDS = 240, SENT = 60 };

static sem_t there, back;
static volatile sig_atomic_t handled;

static void on_signal(int number)
{
    (void)number;
    handled++;
}

static void set_action(int number, void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};

    MUST(sigaction(number, &action, NULL) == 0);
}

/* Lets no signal through. */
static void *comes_back(void *arg)
{
    for (;;) {
        down(&there);
        OK(sem_post(&back));
    }
    return arg;
}

/* Waits for the other thread. */
static void go_there(void)
{
    OK(sem_post(&there));
    down(&back);
}

/* ---- Timers ---- */

static timer_t timer;

static void begin_interval(void)
{
    struct itimerval soon = {.it_value = {.tv_usec = 100}};

    MUST(setitimer(ITIMER_REAL, &soon, NULL) == 0);
}

static int interval_is_over(void)
{
    struct itimerval rest;

    MUST(getitimer(ITIMER_REAL, &rest) == 0);
    return rest.it_value.tv_sec == 0 && rest.it_value.tv_usec == 0;
}

static void end_interval(void)
{
    static const struct itimerval none;

    MUST(setitimer(ITIMER_REAL, &none, NULL) == 0);
}

static void end_by_alarm(void)
{
    alarm(0);
}

static void begin_timer(void)
{
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR2};
    struct itimerspec soon = {.it_value = {.tv_nsec = 100000}};

    MUST(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    MUST(timer_settime(timer, 0, &soon, NULL) == 0);
}

static int timer_is_over(void)
{
    struct itimerspec rest;

    MUST(timer_gettime(timer, &rest) == 0);
    return rest.it_value.tv_sec == 0 && rest.it_value.tv_nsec == 0;
}

static void delete_timer(void)
{
    MUST(timer_delete(timer) == 0);
}

static void stop_timer(void)
{
    static const struct itimerspec none;

    MUST(timer_settime(timer, 0, &none, NULL) == 0);
}

static const struct source {
    int number;
    void (*begin)(void);
    int (*is_over)(void);
    void (*end)(void);
    void (*forget)(void);
} sources[] = {
    {SIGALRM, begin_interval, interval_is_over, end_interval, NULL},
    {SIGALRM, begin_interval, interval_is_over, end_by_alarm, NULL},
    {SIGALRM, begin_interval, interval_is_over, NULL, NULL},
    {SIGUSR2, begin_timer, timer_is_over, delete_timer, NULL},
    {SIGUSR2, begin_timer, timer_is_over, stop_timer, delete_timer},
    {SIGUSR2, begin_timer, timer_is_over, NULL, delete_timer},
};

/* A rest of less than a microsecond may be told as none. */
static void await_end(const struct source *source)
{
    while (!source->is_over())
        ;
    for (int64_t seen = now_ns(CLOCK_MONOTONIC); now_ns(CLOCK_MONOTONIC) < seen + 2000;)
        ;
    while (!source->is_over())
        ;
}

/* The signal was sent before a call of this thread's began, and is handled at its end at the
 * latest. */
static void stop_sources(void)
{
    for (int round = 0; round < ROUNDS; round++) {
        const struct source *source = &sources[round % 6];

        handled = 0;
        set_action(source->number, on_signal);
        source->begin();
        go_there();
        await_end(source);
        getppid();
        if (source->end != NULL) {
            source->end();
            MUST(handled == 1);
        }
        set_action(source->number, SIG_DFL);
        MUST(handled == 1);
        go_there();
        MUST(handled == 1);
        if (source->forget != NULL)
            source->forget();
    }
}

/* ---- Signals that were sent ---- */

static sem_t goes_on;
static volatile int ends, calls;

/* Waits, and makes calls from then on until a signal has come. */
static void *gets_signals(void *arg)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    OK(pthread_sigmask(SIG_UNBLOCK, &set, NULL));
    for (down(&goes_on); !ends; down(&goes_on)) {
        while (!handled) {
            getppid();
            calls++;
        }
        OK(sem_post(&back));
    }
    return arg;
}

/* The thread has made a call from its begin to its end, or has handled the signal. */
static void await_call(void)
{
    for (int last = calls; !handled && calls - last < 3;)
        sched_yield();
}

static void send(void)
{
    sigset_t set, before;

    OK(sem_init(&goes_on, 0, 0));
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    OK(pthread_sigmask(SIG_BLOCK, &set, &before));
    pthread_t thread = spawn(gets_signals, NULL);
    for (int round = 0; round < SENT; round++) {
        handled = 0;
        set_action(SIGUSR1, on_signal);
        OK(sem_post(&goes_on));
        await_call();
        OK(pthread_kill(thread, SIGUSR1));
        await_call();
        set_action(SIGUSR1, SIG_DFL);
        down(&back);
        MUST(handled == 1);
    }
    ends = 1;
    OK(sem_post(&goes_on));
    join(thread);
    OK(pthread_sigmask(SIG_SETMASK, &before, NULL));
}

int main(void)
{
    sigset_t all, before;

    OK(sem_init(&there, 0, 0));
    OK(sem_init(&back, 0, 0));
    sigfillset(&all);
    OK(pthread_sigmask(SIG_BLOCK, &all, &before));
    spawn(comes_back, NULL);
    OK(pthread_sigmask(SIG_SETMASK, &before, NULL));
    stop_sources();
    SHOWN("sources of signals that were stopped");
    send();
    SHOWN("signals that were sent before the default action");
    begin_interval();
    down(&back);
    SHOWN("never shown");
    return 0;
}
