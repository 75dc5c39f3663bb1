/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Processes that a test forks, stops and kills. Each of them ends with the test. */
#ifndef PROCESSES_H
#define PROCESSES_H

#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static pid_t start(void (*body)(void *arg), void *arg)
{
    pid_t child;
    fflush(NULL);
    MUST((child = fork()) >= 0);
    if (child == 0) {
        MUST(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
        body(arg);
        fflush(NULL);
        _exit(check_done());
    }
    return child;
}

static void ends_well(pid_t child)
{
    int status = -1;
    MUST(waitpid(child, &status, 0) == child);
    CHECK("another process", status == 0);
}

static void kill_it(pid_t child)
{
    int status = 0;
    MUST(kill(child, SIGKILL) == 0 && waitpid(child, &status, 0) == child);
    CHECK("killed", WIFSIGNALED(status));
}

/* Returns when it has stopped. */
static void stop_it(pid_t child)
{
    int status = 0;
    MUST(kill(child, SIGSTOP) == 0 && waitpid(child, &status, WUNTRACED) == child &&
         WIFSTOPPED(status));
}

#endif
