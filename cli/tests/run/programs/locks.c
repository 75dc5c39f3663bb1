/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Locks of files, which make calls wait in the kernel: flock between descriptors and processes,
 * fcntl locks between processes, locks of open file descriptions between threads. */
#include "check.h"
#include <sys/file.h>

enum { THREADS = 4, TURNS = 60 };

static char name[64];
static int counter;
static int *shared;

static void *by_flock(void *arg)
{
    int fd = open(name, O_RDWR);

    MUST(fd >= 0);
    for (int turn = 0; turn < TURNS; turn++) {
        MUST(flock(fd, LOCK_EX) == 0);
        counter++;
        if (turn % 8 == 0)
            usleep(20);
        MUST(flock(fd, LOCK_UN) == 0);
    }
    MUST(close(fd) == 0);
    return arg;
}

static void *by_description(void *arg)
{
    int fd = open(name, O_RDWR);

    MUST(fd >= 0);
    for (int turn = 0; turn < TURNS; turn++) {
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 10};

        MUST(fcntl(fd, F_OFD_SETLKW, &lock) == 0);
        counter++;
        if (turn % 8 == 0)
            sched_yield();
        lock.l_type = F_UNLCK;
        MUST(fcntl(fd, F_OFD_SETLK, &lock) == 0);
    }
    MUST(close(fd) == 0);
    return arg;
}

static void in_process(int fd)
{
    for (int turn = 0; turn < TURNS; turn++) {
        MUST(lockf(fd, F_LOCK, 5) == 0);
        ++*shared;
        if (turn % 8 == 0)
            usleep(20);
        MUST(lockf(fd, F_ULOCK, 5) == 0);
    }
}

static void *forks_and_locks(void *arg)
{
    int fd;
    pid_t child = fork();

    MUST(child >= 0);
    if (child == 0) {
        fd = open(name, O_RDWR);
        in_process(fd);
        _exit(0);
    }
    MUST(exits(child, 0));
    return arg;
}

static volatile int has_lock;

static void *waits_for_lock(void *arg)
{
    int fd = open(name, O_RDWR);

    OK(sem_post(arg));
    MUST(flock(fd, LOCK_EX) == 0);
    has_lock = 1;
    MUST(close(fd) == 0);
    return NULL;
}

/* While one thread waits in the kernel, the others go on. */
static void others_go_on(int fd)
{
    pthread_t threads[THREADS];
    sem_t begun;

    OK(sem_init(&begun, 0, 0));
    MUST(flock(fd, LOCK_EX) == 0);
    for (int at = 0; at < THREADS; at++)
        threads[at] = spawn(waits_for_lock, &begun);
    for (int at = 0; at < THREADS; at++)
        down(&begun);
    usleep(1000);
    MUST(!has_lock);
    in_threads(THREADS, by_description);
    MUST(!has_lock && flock(fd, LOCK_UN) == 0);
    for (int at = 0; at < THREADS; at++)
        join(threads[at]);
    MUST(has_lock);
}

int main(void)
{
    int fd;

    snprintf(name, sizeof name, "locks.%d.file", (int)getpid());
    fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    MUST(fd >= 0);
    shared = shared_page();
    in_threads(THREADS, by_flock);
    MUST(counter == THREADS * TURNS);
    SHOWN("flock");
    counter = 0;
    in_threads(THREADS, by_description);
    MUST(counter == THREADS * TURNS);
    SHOWN("of descriptions");
    in_threads(THREADS, forks_and_locks);
    MUST(*shared == THREADS * TURNS);
    SHOWN("between processes");
    counter = 0;
    others_go_on(fd);
    SHOWN("others go on");
    MUST(flock(fd, LOCK_EX) == 0);
    MUST(unlink(name) == 0);
    return 0;
}
