/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Input and output that park the worker: sockets, pipes, files, readiness, and failures.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/un.h>

#include "runtime.h"

#include <limits.h>

#define LARGE (4 << 20)

struct end {
    int fd;
    int count;
};

static void *echoes(void *arg)
{
    struct end *end = (struct end *)arg;
    char buffer[256];
    ssize_t got;

    while ((got = umcg_read(end->fd, buffer, sizeof buffer)) > 0)
        MUST(umcg_write(end->fd, buffer, (size_t)got) == got);
    CHECK("the end of the stream", got == 0);
    MUST(umcg_close(end->fd) == 0);
    return NULL;
}

static void *accepts(void *arg)
{
    struct end *listener = (struct end *)arg;
    struct end *ends = (struct end *)calloc((size_t)listener->count, sizeof *ends);
    umcg_worker_t **workers = (umcg_worker_t **)calloc((size_t)listener->count, sizeof *workers);

    for (int i = 0; i < listener->count; i++) {
        struct sockaddr_in from;
        socklen_t length = sizeof from;
        MUST((ends[i].fd =
                  umcg_accept(listener->fd, (struct sockaddr *)&from, &length, SOCK_CLOEXEC)) >= 0);
        CHECK("who it is", length == sizeof from && from.sin_family == AF_INET);
        CHECK("flags", fcntl(ends[i].fd, F_GETFD) == FD_CLOEXEC);
        workers[i] = spawn(echoes, &ends[i]);
    }
    for (int i = 0; i < listener->count; i++)
        joined(workers[i]);
    free(ends);
    free(workers);
    return NULL;
}

static void *connects(void *arg)
{
    struct sockaddr_in *address = (struct sockaddr_in *)arg;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    char out[100], in[100];

    MUST(fd >= 0 && umcg_connect(fd, (struct sockaddr *)address, sizeof *address) == 0);
    FAILS("twice", EISCONN, umcg_connect(fd, (struct sockaddr *)address, sizeof *address));
    for (int round = 0; round < 20; round++) {
        size_t done = 0;
        memset(out, round, sizeof out);
        MUST(umcg_send(fd, out, sizeof out, 0) == sizeof out);
        while (done < sizeof in) {
            ssize_t got = umcg_recv(fd, in + done, sizeof in - done, 0);
            MUST(got > 0);
            done += (size_t)got;
        }
        CHECK("what was sent", memcmp(in, out, sizeof in) == 0);
    }
    FAILS("nothing there", EAGAIN, umcg_recv(fd, in, 1, MSG_DONTWAIT));
    MUST(umcg_close(fd) == 0);
    return NULL;
}

static void tcp(void)
{
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    struct end listener = {socket(AF_INET, SOCK_STREAM, 0),
                           check_count("UMCG_TEST_WORKERS", 200) / 4 + 1};
    umcg_worker_t *server;

    memset(&address, 0, sizeof address);
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    MUST(listener.fd >= 0 && bind(listener.fd, (struct sockaddr *)&address, sizeof address) == 0);
    MUST(listen(listener.fd, 128) == 0 &&
         getsockname(listener.fd, (struct sockaddr *)&address, &length) == 0);
    server = spawn(accepts, &listener);
    for (int i = 0; i < listener.count; i++)
        umcg_detach(spawn(connects, &address));
    joined(server);
    MUST(umcg_close(listener.fd) == 0);
    listener.fd = socket(AF_INET, SOCK_STREAM, 0);
    FAILS("nobody listens", ECONNREFUSED,
          umcg_connect(listener.fd, (struct sockaddr *)&address, sizeof address));
    MUST(umcg_close(listener.fd) == 0);
}

static void *drains(void *arg)
{
    struct end *end = (struct end *)arg;
    char buffer[5000];
    ssize_t got;

    while ((got = umcg_read(end->fd, buffer, sizeof buffer)) > 0)
        end->count += (int)got;
    return NULL;
}

/* More than fits, on a socket and on a pipe: write returns when all has been taken. */
static void large_writes(void)
{
    char *data = (char *)calloc(1, LARGE);
    for (int kind = 0; kind < 2; kind++) {
        int ends[2];
        struct end end = {-1, 0};
        umcg_worker_t *reader;
        MUST((kind ? pipe(ends) : socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) == 0);
        end.fd = ends[0];
        reader = spawn(drains, &end);
        CHECK("all of it", umcg_write(ends[1], data, LARGE) == LARGE);
        CHECK("nothing", umcg_write(ends[1], data, 0) == 0);
        MUST(umcg_close(ends[1]) == 0);
        joined(reader);
        CHECK("all came", end.count == LARGE);
        MUST(umcg_close(ends[0]) == 0);
    }
    free(data);
}

static void *reads_one(void *arg)
{
    struct end *end = (struct end *)arg;
    char byte;
    add(&end->count);
    return (void *)(intptr_t)umcg_read(end->fd, &byte, 1);
}

/* Until a dump of the runtime has these words; or for half a second, as workers that are threads
   are not in it. */
static void await_dump(const char *words)
{
    static char text[1 << 16];
    size_t size;
    int rounds = 0;

    do {
        FILE *file = tmpfile();
        umcg_sleep_ns(1000000);
        MUST(file != NULL && umcg_rt_dump(NULL, fileno(file)) == 0);
        rewind(file);
        size = fread(text, 1, sizeof text - 1, file);
        text[size] = 0;
        MUST(fclose(file) == 0);
    } while (strstr(text, words) == NULL && ++rounds < 500);
}

static void descriptors(void)
{
    int ends[2];
    struct end end = {-1, 0};
    umcg_worker_t *reader;
    char buffer[8] = "";
    struct sockaddr_un none;

    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    end.fd = ends[0];
    CHECK("known", umcg_poll_fd(ends[0], POLLIN, UMCG_POLL) == -1);
    reader = spawn(reads_one, &end);
    await(&end.count, 1);
    /* "recv" by the ring, "read" by epoll. */
    await_dump(": waits: re");
    FAILS("a reader is in it", EBUSY, umcg_close(ends[0]));
    MUST(shutdown(ends[0], SHUT_RDWR) == 0);
    CHECK("shutdown ends its wait", joined(reader) == NULL);
    MUST(umcg_close(ends[0]) == 0 && umcg_close(ends[1]) == 0);

    FAILS("read a closed one", EBADF, umcg_read(ends[0], buffer, 1));
    FAILS("write to it", EBADF, umcg_write(ends[0], buffer, 1));
    FAILS("recv", EBADF, umcg_recv(ends[0], buffer, 1, 0));
    FAILS("send", EBADF, umcg_send(ends[0], buffer, 1, 0));
    FAILS("accept", EBADF, umcg_accept(ends[0], NULL, NULL, 0));
    memset(&none, 0, sizeof none);
    none.sun_family = AF_UNIX;
    strcpy(none.sun_path, "/nowhere/at/all");
    FAILS("connect", EBADF, umcg_connect(ends[0], (struct sockaddr *)&none, sizeof none));
    FAILS("poll_fd", EBADF, umcg_poll_fd(ends[0], POLLIN, UMCG_POLL));
    FAILS("close", EBADF, umcg_close(ends[0]));
    FAILS("a negative one", EBADF, umcg_read(-1, buffer, 1));
    FAILS("close a negative one", EBADF, umcg_close(-1));

    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    FAILS("accept without listen", EINVAL, umcg_accept(ends[0], NULL, NULL, 0));
    if (!getenv("UMCG_TEST_SLOW")) { /* Valgrind sees that too */
        FAILS("a bad address", EFAULT, umcg_send(ends[0], (void *)1, 1, 0));
        FAILS("nothing to write", EFAULT, umcg_write(ends[0], NULL, 1));
        FAILS("nowhere to connect to", EFAULT, umcg_connect(ends[0], NULL, sizeof none));
        MUST(send(ends[1], "x", 1, 0) == 1);
        FAILS("nowhere to read to", EFAULT, umcg_read(ends[0], NULL, 1));
        FAILS("nowhere to receive to", EFAULT, umcg_recv(ends[0], NULL, 1, 0));
    }
    MUST(umcg_close(ends[1]) == 0);
    FAILS("nobody there, and no signal", EPIPE, umcg_write(ends[0], "x", 1));
    FAILS("nobody there, and no signal", EPIPE, umcg_send(ends[0], "x", 1, 0));
    MUST(umcg_close(ends[0]) == 0);

    MUST(pipe(ends) == 0);
    FAILS("recv from a pipe", ENOTSOCK, umcg_recv(ends[0], buffer, 1, 0));
    FAILS("send to a pipe", ENOTSOCK, umcg_send(ends[1], buffer, 1, 0));
    FAILS("accept on a pipe", ENOTSOCK, umcg_accept(ends[0], NULL, NULL, 0));
    FAILS("connect a pipe", ENOTSOCK, umcg_connect(ends[0], (struct sockaddr *)&none, sizeof none));
    FAILS("the wrong end", EBADF, umcg_write(ends[0], "x", 1));
    MUST(umcg_close(ends[0]) == 0 && umcg_close(ends[1]) == 0);
}

/* A descriptor that is closed by close(2) while a worker waits for it, which is wrong: yet the next
 * owner of its number keeps it. */
static void closed_by_others(void)
{
    struct end end = {-1, 0};
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    int ends[2], listener = socket(AF_INET, SOCK_STREAM, 0),
                 client = socket(AF_INET, SOCK_STREAM, 0), next;
    umcg_worker_t *reader;

    memset(&address, 0, sizeof address);
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    MUST(bind(listener, (struct sockaddr *)&address, sizeof address) == 0 &&
         listen(listener, 1) == 0);
    MUST(getsockname(listener, (struct sockaddr *)&address, &length) == 0);
    MUST(umcg_connect(client, (struct sockaddr *)&address, sizeof address) == 0);
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    end.fd = ends[0];
    reader = spawn(reads_one, &end);
    await(&end.count, 1);
    umcg_sleep_ns(2000000);
    MUST(close(ends[0]) == 0);
    MUST((next = umcg_accept(listener, NULL, NULL, 0)) >= 0);
    MUST(umcg_abort(reader) == 0);
    CHECK("it was cut short", joined(reader) == (void *)-1);
    CHECK("the number is its new owner's", next != ends[0] || fcntl(next, F_GETFD) >= 0);
    MUST(umcg_close(next) == 0 && umcg_close(client) == 0 && umcg_close(listener) == 0 &&
         umcg_close(ends[1]) == 0);
}

static void *signals(void *arg)
{
    uint64_t one = 1;
    umcg_sleep_ns(500000);
    MUST(umcg_write(((struct end *)arg)->fd, &one, sizeof one) == sizeof one);
    return NULL;
}

static void readiness(void)
{
    struct end event = {eventfd(0, 0), 0};
    uint64_t value = 0;
    int ends[2];

    FAILS("both ways", EINVAL, umcg_poll_fd(event.fd, POLLIN | POLLOUT, UMCG_POLL));
    FAILS("no way", EINVAL, umcg_poll_fd(event.fd, 0, UMCG_POLL));
    FAILS("not now", ETIMEDOUT, umcg_poll_fd(event.fd, POLLIN, UMCG_POLL));
    FAILS("not soon", ETIMEDOUT, umcg_poll_fd(event.fd, POLLIN, in_ms(1)));
    value = 1;
    MUST(write(event.fd, &value, sizeof value) == sizeof value);
    CHECK("a look that does not wait sees it", umcg_poll_fd(event.fd, POLLIN, UMCG_POLL) == POLLIN);
    MUST(read(event.fd, &value, sizeof value) == sizeof value);
    CHECK("room", umcg_poll_fd(event.fd, POLLOUT, UMCG_NO_TIMEOUT) == POLLOUT);
    for (int i = 0; i < 5; i++) {
        umcg_worker_t *worker = spawn(signals, &event);
        CHECK("now", umcg_poll_fd(event.fd, POLLIN, UMCG_NO_TIMEOUT) == POLLIN);
        CHECK("still", umcg_poll_fd(event.fd, POLLIN, UMCG_POLL) == POLLIN);
        CHECK("read by the program itself",
              read(event.fd, &value, sizeof value) == sizeof value && value == 1);
        joined(worker);
    }
    MUST(umcg_close(event.fd) == 0);
    MUST(pipe(ends) == 0 && umcg_close(ends[1]) == 0);
    CHECK("hung up", umcg_poll_fd(ends[0], POLLIN, UMCG_NO_TIMEOUT) & POLLHUP);
    MUST(umcg_close(ends[0]) == 0);
}

static void *reads_two(void *arg)
{
    struct end *end = (struct end *)arg;
    char buffer[8] = "";
    add(&end->count);
    CHECK("the first stops where a descriptor was sent",
          umcg_read(end->fd, buffer, sizeof buffer) == 1 && buffer[0] == 'a');
    CHECK("more is there", umcg_read(end->fd, buffer, sizeof buffer) == 1 && buffer[0] == 'b');
    return NULL;
}

/* A short read of a Unix socket does not mean that there is no more. */
static void short_reads(void)
{
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int))];
    } control;
    char text[] = "a";
    struct iovec part = {text, 1};
    struct msghdr message;
    struct end end = {-1, 0};
    umcg_worker_t *reader;
    int ends[2];

    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    memset(&control, 0, sizeof control);
    memset(&message, 0, sizeof message);
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = &control;
    message.msg_controllen = sizeof control.space;
    control.header.cmsg_level = SOL_SOCKET;
    control.header.cmsg_type = SCM_RIGHTS;
    control.header.cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(&control.header), &ends[1], sizeof(int));
    end.fd = ends[0];
    reader = spawn(reads_two, &end);
    await(&end.count, 1);
    umcg_sleep_ns(2000000); /* it waits by now */
    MUST(sendmsg(ends[1], &message, 0) == 1 && send(ends[1], "b", 1, 0) == 1);
    joined(reader);
    MUST(umcg_close(ends[0]) == 0 && umcg_close(ends[1]) == 0);
}

static void files(void)
{
    char name[] = "/tmp/umcg-rt-io-XXXXXX", buffer[8] = "";
    int fd = mkstemp(name);

    MUST(fd >= 0 && unlink(name) == 0);
    CHECK("write", umcg_write(fd, "hello", 5) == 5 && umcg_write(fd, "!", 1) == 1 &&
                       umcg_write(fd, NULL, 0) == 0);
    MUST(lseek(fd, 1, SEEK_SET) == 1);
    CHECK("read", umcg_read(fd, buffer, sizeof buffer) == 5 && memcmp(buffer, "ello!", 5) == 0);
    CHECK("the end", umcg_read(fd, buffer, sizeof buffer) == 0 && umcg_read(fd, buffer, 0) == 0);
    CHECK("always ready", umcg_poll_fd(fd, POLLIN, UMCG_NO_TIMEOUT) == POLLIN);
    CHECK("left as it was", (fcntl(fd, F_GETFL) & O_NONBLOCK) == 0);
    MUST(umcg_close(fd) == 0);
    CHECK("standard input", umcg_read(0, buffer, 1) >= 0);
    MUST((fd = open("/", O_RDONLY)) >= 0);
    FAILS("a directory", EISDIR, umcg_read(fd, buffer, 1));
    MUST(umcg_close(fd) == 0);
}

static void datagrams(void)
{
    int ends[2];
    char buffer[8] = "";
    MUST(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) == 0);
    CHECK("send", umcg_send(ends[0], "one", 3, 0) == 3 && umcg_write(ends[0], "three", 5) == 5);
    CHECK("recv",
          umcg_recv(ends[1], buffer, 8, 0) == 3 && umcg_recv(ends[1], buffer, 8, MSG_PEEK) == 5);
    CHECK("read", umcg_read(ends[1], buffer, 8) == 5 && memcmp(buffer, "three", 5) == 0);
    MUST(umcg_close(ends[0]) == 0 && umcg_close(ends[1]) == 0);
}

/* Numbers that no descriptor has, small and large. */
static void no_descriptors(void)
{
    static const int numbers[] = {-1, INT_MIN, 999999, 1 << 22, INT_MAX - 1, INT_MAX};
    char buffer[8] = "";
    for (int i = 0; i < 6; i++) {
        FAILS("read", EBADF, umcg_read(numbers[i], buffer, 8));
        FAILS("write", EBADF, umcg_write(numbers[i], buffer, 8));
        FAILS("recv", EBADF, umcg_recv(numbers[i], buffer, 8, 0));
        FAILS("accept", EBADF, umcg_accept(numbers[i], NULL, NULL, 0));
        FAILS("close", EBADF, umcg_close(numbers[i]));
    }
}

/* More bytes than a result could tell of. */
static void too_many_bytes(void)
{
    int ends[2], file = open("/dev/null", O_RDWR | O_CLOEXEC);
    char buffer[8] = "";
    MUST(file >= 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    for (int i = 0; i < 2; i++) {
        int fd = i ? file : ends[0];
        FAILS("read", EINVAL, umcg_read(fd, buffer, SIZE_MAX));
        FAILS("write", EINVAL, umcg_write(fd, buffer, SIZE_MAX));
        FAILS("recv", EINVAL, umcg_recv(fd, buffer, (size_t)SSIZE_MAX + 1, 0));
        FAILS("send", EINVAL, umcg_send(fd, buffer, (size_t)SSIZE_MAX + 1, 0));
    }
    MUST(umcg_close(file) == 0 && umcg_close(ends[0]) == 0 && umcg_close(ends[1]) == 0);
}

static void *everything(void *arg)
{
    (void)arg;
    tcp();
    large_writes();
    descriptors();
    closed_by_others();
    readiness();
    short_reads();
    files();
    datagrams();
    no_descriptors();
    too_many_bytes();
    return NULL;
}

int main(void)
{
    check_start(60);
    in_runtime(everything, NULL);
    everything(NULL); /* a plain thread, with workers in the global runtime */
    return check_done();
}
