/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* poll, select and epoll in threads: over several descriptors, with limits of time, level and edge
 * triggered; descriptors that another thread closes, shuts down or reuses meanwhile. */
#include "check.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>

enum { PIPES = 6, MESSAGES = 60 };

static int ends[PIPES][2];

static void open_pipes(void)
{
    for (int at = 0; at < PIPES; at++)
        MUST(pipe(ends[at]) == 0);
}

static void close_pipes(void)
{
    for (int at = 0; at < PIPES; at++)
        MUST(close(ends[at][0]) == 0);
}

static void *writes_here_and_there(void *arg)
{
    for (int at = 0; at < MESSAGES; at++) {
        if (at % 5 == 0)
            usleep(100);
        MUST(write(ends[at * 7 % PIPES][1], "b", 1) == 1);
    }
    for (int at = 0; at < PIPES; at++)
        MUST(close(ends[at][1]) == 0);
    return arg;
}

static int take(int at)
{
    char byte;
    ssize_t got = read(ends[at][0], &byte, 1);

    MUST(got == 0 || got == 1);
    return (int)got;
}

static void by_poll(void)
{
    struct pollfd set[PIPES];
    int open_ends = PIPES, messages = 0;

    for (int at = 0; at < PIPES; at++)
        set[at] = (struct pollfd){ends[at][0], POLLIN, 0};
    while (open_ends > 0) {
        MUST(poll(set, PIPES, 60000) > 0);
        for (int at = 0; at < PIPES; at++) {
            if (set[at].fd < 0 || set[at].revents == 0)
                continue;
            if (take(at) == 1) {
                messages++;
            } else {
                set[at].fd = -1;
                open_ends--;
            }
        }
    }
    MUST(messages == MESSAGES);
}

static void by_select(void)
{
    int is_open[PIPES], open_ends = PIPES, messages = 0;

    for (int at = 0; at < PIPES; at++)
        is_open[at] = 1;
    while (open_ends > 0) {
        struct timeval limit = {60, 0};
        fd_set set;

        FD_ZERO(&set);
        for (int at = 0; at < PIPES; at++)
            if (is_open[at])
                FD_SET(ends[at][0], &set);
        MUST(select(FD_SETSIZE, &set, NULL, NULL, &limit) > 0);
        for (int at = 0; at < PIPES; at++) {
            if (!is_open[at] || !FD_ISSET(ends[at][0], &set))
                continue;
            is_open[at] = take(at);
            messages += is_open[at];
            open_ends -= !is_open[at];
        }
    }
    MUST(messages == MESSAGES);
}

static void by_epoll(uint32_t flags)
{
    int epoll = epoll_create1(EPOLL_CLOEXEC), open_ends = PIPES, messages = 0;

    for (int at = 0; at < PIPES; at++) {
        struct epoll_event event = {.events = EPOLLIN | flags, .data.u32 = (uint32_t)at};

        MUST(epoll_ctl(epoll, EPOLL_CTL_ADD, ends[at][0], &event) == 0);
        MUST(fcntl(ends[at][0], F_SETFL, O_NONBLOCK) == 0);
    }
    while (open_ends > 0) {
        struct epoll_event events[3];
        int count = epoll_wait(epoll, events, 3, 60000);

        MUST(count > 0 && count <= 3);
        for (int at = 0; at < count; at++) {
            uint32_t from = events[at].data.u32;
            char bytes[16];
            ssize_t got;

            while ((got = read(ends[from][0], bytes, sizeof bytes)) > 0)
                messages += (int)got;
            if (got == 0) {
                MUST(epoll_ctl(epoll, EPOLL_CTL_DEL, ends[from][0], NULL) == 0);
                open_ends--;
            }
        }
    }
    MUST(messages == MESSAGES && close(epoll) == 0);
}

static void multiplex(int kind)
{
    pthread_t thread;

    open_pipes();
    thread = spawn(writes_here_and_there, NULL);
    if (kind == 0)
        by_poll();
    else if (kind == 1)
        by_select();
    else
        by_epoll(kind == 2 ? 0 : (uint32_t)EPOLLET);
    join(thread);
    close_pipes();
}

static void *limits(void *arg)
{
    struct pollfd one = {0, POLLIN, 0};
    struct timespec limit = {0, 5000000};
    struct timeval select_limit = {0, 5000};
    int own[2], epoll = epoll_create1(0);
    struct epoll_event event;
    int64_t begin = now_ns(CLOCK_MONOTONIC);

    MUST(pipe(own) == 0);
    one.fd = own[0];
    MUST(poll(&one, 1, 5) == 0 && one.revents == 0);
    MUST(ppoll(&one, 1, &limit, NULL) == 0);
    MUST(select(0, NULL, NULL, NULL, &select_limit) == 0);
    MUST(select_limit.tv_sec == 0 && select_limit.tv_usec == 0);
    MUST(epoll_wait(epoll, &event, 1, 5) == 0);
    MUST(now_ns(CLOCK_MONOTONIC) - begin >= 19000000);
    MUST(poll(&one, 1, 0) == 0);
    one = (struct pollfd){own[1], POLLOUT, 0};
    MUST(poll(&one, 1, -1) == 1 && one.revents == POLLOUT);
    MUST(close(own[0]) == 0 && poll(&one, 1, -1) == 1 && (one.revents & POLLERR));
    MUST(close(own[1]) == 0 && poll(&one, 1, -1) == 1 && one.revents == POLLNVAL);
    MUST(close(epoll) == 0);
    return arg;
}

static int polled[2];
static sem_t begun;

static void *polls_it(void *arg)
{
    struct pollfd set[2] = {{polled[0], POLLIN, 0}, {*(int *)arg, POLLIN, 0}};

    OK(sem_post(&begun));
    MUST(poll(set, 2, 60000) == 1 && set[1].revents == POLLIN && set[0].revents == 0);
    return NULL;
}

static void *receives_end(void *arg)
{
    char byte;

    OK(sem_post(&begun));
    MUST(recv(polled[0], &byte, 1, 0) == 0);
    return arg;
}

/* Closing a descriptor does not end a poll of it, and its number may have another meaning at once.
 * Shutting a socket down ends waits for it. */
static void closed_meanwhile(void)
{
    for (int round = 0; round < 10; round++) {
        int wake[2], other[2];
        pthread_t thread;

        MUST(pipe(wake) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, polled) == 0);
        thread = spawn(polls_it, &wake[0]);
        down(&begun);
        usleep(3000); /* it waits by then */
        MUST(close(polled[0]) == 0 && pipe(other) == 0 && other[0] == polled[0]);
        MUST(write(wake[1], "b", 1) == 1);
        join(thread);
        MUST(write(other[1], "c", 1) == 1 && close(other[0]) == 0 && close(other[1]) == 0);
        MUST(close(polled[1]) == 0);
        MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, polled) == 0);
        thread = spawn(receives_end, NULL);
        down(&begun);
        usleep(3000); /* it waits by then */
        MUST(shutdown(polled[0], SHUT_RD) == 0);
        join(thread);
        MUST(close(polled[0]) == 0 && close(polled[1]) == 0);
        MUST(close(wake[0]) == 0 && close(wake[1]) == 0);
    }
}

int main(void)
{
    static const char *const names[] = {"poll", "select", "epoll", "epoll, edges"};

    OK(sem_init(&begun, 0, 0));
    for (int kind = 0; kind < 4; kind++) {
        multiplex(kind);
        SHOWN(names[kind]);
    }
    in_threads(1, limits);
    SHOWN("limits of time");
    closed_meanwhile();
    SHOWN("closed meanwhile");
    return 0;
}
