/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The flags of sigaction: calls that are begun again after a handler, and calls that end with
 * EINTR; nested and one-time handlers, stacks, children. Each call is made in a thread. */
#include "check.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>

static volatile int calls, depth, deepest, on_alternate;
static int ends[2], sockets[2];
static sem_t never, begun;
static char alternate[64 * 1024];

static void handler(int signal)
{
    char here;

    calls++;
    depth++;
    deepest = depth > deepest ? depth : deepest;
    on_alternate = &here > alternate && &here < alternate + sizeof alternate;
    if (calls == 1 && deepest == 1)
        raise(signal);
    depth--;
}

static void count_only(int signal)
{
    (void)signal;
    calls++;
}

static void set(void (*function)(int), int flags)
{
    struct sigaction action = {.sa_handler = function, .sa_flags = flags}, old;

    sigemptyset(&action.sa_mask);
    OK(sigaction(SIGUSR1, &action, NULL));
    OK(sigaction(SIGUSR1, NULL, &old));
    MUST(old.sa_handler == function && (old.sa_flags & ~0x04000000) == flags);
    calls = depth = deepest = 0;
}

/* Whether the call ended with EINTR, not with a result. */
static int read_interrupted(void)
{
    char byte;
    ssize_t size = read(ends[0], &byte, 1);

    MUST(size == 1 || errno == EINTR);
    return size == -1;
}

static int recv_interrupted(void)
{
    char byte;
    ssize_t size = recv(sockets[0], &byte, 1, 0);

    MUST(size == 1 || errno == EINTR);
    return size == -1;
}

static int sem_interrupted(void)
{
    int result = sem_wait(&never);

    MUST(result == 0 || errno == EINTR);
    return result == -1;
}

static int nanosleep_interrupted(void)
{
    struct timespec limit = {1000, 0};

    FAILS(EINTR, nanosleep(&limit, NULL));
    return 1;
}

static int poll_interrupted(void)
{
    FAILS(EINTR, poll(NULL, 0, -1));
    return 1;
}

static int select_interrupted(void)
{
    FAILS(EINTR, select(0, NULL, NULL, NULL, NULL));
    return 1;
}

static int pause_interrupted(void)
{
    FAILS(EINTR, pause());
    return 1;
}

static int epoll_interrupted(void)
{
    struct epoll_event event;
    int epoll = epoll_create1(0);

    FAILS(EINTR, epoll_wait(epoll, &event, 1, -1));
    MUST(close(epoll) == 0);
    return 1;
}

/* With a limit of time, a receiving call is not begun again. */
static int limited_interrupted(void)
{
    struct timeval limit = {1000, 0};
    char byte;
    int pair[2];

    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    MUST(setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    FAILS(EINTR, recv(pair[0], &byte, 1, 0));
    MUST(close(pair[0]) == 0 && close(pair[1]) == 0);
    return 1;
}

static const struct {
    const char *name;
    int (*is_interrupted)(void);
    int is_restartable;
} cases[] = {
    {"read", read_interrupted, 1},
    {"recv", recv_interrupted, 1},
    {"sem_wait", sem_interrupted, 1},
    {"nanosleep", nanosleep_interrupted, 0},
    {"poll", poll_interrupted, 0},
    {"select", select_interrupted, 0},
    {"pause", pause_interrupted, 0},
    {"epoll_wait", epoll_interrupted, 0},
    {"recv with a limit", limited_interrupted, 0},
};

static void *run_case(void *arg)
{
    int at = (int)(intptr_t)arg;

    OK(sem_post(&begun));
    return (void *)(intptr_t)cases[at].is_interrupted();
}

/* Signals until the thread has ended, or, where calls begin again, until some have been handled. */
static void interrupt(int at, int restarts)
{
    pthread_t thread = spawn(run_case, (void *)(intptr_t)at);
    void *result = NULL;
    int wanted = restarts && cases[at].is_restartable ? 5 : 1000000;

    down(&begun);
    while (calls < wanted && pthread_tryjoin_np(thread, &result) == EBUSY) {
        OK(pthread_kill(thread, SIGUSR1));
        sleep_ms(1);
    }
    if (wanted == 5) {
        OK(sem_post(&never));
        MUST(write(ends[1], "b", 1) == 1 && send(sockets[1], "b", 1, 0) == 1);
        result = join(thread);
        MUST(result == NULL);
        /* The other two of these take what was meant for the one in turn. */
        while (sem_trywait(&never) == 0)
            ;
        MUST(fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0);
        MUST(read(ends[0], alternate, 8) <= 1 && recv(sockets[0], alternate, 8, MSG_DONTWAIT) <= 1);
        MUST(fcntl(ends[0], F_SETFL, 0) == 0);
    } else {
        MUST(result != NULL);
    }
}

static void each_call(int flags)
{
    for (int at = 0; at < (int)(sizeof cases / sizeof *cases); at++) {
        set(count_only, flags);
        interrupt(at, flags & SA_RESTART);
        printf("%s: %s\n", cases[at].name,
               flags && cases[at].is_restartable ? "begun again" : "interrupted");
    }
}

/* A handler that raises its own signal: held back until it returns, or nested. */
static void *in_handlers(void *arg)
{
    stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate}, old;
    struct sigaction action;

    set(handler, 0);
    raise(SIGUSR1);
    MUST(calls == 2 && deepest == 1 && !on_alternate);
    set(handler, SA_NODEFER);
    raise(SIGUSR1);
    MUST(calls == 2 && deepest == 2);
    OK(sigaltstack(&stack, NULL));
    set(handler, SA_ONSTACK);
    raise(SIGUSR1);
    MUST(calls == 2 && on_alternate);
    OK(sigaltstack(NULL, &old));
    MUST(old.ss_sp == alternate && old.ss_flags == 0);
    set(count_only, SA_RESETHAND);
    raise(SIGUSR1);
    OK(sigaction(SIGUSR1, NULL, &action));
    MUST(calls == 1 && action.sa_handler == SIG_DFL);
    stack.ss_flags = SS_DISABLE;
    OK(sigaltstack(&stack, NULL));
    return arg;
}

/* No status of a child is kept with SA_NOCLDWAIT: waiting ends when all have ended. */
static void children(void)
{
    struct sigaction action = {.sa_handler = count_only, .sa_flags = SA_NOCLDWAIT | SA_RESTART};
    pid_t child;

    OK(sigaction(SIGCHLD, &action, NULL));
    child = fork();
    if (child == 0)
        _exit(0);
    FAILS(ECHILD, waitpid(child, NULL, 0));
    action.sa_handler = SIG_DFL;
    action.sa_flags = 0;
    OK(sigaction(SIGCHLD, &action, NULL));
    child = fork();
    if (child == 0)
        _exit(6);
    MUST(exits(child, 6));
}

int main(void)
{
    MUST(pipe(ends) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
    OK(sem_init(&never, 0, 0));
    OK(sem_init(&begun, 0, 0));
    each_call(0);
    each_call(SA_RESTART);
    join(spawn(in_handlers, NULL));
    SHOWN("in handlers");
    children();
    SHOWN("children");
    FAILS(EINVAL, sigaction(SIGKILL, &(struct sigaction){.sa_handler = SIG_IGN}, NULL));
    return 0;
}
