/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Threads read into memory whose pages another thread of the program brings. A call that is tried
 * in place sleeps in the kernel until then, with its server. The thread that brings the pages waits
 * for a mutex in between, and then for a server. There are more readers than servers. */
#include "check.h"
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>

enum { READERS = 6, ROUNDS = 60, BYTES = 100 };

static long page;
static int faults, ends[2];
static char *area;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t barrier;

static void *bring(void *arg)
{
    struct uffd_msg message;
    char *source = aligned_alloc(page, page);

    memset(source, 'x', page);
    for (int count = 0; count < READERS * ROUNDS;) {
        if (read(faults, &message, sizeof message) != sizeof message)
            continue;
        OK(pthread_mutex_lock(&mutex));
        struct uffdio_copy copy = {
            .dst = message.arg.pagefault.address & ~(page - 1),
            .src = (uintptr_t)source,
            .len = page,
        };
        if (ioctl(faults, UFFDIO_COPY, &copy) == 0)
            count++;
        else
            MUST(errno == EEXIST);
        OK(pthread_mutex_unlock(&mutex));
    }
    free(source);
    return arg;
}

static void *read_in_turn(void *arg)
{
    char *own = area + (intptr_t)arg * ROUNDS * page;

    for (int round = 0; round < ROUNDS; round++) {
        int at = pthread_barrier_wait(&barrier);
        MUST(at == 0 || at == PTHREAD_BARRIER_SERIAL_THREAD);
        /* From here on a server runs it. */
        OK(pthread_mutex_lock(&mutex));
        sched_yield();
        OK(pthread_mutex_unlock(&mutex));
        MUST(read(ends[0], own + round * page, BYTES) == BYTES);
        MUST(own[round * page] == 'y' && own[round * page + BYTES] == 'x');
    }
    return NULL;
}

/* False if the kernel lets this process have no such memory. */
static int register_area(size_t bytes)
{
    struct uffdio_api api = {.api = UFFD_API};

    faults = syscall(SYS_userfaultfd, O_CLOEXEC);
    if (faults < 0 || ioctl(faults, UFFDIO_API, &api) != 0)
        return 0;
    area = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(area != MAP_FAILED);
    struct uffdio_register registered = {
        .range = {(uintptr_t)area, bytes},
        .mode = UFFDIO_REGISTER_MODE_MISSING,
    };
    MUST(ioctl(faults, UFFDIO_REGISTER, &registered) == 0);
    return 1;
}

int main(void)
{
    pthread_t thread;
    static char bytes[READERS * ROUNDS * BYTES];

    page = sysconf(_SC_PAGESIZE);
    if (!register_area(READERS * ROUNDS * page))
        SKIP("no userfaultfd");
    MUST(pipe(ends) == 0);
    memset(bytes, 'y', sizeof bytes);
    MUST(write(ends[1], bytes, sizeof bytes) == sizeof bytes);
    OK(pthread_barrier_init(&barrier, NULL, READERS));
    OK(pthread_create(&thread, NULL, bring, NULL));
    in_threads(READERS, read_in_turn);
    OK(pthread_join(thread, NULL));
    SHOWN("pages came to calls made in place");
    return 0;
}
