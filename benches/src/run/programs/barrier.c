/* SIZE threads meet at a barrier again and again. An operation is one meeting of all. */
#include "common.h"
#include <stdatomic.h>

static pthread_barrier_t barrier;
/* The last round. It is set before the first thread can get there, so that all see it in time. */
static _Atomic uint64_t last = UINT64_MAX;
static _Atomic uint64_t passed;

static void meet(void)
{
    int rc = pthread_barrier_wait(&barrier);
    CHECK(rc == 0 || rc == PTHREAD_BARRIER_SERIAL_THREAD);
    if (rc == PTHREAD_BARRIER_SERIAL_THREAD)
        atomic_fetch_add_explicit(&passed, 1, memory_order_relaxed);
}

static void *meets(void *none)
{
    for (uint64_t round = 0; round <= atomic_load(&last); round++)
        meet();
    return none;
}

int main(int argc, char **argv)
{
    unsigned threads = (unsigned)argument(argc, argv, 2, 64);
    pthread_t others[threads];
    CHECK(pthread_barrier_init(&barrier, NULL, threads) == 0);
    for (unsigned i = 1; i < threads; i++)
        others[i] = start_thread(meets, NULL);
    /* The first meeting waits until all threads are there. */
    meet();
    struct pace pace = pace_of(argument(argc, argv, 1, 1), 3);
    uint64_t round = 1;
    for (; goes_on(&pace); round++)
        meet();
    report_pace(&pace, 1);
    atomic_store(&last, round);
    meet();
    for (unsigned i = 1; i < threads; i++)
        join_thread(others[i]);
    CHECK(passed == round + 1);
    return 0;
}
