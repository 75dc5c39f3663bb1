/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Actions for the signals of faults: reset by SA_RESETHAND and installed again, with and without
 * SA_ONSTACK, for faults and for signals that are sent. */
#include "check.h"
#include <setjmp.h>

enum { STACK = 64 * 1024, THREADS = 4, ROUNDS = 20 };

static const int signals[] = {SIGSEGV, SIGBUS, SIGTRAP};
static char *volatile nowhere = (char *)8;

static _Thread_local sigjmp_buf back;
static _Thread_local char *alternate;
static _Thread_local volatile int was_alternate, calls;

static void note(int signal)
{
    char *here = (char *)&signal;

    was_alternate = here >= alternate && here < alternate + STACK;
    calls++;
}

static void jumps(int signal)
{
    note(signal);
    siglongjmp(back, 1);
}

static void set(int signal, void (*handler)(int), int flags)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};

    OK(sigaction(signal, &action, NULL));
}

static int is_default(int signal)
{
    struct sigaction action;

    OK(sigaction(signal, NULL, &action));
    return action.sa_handler == SIG_DFL;
}

/* By an instruction, if it can, and by a signal to itself. */
static void fault(int signal)
{
    if (sigsetjmp(back, 1))
        return;
    if (signal == SIGSEGV)
        *nowhere = 1;
    else
        raise(signal);
    MUST(!"no signal");
}

static void in_both_ways(int signal, int flags)
{
    calls = 0;
    set(signal, jumps, flags);
    fault(signal);
    MUST(calls == 1 && was_alternate == (flags & SA_ONSTACK && alternate != NULL));
    if (flags & SA_RESETHAND)
        MUST(is_default(signal));
    set(signal, note, flags);
    raise(signal);
    MUST(calls == 2 && was_alternate == (flags & SA_ONSTACK && alternate != NULL));
    MUST(is_default(signal) == ((flags & SA_RESETHAND) != 0));
}

/* One thread at a time, since actions are the process's. */
static void *acts(void *arg)
{
    stack_t stack = {.ss_size = STACK};

    usleep(50);
    if ((intptr_t)arg % 2) {
        stack.ss_sp = alternate = malloc(STACK);
        OK(sigaltstack(&stack, NULL));
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int at = 0; at < 3; at++) {
            in_both_ways(signals[at], 0);
            in_both_ways(signals[at], SA_RESETHAND);
            in_both_ways(signals[at], SA_ONSTACK);
            in_both_ways(signals[at], SA_ONSTACK | SA_RESETHAND);
            set(signals[at], SIG_DFL, 0);
        }
        if (round % 5 == 0)
            usleep(50);
    }
    if (alternate != NULL) {
        stack.ss_flags = SS_DISABLE;
        OK(sigaltstack(&stack, NULL));
        free(alternate);
        alternate = NULL;
    }
    return arg;
}

int main(void)
{
    acts(NULL);
    for (intptr_t at = 0; at < THREADS; at++)
        join(spawn(acts, (void *)at));
    SHOWN("threads");
    acts(NULL);
    SHOWN("the first thread, after others");
    return 0;
}
