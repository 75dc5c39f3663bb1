/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A sandbox forbids copies of memory by the kernel (process_vm_readv, process_vm_writev): the
 * robust locks of threads that end, of both protocols; lists of one's own; arguments that are not
 * aligned; and bad ones of threads that block SIGSEGV. */
#include "check.h"
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>

enum { LOCKS = 6, OWNERS = 3, ROUNDS = 10, PAGE = 4096 };

static pthread_mutex_t locks[OWNERS][LOCKS];
static sem_t holds, may_end;
static char *no_page;

static void forbid(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        SKIP("no filters of system calls");
    FAILS(EPERM, syscall(SYS_process_vm_readv, getpid(), NULL, 0, NULL, 0, 0));
    FAILS(ENOSYS, syscall(SYS_process_vm_writev, getpid(), NULL, 0, NULL, 0, 0));
}

static void make_locks(int protocols)
{
    pthread_mutexattr_t attributes;

    for (int owner = 0; owner < OWNERS; owner++) {
        for (int at = 0; at < LOCKS; at++) {
            int inherits = protocols == 1 || (protocols == 2 && at % 2);

            OK(pthread_mutexattr_init(&attributes));
            OK(pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST));
            OK(pthread_mutexattr_setprotocol(&attributes, inherits ? PTHREAD_PRIO_INHERIT
                                                                   : PTHREAD_PRIO_NONE));
            OK(pthread_mutex_init(&locks[owner][at], &attributes));
        }
    }
}

static void *ends_with_them(void *arg)
{
    pthread_mutex_t *mine = locks[(intptr_t)arg];

    for (int at = 0; at < LOCKS; at++)
        OK(pthread_mutex_lock(&mine[at]));
    OK(sem_post(&holds));
    down(&may_end);
    return NULL;
}

static void *gets_it(void *lock)
{
    RETURNS(EOWNERDEAD, pthread_mutex_lock(lock));
    OK(pthread_mutex_consistent(lock));
    OK(pthread_mutex_unlock(lock));
    return NULL;
}

/* Each lock has a waiter when its owner ends, or gets one after. */
static void owners_die(int protocols, int wait_before)
{
    pthread_t owners[OWNERS], waiters[OWNERS][LOCKS];

    make_locks(protocols);
    for (int owner = 0; owner < OWNERS; owner++)
        owners[owner] = spawn(ends_with_them, (void *)(intptr_t)owner);
    for (int owner = 0; owner < OWNERS; owner++)
        down(&holds);
    for (int turn = 0; turn < 2; turn++) {
        if (turn == wait_before)
            for (int owner = 0; owner < OWNERS; owner++)
                OK(sem_post(&may_end));
        else
            for (int owner = 0; owner < OWNERS; owner++)
                for (int at = 0; at < LOCKS; at++)
                    waiters[owner][at] = spawn(gets_it, &locks[owner][at]);
    }
    for (int owner = 0; owner < OWNERS; owner++) {
        join(owners[owner]);
        for (int at = 0; at < LOCKS; at++)
            join(waiters[owner][at]);
    }
}

/* ---- A list of one's own ---- */

struct own_lock {
    struct robust_list link;
    uint32_t word;
};

static struct own_lock own[3];
static struct robust_list_head own_head;

static void *ends_with_own_list(void *arg)
{
    own_head.list.next = &own[0].link;
    own_head.futex_offset = offsetof(struct own_lock, word);
    for (int at = 0; at < 3; at++) {
        own[at].link.next = at < 2 ? &own[at + 1].link : &own_head.list;
        own[at].word = (uint32_t)syscall(SYS_gettid) | FUTEX_WAITERS;
    }
    OK(syscall(SYS_set_robust_list, &own_head, sizeof own_head));
    return arg;
}

static void own_list(void)
{
    join(spawn(ends_with_own_list, NULL));
    for (int at = 0; at < 3; at++)
        MUST(own[at].word == (FUTEX_WAITERS | FUTEX_OWNER_DIED));
}

/* ---- Arguments ---- */

static void *not_aligned(void *arg)
{
    char record[256];
    uint64_t none = 0;
    struct timespec now = {0, 1000};

    for (int by = 1; by < 8; by++) {
        sigset_t set;

        memcpy(record + by, &now, sizeof now);
        OK(syscall(SYS_nanosleep, record + by, NULL));
        sigemptyset(&set);
        sigaddset(&set, SIGUSR2);
        memcpy(record + by, &set, 8);
        OK(syscall(SYS_rt_sigprocmask, SIG_SETMASK, record + by, NULL, 8));
        memset(record, 0, sizeof record);
        OK(syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, record + by, 8));
        MUST(memcmp(record + by, &set, 8) == 0);
        memset(record, 255, sizeof record);
        OK(syscall(SYS_rt_sigaction, SIGUSR1, NULL, record + by, 8));
        OK(syscall(SYS_rt_sigaction, SIGUSR1, record + by, NULL, 8));
        MUST(record[by - 1] == -1 && record[by] == 0 && record[by + 32] == -1);
    }
    return arg;
}

static void *bad_ones(void *arg)
{
    int word = 0;
    sigset_t all, now;

    sigfillset(&all);
    OK(pthread_sigmask(SIG_SETMASK, &all, NULL));
    for (int at = 0; at < ROUNDS; at++) {
        for (int by = 0; by < 2; by++) {
            FAILS(EFAULT, syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, no_page + by, NULL, 0));
            FAILS(EFAULT, syscall(SYS_rt_sigaction, SIGUSR2, no_page + by, NULL, 8));
            FAILS(EFAULT, syscall(SYS_rt_sigaction, SIGUSR2, NULL, no_page + by, 8));
            FAILS(EFAULT, syscall(SYS_rt_sigprocmask, SIG_BLOCK, no_page + by, NULL, 8));
            FAILS(EFAULT, syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, no_page + by, 8));
            FAILS(EFAULT, syscall(SYS_nanosleep, no_page + by, NULL));
            FAILS(EFAULT, syscall(SYS_clone3, no_page + by, 88));
        }
        FAILS(EFAULT, syscall(SYS_nanosleep, NULL, NULL));
        FAILS(EFAULT, syscall(SYS_futex, NULL, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0));
        FAILS(EFAULT, syscall(SYS_futex, no_page, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0));
        FAILS(EFAULT, syscall(SYS_futex, &word, FUTEX_WAKE_OP_PRIVATE, 1, 1, no_page, 0));
        OK(pthread_sigmask(SIG_BLOCK, NULL, &now));
        MUST(sigismember(&now, SIGSEGV) && sigismember(&now, SIGUSR2));
        usleep(10);
    }
    return arg;
}

int main(void)
{
    forbid();
    no_page = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(no_page != MAP_FAILED);
    OK(sem_init(&holds, 0, 0));
    OK(sem_init(&may_end, 0, 0));
    for (int protocols = 0; protocols < 3; protocols++)
        for (int round = 0; round < ROUNDS; round++)
            owners_die(protocols, round % 2);
    SHOWN("robust locks");
    own_list();
    SHOWN("a list of one's own");
    in_threads(4, not_aligned);
    SHOWN("arguments that are not aligned");
    in_threads(4, bad_ones);
    SHOWN("arguments that are not there");
    return 0;
}
