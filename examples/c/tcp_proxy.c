/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A TCP proxy: two workers a connection, one for each direction, use the same two descriptors at
 * once.
 *
 *   tcp_proxy PORT TO-PORT   connects clients of PORT with TO-PORT of this machine
 *   tcp_proxy                puts itself between clients and a server of its own, and checks the
 *                            data that come through
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "umcg/rt.h"

#define CLIENTS 8
#define BYTES 300000

/* A listening socket, its address, and the function to run for each connection. */
struct service {
    struct sockaddr_in address;
    int listener;
    void *(*handle)(void *fd);
};

static struct service proxy, target;

struct link {
    int from, to;
};

static void *copy(void *arg)
{
    struct link *link = arg;
    char buffer[16384];
    ssize_t got;

    while ((got = umcg_read(link->from, buffer, sizeof buffer)) > 0 &&
           umcg_write(link->to, buffer, (size_t)got) == got)
        ;
    shutdown(link->to, SHUT_WR);
    return NULL;
}

static void *forward(void *arg)
{
    int here = (int)(intptr_t)arg, there = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (umcg_connect(there, (struct sockaddr *)&target.address, sizeof target.address) == 0) {
        struct link out = {here, there}, back = {there, here};
        umcg_worker_t *other = umcg_spawn(copy, &back);
        copy(&out);
        umcg_join(other, NULL);
    }
    umcg_close(there);
    umcg_close(here);
    return NULL;
}

/* The target: sends back each byte it gets, with each bit inverted. */
static void *invert(void *arg)
{
    int fd = (int)(intptr_t)arg;
    char buffer[5000];
    ssize_t got;

    while ((got = umcg_read(fd, buffer, sizeof buffer)) > 0) {
        for (ssize_t i = 0; i < got; i++)
            buffer[i] = (char)~buffer[i];
        if (umcg_write(fd, buffer, (size_t)got) != got)
            break;
    }
    umcg_close(fd);
    return NULL;
}

static void *accept_all(void *arg)
{
    struct service *service = arg;

    for (;;) {
        int fd = umcg_accept(service->listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0) {
            umcg_worker_t *worker = umcg_spawn(service->handle, (void *)(intptr_t)fd);
            if (worker)
                umcg_detach(worker);
            else
                umcg_close(fd); /* no memory for a worker: this connection ends, the others go on */
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            umcg_sleep_ns(10000000); /* until other connections have given something back */
        } else {
            return NULL; /* aborted */
        }
    }
}

static umcg_worker_t *start(struct service *service, int port, void *(*handle)(void *fd))
{
    socklen_t length = sizeof service->address;
    int on = 1;

    service->handle = handle;
    service->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    service->address.sin_family = AF_INET;
    service->address.sin_port = htons((uint16_t)port);
    service->address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(service->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(service->listener, (struct sockaddr *)&service->address, length) < 0 ||
        listen(service->listener, 128) < 0 ||
        getsockname(service->listener, (struct sockaddr *)&service->address, &length) < 0) {
        perror("tcp_proxy");
        exit(1);
    }
    return umcg_spawn(accept_all, service);
}

static void *send_all(void *arg)
{
    int fd = (int)(intptr_t)arg;
    static char data[BYTES]; /* zeros */

    umcg_write(fd, data, sizeof data);
    shutdown(fd, SHUT_WR);
    return NULL;
}

/* Returns how many bytes came back right. */
static void *client(void *arg)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    umcg_worker_t *sender;
    char buffer[4096];
    intptr_t good = 0;
    ssize_t got;

    (void)arg;
    if (umcg_connect(fd, (struct sockaddr *)&proxy.address, sizeof proxy.address) < 0)
        return NULL;
    sender = umcg_spawn(send_all, (void *)(intptr_t)fd);
    while ((got = umcg_read(fd, buffer, sizeof buffer)) > 0)
        for (ssize_t i = 0; i < got; i++)
            good += buffer[i] == (char)~0;
    umcg_join(sender, NULL);
    umcg_close(fd);
    return (void *)good;
}

int main(int argc, char **argv)
{
    umcg_worker_t *servers[2], *clients[CLIENTS];
    intptr_t good = 0;

    servers[0] = start(&proxy, argc > 2 ? atoi(argv[1]) : 0, forward);
    if (argc > 2) {
        target.address = proxy.address;
        target.address.sin_port = htons((uint16_t)atoi(argv[2]));
        return umcg_join(servers[0], NULL);
    }
    servers[1] = start(&target, 0, invert);
    for (int i = 0; i < CLIENTS; i++)
        clients[i] = umcg_spawn(client, NULL);
    for (int i = 0; i < CLIENTS; i++) {
        void *result;
        umcg_join(clients[i], &result);
        good += (intptr_t)result;
    }
    for (int i = 0; i < 2; i++) {
        umcg_abort(servers[i]);
        umcg_join(servers[i], NULL);
    }
    printf("%ld of %ld bytes came through\n", (long)good, (long)CLIENTS * BYTES);
    return good != (intptr_t)CLIENTS * BYTES;
}
