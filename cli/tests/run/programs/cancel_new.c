/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Threads are signalled and cancelled while they begin their first wait, many in a row. Each is
 * there: neither call says that there is no such thread. */
#include "check.h"

enum { ROUNDS = 400 };

static sem_t begun, never;

static void on_signal(int number)
{
    (void)number;
}

static void *waits(void *arg)
{
    OK(sem_post(&begun));
    for (;;)
        down(&never);
    return arg;
}

int main(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};

    OK(sem_init(&begun, 0, 0));
    OK(sem_init(&never, 0, 0));
    OK(sigaction(SIGUSR1, &action, NULL));
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t thread = spawn(waits, NULL);

        down(&begun);
        OK(pthread_kill(thread, SIGUSR1));
        OK(pthread_cancel(thread));
        MUST(join(thread) == PTHREAD_CANCELED);
    }
    SHOWN("new threads are signalled and cancelled");
    return 0;
}
