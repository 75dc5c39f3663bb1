/* SIZE threads increment a counter under a mutex. An operation is one time inside. With "yield" as
 * the third argument the holder gives up the CPU while it is inside. */
#include "common.h"
#include <sched.h>
#include <stdatomic.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t counter;
static int yields;
static atomic_int is_over;

static uint64_t increment(void)
{
    pthread_mutex_lock(&lock);
    uint64_t before = counter;
    if (yields)
        sched_yield();
    counter = before + 1;
    pthread_mutex_unlock(&lock);
    return before;
}

static void *increments(void *count)
{
    while (!atomic_load_explicit(&is_over, memory_order_relaxed)) {
        increment();
        ++*(uint64_t *)count;
    }
    return NULL;
}

int main(int argc, char **argv)
{
    unsigned threads = (unsigned)argument(argc, argv, 2, 4);
    yields = argc > 3 && strcmp(argv[3], "yield") == 0;
    pthread_t others[threads];
    uint64_t counts[threads][8];
    memset(counts, 0, sizeof counts);
    for (unsigned i = 1; i < threads; i++)
        others[i] = start_thread(increments, counts[i]);
    struct pace pace = pace_of(argument(argc, argv, 1, 1), yields ? 15 : 255);
    /* The pace counts this thread's operations alone; those of all are in the counter. */
    uint64_t before = 0, after = 0;
    int was_warm = 0;
    while (goes_on(&pace)) {
        after = increment();
        if (pace.is_warm && !was_warm) {
            was_warm = 1;
            before = after;
        }
    }
    double seconds = now() - pace.start;
    report(after - before + 1, seconds, after + 1);
    atomic_store(&is_over, 1);
    uint64_t sum = pace.begun;
    for (unsigned i = 1; i < threads; i++) {
        join_thread(others[i]);
        sum += counts[i][0];
    }
    CHECK(sum == counter);
    return 0;
}
