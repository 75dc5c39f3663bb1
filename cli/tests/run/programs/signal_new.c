/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Signals for threads that have just begun, on kernel threads that were used before, and wait, give
 * way or compute from their first moment on. They are the only ones that let the signal through. It
 * comes from other processes, from other threads, and by timers, also before the thread has run. */
#include "check.h"

enum { BEFORE = 8, ROUNDS = 2 * 3 * 4 * 3 };

static volatile sig_atomic_t came;
static pthread_t handled_in;
static sem_t begun, over;

static void on_signal(int number)
{
    (void)number;
    handled_in = pthread_self();
    came = 1;
    sem_post(&over);
}

static void *nothing(void *arg)
{
    return arg;
}

static void waits_for_it(void)
{
    down(&over);
}

static void gives_way(void)
{
    while (!came)
        sched_yield();
}

static void computes(void)
{
    while (!came)
        ;
}

/* How a thread spends the time until the signal has come. */
static void (*const pastimes[])(void) = {waits_for_it, gives_way, computes};
static int pastime;

/* Lets the signal through by itself if it gets the set. */
static void *lets_it_through(void *arg)
{
    if (arg != NULL)
        OK(pthread_sigmask(SIG_UNBLOCK, arg, NULL));
    OK(sem_post(&begun));
    pastimes[pastime]();
    MUST(pthread_equal(handled_in, pthread_self()));
    return &over;
}

/* The thread begins with the mask of its maker, which lets the signal through, and blocks it. */
static pthread_t begins_with_it(sigset_t *set)
{
    pthread_t made;

    OK(pthread_sigmask(SIG_UNBLOCK, set, NULL));
    OK(pthread_create(&made, NULL, lets_it_through, NULL));
    OK(pthread_sigmask(SIG_BLOCK, set, NULL));
    return made;
}

static pthread_t opens_itself(sigset_t *set)
{
    pthread_t made;

    OK(pthread_create(&made, NULL, lets_it_through, set));
    return made;
}

static void sent_by_a_process(pthread_t to)
{
    pid_t parent = getpid(), child = fork();

    (void)to;
    MUST(child >= 0);
    if (child == 0)
        _exit(kill(parent, SIGUSR1) != 0);
    int status;
    MUST(waitpid(child, &status, 0) == child && status == 0);
}

static void sent_to_the_process(pthread_t to)
{
    (void)to;
    MUST(kill(getpid(), SIGUSR1) == 0);
}

static void sent_to_the_thread(pthread_t to)
{
    OK(pthread_kill(to, SIGUSR1));
}

static void sent_by_a_timer(pthread_t to)
{
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    struct itimerspec soon = {.it_value = {.tv_nsec = 1000000}};
    timer_t timer;

    (void)to;
    MUST(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    MUST(timer_settime(timer, 0, &soon, NULL) == 0);
    while (!came)
        sleep_ms(1);
    MUST(timer_delete(timer) == 0);
}

int main(void)
{
    static pthread_t (*const makers[])(sigset_t *) = {begins_with_it, opens_itself};
    static void (*const senders[])(pthread_t) = {
        sent_by_a_process, sent_to_the_process, sent_to_the_thread, sent_by_a_timer};
    struct sigaction action = {.sa_handler = on_signal};
    pthread_t threads[BEFORE];
    sigset_t set;

    MUST(sigaction(SIGUSR1, &action, NULL) == 0);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    OK(pthread_sigmask(SIG_BLOCK, &set, NULL));
    OK(sem_init(&begun, 0, 0));
    OK(sem_init(&over, 0, 0));
    for (int at = 0; at < BEFORE; at++)
        OK(pthread_create(&threads[at], NULL, nothing, NULL));
    for (int at = 0; at < BEFORE; at++)
        OK(pthread_join(threads[at], NULL));
    for (int round = 0; round < ROUNDS; round++) {
        int delay = round / 24;
        void *result;

        came = 0;
        pastime = round % 3;
        pthread_t made = makers[round % 2](&set);
        if (delay > 0)
            down(&begun);
        if (delay > 1)
            sleep_ms(delay);
        senders[round / 6 % 4](made);
        OK(pthread_join(made, &result));
        MUST(result == &over);
        OK(sem_init(&begun, 0, 0));
        OK(sem_init(&over, 0, 0));
    }
    SHOWN("signals for new threads");
    return 0;
}
