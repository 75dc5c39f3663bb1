/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Pipes, socket pairs, FIFOs and eventfds between threads: all bytes arrive in order, opens and
 * writes wait, ends are noticed, vectors are written in parts. */
#include "check.h"
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

enum { BYTES = 300000, TURNS = 300 };

static char fifo[64];

/* The byte at a position of the stream. */
static char at_position(size_t at)
{
    return (char)(at * 31 + at / 251);
}

static void *writes_stream(void *arg)
{
    int fd = *(int *)arg;
    char part[7000];
    size_t sent = 0;

    while (sent < BYTES) {
        size_t size = BYTES - sent < sizeof part ? BYTES - sent : sizeof part;
        struct iovec vector[3];
        ssize_t written;

        for (size_t at = 0; at < size; at++)
            part[at] = at_position(sent + at);
        vector[0] = (struct iovec){part, size / 3};
        vector[1] = (struct iovec){part + size / 3, 0};
        vector[2] = (struct iovec){part + size / 3, size - size / 3};
        written = writev(fd, vector, 3);
        MUST(written > 0);
        sent += (size_t)written;
    }
    MUST(close(fd) == 0);
    return NULL;
}

static void reads_stream(int fd)
{
    char part[5000];
    size_t received = 0;
    ssize_t got;

    while ((got = read(fd, part, sizeof part)) > 0) {
        for (ssize_t at = 0; at < got; at++)
            MUST(part[at] == at_position(received + (size_t)at));
        received += (size_t)got;
    }
    MUST(got == 0 && received == BYTES && close(fd) == 0);
}

static void streams(void)
{
    int ends[2];
    pthread_t thread;

    MUST(pipe(ends) == 0);
    thread = spawn(writes_stream, &ends[1]);
    reads_stream(ends[0]);
    join(thread);
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    thread = spawn(writes_stream, &ends[1]);
    reads_stream(ends[0]);
    join(thread);
}

/* With room for a part only, a write that must not wait returns how much it took. One that may
 * wait does so. */
static void *writes_rest(void *arg)
{
    static char bytes[200000];

    MUST(write(*(int *)arg, bytes, sizeof bytes) == sizeof bytes);
    return NULL;
}

static void partial_writes(void)
{
    static char bytes[1 << 17];
    struct iovec vector[2] = {{bytes, 40000}, {bytes, 90000}};
    int ends[2];
    ssize_t first, sum = 0;
    pthread_t thread;

    MUST(pipe(ends) == 0 && fcntl(ends[1], F_SETPIPE_SZ, 65536) == 65536);
    MUST(fcntl(ends[1], F_SETFL, O_NONBLOCK) == 0);
    first = writev(ends[1], vector, 2);
    MUST(first == 65536);
    FAILS(EAGAIN, write(ends[1], bytes, 1));
    MUST(fcntl(ends[1], F_SETFL, 0) == 0);
    thread = spawn(writes_rest, &ends[1]);
    while (sum < first + 200000) {
        ssize_t got = read(ends[0], bytes, sizeof bytes);

        MUST(got > 0);
        sum += got;
    }
    MUST(sum == first + 200000);
    join(thread);
    MUST(close(ends[0]) == 0 && close(ends[1]) == 0);
}

/* Each open waits for the other end. */
static void *opens_to_write(void *arg)
{
    int fd = open(fifo, O_WRONLY);

    MUST(fd >= 0 && write(fd, "fifo", 4) == 4 && close(fd) == 0);
    return arg;
}

static void *opens_to_read(void *arg)
{
    char bytes[8];
    int fd = open(fifo, O_RDONLY);

    MUST(fd >= 0 && read(fd, bytes, 8) == 4 && !memcmp(bytes, "fifo", 4));
    MUST(read(fd, bytes, 8) == 0 && close(fd) == 0);
    return arg;
}

static void fifos(void)
{
    snprintf(fifo, sizeof fifo, "pipes.%d.fifo", (int)getpid());
    MUST(mkfifo(fifo, 0600) == 0);
    for (int round = 0; round < 20; round++) {
        pthread_t first = spawn(round % 2 ? opens_to_read : opens_to_write, NULL);

        if (round % 4 < 2)
            usleep(500);
        join(spawn(round % 2 ? opens_to_write : opens_to_read, NULL));
        join(first);
    }
    MUST(unlink(fifo) == 0);
}

static int ping, pong;

static void *answers(void *arg)
{
    uint64_t value;

    for (uint64_t at = 1; at <= TURNS; at++) {
        MUST(read(ping, &value, sizeof value) == sizeof value && value == at);
        value++;
        MUST(write(pong, &value, sizeof value) == sizeof value);
    }
    return arg;
}

static void *takes_one(void *arg)
{
    uint64_t value;

    MUST(read(ping, &value, sizeof value) == sizeof value && value == 1);
    return arg;
}

static void events(void)
{
    uint64_t value;
    pthread_t thread;

    ping = eventfd(0, 0);
    pong = eventfd(0, 0);
    MUST(ping >= 0 && pong >= 0);
    thread = spawn(answers, NULL);
    for (uint64_t at = 1; at <= TURNS; at++) {
        MUST(write(ping, &at, sizeof at) == sizeof at);
        MUST(read(pong, &value, sizeof value) == sizeof value && value == at + 1);
    }
    join(thread);
    MUST(close(ping) == 0);
    ping = eventfd(5, EFD_SEMAPHORE);
    in_threads(5, takes_one);
    /* A value that does not fit waits until it does. */
    value = UINT64_MAX - 1;
    MUST(write(pong, &value, sizeof value) == sizeof value);
    MUST(fcntl(pong, F_SETFL, O_NONBLOCK) == 0);
    FAILS(EAGAIN, write(pong, &value, sizeof value));
}

int main(void)
{
    streams();
    SHOWN("streams");
    partial_writes();
    SHOWN("partial writes");
    fifos();
    SHOWN("FIFOs");
    events();
    SHOWN("eventfds");
    return 0;
}
