/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Faults that are handled: a jump out of the handler in several threads at once, a handler that
 * maps the missing page, division by zero, illegal instructions; on ordinary and on alternate
 * stacks. */
#include "check.h"
#include <setjmp.h>

enum { THREADS = 8, FAULTS = 100, PAGES = 64, PAGE = 4096 };

static _Thread_local sigjmp_buf back;
static _Thread_local int number;
static _Thread_local char *own_pages;
static char *volatile zero_page;
static volatile int zero;

static void jump_back(int signal, siginfo_t *info, void *context)
{
    (void)context;
    if (signal == SIGSEGV)
        MUST(info->si_addr == zero_page + number && info->si_code == SEGV_MAPERR);
    if (signal == SIGFPE)
        MUST(info->si_code == FPE_INTDIV);
    siglongjmp(back, signal);
}

static void fault(int kind)
{
    if (kind == 0)
        zero_page[number] = 1;
    else if (kind == 1)
        zero = number / zero;
    else
        __builtin_trap();
}

/* Waits in between: after a jump the thread goes on as any other. */
static void *faults(void *arg)
{
    static const int expected[] = {SIGSEGV, SIGFPE, SIGILL};
    char *stack_memory = malloc(64 * 1024);
    stack_t stack = {.ss_sp = stack_memory, .ss_size = 64 * 1024}, now;
    volatile int at;
    sigset_t set;

    number = (int)(intptr_t)arg;
    if (number % 2)
        OK(sigaltstack(&stack, NULL));
    for (at = 0; at < FAULTS; at++) {
        int signal = sigsetjmp(back, 1);

        if (signal == 0) {
            fault(at % 3);
            MUST(!"no fault");
        }
        MUST(signal == expected[at % 3]);
        if (at % 10 == 0)
            usleep(50);
        OK(pthread_sigmask(SIG_SETMASK, NULL, &set));
        MUST(!sigismember(&set, signal));
    }
    OK(sigaltstack(NULL, &now));
    MUST(number % 2 ? now.ss_sp == stack_memory && now.ss_flags == 0 : now.ss_flags == SS_DISABLE);
    stack.ss_flags = SS_DISABLE;
    OK(sigaltstack(&stack, NULL));
    free(stack_memory);
    return NULL;
}

/* The access is made again after the handler has returned. */
static void map_page(int signal, siginfo_t *info, void *context)
{
    char *page = (char *)((uintptr_t)info->si_addr & ~(uintptr_t)(PAGE - 1));
    int error = errno;

    (void)signal;
    (void)context;
    MUST(own_pages != NULL && page >= own_pages && page < own_pages + PAGES * PAGE);
    MUST(info->si_code == SEGV_ACCERR);
    MUST(mprotect(page, PAGE, PROT_READ | PROT_WRITE) == 0);
    errno = error + 1;
    errno = error;
}

static void *commits_lazily(void *arg)
{
    own_pages = mmap(NULL, PAGES * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(own_pages != MAP_FAILED);
    for (int at = 0; at < PAGES; at++) {
        own_pages[at * PAGE + 17] = (char)at;
        if (at % 8 == 0)
            usleep(20);
    }
    for (int at = 0; at < PAGES; at++)
        MUST(own_pages[at * PAGE + 17] == (char)at);
    MUST(munmap(own_pages, PAGES * PAGE) == 0);
    return arg;
}

/* A system call with a bad address makes no signal. */
static void *bad_addresses(void *arg)
{
    int ends[2];

    MUST(pipe(ends) == 0 && write(ends[1], "b", 1) == 1);
    FAILS(EFAULT, read(ends[0], zero_page, 1));
    FAILS(EFAULT, write(ends[1], zero_page, 1));
    FAILS(EFAULT, clock_nanosleep(CLOCK_MONOTONIC, 0, NULL, NULL) == EFAULT ? (errno = EFAULT, -1)
                                                                             : 0);
    MUST(close(ends[0]) == 0 && close(ends[1]) == 0);
    return arg;
}

int main(void)
{
    struct sigaction action = {.sa_sigaction = jump_back, .sa_flags = SA_SIGINFO | SA_ONSTACK};

    OK(sigaction(SIGSEGV, &action, NULL));
    OK(sigaction(SIGFPE, &action, NULL));
    OK(sigaction(SIGILL, &action, NULL));
    in_threads(THREADS, faults);
    SHOWN("jumps out of handlers");
    action.sa_sigaction = map_page;
    action.sa_flags = SA_SIGINFO;
    OK(sigaction(SIGSEGV, &action, NULL));
    in_threads(THREADS, commits_lazily);
    SHOWN("pages on demand");
    in_threads(2, bad_addresses);
    SHOWN("bad addresses");
    return 0;
}
