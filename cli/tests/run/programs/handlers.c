/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Handlers that do work: SIGPIPE, SIGCHLD with waitpid, writes to a pipe, calls that are safe in a
 * handler; errno and floating point are as before after each. */
#include "check.h"
#include <sys/socket.h>

enum { CHILDREN = 12, WRITES = 200 };

static volatile int pipes;
static int reaped, ends[2];
static sem_t changed;

static void on_pipe(int signal)
{
    (void)signal;
    pipes++;
}

static void *writes_to_nobody(void *arg)
{
    int broken[2];

    for (int at = 0; at < 10; at++) {
        MUST(pipe(broken) == 0 && close(broken[0]) == 0);
        FAILS(EPIPE, write(broken[1], "b", 1));
        MUST(close(broken[1]) == 0 && pipes == 2 * at + 1);
        MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, broken) == 0 && close(broken[0]) == 0);
        FAILS(EPIPE, send(broken[1], "b", 1, MSG_NOSIGNAL));
        MUST(pipes == 2 * at + 1);
        FAILS(EPIPE, write(broken[1], "b", 1));
        MUST(close(broken[1]) == 0 && pipes == 2 * at + 2);
    }
    return arg;
}

/* Takes all that have ended: signals of several children may be one. */
static void on_child(int signal)
{
    int error = errno, status;

    (void)signal;
    while (waitpid(-1, &status, WNOHANG) > 0) {
        MUST(WIFEXITED(status) && WEXITSTATUS(status) == 3);
        __atomic_add_fetch(&reaped, 1, __ATOMIC_SEQ_CST);
        OK(sem_post(&changed));
    }
    errno = error;
}

static void *forks(void *arg)
{
    pid_t child = fork();

    MUST(child >= 0);
    if (child == 0) {
        usleep(1000 * (unsigned)(intptr_t)arg);
        _exit(3);
    }
    return NULL;
}

static void children(void)
{
    struct sigaction action = {.sa_handler = on_child, .sa_flags = SA_RESTART | SA_NOCLDSTOP};

    OK(sigaction(SIGCHLD, &action, NULL));
    in_threads(CHILDREN, forks);
    for (int at = 0; at < CHILDREN; at++)
        down(&changed);
    MUST(reaped == CHILDREN);
    FAILS(ECHILD, waitpid(-1, NULL, 0));
    signal(SIGCHLD, SIG_DFL);
}

/* A self-pipe: the handler writes, a thread reads. */
static void on_user(int signal)
{
    struct timespec time;
    int error = errno;
    volatile double ruined = 1.0;

    (void)signal;
    for (int at = 0; at < 20; at++)
        ruined *= 1.5;
    MUST(clock_gettime(CLOCK_MONOTONIC, &time) == 0 && getpid() > 0);
    FAILS(EBADF, close(-1));
    MUST(write(ends[1], "b", 1) == 1);
    OK(sem_post(&changed));
    errno = error;
}

static void *reads_pipe(void *arg)
{
    char bytes[16];
    ssize_t size, sum = 0;

    while (sum < WRITES) {
        size = read(ends[0], bytes, sizeof bytes);
        MUST(size > 0 || errno == EINTR);
        if (size > 0)
            sum += size;
    }
    return arg;
}

/* Signals itself, and computes over the handler. */
static void *signals_itself(void *arg)
{
    volatile double sum = 0;

    for (int at = 0; at < WRITES / 2; at++) {
        double own = at * 0.25;

        errno = ERANGE;
        OK(pthread_kill(pthread_self(), SIGUSR1));
        MUST(errno == ERANGE);
        sum += own;
        down(&changed);
    }
    MUST(sum == 0.25 * (WRITES / 2 - 1) * (WRITES / 2) / 2);
    return arg;
}

int main(void)
{
    struct sigaction action = {.sa_handler = on_pipe};
    pthread_t reader, first, second;

    OK(sem_init(&changed, 0, 0));
    OK(sigaction(SIGPIPE, &action, NULL));
    join(spawn(writes_to_nobody, NULL));
    SHOWN("SIGPIPE");
    children();
    SHOWN("SIGCHLD");
    action.sa_handler = on_user;
    OK(sigaction(SIGUSR1, &action, NULL));
    MUST(pipe(ends) == 0);
    reader = spawn(reads_pipe, NULL);
    first = spawn(signals_itself, NULL);
    second = spawn(signals_itself, NULL);
    join(first);
    join(second);
    join(reader);
    SHOWN("a pipe to itself");
    return 0;
}
