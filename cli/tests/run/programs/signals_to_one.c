/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Signals with information and those of timers, sent to one thread that blocks them now and then:
 * they wait for that thread, and no other one handles them. */
#include "check.h"

enum { THREADS = 4, SIGNALS = 2000 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t all;
static __thread int own = -1;
static int handled[THREADS], timed[THREADS];
static volatile int is_over;

static void on_signal(int number, siginfo_t *info, void *context)
{
    int error = errno;

    (void)context;
    MUST(info->si_value.sival_int == own);
    __atomic_fetch_add(number == SIGRTMIN ? &handled[own] : &timed[own], 1, __ATOMIC_SEQ_CST);
    errno = error;
}

static timer_t sends(int number, int value)
{
    struct sigevent event;
    struct itimerspec time;
    timer_t timer;

    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = number;
    event.sigev_value.sival_int = value;
    event._sigev_un._tid = (int)syscall(SYS_gettid);
    MUST(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    memset(&time, 0, sizeof time);
    time.it_value.tv_nsec = time.it_interval.tv_nsec = 100000;
    MUST(timer_settime(timer, 0, &time, NULL) == 0);
    return timer;
}

static void *blocks_and_waits(void *arg)
{
    sigset_t both;
    timer_t timer;

    own = (int)(intptr_t)arg;
    sigemptyset(&both);
    sigaddset(&both, SIGRTMIN);
    sigaddset(&both, SIGRTMIN + 1);
    timer = sends(SIGRTMIN + 1, own);
    pthread_barrier_wait(&all);
    for (unsigned turn = 0; !is_over; turn++) {
        struct timespec soon = in_ms(CLOCK_REALTIME, 0);

        soon.tv_nsec = (soon.tv_nsec + 20000) % 1000000000; /* in the past once a second */
        OK(pthread_sigmask(turn % 2 ? SIG_BLOCK : SIG_UNBLOCK, &both, NULL));
        OK(pthread_mutex_lock(&mutex));
        if (turn % 3 == 0)
            OK(pthread_cond_broadcast(&cond));
        else
            pthread_cond_timedwait(&cond, &mutex, &soon);
        OK(pthread_mutex_unlock(&mutex));
    }
    OK(pthread_sigmask(SIG_UNBLOCK, &both, NULL));
    MUST(timer_delete(timer) == 0);
    MUST(handled[own] == SIGNALS && timed[own] > 0);
    return NULL;
}

int main(void)
{
    struct sigaction action;
    pthread_t threads[THREADS];
    sigset_t both;

    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    for (int at = 0; at < 2; at++)
        MUST(sigaction(SIGRTMIN + at, &action, NULL) == 0);
    sigemptyset(&both);
    sigaddset(&both, SIGRTMIN);
    sigaddset(&both, SIGRTMIN + 1);
    OK(pthread_sigmask(SIG_BLOCK, &both, NULL));
    OK(pthread_barrier_init(&all, NULL, THREADS + 1));
    for (int at = 0; at < THREADS; at++)
        threads[at] = spawn(blocks_and_waits, (void *)(intptr_t)at);
    pthread_barrier_wait(&all);
    for (int turn = 0; turn < SIGNALS; turn++) {
        for (int at = 0; at < THREADS; at++) {
            union sigval value = {.sival_int = at};
            int result;

            /* The queue has an end. */
            while ((result = pthread_sigqueue(threads[at], SIGRTMIN, value)) == EAGAIN)
                sleep_ms(1);
            OK(result);
        }
        if (turn % 2 == 0)
            usleep(50);
    }
    is_over = 1;
    for (int at = 0; at < THREADS; at++)
        join(threads[at]);
    SHOWN("each its own");
    return 0;
}
