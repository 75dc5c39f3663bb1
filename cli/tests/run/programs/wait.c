/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Waiting for children from threads other than the one that made them: waitpid, waitid, wait4, any
 * child for any thread, stopped and continued children, pidfd. */
#include "check.h"
#include <poll.h>
#include <sys/resource.h>

enum { THREADS = 6, CHILDREN = 24 };

static pid_t own_children[THREADS];
static int statuses[CHILDREN];

static pid_t begin(int status, unsigned us)
{
    pid_t child = fork();

    MUST(child >= 0);
    if (child == 0) {
        usleep(us);
        _exit(status);
    }
    return child;
}

static void *waits_for_its_own(void *arg)
{
    int own = (int)(intptr_t)arg;
    struct rusage usage;
    siginfo_t info;
    int status;

    if (own % 3 == 0) {
        MUST(waitid(P_PID, (id_t)own_children[own], &info, WEXITED | WNOWAIT) == 0);
        MUST(info.si_status == own && info.si_code == CLD_EXITED && info.si_signo == SIGCHLD);
        MUST(info.si_pid == own_children[own]);
    }
    if (own % 3 == 1) {
        MUST(wait4(own_children[own], &status, 0, &usage) == own_children[own]);
        MUST(WEXITSTATUS(status) == own && usage.ru_maxrss > 0);
    } else {
        MUST(exits(own_children[own], own));
    }
    FAILS(ECHILD, waitpid(own_children[own], &status, 0));
    return NULL;
}

/* Each child goes to one of the threads. */
static void *waits_for_any(void *arg)
{
    int status;
    pid_t child;

    while ((child = wait(&status)) > 0) {
        MUST(WIFEXITED(status));
        __atomic_add_fetch(&statuses[WEXITSTATUS(status)], 1, __ATOMIC_SEQ_CST);
    }
    MUST(errno == ECHILD);
    return arg;
}

static void *stops_and_continues(void *arg)
{
    pid_t child = fork();
    int status;

    if (child == 0)
        for (;;)
            pause();
    MUST(kill(child, SIGSTOP) == 0);
    MUST(waitpid(child, &status, WUNTRACED) == child);
    MUST(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
    MUST(kill(child, SIGCONT) == 0);
    MUST(waitpid(child, &status, WCONTINUED) == child && WIFCONTINUED(status));
    MUST(waitpid(child, &status, WNOHANG) == 0);
    MUST(kill(child, SIGKILL) == 0);
    MUST(waitpid(child, &status, 0) == child);
    MUST(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    return arg;
}

static void *polls_a_child(void *arg)
{
    pid_t child = begin(9, 2000);
    int fd = (int)syscall(SYS_pidfd_open, child, 0);
    struct pollfd one = {fd, POLLIN, 0};
    siginfo_t info;

    if (fd >= 0) {
        MUST(poll(&one, 1, 60000) == 1 && one.revents == POLLIN);
        MUST(waitid(P_PIDFD, (id_t)fd, &info, WEXITED) == 0 && info.si_status == 9);
        MUST(close(fd) == 0);
    } else {
        MUST(errno == ENOSYS && exits(child, 9));
    }
    return arg;
}

int main(void)
{
    for (int at = 0; at < THREADS; at++)
        own_children[at] = begin(at, 1000);
    in_threads(THREADS, waits_for_its_own);
    SHOWN("its own child each");
    for (int at = 0; at < CHILDREN; at++)
        begin(at, 200 * (unsigned)at);
    in_threads(THREADS, waits_for_any);
    for (int at = 0; at < CHILDREN; at++)
        MUST(statuses[at] == 1);
    SHOWN("any child");
    in_threads(3, stops_and_continues);
    SHOWN("stopped and continued");
    in_threads(3, polls_a_child);
    SHOWN("by descriptor");
    FAILS(ECHILD, wait(NULL));
    return 0;
}
