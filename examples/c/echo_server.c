/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * An echo server, a worker for each connection, written as if each call blocked.
 *
 *   echo_server PORT       serves until it is killed
 *   echo_server            serves a few clients of its own on any port, checks what they get, and
 *                          ends
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "umcg/rt.h"

#define CLIENTS 20
#define ROUNDS 10

static struct sockaddr_in address;

static void *serve(void *arg)
{
    int fd = (int)(intptr_t)arg;
    char buffer[4096];
    ssize_t got;

    while ((got = umcg_read(fd, buffer, sizeof buffer)) > 0 &&
           umcg_write(fd, buffer, (size_t)got) == got)
        ;
    umcg_close(fd);
    return NULL;
}

static void *accept_all(void *arg)
{
    int listener = (int)(intptr_t)arg;

    for (;;) {
        int fd = umcg_accept(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0) {
            umcg_worker_t *worker = umcg_spawn(serve, (void *)(intptr_t)fd);
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

/* Returns how many of its messages came back whole. */
static void *client(void *arg)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    intptr_t good = 0;

    if (umcg_connect(fd, (struct sockaddr *)&address, sizeof address) < 0)
        return NULL;
    for (int round = 0; round < ROUNDS; round++) {
        char out[64] = "", in[64] = "";
        int me = (int)(intptr_t)arg;
        size_t size = (size_t)snprintf(out, sizeof out, "client %d, message %d\n", me, round);
        size_t done = 0;
        ssize_t got = umcg_write(fd, out, size);
        while (done < size && got > 0 && (got = umcg_read(fd, in + done, size - done)) > 0)
            done += (size_t)got;
        good += strcmp(in, out) == 0;
    }
    umcg_close(fd);
    return (void *)good;
}

int main(int argc, char **argv)
{
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    socklen_t length = sizeof address;
    umcg_worker_t *server, *clients[CLIENTS];
    intptr_t good = 0;

    address.sin_family = AF_INET;
    address.sin_port = htons((uint16_t)(argc > 1 ? atoi(argv[1]) : 0));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&address, length) < 0 || listen(listener, 128) < 0 ||
        getsockname(listener, (struct sockaddr *)&address, &length) < 0) {
        perror("echo_server");
        return 1;
    }
    server = umcg_spawn(accept_all, (void *)(intptr_t)listener);
    if (argc > 1)
        return umcg_join(server, NULL);

    for (int i = 0; i < CLIENTS; i++)
        clients[i] = umcg_spawn(client, (void *)(intptr_t)i);
    for (int i = 0; i < CLIENTS; i++) {
        void *result;
        umcg_join(clients[i], &result);
        good += (intptr_t)result;
    }
    umcg_abort(server);
    umcg_join(server, NULL);
    umcg_close(listener);
    printf("%d of %d messages came back\n", (int)good, CLIENTS * ROUNDS);
    return good != CLIENTS * ROUNDS;
}
