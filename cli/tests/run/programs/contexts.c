/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A program that switches stacks itself: coroutines by swapcontext in several threads, which wait
 * and take signals on those stacks; jumps by setjmp between frames. */
#include "check.h"
#include <setjmp.h>
#include <ucontext.h>

enum { THREADS = 6, TURNS = 60, STACK = 64 * 1024 };

static _Thread_local ucontext_t scheduler, coroutines[2];
static _Thread_local volatile int steps[2];
static _Thread_local volatile int handled;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int counter;

static void handler(int signal)
{
    (void)signal;
    handled++;
}

/* Gives way to its sibling after each step; now and then it waits with its whole thread. */
static void coroutine(int own)
{
    for (int turn = 0; turn < TURNS; turn++) {
        OK(pthread_mutex_lock(&mutex));
        counter++;
        OK(pthread_mutex_unlock(&mutex));
        steps[own]++;
        if (turn % 10 == own)
            usleep(20);
        if (turn % 10 == 5)
            OK(pthread_kill(pthread_self(), SIGUSR1));
        MUST(swapcontext(&coroutines[own], &coroutines[!own]) == 0);
    }
    /* On to the scheduler, by the link. */
}

static void *switches(void *arg)
{
    char *volatile stacks = malloc(2 * STACK);

    for (volatile int at = 0; at < 2; at++) {
        MUST(getcontext(&coroutines[at]) == 0);
        coroutines[at].uc_stack.ss_sp = stacks + at * STACK;
        coroutines[at].uc_stack.ss_size = STACK;
        coroutines[at].uc_link = &scheduler;
        makecontext(&coroutines[at], (void (*)(void))coroutine, 1, at);
    }
    MUST(swapcontext(&scheduler, &coroutines[0]) == 0);
    /* The first one has ended; the second has its last steps to do. */
    MUST(steps[0] == TURNS && steps[1] == TURNS);
    MUST(handled == 2 * TURNS / 10);
    free(stacks);
    return arg;
}

static int jump_from(jmp_buf to, volatile int depth)
{
    volatile char room[200];
    int result = 0;

    room[7] = (char)depth;
    if (depth > 0)
        result = jump_from(to, depth - 1);
    if (depth == 0)
        longjmp(to, 4);
    return result + room[7];
}

static void *jumps(void *arg)
{
    jmp_buf back;
    volatile int times = 0;

    for (volatile int turn = 0; turn < 50; turn++) {
        int value = setjmp(back);

        if (value == 0) {
            sched_yield();
            MUST(jump_from(back, 10) && 0);
        }
        MUST(value == 4);
        times++;
        if (turn % 10 == 0)
            usleep(20);
    }
    MUST(times == 50);
    return arg;
}

int main(void)
{
    struct sigaction action = {.sa_handler = handler};

    OK(sigaction(SIGUSR1, &action, NULL));
    in_threads(THREADS, switches);
    MUST(counter == THREADS * 2 * TURNS);
    SHOWN("coroutines");
    in_threads(THREADS, jumps);
    SHOWN("jumps");
    return 0;
}
