/* A mapped file that is not in memory: sixteen threads take numbers of pages from a queue, and look
 * at these pages, most of which have to come from the disk. An operation is a page. Where files are
 * in memory all the time (tmpfs), threads wait for the queue alone. */
#include "common.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum { THREADS = 16, ROOM = 32, PAGE = 4096, PAGES = 1 << 16 };
/* Has no factor in common with PAGES: all pages in turn, none near the last. */
enum { STRIDE = 40503 };
#define SIZE ((size_t)PAGE * PAGES)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t has_room = PTHREAD_COND_INITIALIZER, has_some = PTHREAD_COND_INITIALIZER;
static unsigned first, count;
static int64_t queue[ROOM];
static unsigned char *memory;

static void put(int64_t page)
{
    pthread_mutex_lock(&lock);
    while (count == ROOM)
        pthread_cond_wait(&has_room, &lock);
    queue[(first + count++) % ROOM] = page;
    pthread_cond_signal(&has_some);
    pthread_mutex_unlock(&lock);
}

static int64_t take(void)
{
    pthread_mutex_lock(&lock);
    while (count == 0)
        pthread_cond_wait(&has_some, &lock);
    int64_t page = queue[first];
    first = (first + 1) % ROOM;
    count--;
    pthread_cond_signal(&has_room);
    pthread_mutex_unlock(&lock);
    return page;
}

/* A negative number is the end. */
static void *looks(void *data)
{
    for (;;) {
        int64_t page = take();
        if (page < 0)
            return data;
        uint32_t found;
        memcpy(&found, memory + page * PAGE, sizeof found);
        CHECK(found == (uint32_t)page);
    }
}

/* The file is kept beside the program for the next run, and written whole before it is used. */
static int open_file(const char *program)
{
    char path[4096], draft[4096];
    CHECK((size_t)snprintf(path, sizeof path, "%s.data", program) < sizeof path);
    CHECK((size_t)snprintf(draft, sizeof draft, "%s.%ld", path, (long)getpid()) < sizeof draft);
    int file = open(path, O_RDONLY);
    struct stat status;
    if (file >= 0 && fstat(file, &status) == 0 && (size_t)status.st_size == SIZE)
        return file;
    int made = open(draft, O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(made >= 0);
    static unsigned char page[PAGE];
    for (uint32_t number = 0; number < PAGES; number++) {
        memcpy(page, &number, sizeof number);
        CHECK(write(made, page, PAGE) == PAGE);
    }
    CHECK(fsync(made) == 0);
    CHECK(rename(draft, path) == 0);
    return made;
}

int main(int argc, char **argv)
{
    double seconds = argument(argc, argv, 1, 1.0);
    pthread_t threads[THREADS];
    int file = open_file(argv[0]);

    memory = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, file, 0);
    CHECK(memory != MAP_FAILED);
    CHECK(madvise(memory, SIZE, MADV_RANDOM) == 0);
    CHECK(posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) == 0);
    for (int i = 0; i < THREADS; i++)
        threads[i] = start_thread(looks, NULL);
    struct pace pace = pace_of(seconds, 63);
    while (goes_on(&pace)) {
        uint64_t page = pace.begun * STRIDE % PAGES;
        /* After a round all pages are in memory: they are put out of it. */
        if (pace.begun % PAGES == 0) {
            CHECK(madvise(memory, SIZE, MADV_DONTNEED) == 0);
            CHECK(posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) == 0);
        }
        put((int64_t)page);
    }
    report_pace(&pace, 1);
    for (int i = 0; i < THREADS; i++)
        put(-1);
    for (int i = 0; i < THREADS; i++)
        join_thread(threads[i]);
    return 0;
}
