/* A server with a thread for each connection: what comes in goes out again. Called as `PROGRAM
 * PORT`, it serves until a signal ends it. */
#include "common.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

static void *serves(void *data)
{
    int fd = (int)(intptr_t)data;
    char buffer[4096];
    for (;;) {
        ssize_t length = read(fd, buffer, sizeof buffer);
        if (length < 0 && errno == EINTR)
            continue;
        if (length <= 0)
            break;
        for (ssize_t done = 0; done < length;) {
            ssize_t written = write(fd, buffer + done, (size_t)(length - done));
            if (written < 0 && errno != EINTR)
                goto over;
            done += written > 0 ? written : 0;
        }
    }
over:
    close(fd);
    return NULL;
}

int main(int argc, char **argv)
{
    int one = 1;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = { .sin_family = AF_INET };
    address.sin_port = htons((uint16_t)argument(argc, argv, 1, 0));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    CHECK(listener >= 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    CHECK(bind(listener, (struct sockaddr *)&address, size) == 0);
    CHECK(listen(listener, 1024) == 0);
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0) {
            CHECK(errno == EINTR || errno == ECONNABORTED);
            continue;
        }
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        pthread_detach(start_thread(serves, (void *)(intptr_t)fd));
    }
}
