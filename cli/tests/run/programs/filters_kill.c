/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Filters that end the process for a call that opens a file: of one thread, and then of all. The
 * program opens none. And a thread that may only read, write and end. */
#include "check.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>

enum { TURNS = 20000 };

static sem_t to, fro;

static void take_turns(int turns)
{
    for (int turn = 0; turn < turns; turn++) {
        down(&to);
        OK(sem_post(&fro));
    }
}

static void give_turns(int turns)
{
    for (int turn = 0; turn < turns; turn++) {
        OK(sem_post(&to));
        down(&fro);
    }
}

static void filter(unsigned flags)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_open, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};

    MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    MUST(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program) == 0);
}

static void *filters_itself(void *arg)
{
    take_turns(50);
    filter(0);
    take_turns(TURNS);
    return arg;
}

static void *filters_all(void *arg)
{
    take_turns(50);
    filter(SECCOMP_FILTER_FLAG_TSYNC);
    take_turns(TURNS);
    return arg;
}

static void *is_strict(void *arg)
{
    static const char text[] = "a strict one\n";

    take_turns(50);
    MUST(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0);
    if (write(1, text, sizeof text - 1) > 0)
        syscall(SYS_exit, 0);
    return arg;
}

int main(void)
{
    pthread_t thread;

    OK(sem_init(&to, 0, 0));
    OK(sem_init(&fro, 0, 0));
    thread = spawn(filters_itself, NULL);
    give_turns(50 + TURNS);
    join(thread);
    SHOWN("of one thread");
    spawn(is_strict, NULL);
    give_turns(50);
    sleep_ms(100);
    thread = spawn(filters_all, NULL);
    give_turns(50 + TURNS);
    join(thread);
    SHOWN("of all threads");
    return 0;
}
