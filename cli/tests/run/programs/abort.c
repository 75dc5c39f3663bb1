/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A thread calls abort while others wait, compute and sleep. run: ends SIGABRT */
#include "check.h"
#include <sys/resource.h>

static sem_t never;

static void *other(void *arg)
{
    if ((intptr_t)arg == 0)
        down(&never);
    if ((intptr_t)arg == 1)
        sleep(1000);
    for (;;)
        ;
    return arg;
}

static void handler(int signal)
{
    (void)signal;
    SHOWN("the handler returns");
}

static void *aborts(void *arg)
{
    usleep(2000);
    SHOWN("abort");
    abort();
    return arg;
}

int main(void)
{
    struct rlimit none = {0, 0};

    setrlimit(RLIMIT_CORE, &none);
    OK(sem_init(&never, 0, 0));
    signal(SIGABRT, handler);
    for (intptr_t at = 0; at < 3; at++)
        spawn(other, (void *)at);
    join(spawn(aborts, NULL));
    return 0;
}
