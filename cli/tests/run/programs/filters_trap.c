/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A filter of system calls that answers some by SIGSYS, as sandboxes do: a handler makes up their
 * results, in the thread that has made the call. */
#include "check.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/prctl.h>

enum { THREADS = 6, ROUNDS = 100, NUMBER = 4242, NOT_OPEN = 1000 };

static sem_t turn[THREADS];
static pthread_key_t key;
static int pipes[2];

struct seen {
    pid_t tid;
    int calls;
};

/* The result is 4242, more by the number of the call. */
static void on_call(int signal, siginfo_t *information, void *data)
{
    ucontext_t *context = (ucontext_t *)data;
    struct seen *seen = (struct seen *)pthread_getspecific(key);

    MUST(signal == SIGSYS && information->si_code == 1);
    MUST(information->si_syscall == context->uc_mcontext.gregs[REG_RAX]);
    MUST(seen != NULL && seen->tid == syscall(SYS_gettid));
    seen->calls++;
    context->uc_mcontext.gregs[REG_RAX] = NUMBER + information->si_syscall;
}

#define TRAP(number)                                          \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, 1),      \
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP)

static void install(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        TRAP(SYS_uname),
        TRAP(SYS_sysinfo),
        TRAP(SYS_preadv2),
        TRAP(SYS_pwritev2),
        TRAP(SYS_mkdirat),
        TRAP(SYS_sched_yield),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
        TRAP(NOT_OPEN),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof filter / sizeof *filter, .filter = filter};
    struct sigaction action;

    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_call;
    action.sa_flags = SA_SIGINFO;
    MUST(sigaction(SIGSYS, &action, NULL) == 0);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
        || syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0)
        SKIP("no filter can be installed");
}

static void *calls(void *arg)
{
    int own = (int)(intptr_t)arg;
    struct seen seen = {.tid = (pid_t)syscall(SYS_gettid)};
    char byte;

    OK(pthread_setspecific(key, &seen));
    for (int round = 0; round < ROUNDS; round++) {
        static const long traps[] = {SYS_uname, SYS_sysinfo, SYS_mkdirat, SYS_write};
        long number = traps[round % 4];

        down(&turn[own]);
        MUST(syscall(number, (long)NOT_OPEN, 0L, 0L) == NUMBER + number);
        MUST(seen.calls == round + 1);
        MUST(write(pipes[1], "x", 1) == 1);
        MUST(read(pipes[0], &byte, 1) == 1);
        MUST(sem_post(&turn[(own + 1) % THREADS]) == 0);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    (void)argv;
    OK(pthread_key_create(&key, NULL));
    for (int at = 0; at < THREADS; at++)
        MUST(sem_init(&turn[at], 0, at == 0) == 0);
    MUST(pipe(pipes) == 0);
    if (argc == 1)
        several();
    install();
    in_threads(THREADS, calls);
    SHOWN("each call that a filter traps runs the handler once, in its thread");
    return 0;
}
