/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A thread gets a signal, and then a word from its sender. It sees the word after its handler has
 * run, however it waits. */
#include "check.h"

enum { ROUNDS = 2000 };

static sem_t word, answer;
static pthread_t receiver;
static volatile int handled;
static _Atomic int stage;

static void handler(int signal)
{
    (void)signal;
    handled++;
}

static void send(int round)
{
    union sigval value = {.sival_int = round};

    switch (round % 3) {
    case 0:
        OK(pthread_kill(receiver, SIGUSR1));
        break;
    case 1:
        OK(pthread_sigqueue(receiver, SIGUSR1, value));
        break;
    default:
        /* For the process: of its threads, the first one alone lets it through. */
        MUST(kill(getpid(), SIGUSR2) == 0);
    }
}

static void *sends(void *arg)
{
    sigset_t process;

    sigemptyset(&process);
    sigaddset(&process, SIGUSR2);
    OK(pthread_sigmask(SIG_BLOCK, &process, NULL));
    for (int round = 0; round < ROUNDS; round++) {
        down(&answer);
        send(round);
        if (round % 2)
            MUST(sem_post(&word) == 0);
        else
            stage = round + 1;
    }
    return arg;
}

int main(void)
{
    struct sigaction action;
    pthread_t thread;

    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    MUST(sigaction(SIGUSR1, &action, NULL) == 0);
    MUST(sigaction(SIGUSR2, &action, NULL) == 0);
    MUST(sem_init(&word, 0, 0) == 0 && sem_init(&answer, 0, 0) == 0);
    receiver = pthread_self();
    thread = spawn(sends, NULL);
    for (int round = 0; round < ROUNDS; round++) {
        MUST(sem_post(&answer) == 0);
        if (round % 2)
            down(&word);
        else
            while (stage != round + 1)
                sched_yield();
        MUST(handled == round + 1);
    }
    join(thread);
    SHOWN("handlers run before the sender's next word is seen");
    return 0;
}
