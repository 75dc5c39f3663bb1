/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A thread serves the page faults of others by userfaultfd, and waits for a moment before it serves
 * each: more threads fault at a time than there are processors. */
#include "check.h"

#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/ioctl.h>

enum { THREADS = 6, EACH = 4, PAGE = 4096 };

static int served;
static char *memory;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;

static void wait_a_moment(void)
{
    struct timespec soon = in_ms(CLOCK_REALTIME, 1);

    OK(pthread_mutex_lock(&mutex));
    RETURNS(ETIMEDOUT, pthread_cond_timedwait(&never, &mutex, &soon));
    OK(pthread_mutex_unlock(&mutex));
}

static void *serves(void *arg)
{
    static char page[PAGE] __attribute__((aligned(PAGE)));

    for (int count = 0; count < THREADS * EACH; count++) {
        struct pollfd ready = {.fd = served, .events = POLLIN};
        struct uffd_msg message;
        struct uffdio_copy copy;

        MUST(poll(&ready, 1, -1) == 1);
        if (read(served, &message, sizeof message) != sizeof message) {
            MUST(errno == EAGAIN); /* the fault was let go meanwhile */
            count--;
            continue;
        }
        MUST(message.event == UFFD_EVENT_PAGEFAULT);
        wait_a_moment();
        memset(&copy, 0, sizeof copy);
        copy.dst = message.arg.pagefault.address & ~(PAGE - 1ULL);
        copy.src = (uintptr_t)page;
        copy.len = PAGE;
        page[0] = (char)((copy.dst - (uintptr_t)memory) / PAGE);
        /* A fault that was let go, and came again, is told of twice. */
        if (ioctl(served, UFFDIO_COPY, &copy) != 0) {
            MUST(errno == EEXIST);
            count--;
        }
    }
    return arg;
}

static void *faults(void *arg)
{
    int own = (int)(intptr_t)arg;

    for (int at = own; at < THREADS * EACH; at += THREADS) {
        wait_a_moment();
        MUST(*(volatile char *)(memory + at * PAGE) == at);
    }
    return NULL;
}

int main(void)
{
    struct uffdio_api api = {.api = UFFD_API};
    struct uffdio_register range;
    pthread_t server;

    served = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
    if (served < 0 || ioctl(served, UFFDIO_API, &api) != 0)
        SKIP("no userfaultfd");
    memory = (char *)mmap(NULL, THREADS * EACH * PAGE, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(memory != MAP_FAILED);
    memset(&range, 0, sizeof range);
    range.range.start = (uintptr_t)memory;
    range.range.len = THREADS * EACH * PAGE;
    range.mode = UFFDIO_REGISTER_MODE_MISSING;
    MUST(ioctl(served, UFFDIO_REGISTER, &range) == 0);
    server = spawn(serves, NULL);
    in_threads(THREADS, faults);
    join(server);
    SHOWN("all were served");
    return 0;
}
