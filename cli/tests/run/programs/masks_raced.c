/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Threads change their masks while others send them signals without a pause: each change holds, the
 * mask before is told rightly, and no handler runs while its signal is blocked. The threads stay
 * where a call has brought them, or wait now and then. */
#include "check.h"
#include <sched.h>
#include <stdatomic.h>
#include <sys/prctl.h>

enum { THREADS = 3, CHANGES = 60000, WORD_WAIT = 128 };

static pthread_t changers[THREADS];
static pthread_barrier_t all_there;
static atomic_int left = THREADS;
static _Thread_local volatile sig_atomic_t is_blocked, handled;

static void handle(int signal)
{
    MUST(signal == SIGUSR1 && !is_blocked);
    handled++;
}

static void must_block(const sigset_t *set, int blocks)
{
    MUST(sigismember(set, SIGUSR1) == blocks);
    MUST(!sigismember(set, SIGUSR2) && !sigismember(set, SIGTERM));
}

/* A wait that ends by its time, and a call that goes to the thread's own kernel thread. */
static void wait_and_come_home(void)
{
    static const struct timespec moment = {.tv_nsec = 1000};
    char name[16];
    int word = 0;

    MUST(syscall(SYS_futex, &word, WORD_WAIT, 0, &moment, NULL, 0) == -1);
    MUST(prctl(PR_GET_NAME, name) == 0);
}

static void *change(void *arg)
{
    intptr_t number = (intptr_t)arg;
    sigset_t one, none, now;

    sigemptyset(&none);
    one = none;
    sigaddset(&one, SIGUSR1);
    pthread_barrier_wait(&all_there);
    wait_and_come_home();
    for (int at = 0; at < CHANGES; at++) {
        OK(pthread_sigmask(SIG_BLOCK, &one, &now));
        is_blocked = 1;
        must_block(&now, 0);
        OK(pthread_sigmask(SIG_BLOCK, NULL, &now));
        must_block(&now, 1);
        if (number == 0 && at % 64 == 0)
            wait_and_come_home();
        is_blocked = 0;
        OK(pthread_sigmask(at % 2 ? SIG_SETMASK : SIG_UNBLOCK, at % 2 ? &none : &one, &now));
        must_block(&now, 1);
        OK(pthread_sigmask(SIG_BLOCK, NULL, &now));
        must_block(&now, 0);
    }
    MUST(handled > 0);
    left--;
    pthread_barrier_wait(&all_there);
    return NULL;
}

static void *send(void *arg)
{
    pthread_barrier_wait(&all_there);
    while (left > 0) {
        for (int at = 0; at < THREADS; at++)
            OK(pthread_kill(changers[at], SIGUSR1));
        sched_yield();
    }
    pthread_barrier_wait(&all_there);
    return arg;
}

int main(void)
{
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
    pthread_t sender;

    OK(sigaction(SIGUSR1, &action, NULL));
    OK(pthread_barrier_init(&all_there, NULL, THREADS + 1));
    for (intptr_t at = 0; at < THREADS; at++)
        OK(pthread_create(&changers[at], NULL, change, (void *)at));
    OK(pthread_create(&sender, NULL, send, NULL));
    for (int at = 0; at < THREADS; at++)
        OK(pthread_join(changers[at], NULL));
    OK(pthread_join(sender, NULL));
    SHOWN("masks hold");
    return 0;
}
