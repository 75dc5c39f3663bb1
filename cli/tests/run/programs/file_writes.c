/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Threads that wait for each other and write to files in turn, as those of databases and of logs
 * do; and descriptors that are a file first, and then something that a write waits for.
 */
#include "check.h"
#include <sys/uio.h>

enum { THREADS = 4, RECORDS = 400, SIZE = 16, ROOM = 1 << 20 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int file, next;

/* The record of this number. */
static void make_record(char *record, int number)
{
    char text[2 * SIZE];

    snprintf(text, sizeof text, "record %08d\n", number);
    memcpy(record, text, SIZE);
}

/* Writes the record by one call or another. The file's position is at its end. */
static void write_record(int number)
{
    char record[SIZE];
    struct iovec parts[] = {{record, 5}, {record + 5, SIZE - 5}};
    off_t place = (off_t)number * SIZE;

    make_record(record, number);
    switch (number % 5) {
    case 0:
        MUST(write(file, record, SIZE) == SIZE);
        return;
    case 1:
        MUST(writev(file, parts, 2) == SIZE);
        return;
    case 2:
        MUST(pwrite(file, record, SIZE, place) == SIZE);
        break;
    case 3:
        MUST(pwritev(file, parts, 2, place) == SIZE);
        break;
    default:
        MUST(pwritev2(file, parts, 2, place, 0) == SIZE);
    }
    MUST(lseek(file, SIZE, SEEK_CUR) == place + SIZE);
}

static void *writes(void *index)
{
    for (int i = 0; i < RECORDS; i++) {
        OK(pthread_mutex_lock(&mutex));
        while (next % THREADS != (int)(intptr_t)index)
            OK(pthread_cond_wait(&changed, &mutex));
        write_record(next++);
        OK(pthread_cond_broadcast(&changed));
        OK(pthread_mutex_unlock(&mutex));
    }
    return NULL;
}

static void write_in_turn(int to)
{
    pthread_t threads[THREADS];
    char expected[SIZE], found[SIZE];

    file = to;
    next = 0;
    for (intptr_t i = 0; i < THREADS; i++)
        threads[i] = spawn(writes, (void *)i);
    for (int i = 0; i < THREADS; i++)
        OK(pthread_join(threads[i], NULL));
    for (int i = 0; i < next; i++) {
        make_record(expected, i);
        MUST(pread(file, found, SIZE, (off_t)i * SIZE) == SIZE);
        MUST(memcmp(expected, found, SIZE) == 0);
    }
    MUST(pread(file, found, SIZE, (off_t)next * SIZE) == 0);
}

/* ---- Descriptors that are replaced ---- */

enum { ROUNDS = 12 };

static sem_t go, done, started, begun;
static int place, pipe_ends[2];
static char *data;

/* Two threads have waited for each other. */
static void meet(sem_t *wake, sem_t *wait)
{
    for (int i = 0; i < 20; i++) {
        OK(sem_post(wake));
        OK(sem_wait(wait));
    }
}

static void *drains(void *unused)
{
    size_t had = 0;

    for (int round = 0; round < ROUNDS; round++) {
        meet(&done, &go);
        meet(&done, &go);
        OK(sem_wait(&begun));
        for (had = 0; had < ROOM;) {
            ssize_t count = read(pipe_ends[0], data, 4096);
            MUST(count > 0);
            had += (size_t)count;
        }
    }
    return unused;
}

/* Runs once the writer waits, and has the reader begin. */
static void *relays(void *unused)
{
    for (int round = 0; round < ROUNDS; round++) {
        OK(sem_wait(&started));
        OK(sem_post(&begun));
    }
    return unused;
}

static void *fills(void *unused)
{
    char byte = 'x';

    for (int round = 0; round < ROUNDS; round++) {
        int old = open(".", O_TMPFILE | O_RDWR, 0600);

        if (old < 0)
            old = memfd_create("file", 0);
        MUST(old >= 0 && dup2(old, place) == place);
        meet(&go, &done);
        MUST(write(place, &byte, 1) == 1 && write(place, &byte, 1) == 1);
        switch (round % 3) {
        case 0:
            MUST(dup2(pipe_ends[1], place) == place);
            break;
        case 1:
            OK(close(place));
            MUST(fcntl(pipe_ends[1], F_DUPFD, place) == place);
            break;
        default:
            OK((int)syscall(SYS_close_range, place, place, 0));
            MUST(dup3(pipe_ends[1], place, O_CLOEXEC) == place);
        }
        meet(&go, &done);
        OK(sem_post(&started));
        MUST(write(place, data + ROOM, ROOM) == ROOM);
        OK(close(old));
    }
    return unused;
}

static void replace_descriptors(void)
{
    pthread_t other, relay, writer;

    data = calloc(2, ROOM);
    MUST(data && pipe(pipe_ends) == 0);
    place = fcntl(0, F_DUPFD, 100);
    MUST(place >= 0);
    OK(sem_init(&go, 0, 0) | sem_init(&done, 0, 0));
    OK(sem_init(&started, 0, 0) | sem_init(&begun, 0, 0));
    other = spawn(drains, NULL);
    relay = spawn(relays, NULL);
    writer = spawn(fills, NULL);
    OK(pthread_join(writer, NULL));
    OK(pthread_join(relay, NULL));
    OK(pthread_join(other, NULL));
}

/* ---- Errors ---- */

static char *volatile nowhere = (char *)8;
static volatile int too_few = -1;

static void *errs(void *unused)
{
    struct iovec part = {nowhere, 8};
    char byte = 'x';
    int memory = memfd_create("file", 0), reads = open("/dev/null", O_RDONLY);

    meet(&go, &done);
    MUST(write(memory, &byte, 1) == 1);
    FAILS(EFAULT, write(memory, nowhere, 8));
    FAILS(EFAULT, writev(memory, &part, 1));
    FAILS(EFAULT, pwrite(memory, nowhere, 8, 0));
    FAILS(EINVAL, pwrite(memory, &byte, 1, -1));
    FAILS(EINVAL, writev(memory, &part, too_few));
    FAILS(EBADF, write(reads, &byte, 1));
    FAILS(EBADF, pwrite(-1, &byte, 1, 0));
    FAILS(ESPIPE, pwrite(pipe_ends[1], &byte, 1, 0));
    MUST(write(memory, &byte, 0) == 0 && writev(memory, &part, 0) == 0);
    MUST(lseek(memory, 0, SEEK_CUR) == 1);
    return unused;
}

static void *answers(void *unused)
{
    meet(&done, &go);
    return unused;
}

int main(void)
{
    int disk = open(".", O_TMPFILE | O_RDWR, 0600), memory = memfd_create("file", 0);
    pthread_t other, thread;

    MUST(memory >= 0);
    write_in_turn(memory);
    if (disk >= 0)
        write_in_turn(disk);
    SHOWN("threads write in turn");
    replace_descriptors();
    SHOWN("a number that was a file's waits for room in a pipe");
    other = spawn(answers, NULL);
    thread = spawn(errs, NULL);
    OK(pthread_join(thread, NULL));
    OK(pthread_join(other, NULL));
    SHOWN("errors are the kernel's");
    return 0;
}
