/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Code that the program writes while it runs, with system calls of its own: threads that wait for
 * each other run it, and so does one that was there before it was written. */
#include "check.h"

#include <linux/futex.h>
#include <sys/prctl.h>

enum { THREADS = 6, ROUNDS = 200 };

typedef long written_call(long number, long a, long b, long c, long d, long e, long f);

static written_call *call;
static sem_t turn[THREADS];
static int pipes[2];
static _Atomic int word;

/* A function of system calls, in memory that may be written and run. */
static written_call *write_code(void)
{
    static const unsigned char code[] = {
        0x48, 0x89, 0xf8,                         /* mov %rdi, %rax */
        0x48, 0x89, 0xf7,                         /* mov %rsi, %rdi */
        0x48, 0x89, 0xd6,                         /* mov %rdx, %rsi */
        0x48, 0x89, 0xca,                         /* mov %rcx, %rdx */
        0x4d, 0x89, 0xc2,                         /* mov %r8, %r10 */
        0x4d, 0x89, 0xc8,                         /* mov %r9, %r8 */
        0x4c, 0x8b, 0x4c, 0x24, 0x08,             /* mov 8(%rsp), %r9 */
        0x0f, 0x05,                               /* syscall */
        0xc3,                                     /* ret */
    };
    void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED)
        SKIP("no memory may be both written and run");
    memcpy(memory, code, sizeof code);
    return (written_call *)memory;
}

static void pass_turn(int own)
{
    MUST(sem_post(&turn[(own + 1) % THREADS]) == 0);
}

static void *runs_it(void *arg)
{
    int own = (int)(intptr_t)arg;
    pid_t tid = (pid_t)syscall(SYS_gettid);
    char byte;

    for (int round = 0; round < ROUNDS; round++) {
        sigset_t mask, blocked;

        MUST(sem_wait(&turn[own]) == 0);
        MUST(call(SYS_gettid, 0, 0, 0, 0, 0, 0) == tid);
        MUST(call(SYS_getpid, 0, 0, 0, 0, 0, 0) == getpid());
        MUST(call(SYS_write, pipes[1], (long)"x", 1, 0, 0, 0) == 1);
        MUST(call(SYS_read, pipes[0], (long)&byte, 1, 0, 0, 0) == 1 && byte == 'x');
        MUST(call(SYS_close, -1, 0, 0, 0, 0, 0) == -EBADF);
        sigemptyset(&blocked);
        sigaddset(&blocked, SIGUSR2);
        OK(pthread_sigmask(round % 2 ? SIG_UNBLOCK : SIG_BLOCK, &blocked, NULL));
        mask = blocked;
        MUST(call(SYS_rt_sigprocmask, SIG_BLOCK, 0, (long)&mask, 8, 0, 0) == 0);
        MUST(sigismember(&mask, SIGUSR2) == (round % 2 == 0));
        pass_turn(own);
    }
    return NULL;
}

/* Waits by the written code, for a word of which the kernel knows nothing else. */
static void *waits(void *arg)
{
    MUST(sem_wait(&turn[0]) == 0);
    while (word == 0) {
        long result = call(SYS_futex, (long)&word, FUTEX_WAIT_PRIVATE, 0, 0, 0, 0);

        MUST(result == 0 || result == -EAGAIN || result == -EINTR);
    }
    return arg;
}

static void *wakes(void *arg)
{
    MUST(sem_wait(&turn[1]) == 0);
    sleep_ms(20);
    word = 1;
    MUST(call(SYS_futex, (long)&word, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0) >= 0);
    return arg;
}

/* A server would be blocked by the first two. */
static void *reads(void *arg)
{
    char byte;

    MUST(sem_wait(&turn[(intptr_t)arg]) == 0);
    MUST(call(SYS_read, pipes[0], (long)&byte, 1, 0, 0, 0) == 1);
    return NULL;
}

static void *writes(void *arg)
{
    for (int at = 0; at < THREADS - 1; at++) {
        sched_yield();
        MUST(call(SYS_write, pipes[1], (long)"y", 1, 0, 0, 0) == 1);
    }
    return arg;
}

static void handler(int signal)
{
    (void)signal;
}

/* Children, programs and signals, each after a wait, by which it may be on a server. */
static void *is_cut(void *arg)
{
    char byte;
    int status;
    long child;

    down(&turn[0]);
    child = call(SYS_fork, 0, 0, 0, 0, 0, 0);
    MUST(child >= 0);
    if (child == 0)
        _exit(call(SYS_getppid, 0, 0, 0, 0, 0, 0) == getppid() ? 7 : 1);
    /* Where this thread is late, the signals that are to cut its read come here. */
    while (waitpid((pid_t)child, &status, 0) < 0)
        MUST(errno == EINTR);
    MUST(WEXITSTATUS(status) == 7);
    down(&turn[1]);
    MUST(call(SYS_execve, (long)"/no such program", 0, 0, 0, 0, 0) == -ENOENT);
    down(&turn[2]);
    MUST(call(SYS_read, pipes[0], (long)&byte, 1, 0, 0, 0) == -EINTR);
    MUST(sem_post(&turn[3]) == 0);
    return arg;
}

static void *waits_first(void *arg)
{
    down(&turn[0]);
    return runs_it(arg);
}

static void cuts(void)
{
    struct sigaction action;
    pthread_t thread;

    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    MUST(sigaction(SIGUSR1, &action, NULL) == 0);
    for (int at = 0; at < THREADS; at++)
        while (sem_trywait(&turn[at]) == 0)
            continue;
    thread = spawn(is_cut, NULL);
    for (int at = 0; at < 3; at++) {
        sleep_ms(2);
        MUST(sem_post(&turn[at]) == 0);
    }
    for (struct timespec soon = in_ms(CLOCK_REALTIME, 2); sem_timedwait(&turn[3], &soon) != 0;
         soon = in_ms(CLOCK_REALTIME, 2))
        OK(pthread_kill(thread, SIGUSR1));
    join(thread);
    SHOWN("it forks, fails to become another program, and is cut by a signal");
}

int main(void)
{
    pthread_t threads[THREADS], early;

    if (prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_OFF, 0, 0, 0) != 0)
        SKIP("the kernel catches no calls");
    for (int at = 0; at < THREADS; at++)
        MUST(sem_init(&turn[at], 0, 0) == 0);
    MUST(pipe(pipes) == 0);
    early = spawn(waits_first, (void *)0);
    sleep_ms(5);
    call = write_code();
    MUST(sem_post(&turn[0]) == 0 && sem_post(&turn[0]) == 0);
    for (intptr_t at = 1; at < THREADS; at++)
        threads[at] = spawn(runs_it, (void *)at);
    join(early);
    for (int at = 1; at < THREADS; at++)
        join(threads[at]);
    down(&turn[0]);
    SHOWN("calls of written code are the thread's own");

    threads[0] = spawn(waits, NULL);
    threads[1] = spawn(wakes, NULL);
    MUST(sem_post(&turn[0]) == 0 && sem_post(&turn[1]) == 0);
    join(threads[0]);
    join(threads[1]);
    SHOWN("it waits and wakes");

    for (intptr_t at = 0; at < THREADS - 1; at++)
        threads[at] = spawn(reads, (void *)at);
    for (int at = 0; at < THREADS - 1; at++)
        MUST(sem_post(&turn[at]) == 0);
    sleep_ms(20);
    join(spawn(writes, NULL));
    for (int at = 0; at < THREADS - 1; at++)
        join(threads[at]);
    SHOWN("it blocks one thread at a time");

    cuts();
    int status;
    pid_t child = fork();

    MUST(child >= 0);
    if (child == 0)
        _exit(call(SYS_getpid, 0, 0, 0, 0, 0, 0) == getpid() ? 7 : 1);
    MUST(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
    SHOWN("and runs in a child");
    return 0;
}
