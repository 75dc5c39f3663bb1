/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Threads that wait for words, are kept by page faults for long, and wait for words again: with
 * time limits, with signals, with cancellation, in turn. */
#include "check.h"

#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/ioctl.h>

enum { THREADS = 8, PAGE = 4096, TURNS = 300, SIGNAL = 34 + 6 };

static int served;
static char *memory;
static pthread_barrier_t all;
static sem_t turn[THREADS], never, told;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int count, cleaned;

/* Lets the signal through, or blocks it. */
static void set_signal(int how)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGNAL);
    OK(pthread_sigmask(how, &set, NULL));
}

/* Serves the faults that have come, after a time in which nobody does. */
static void *serves(void *arg)
{
    static char page[PAGE] __attribute__((aligned(PAGE)));

    for (int pages = 0; pages < THREADS;) {
        struct pollfd ready = {.fd = served, .events = POLLIN};
        struct uffd_msg message;
        struct uffdio_copy copy;
        ssize_t got;

        MUST(poll(&ready, 1, -1) == 1);
        if (pages == 0)
            sleep_ms(150);
        got = read(served, &message, sizeof message);
        if (got == -1 && errno == EAGAIN)
            continue; /* a fault that was let go since */
        MUST(got == sizeof message);
        memset(&copy, 0, sizeof copy);
        copy.dst = message.arg.pagefault.address & ~(PAGE - 1ULL);
        copy.src = (uintptr_t)page;
        copy.len = PAGE;
        /* A fault that was let go, and came again, is told of twice. */
        if (ioctl(served, UFFDIO_COPY, &copy) == 0)
            pages++;
        else
            MUST(errno == EEXIST);
    }
    return arg;
}

static void handler(int signal)
{
    (void)signal;
}

static void meet(void)
{
    int result = pthread_barrier_wait(&all);

    MUST(result == 0 || result == PTHREAD_BARRIER_SERIAL_THREAD);
}

static void clean(void *arg)
{
    __atomic_fetch_add(&cleaned, 1, __ATOMIC_RELAXED);
    OK(pthread_mutex_unlock((pthread_mutex_t *)arg));
}

static void passes_turns(int own, int turns)
{
    for (int at = 0; at < turns; at++) {
        MUST(sem_wait(&turn[own]) == 0);
        MUST(sem_post(&turn[(own + 1) % THREADS]) == 0);
    }
}

static void *waits(void *arg)
{
    int own = (int)(intptr_t)arg;
    struct timespec soon;

    meet();
    MUST(*(volatile char *)(memory + own * PAGE) == 0);

    soon = in_ms(CLOCK_REALTIME, 5);
    FAILS(ETIMEDOUT, sem_timedwait(&never, &soon));
    passes_turns(own, TURNS);

    /* A signal comes, again and again, until the wait has ended. */
    set_signal(SIG_UNBLOCK);
    FAILS(EINTR, sem_wait(&never));
    set_signal(SIG_BLOCK);
    MUST(sem_post(&told) == 0);

    for (int at = 0; at < TURNS; at++) {
        OK(pthread_mutex_lock(&mutex));
        count++;
        sched_yield();
        OK(pthread_mutex_unlock(&mutex));
    }
    /* For longer than a thread stays at home. */
    for (int64_t end = now_ns(CLOCK_MONOTONIC) + 600000000LL; now_ns(CLOCK_MONOTONIC) < end;) {
        soon = in_ms(CLOCK_REALTIME, 1);
        FAILS(ETIMEDOUT, sem_timedwait(&never, &soon));
    }
    passes_turns(own, TURNS);
    return NULL;
}

static void *is_cancelled(void *arg)
{
    meet();
    MUST(*(volatile char *)(memory + (intptr_t)arg * PAGE) == 0);
    OK(pthread_mutex_lock(&mutex));
    pthread_cleanup_push(clean, &mutex);
    MUST(sem_post(&told) == 0);
    for (;;)
        OK(pthread_cond_wait(&condition, &mutex));
    pthread_cleanup_pop(0);
    return NULL;
}

/* Gives the threads new memory, and begins them; they fault at once. */
static pthread_t begin(void *(*body)(void *), pthread_t threads[THREADS])
{
    struct uffdio_api api = {.api = UFFD_API};
    struct uffdio_register range;

    served = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
    if (served < 0 || ioctl(served, UFFDIO_API, &api) != 0)
        SKIP("no userfaultfd");
    memory = (char *)mmap(NULL, THREADS * PAGE, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(memory != MAP_FAILED);
    memset(&range, 0, sizeof range);
    range.range.start = (uintptr_t)memory;
    range.range.len = THREADS * PAGE;
    range.mode = UFFDIO_REGISTER_MODE_MISSING;
    MUST(ioctl(served, UFFDIO_REGISTER, &range) == 0);
    for (intptr_t at = 0; at < THREADS; at++)
        threads[at] = spawn(body, (void *)at);
    return spawn(serves, NULL);
}

static void end(pthread_t server)
{
    join(server);
    MUST(munmap(memory, THREADS * PAGE) == 0);
    MUST(close(served) == 0);
}

int main(void)
{
    struct sigaction action = {.sa_handler = handler};
    pthread_t threads[THREADS], server;

    OK(pthread_barrier_init(&all, NULL, THREADS));
    for (int at = 0; at < THREADS; at++)
        MUST(sem_init(&turn[at], 0, at == 0) == 0);
    MUST(sem_init(&never, 0, 0) == 0 && sem_init(&told, 0, 0) == 0);
    MUST(sigaction(SIGNAL, &action, NULL) == 0);
    set_signal(SIG_BLOCK);

    server = begin(waits, threads);
    for (int at = 0; at < THREADS; at++) {
        struct timespec soon;

        do {
            for (int other = 0; other < THREADS; other++)
                pthread_kill(threads[other], SIGNAL);
            soon = in_ms(CLOCK_REALTIME, 5);
        } while (sem_timedwait(&told, &soon) != 0);
    }
    for (int at = 0; at < THREADS; at++)
        join(threads[at]);
    MUST(count == THREADS * TURNS);
    end(server);
    SHOWN("waits end by time, by turns, by signals");

    server = begin(is_cancelled, threads);
    for (int at = 0; at < THREADS; at++)
        MUST(sem_wait(&told) == 0);
    for (int at = 0; at < THREADS; at++)
        OK(pthread_cancel(threads[at]));
    for (int at = 0; at < THREADS; at++)
        MUST(join(threads[at]) == PTHREAD_CANCELED);
    MUST(cleaned == THREADS);
    end(server);
    SHOWN("and by cancellation");
    return 0;
}
