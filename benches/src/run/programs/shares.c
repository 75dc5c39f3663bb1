/* Three threads compute, beside others that run for a moment each time:
 *
 *   pair      two wake each other; an operation is there and back
 *   yields    three call sched_yield in a loop
 *   bursts    eight compute for some 2 ms, which is an operation, and sleep for 1 ms
 *
 * Called as `shares SECONDS KIND COUNTED`: COUNTED says whose operations count, "computing" or
 * "others". One of a computing thread takes some microseconds. It goes on until there is one. */
#include "common.h"
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>

enum { COMPUTING = 3, YIELDING = 3, BURSTING = 8, MOST = COMPUTING + BURSTING, STEPS = 3000 };

/* Written by one thread each. */
static struct {
    _Alignas(128) _Atomic uint64_t done;
} counts[MOST];

static atomic_int is_over;
/* The pinging thread of a pair has ended. */
static atomic_int has_ended;
static pthread_barrier_t begin;
static sem_t ping, pong;

static void count(unsigned self)
{
    uint64_t done = atomic_load_explicit(&counts[self].done, memory_order_relaxed);
    atomic_store_explicit(&counts[self].done, done + 1, memory_order_relaxed);
}

static int goes_on_at_all(void)
{
    return !atomic_load_explicit(&is_over, memory_order_relaxed);
}

static void *computes(void *self)
{
    uint64_t state = 1;
    pthread_barrier_wait(&begin);
    while (goes_on_at_all()) {
        state = compute(state, STEPS);
        count((unsigned)(uintptr_t)self);
    }
    CHECK(state != 0);
    return NULL;
}

static void *pings(void *self)
{
    pthread_barrier_wait(&begin);
    while (goes_on_at_all()) {
        CHECK(sem_post(&ping) == 0);
        while (sem_wait(&pong) != 0)
            CHECK(errno == EINTR);
        count((unsigned)(uintptr_t)self);
    }
    atomic_store(&has_ended, 1);
    CHECK(sem_post(&ping) == 0);
    return NULL;
}

static void *pongs(void *self)
{
    pthread_barrier_wait(&begin);
    for (;;) {
        while (sem_wait(&ping) != 0)
            CHECK(errno == EINTR);
        if (atomic_load(&has_ended))
            return self;
        CHECK(sem_post(&pong) == 0);
    }
}

static void *yields(void *self)
{
    pthread_barrier_wait(&begin);
    while (goes_on_at_all()) {
        CHECK(sched_yield() == 0);
        count((unsigned)(uintptr_t)self);
    }
    return NULL;
}

/* The steps of a burst: found while no other thread runs. */
static uint64_t burst;

static void *bursts(void *self)
{
    uint64_t state = 1;
    pthread_barrier_wait(&begin);
    while (goes_on_at_all()) {
        state = compute(state, burst);
        count((unsigned)(uintptr_t)self);
        usleep(1000);
    }
    CHECK(state != 0);
    return NULL;
}

static uint64_t steps_in(double seconds)
{
    const uint64_t STEPS_TIMED = 10000000;
    double start = now();
    CHECK(compute(1, STEPS_TIMED) != 0);
    return (uint64_t)((double)STEPS_TIMED * seconds / (now() - start));
}

static uint64_t sum(unsigned from, unsigned to)
{
    uint64_t sum = 0;
    for (; from < to; from++)
        sum += atomic_load_explicit(&counts[from].done, memory_order_relaxed);
    return sum;
}

static void sleep_for(double seconds)
{
    double end = now() + seconds, left;
    while ((left = end - now()) > 0)
        usleep((useconds_t)(left * 1e6) + 1);
}

int main(int argc, char **argv)
{
    pthread_t threads[MOST];
    unsigned all = COMPUTING;
    double budget = argument(argc, argv, 1, 1);
    const char *kind = argc > 2 ? argv[2] : "pair";
    int is_pair = strcmp(kind, "pair") == 0, is_bursts = strcmp(kind, "bursts") == 0;
    int counts_others = argc > 3 && strcmp(argv[3], "others") == 0;
    unsigned others = is_pair ? 2 : is_bursts ? BURSTING : YIELDING;

    CHECK(is_pair || is_bursts || strcmp(kind, "yields") == 0);
    CHECK(sem_init(&ping, 0, 0) == 0 && sem_init(&pong, 0, 0) == 0);
    CHECK(pthread_barrier_init(&begin, NULL, COMPUTING + others + 1) == 0);
    burst = steps_in(0.002);
    for (uintptr_t at = 0; at < COMPUTING; at++)
        threads[at] = start_thread(computes, (void *)at);
    for (unsigned at = 0; at < others; at++, all++) {
        void *(*body)(void *) = is_bursts ? bursts : !is_pair ? yields : at == 0 ? pings : pongs;
        threads[all] = start_thread(body, (void *)(uintptr_t)all);
    }
    pthread_barrier_wait(&begin);
    unsigned from = counts_others ? COMPUTING : 0, to = counts_others ? all : COMPUTING;
    sleep_for(budget / 8);
    uint64_t before = sum(from, to);
    double start = now();
    uint64_t after;
    do {
        sleep_for(budget);
        after = sum(from, to);
    } while (after == before);
    double seconds = now() - start;
    atomic_store(&is_over, 1);
    for (unsigned at = 0; at < all; at++)
        join_thread(threads[at]);
    report(after - before, seconds, sum(from, to));
    return 0;
}
