/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Reads and writes that can be done once only: errors that a socket tells once, messages that are
 * lost by a bad buffer, empty messages, and lengths that no call accepts. And writes that send
 * their caller a signal. */
#include "check.h"
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>

enum { BYTES = 4096 };

static sem_t never;
static volatile size_t too_long = SIZE_MAX / 2;
static volatile int taken;

/* The calls of a thread that has just waited for a word are tried in place. */
static void wait_once(void)
{
    struct timespec limit = in_ms(CLOCK_REALTIME, 1);

    FAILS(ETIMEDOUT, sem_timedwait(&never, &limit));
}

static void take(int signal)
{
    MUST(signal == SIGPIPE || signal == SIGXFSZ);
    taken++;
}

static int with_address(int type, struct sockaddr_in *address)
{
    socklen_t bytes = sizeof *address;
    int fd = socket(AF_INET, type, 0);

    memset(address, 0, sizeof *address);
    address->sin_family = AF_INET;
    address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    MUST(fd >= 0 && bind(fd, (struct sockaddr *)address, bytes) == 0);
    MUST(getsockname(fd, (struct sockaddr *)address, &bytes) == 0);
    return fd;
}

/* A socket whose peer's port is closed, which it has been told. */
static int refused(void)
{
    struct sockaddr_in address;
    int closed = with_address(SOCK_DGRAM, &address), fd = socket(AF_INET, SOCK_DGRAM, 0);

    MUST(connect(fd, (struct sockaddr *)&address, sizeof address) == 0 && close(closed) == 0);
    MUST(send(fd, "x", 1, 0) == 1);
    usleep(1000);
    return fd;
}

/* The other end of the stream that was made last. */
static int peer;

static int stream(void)
{
    struct sockaddr_in address;
    int listener = with_address(SOCK_STREAM, &address), fd = socket(AF_INET, SOCK_STREAM, 0);

    MUST(listen(listener, 1) == 0);
    MUST(connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    peer = accept(listener, NULL, NULL);
    MUST(peer >= 0 && close(listener) == 0);
    return fd;
}

/* At once, or so many milliseconds after the peer has got the first bytes. */
static void *resets(void *milliseconds)
{
    struct linger at_once = {1, 0};
    struct pollfd first = {peer, POLLIN, 0};

    if (milliseconds != NULL)
        MUST(poll(&first, 1, -1) == 1);
    sleep_ms((long)(intptr_t)milliseconds);
    MUST(setsockopt(peer, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once) == 0);
    MUST(close(peer) == 0);
    return NULL;
}

/* A stream that its peer has reset. */
static int reset(void)
{
    int fd = stream();

    resets(NULL);
    usleep(1000);
    return fd;
}

enum { MUCH = 16 << 20 };

/* A part is sent within a limit of time. */
static void limited_time(const char *bytes)
{
    struct timeval limit = {0, 10000};
    int fd = stream();
    ssize_t had;

    MUST(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) == 0);
    wait_once();
    had = write(fd, bytes, MUCH);
    MUST(had > 0 && had < MUCH);
    MUST(close(fd) == 0 && close(peer) == 0);
}

/* A part is sent until the peer resets: the call returns how much, and the next one is told. */
static void part(const char *bytes, int sends)
{
    int fd = stream();
    pthread_t thread = spawn(resets, (void *)20);
    ssize_t had;
    char byte;

    wait_once();
    had = sends ? send(fd, bytes, MUCH, 0) : write(fd, bytes, MUCH);
    MUST(had > 0 && had < MUCH);
    if (sends)
        FAILS(ECONNRESET, write(fd, bytes, 1));
    else
        FAILS(ECONNRESET, read(fd, &byte, 1));
    MUST(taken == 0);
    join(thread);
    MUST(close(fd) == 0);
}

static void *takes_all(void *arg)
{
    size_t *count = arg;
    char *bytes = malloc(1 << 16);
    ssize_t had;

    while ((had = read(peer, bytes, 1 << 16)) > 0)
        *count += (size_t)had;
    MUST(had == 0);
    free(bytes);
    return NULL;
}

/* All is sent although there is no room for it at once; or a part, if the call does not wait. */
static void whole(const char *bytes, int flags)
{
    size_t count = 0;
    pthread_t thread;
    int fds[2];
    ssize_t had;

    MUST(socketpair(AF_UNIX, SOCK_STREAM | flags, 0, fds) == 0);
    peer = fds[1];
    wait_once();
    if (flags != 0) {
        had = write(fds[0], bytes, MUCH);
        MUST(had > 0 && had < MUCH);
        FAILS(EAGAIN, write(fds[0], bytes, 1));
    } else {
        thread = spawn(takes_all, &count);
        wait_once();
        MUST(write(fds[0], bytes, MUCH) == MUCH && shutdown(fds[0], SHUT_WR) == 0);
        join(thread);
        MUST(count == MUCH);
    }
    MUST(close(fds[0]) == 0 && close(fds[1]) == 0);
}

static void parts(void)
{
    char *bytes = mmap(NULL, MUCH, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    MUST(bytes != MAP_FAILED);
    limited_time(bytes);
    part(bytes, 0);
    part(bytes, 1);
    whole(bytes, 0);
    whole(bytes, SOCK_NONBLOCK);
    MUST(munmap(bytes, MUCH) == 0);
}

static void errors(void)
{
    char byte = 0;
    int fd = refused();

    wait_once();
    FAILS(ECONNREFUSED, read(fd, &byte, 1));
    MUST(send(fd, "x", 1, 0) == 1);
    usleep(1000);
    wait_once();
    FAILS(ECONNREFUSED, write(fd, &byte, 1));
    MUST(close(fd) == 0);
    fd = refused();
    wait_once();
    FAILS(ECONNREFUSED, send(fd, &byte, 1, 0));
    MUST(close(fd) == 0);
    fd = reset();
    wait_once();
    FAILS(ECONNRESET, read(fd, &byte, 1));
    wait_once();
    MUST(read(fd, &byte, 1) == 0);
    MUST(close(fd) == 0);
    fd = reset();
    wait_once();
    FAILS(ECONNRESET, write(fd, &byte, 1));
    wait_once();
    MUST(taken == 0);
    FAILS(EPIPE, write(fd, &byte, 1));
    MUST(taken == 1);
    MUST(close(fd) == 0);
}

/* A file as long as the process may write. Some file systems only know a try of a write by way of
 * no cache. */
static void limit(int flags)
{
    char name[] = "limit-XXXXXX";
    char *bytes = mmap(NULL, 2 * BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct rlimit before, limit;
    int fd = mkostemp(name, flags);

    if (fd < 0 && errno == EINVAL && flags != 0)
        return;
    MUST(bytes != MAP_FAILED && fd >= 0 && unlink(name) == 0);
    MUST(getrlimit(RLIMIT_FSIZE, &before) == 0);
    limit = before;
    limit.rlim_cur = BYTES;
    MUST(write(fd, bytes, BYTES) == BYTES && setrlimit(RLIMIT_FSIZE, &limit) == 0);
    taken = 0;
    wait_once();
    FAILS(EFBIG, write(fd, bytes, BYTES));
    MUST(taken == 1);
    MUST(lseek(fd, 0, SEEK_SET) == 0);
    wait_once();
    MUST(write(fd, bytes, 2 * BYTES) == BYTES && taken == 1);
    MUST(setrlimit(RLIMIT_FSIZE, &before) == 0);
    MUST(close(fd) == 0 && munmap(bytes, 2 * BYTES) == 0);
}

static void messages(int type)
{
    char bytes[8] = "message";
    char *none = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int fds[2];

    MUST(none != MAP_FAILED && socketpair(AF_UNIX, type, 0, fds) == 0);
    MUST(send(fds[1], "lost", 4, 0) == 4 && send(fds[1], "kept", 4, 0) == 4);
    wait_once();
    FAILS(EFAULT, read(fds[0], none, 4));
    wait_once();
    MUST(read(fds[0], bytes, sizeof bytes) == 4 && !memcmp(bytes, "kept", 4));
    wait_once();
    MUST(write(fds[1], bytes, 0) == 0 && write(fds[1], "next", 4) == 4);
    wait_once();
    MUST(recv(fds[0], bytes, sizeof bytes, 0) == 0);
    MUST(recv(fds[0], bytes, sizeof bytes, 0) == 4 && !memcmp(bytes, "next", 4));
    wait_once();
    FAILS(EFAULT, write(fds[1], bytes, too_long));
    wait_once();
    FAILS(EFAULT, read(fds[0], bytes, too_long));
    MUST(close(fds[0]) == 0 && close(fds[1]) == 0 && munmap(none, 4096) == 0);
}

static void *does(void *arg)
{
    uint64_t count = 0;
    int fd = eventfd(1, 0);

    errors();
    SHOWN("errors are told once");
    taken = 0;
    parts();
    SHOWN("a part, and the rest");
    limit(0);
    limit(O_DIRECT);
    SHOWN("a file that may not grow");
    messages(SOCK_DGRAM);
    messages(SOCK_SEQPACKET);
    wait_once();
    FAILS(EINVAL, read(fd, &count, 0));
    wait_once();
    FAILS(EINVAL, write(fd, &count, 0));
    MUST(close(fd) == 0);
    SHOWN("messages that are empty, or lost");
    return arg;
}

int main(void)
{
    signal(SIGPIPE, take);
    signal(SIGXFSZ, take);
    OK(sem_init(&never, 0, 0));
    join(spawn(does, NULL));
    exit(0);
}
