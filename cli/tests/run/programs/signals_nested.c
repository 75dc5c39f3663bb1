/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Two signals that come to a thread at the same time, in the midst of its system calls and of each
 * other's handlers: the thread's mask stays as it is. All threads share one CPU, so that most of
 * the pairs come while the thread does not run, and the second handler interrupts the first one
 * before its first instruction. The sender waits until the handlers have answered: a signal that
 * stays blocked would end the exchange. */
#include "check.h"

#include <linux/futex.h>
#include <sched.h>

#define PAIRS 1500

static sem_t answered;
static pthread_t target;
static volatile int is_over;
static uint32_t word;

static void on_signal(int number)
{
    int error = errno;

    (void)number;
    sem_post(&answered);
    errno = error;
}

static void mask_both(int how)
{
    sigset_t both;

    sigemptyset(&both);
    sigaddset(&both, SIGUSR1);
    sigaddset(&both, SIGUSR2);
    OK(pthread_sigmask(how, &both, NULL));
}

static void check_mask(void)
{
    sigset_t mask;

    OK(pthread_sigmask(SIG_BLOCK, NULL, &mask));
    MUST(!sigismember(&mask, SIGUSR1) && !sigismember(&mask, SIGUSR2));
}

/* It never waits. */
static void *wakes(void *arg)
{
    mask_both(SIG_UNBLOCK);
    for (unsigned turn = 0; !is_over; turn++) {
        MUST(syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0) == 0);
        if (turn % 64 == 0)
            check_mask();
    }
    return arg;
}

/* It waits for moments. */
static void *waits(void *arg)
{
    static const struct timespec moment = {.tv_nsec = 1000};

    mask_both(SIG_UNBLOCK);
    for (unsigned turn = 0; !is_over; turn++) {
        MUST(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &moment, NULL, 0) == -1);
        MUST(errno == ETIMEDOUT || errno == EINTR);
        check_mask();
    }
    return arg;
}

static void exchange(void *(*body)(void *))
{
    is_over = 0;
    target = spawn(body, NULL);
    for (int pair = 0; pair < PAIRS; pair++) {
        OK(pthread_kill(target, SIGUSR1));
        OK(pthread_kill(target, SIGUSR2));
        down(&answered);
        down(&answered);
    }
    is_over = 1;
    join(target);
}

int main(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    cpu_set_t cpus, one;
    int first = 0;

    MUST(sched_getaffinity(0, sizeof cpus, &cpus) == 0);
    while (!CPU_ISSET(first, &cpus))
        first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    MUST(sched_setaffinity(0, sizeof one, &one) == 0);
    MUST(sigaction(SIGUSR1, &action, NULL) == 0);
    MUST(sigaction(SIGUSR2, &action, NULL) == 0);
    OK(sem_init(&answered, 0, 0));
    mask_both(SIG_BLOCK);
    exchange(wakes);
    SHOWN("each signal to a thread that does not wait was answered");
    exchange(waits);
    SHOWN("each signal to a thread that waits was answered");
}
