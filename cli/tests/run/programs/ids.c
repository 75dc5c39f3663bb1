/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Changes of identity reach all threads of the process, those that wait and those that compute; the
 * file creation mask and the working directory belong to the process. */
#include "check.h"
#include <grp.h>
#include <sys/stat.h>

enum { GROUPS = 40 };

static sem_t changed[3], never;
static volatile int stop;
static uid_t user;
static gid_t group;
/* Other groups, as many as the process has in the end. */
static gid_t groups[GROUPS];
static long count;

static void check_ids(void)
{
    uid_t real, effective, saved;
    gid_t real_group, effective_group, saved_group;

    MUST(syscall(SYS_getresuid, &real, &effective, &saved) == 0);
    MUST(real == user && effective == user && saved == user);
    MUST(syscall(SYS_getresgid, &real_group, &effective_group, &saved_group) == 0);
    MUST(real_group == group && effective_group == group && saved_group == group);
    MUST(geteuid() == user && getegid() == group);
    MUST(syscall(SYS_getgroups, 0, NULL) == count);
}

static void *waits(void *arg)
{
    down(arg);
    check_ids();
    return NULL;
}

static void *computes(void *arg)
{
    struct timespec limit = in_ms(CLOCK_REALTIME, 1);
    int result;

    /* A change of ids interrupts the wait, by the C library's signal. */
    do
        result = sem_timedwait(&never, &limit);
    while (result != 0 && errno == EINTR);
    MUST(result != 0 && errno == ETIMEDOUT);
    while (!stop)
        ;
    check_ids();
    return arg;
}

static void *changes(void *arg)
{
    usleep(5000);
    if (user != getuid())
        MUST(setgroups(GROUPS, groups) == 0);
    MUST(setresgid(group, group, group) == 0);
    MUST(setresuid(user, user, user) == 0);
    check_ids();
    return arg;
}

/* As root: to a user without rights; the process has no way back. Else: to what it is. */
static void change_in_child(void)
{
    pthread_t threads[4];
    pid_t child = fork();

    if (child == 0) {
        user = getuid() == 0 ? 65534 : getuid();
        group = getuid() == 0 ? 65534 : getgid();
        count = getuid() == 0 ? GROUPS : getgroups(0, NULL);
        for (int at = 0; at < GROUPS; at++)
            groups[at] = 1000 + (gid_t)at;
        for (int at = 0; at < 3; at++)
            threads[at] = spawn(waits, &changed[at]);
        threads[3] = spawn(computes, NULL);
        join(spawn(changes, NULL));
        check_ids();
        for (int at = 0; at < 3; at++)
            OK(sem_post(&changed[at]));
        stop = 1;
        for (int at = 0; at < 4; at++)
            join(threads[at]);
        _exit(0);
    }
    MUST(exits(child, 0));
}

static void *changes_folder(void *arg)
{
    MUST(chdir("/") == 0);
    umask(0123);
    return arg;
}

static void *sees_folder(void *arg)
{
    char path[256];

    MUST(getcwd(path, sizeof path) == path && !strcmp(path, "/"));
    MUST(umask(0123) == 0123);
    return arg;
}

int main(void)
{
    for (int at = 0; at < 3; at++)
        OK(sem_init(&changed[at], 0, 0));
    OK(sem_init(&never, 0, 0));
    for (int round = 0; round < 5; round++)
        change_in_child();
    SHOWN("identity");
    join(spawn(changes_folder, NULL));
    join(spawn(sees_folder, NULL));
    SHOWN("working directory and file creation mask");
    return 0;
}
