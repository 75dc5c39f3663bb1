/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A program that closes every descriptor, also those that it did not open, while its threads wait:
 * closefrom, close_range, a loop over all numbers. Threads and waits work as before, and new
 * descriptors have the lowest numbers. */
#include "check.h"
#include <dirent.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

enum { LOWEST = 3 };

static sem_t never, answered;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int counter;

static void *waits(void *arg)
{
    down(&never);
    OK(sem_post(&answered));
    return arg;
}

static void *counts(void *arg)
{
    for (int turn = 0; turn < 50; turn++) {
        OK(pthread_mutex_lock(&mutex));
        counter++;
        usleep(1);
        OK(pthread_mutex_unlock(&mutex));
    }
    return arg;
}

static void *answers(void *arg)
{
    int fd = *(int *)arg;
    char byte;

    while (read(fd, &byte, 1) == 1)
        MUST(write(fd, &byte, 1) == 1);
    MUST(close(fd) == 0);
    return NULL;
}

/* All that a program does with threads and descriptors. */
static void works(void)
{
    struct timespec limit = in_ms(CLOCK_REALTIME, 2);
    int pair[2];
    pthread_t thread;
    char byte = 'b';

    counter = 0;
    in_threads(4, counts);
    MUST(counter == 200);
    FAILS(ETIMEDOUT, sem_timedwait(&answered, &limit));
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    MUST(pair[0] == LOWEST && pair[1] == LOWEST + 1);
    thread = spawn(answers, &pair[1]);
    for (int at = 0; at < 20; at++)
        MUST(write(pair[0], &byte, 1) == 1 && read(pair[0], &byte, 1) == 1);
    MUST(close(pair[0]) == 0);
    join(thread);
}

static void open_some(void)
{
    for (int at = 0; at < 10; at++)
        MUST(open("/dev/null", O_RDONLY) >= 0);
    MUST(dup2(0, 200) == 200);
}

static void closed(void)
{
    for (int fd = LOWEST; fd < 300; fd++)
        FAILS(EBADF, fcntl(fd, F_GETFD));
}

static void by_a_loop(void)
{
    struct rlimit limit;

    MUST(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    for (int fd = LOWEST; fd < (int)(limit.rlim_cur < 4096 ? limit.rlim_cur : 4096); fd++)
        close(fd);
}

int main(void)
{
    pthread_t thread;

    OK(sem_init(&never, 0, 0));
    OK(sem_init(&answered, 0, 0));
    thread = spawn(waits, NULL);
    closefrom(LOWEST);
    works();
    open_some();
    closefrom(LOWEST);
    closed();
    works();
    SHOWN("closefrom");
    open_some();
    FAILS(EINVAL, close_range(LOWEST + 1, LOWEST, 0));
    FAILS(EINVAL, close_range(LOWEST, ~0U, 1U << 20));
    MUST(close_range(LOWEST, ~0U, 0) == 0);
    closed();
    works();
    SHOWN("close_range");
    open_some();
    by_a_loop();
    closed();
    works();
    SHOWN("a loop");
    OK(sem_post(&never));
    down(&answered);
    join(thread);
    return 0;
}
