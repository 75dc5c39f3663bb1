/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Descriptors that tell one thread of input by a signal (F_SETOWN_EX): the thread gets it, also
 * while it waits. After its end nobody does. */
#include "check.h"

enum { ROUNDS = 20, THREADS = 8 };

static sem_t owned, written, checked;
static int ends[2];
static __thread int is_owner;
static _Atomic int by_owner, by_others;

static void on_input(int number)
{
    MUST(number == SIGRTMIN);
    ++*(is_owner ? &by_owner : &by_others);
}

static void *owns(void *arg)
{
    struct f_owner_ex owner = {F_OWNER_TID, (pid_t)syscall(SYS_gettid)};

    is_owner = 1;
    MUST(fcntl(ends[0], F_SETOWN_EX, &owner) == 0 && fcntl(ends[0], F_SETSIG, SIGRTMIN) == 0);
    MUST(fcntl(ends[0], F_SETFL, O_ASYNC | O_NONBLOCK) == 0);
    OK(sem_post(&owned));
    down(&written);
    return arg;
}

static void *stays(void *arg)
{
    down(&checked);
    return arg;
}

static void round_of(void)
{
    int before = by_owner;
    pthread_t thread, others[THREADS];
    char byte;

    MUST(pipe(ends) == 0);
    thread = spawn(owns, NULL);
    down(&owned);
    MUST(write(ends[1], "x", 1) == 1);
    while (by_owner == before)
        usleep(100);
    OK(sem_post(&written));
    join(thread);
    for (int at = 0; at < THREADS; at++)
        others[at] = spawn(stays, NULL);
    MUST(read(ends[0], &byte, 1) == 1 && write(ends[1], "y", 1) == 1);
    usleep(1000);
    for (int at = 0; at < THREADS; at++)
        OK(sem_post(&checked));
    for (int at = 0; at < THREADS; at++)
        join(others[at]);
    MUST(by_owner == before + 1 && by_others == 0);
    MUST(close(ends[0]) == 0 && close(ends[1]) == 0);
}

int main(void)
{
    struct sigaction action = {.sa_handler = on_input, .sa_flags = SA_RESTART};

    OK(sem_init(&owned, 0, 0));
    OK(sem_init(&written, 0, 0));
    OK(sem_init(&checked, 0, 0));
    MUST(sigaction(SIGRTMIN, &action, NULL) == 0);
    for (int round = 0; round < ROUNDS; round++)
        round_of();
    SHOWN("signals of descriptors that threads own");
    return 0;
}
