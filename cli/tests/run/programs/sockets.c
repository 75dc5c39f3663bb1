/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Options of sockets that change how calls wait: limits of time for receiving and sending,
 * MSG_WAITALL, MSG_PEEK, MSG_DONTWAIT, non-blocking sockets, datagrams, passed descriptors. */
#include "check.h"
#include <sys/socket.h>
#include <sys/un.h>

static int pair[2];

static void set_limit(int fd, int option, int ms)
{
    struct timeval limit = {0, ms * 1000};

    MUST(setsockopt(fd, SOL_SOCKET, option, &limit, sizeof limit) == 0);
}

static void *limits(void *arg)
{
    static char bytes[1 << 16];
    int64_t begin = now_ns(CLOCK_MONOTONIC);
    int own[2];

    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, own) == 0);
    set_limit(own[0], SO_RCVTIMEO, 10);
    set_limit(own[0], SO_SNDTIMEO, 10);
    FAILS(EAGAIN, recv(own[0], bytes, 1, 0));
    MUST(now_ns(CLOCK_MONOTONIC) - begin >= 9000000);
    FAILS(EAGAIN, read(own[0], bytes, 1));
    while (send(own[0], bytes, sizeof bytes, 0) > 0)
        ;
    MUST(errno == EAGAIN);
    MUST(now_ns(CLOCK_MONOTONIC) - begin >= 27000000);
    MUST(send(own[1], "b", 1, 0) == 1 && recv(own[0], bytes, 8, 0) == 1);
    MUST(close(own[0]) == 0 && close(own[1]) == 0);
    return arg;
}

/* All bytes arrive in pieces; the receiver asks for all of them in one call. */
static void *sends_pieces(void *arg)
{
    for (int at = 0; at < 10; at++) {
        char bytes[100];

        memset(bytes, at, sizeof bytes);
        usleep(100);
        MUST(send(pair[1], bytes, sizeof bytes, 0) == sizeof bytes);
    }
    if (arg)
        MUST(shutdown(pair[1], SHUT_WR) == 0);
    return NULL;
}

static void wait_for_all(void)
{
    char bytes[2000];
    pthread_t thread;

    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    thread = spawn(sends_pieces, NULL);
    MUST(recv(pair[0], bytes, 1000, MSG_WAITALL) == 1000);
    for (int at = 0; at < 1000; at++)
        MUST(bytes[at] == at / 100);
    join(thread);
    thread = spawn(sends_pieces, pair);
    /* The end of the stream cuts it short. */
    MUST(recv(pair[0], bytes, 2000, MSG_WAITALL) == 1000);
    MUST(recv(pair[0], bytes, 2000, MSG_WAITALL) == 0);
    join(thread);
    MUST(close(pair[0]) == 0 && close(pair[1]) == 0);
}

static void without_waiting(void)
{
    char bytes[8];

    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    FAILS(EAGAIN, recv(pair[0], bytes, 1, MSG_DONTWAIT));
    MUST(send(pair[1], "ab", 2, 0) == 2);
    MUST(recv(pair[0], bytes, 8, MSG_PEEK) == 2 && recv(pair[0], bytes, 8, 0) == 2);
    MUST(fcntl(pair[0], F_SETFL, O_NONBLOCK) == 0);
    FAILS(EAGAIN, recv(pair[0], bytes, 1, 0));
    FAILS(EAGAIN, recv(pair[0], bytes, 8, MSG_WAITALL));
    MUST(fcntl(pair[0], F_SETFL, 0) == 0);
    /* The other end is still one that waits. */
    MUST((fcntl(pair[1], F_GETFL) & O_NONBLOCK) == 0);
    MUST(close(pair[0]) == 0 && close(pair[1]) == 0);
}

/* Datagrams keep their boundaries, and go to several receivers one each. */
static void *receives_datagrams(void *arg)
{
    char bytes[64];
    ssize_t size;
    int64_t count = 0;

    while ((size = recv(pair[0], bytes, sizeof bytes, 0)) > 1) {
        MUST(bytes[0] == size);
        count++;
    }
    MUST(size == 1);
    return arg ? arg : (void *)(intptr_t)count;
}

static void datagrams(void)
{
    pthread_t threads[4];
    intptr_t count = 0;

    MUST(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0);
    for (int at = 0; at < 4; at++)
        threads[at] = spawn(receives_datagrams, NULL);
    for (int at = 0; at < 400; at++) {
        char bytes[64] = {(char)(2 + at % 40)};

        MUST(send(pair[1], bytes, (size_t)bytes[0], 0) == bytes[0]);
    }
    for (int at = 0; at < 4; at++)
        MUST(send(pair[1], "e", 1, 0) == 1);
    for (int at = 0; at < 4; at++)
        count += (intptr_t)join(threads[at]);
    MUST(count == 400);
    MUST(close(pair[0]) == 0 && close(pair[1]) == 0);
}

/* A descriptor goes through a socket, and is used by the thread that received it. */
static void *passes_descriptor(void *arg)
{
    char byte = 'b', room[CMSG_SPACE(sizeof(int))] = "";
    struct iovec vector = {&byte, 1};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
    struct cmsghdr *header;

    message.msg_control = room;
    message.msg_controllen = sizeof room;
    header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), arg, sizeof(int));
    usleep(200);
    MUST(sendmsg(pair[1], &message, 0) == 1);
    return NULL;
}

static void descriptors(void)
{
    char byte, room[CMSG_SPACE(sizeof(int))];
    struct iovec vector = {&byte, 1};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
    int ends[2], passed;
    pthread_t thread;

    message.msg_control = room;
    message.msg_controllen = sizeof room;
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 && pipe(ends) == 0);
    thread = spawn(passes_descriptor, &ends[1]);
    MUST(recvmsg(pair[0], &message, MSG_CMSG_CLOEXEC) == 1);
    memcpy(&passed, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof passed);
    join(thread);
    MUST(close(ends[1]) == 0 && write(passed, "w", 1) == 1 && close(passed) == 0);
    MUST(read(ends[0], &byte, 1) == 1 && byte == 'w' && read(ends[0], &byte, 1) == 0);
}

int main(void)
{
    in_threads(4, limits);
    SHOWN("limits of time");
    wait_for_all();
    SHOWN("all bytes in one call");
    without_waiting();
    SHOWN("without waiting");
    datagrams();
    SHOWN("datagrams");
    descriptors();
    SHOWN("descriptors");
    return 0;
}
