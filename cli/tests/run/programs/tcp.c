/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* TCP on the loopback: an echo server with a thread a connection, and several threads that accept
 * from one listener, which is shut down at the end. */
#include "check.h"
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

enum { CLIENTS = 12, MESSAGES = 40, ACCEPTORS = 4 };

static int listener;
static struct sockaddr_in address;
static int accepted;

static void listen_on_loopback(void)
{
    socklen_t size = sizeof address;

    address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    MUST(listener >= 0);
    MUST(bind(listener, (struct sockaddr *)&address, sizeof address) == 0);
    MUST(getsockname(listener, (struct sockaddr *)&address, &size) == 0);
    MUST(listen(listener, 64) == 0);
}

static void receive_all(int fd, char *bytes, size_t size)
{
    size_t received = 0;

    while (received < size) {
        ssize_t got = recv(fd, bytes + received, size - received, 0);

        MUST(got > 0);
        received += (size_t)got;
    }
}

static void *echoes(void *arg)
{
    int fd = (int)(intptr_t)arg;
    char bytes[512];
    ssize_t got;

    while ((got = recv(fd, bytes, sizeof bytes, 0)) > 0)
        MUST(send(fd, bytes, (size_t)got, MSG_NOSIGNAL) == got);
    MUST(got == 0 && close(fd) == 0);
    return NULL;
}

/* A thread for each connection. */
static void *serves(void *arg)
{
    pthread_t threads[CLIENTS];

    for (int at = 0; at < CLIENTS; at++) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

        MUST(fd >= 0);
        threads[at] = spawn(echoes, (void *)(intptr_t)fd);
    }
    for (int at = 0; at < CLIENTS; at++)
        join(threads[at]);
    return arg;
}

static int connect_to_it(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;

    MUST(fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    MUST(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes) == 0);
    return fd;
}

static void *is_client(void *arg)
{
    int own = (int)(intptr_t)arg, fd = connect_to_it();
    char sent[300], got[300];

    for (int at = 0; at < MESSAGES; at++) {
        size_t size = (size_t)(own * 7 + at * 3) % sizeof sent + 1;

        memset(sent, own + at, size);
        MUST(send(fd, sent, size, 0) == (ssize_t)size);
        receive_all(fd, got, size);
        MUST(!memcmp(sent, got, size));
    }
    MUST(shutdown(fd, SHUT_WR) == 0 && recv(fd, got, 1, 0) == 0 && close(fd) == 0);
    return NULL;
}

/* Each connection goes to one of them. When the listener is shut down, all stop. */
static void *accepts(void *arg)
{
    int fd;

    while ((fd = accept(listener, NULL, NULL)) >= 0) {
        __atomic_add_fetch(&accepted, 1, __ATOMIC_SEQ_CST);
        echoes((void *)(intptr_t)fd);
    }
    MUST(errno == EINVAL);
    return arg;
}

static void several_acceptors(void)
{
    pthread_t threads[ACCEPTORS];

    for (int at = 0; at < ACCEPTORS; at++)
        threads[at] = spawn(accepts, NULL);
    in_threads(CLIENTS, is_client);
    MUST(shutdown(listener, SHUT_RDWR) == 0);
    for (int at = 0; at < ACCEPTORS; at++)
        join(threads[at]);
    MUST(accepted == CLIENTS);
}

int main(void)
{
    pthread_t server;
    int fd;

    listen_on_loopback();
    server = spawn(serves, NULL);
    in_threads(CLIENTS, is_client);
    join(server);
    SHOWN("a thread a connection");
    several_acceptors();
    SHOWN("several acceptors");
    MUST(close(listener) == 0);
    fd = socket(AF_INET, SOCK_STREAM, 0);
    FAILS(ECONNREFUSED, connect(fd, (struct sockaddr *)&address, sizeof address));
    SHOWN("refused");
    return 0;
}
