/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Calls with bad addresses by threads that block SIGSEGV and SIGBUS: each fails with EFAULT, and no
 * signal comes. The mask is the thread's own, its maker's, that of a handler, or that of a wait;
 * before the thread has waited, and after. */
#include "check.h"
#include <sched.h>
#include <setjmp.h>
#include <sys/prctl.h>

enum { THREADS = 4, ROUNDS = 20, PAGE = 4096, WORD_WAIT = 128, WORD_WAKE_OP = 133 };

static char *no_page;
static sigset_t faults, all;
static int handled;
static _Thread_local sigjmp_buf back;

static void bad_calls(void)
{
    struct timespec now = {0};
    int word = 0;

    FAILS(EFAULT, syscall(SYS_futex, no_page, WORD_WAIT, 0, NULL, NULL, 0));
    FAILS(EFAULT, syscall(SYS_futex, &word, WORD_WAIT, 0, no_page, NULL, 0));
    FAILS(EFAULT, syscall(SYS_futex, &word, WORD_WAKE_OP, 1, 1, no_page, 0));
    FAILS(EFAULT, syscall(SYS_rt_sigaction, SIGUSR2, no_page, NULL, 8));
    FAILS(EFAULT, syscall(SYS_rt_sigaction, SIGUSR2, NULL, no_page, 8));
    FAILS(EFAULT, syscall(SYS_rt_sigprocmask, SIG_BLOCK, no_page, NULL, 8));
    FAILS(EFAULT, syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, no_page, 8));
    FAILS(EFAULT, syscall(SYS_nanosleep, no_page, NULL));
    FAILS(EFAULT, syscall(SYS_nanosleep, no_page + 1, NULL));
    FAILS(EFAULT, syscall(SYS_clone3, no_page, 88));
    FAILS(EFAULT, prctl(PR_SET_NAME, no_page));
    FAILS(EFAULT, syscall(SYS_sigaltstack, no_page, NULL));
    FAILS(EFAULT, syscall(SYS_timer_create, CLOCK_MONOTONIC, no_page, &word));
    FAILS(EFAULT, open(no_page, O_WRONLY));
    /* Good ones work as ever. */
    MUST(syscall(SYS_nanosleep, &now, NULL) == 0);
    FAILS(EAGAIN, syscall(SYS_futex, &word, WORD_WAIT, 1, NULL, NULL, 0));
    now.tv_nsec = 1000;
    FAILS(ETIMEDOUT, syscall(SYS_futex, &word, WORD_WAIT, 0, &now, NULL, 0));
}

/* Calls made at home, after waits, and after calls that bring a thread home. */
static void *own_mask(void *arg)
{
    OK(pthread_sigmask(SIG_BLOCK, &faults, NULL));
    for (int at = 0; at < ROUNDS; at++) {
        bad_calls();
        usleep(10);
        bad_calls();
        sched_yield();
        MUST(sched_getscheduler(0) >= 0);
        bad_calls();
        if (at % 2)
            OK(pthread_sigmask(SIG_UNBLOCK, &faults, NULL));
        bad_calls();
        OK(pthread_sigmask(at % 3 ? SIG_BLOCK : SIG_SETMASK, at % 3 ? &faults : &all, NULL));
    }
    return arg;
}

static void *bad_ones(void *arg)
{
    bad_calls();
    usleep(10);
    bad_calls();
    return arg;
}

/* The maker's mask, for threads of the kernel's and for those at homes that are used again. */
static void *makers_mask(void *arg)
{
    OK(pthread_sigmask(SIG_BLOCK, &all, NULL));
    for (int at = 0; at < ROUNDS; at++) {
        pthread_t thread;

        OK(pthread_create(&thread, NULL, bad_ones, NULL));
        bad_calls();
        OK(pthread_join(thread, NULL));
    }
    return arg;
}

static void calls(int signal)
{
    (void)signal;
    bad_calls();
    __atomic_fetch_add(&handled, 1, __ATOMIC_RELAXED);
}

/* A fault is jumped out of, a signal that was sent returns. */
static void calls_or_jumps(int signal, siginfo_t *info, void *context)
{
    (void)context;
    bad_calls();
    if (info->si_code > 0)
        siglongjmp(back, signal);
}

/* The handler of SIGUSR1 blocks all, that of SIGSEGV the signal itself. The jump out of it leaves
 * the signal blocked. */
static void *in_handlers(void *arg)
{
    volatile int at;
    sigset_t none;

    OK(pthread_sigmask(SIG_SETMASK, NULL, &none));
    for (at = 0; at < ROUNDS; at++) {
        OK(pthread_kill(pthread_self(), SIGUSR1));
        OK(pthread_kill(pthread_self(), SIGSEGV));
        bad_calls();
        if (sigsetjmp(back, 0) == 0)
            *(volatile char *)no_page = 1;
        bad_calls();
        usleep(10);
        bad_calls();
        OK(pthread_sigmask(SIG_SETMASK, &none, NULL));
        bad_calls();
    }
    return arg;
}

/* A handler that interrupts a wait has the wait's mask. */
static void *in_a_wait(void *arg)
{
    sigset_t but_one = all, own;

    sigdelset(&but_one, SIGUSR2);
    OK(pthread_sigmask(SIG_SETMASK, NULL, &own));
    sigaddset(&own, SIGUSR2);
    OK(pthread_sigmask(SIG_SETMASK, &own, NULL));
    for (int at = 0; at < ROUNDS; at++) {
        OK(pthread_kill(pthread_self(), SIGUSR2));
        FAILS(EINTR, sigsuspend(&but_one));
        bad_calls();
    }
    return arg;
}

int main(void)
{
    struct sigaction action = {.sa_handler = calls};

    no_page = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(no_page != MAP_FAILED);
    sigemptyset(&faults);
    sigaddset(&faults, SIGSEGV);
    sigaddset(&faults, SIGBUS);
    sigfillset(&all);
    OK(sigaction(SIGUSR2, &action, NULL));
    action.sa_mask = all;
    OK(sigaction(SIGUSR1, &action, NULL));
    in_threads(THREADS, own_mask);
    SHOWN("own masks");
    in_threads(THREADS, makers_mask);
    SHOWN("masks of makers");
    in_threads(THREADS, in_a_wait);
    MUST(__atomic_load_n(&handled, __ATOMIC_RELAXED) == THREADS * ROUNDS);
    SHOWN("masks of waits");
    sigemptyset(&action.sa_mask);
    action.sa_sigaction = calls_or_jumps;
    action.sa_flags = SA_SIGINFO;
    OK(sigaction(SIGSEGV, &action, NULL));
    in_threads(THREADS, in_handlers);
    SHOWN("masks of handlers");
    return 0;
}
