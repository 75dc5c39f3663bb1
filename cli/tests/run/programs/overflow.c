/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A stack overflow is caught on an alternate stack, in several threads one after the other and at
 * once, and in the initial thread. */
#include "check.h"
#include <setjmp.h>

enum { ALTERNATE = 64 * 1024, THREADS = 4 };

static _Thread_local sigjmp_buf back;
static _Thread_local char *alternate;
static volatile int sink;

static void caught(int signal, siginfo_t *info, void *context)
{
    char here;

    (void)info;
    (void)context;
    MUST(signal == SIGSEGV || signal == SIGBUS);
    MUST(&here > alternate && &here < alternate + ALTERNATE);
    siglongjmp(back, 1);
}

static int recurse(volatile char *above)
{
    volatile char room[1024];

    room[0] = above ? above[0] : 0;
    if (sink == 0)
        room[1] = (char)recurse(room);
    return room[1] + room[0];
}

static void *overflows(void *arg)
{
    stack_t stack = {.ss_size = ALTERNATE};
    volatile int round;

    alternate = malloc(ALTERNATE);
    stack.ss_sp = alternate;
    OK(sigaltstack(&stack, NULL));
    for (round = 0; round < 3; round++) {
        if (sigsetjmp(back, 1) == 0)
            MUST(recurse(NULL) && 0);
        usleep(100);
    }
    stack.ss_flags = SS_DISABLE;
    OK(sigaltstack(&stack, NULL));
    free(alternate);
    return arg;
}

int main(void)
{
    struct sigaction action = {.sa_sigaction = caught, .sa_flags = SA_SIGINFO | SA_ONSTACK};

    OK(sigaction(SIGSEGV, &action, NULL));
    OK(sigaction(SIGBUS, &action, NULL));
    for (int at = 0; at < 3; at++)
        join(spawn(overflows, NULL));
    SHOWN("one after the other");
    in_threads(THREADS, overflows);
    SHOWN("at once");
    overflows(NULL);
    SHOWN("in the initial thread");
    return 0;
}
