/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Reads of a file of which a half is in memory, right after threads have waited for each other: a
 * read of a file is whole unless the file ends.
 */
#include "check.h"

enum { BYTES = 4 << 20, TURNS = 100 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int turn, file;
static char *data;

static void take_turns(int mine)
{
    for (int i = 0; i < TURNS; i++) {
        OK(pthread_mutex_lock(&mutex));
        while (turn != mine)
            OK(pthread_cond_wait(&changed, &mutex));
        turn = !mine;
        OK(pthread_cond_broadcast(&changed));
        OK(pthread_mutex_unlock(&mutex));
    }
}

static void *play(void *unused)
{
    take_turns(1);
    return unused;
}

/* Two threads take turns. Then the second half of the file is not in memory. */
static void begin(void)
{
    pthread_t other;

    OK(posix_fadvise(file, BYTES / 2, BYTES / 2, POSIX_FADV_DONTNEED));
    memset(data, 0, BYTES);
    OK(pthread_create(&other, NULL, play, NULL));
    take_turns(0);
    OK(pthread_join(other, NULL));
}

static int is_filled(size_t bytes)
{
    for (size_t at = 0; at < bytes; at++) {
        if (data[at] != 'x')
            return 0;
    }
    return 1;
}

static void *reads(void *unused)
{
    begin();
    MUST(lseek(file, 0, SEEK_SET) == 0);
    MUST(read(file, data, BYTES) == BYTES && is_filled(BYTES));
    MUST(lseek(file, 0, SEEK_CUR) == BYTES);
    SHOWN("a read is whole");

    begin();
    MUST(pread(file, data, BYTES, 1) == BYTES - 1 && is_filled(BYTES - 1));
    MUST(lseek(file, 0, SEEK_CUR) == BYTES);
    SHOWN("a read at a position ends with the file");

    begin();
    FAILS(EINVAL, pread(file, data, 1, -1));
    MUST(lseek(file, 0, SEEK_CUR) == BYTES);
    SHOWN("no file has a position below 0");
    return unused;
}

int main(void)
{
    FILE *stream = tmpfile();
    pthread_t reader;

    data = malloc(BYTES);
    MUST(stream != NULL && data != NULL);
    file = fileno(stream);
    memset(data, 'x', BYTES);
    MUST(write(file, data, BYTES) == BYTES);
    MUST(fsync(file) == 0);
    OK(pthread_create(&reader, NULL, reads, NULL));
    OK(pthread_join(reader, NULL));
    return 0;
}
