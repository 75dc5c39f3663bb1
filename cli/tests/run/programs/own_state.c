/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A thread has a filter, a host name or capabilities of its own: its calls, and those of threads
 * that it makes, are made with these, however often it waits. Those of other threads are not. */
#include "check.h"
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/utsname.h>

enum { TURNS = 300 };

static sem_t to, fro;
static const char own_name[] = "of-one-thread";

static void take_turns(void (*check)(void))
{
    for (int turn = 0; turn < TURNS; turn++) {
        down(&to);
        check();
        OK(sem_post(&fro));
    }
}

static void give_turns(void (*check)(void))
{
    for (int turn = 0; turn < TURNS; turn++) {
        OK(sem_post(&to));
        down(&fro);
        check();
    }
}

static void nothing(void)
{
}

static void uname_is_refused(void)
{
    struct utsname names;

    FAILS(EDOM, uname(&names));
}

static void uname_is_allowed(void)
{
    struct utsname names;

    MUST(uname(&names) == 0 && strcmp(names.nodename, own_name) != 0);
}

static void name_is_own(void)
{
    struct utsname names;

    MUST(uname(&names) == 0 && strcmp(names.nodename, own_name) == 0);
}

static void has_no_capabilities(void)
{
    FAILS(EPERM, sethostname(own_name, sizeof own_name - 1));
    FAILS(EACCES, setpriority(PRIO_PROCESS, 0, -5));
}

static void *child_is_refused(void *arg)
{
    take_turns(uname_is_refused);
    return arg;
}

static void *has_filter(void *arg)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_uname, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EDOM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};

    take_turns(nothing);
    MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    MUST(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
    take_turns(uname_is_refused);
    join(spawn(child_is_refused, NULL));
    uname_is_refused();
    return arg;
}

static void *has_name(void *arg)
{
    take_turns(nothing);
    MUST(unshare(CLONE_NEWUTS) == 0 && sethostname(own_name, sizeof own_name - 1) == 0);
    take_turns(name_is_own);
    return arg;
}

static void *drops_capabilities(void *arg)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct none[2];

    memset(none, 0, sizeof none);
    take_turns(nothing);
    MUST(syscall(SYS_capset, &header, none) == 0);
    take_turns(has_no_capabilities);
    return arg;
}

int main(void)
{
    pthread_t thread;

    OK(sem_init(&to, 0, 0));
    OK(sem_init(&fro, 0, 0));
    thread = spawn(has_filter, NULL);
    give_turns(nothing);
    give_turns(uname_is_allowed);
    give_turns(uname_is_allowed);
    join(thread);
    SHOWN("a filter");
    /* Where the user may do so. */
    if (geteuid() == 0) {
        thread = spawn(drops_capabilities, NULL);
        give_turns(nothing);
        give_turns(nothing);
        join(thread);
    }
    SHOWN("capabilities");
    if (geteuid() == 0 && unshare(0) == 0) {
        thread = spawn(has_name, NULL);
        give_turns(nothing);
        give_turns(uname_is_allowed);
        join(thread);
    }
    SHOWN("a host name");
    return 0;
}
