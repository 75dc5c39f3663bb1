/* SIZE threads compute with a lock held, as interpreters do. A thread that has waited for the lock
 * for 5 ms asks its holder to give it away, and the holder then waits until another thread has
 * taken it. An operation is a change of the holder. Of those that a thread has more than the one
 * that has fewest, none counts. It goes on until each thread has had the lock. */
#include "common.h"
#include <stdatomic.h>

enum { MOST = 64, INTERVAL = 5000000, STEPS = 5000 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t is_free, is_taken;
/* Under the lock, but for is_asked. */
static struct pace pace;
static unsigned size, holder;
static int is_held, is_over;
static uint64_t changes, taken[MOST], cold[MOST];
static atomic_int is_asked;

/* Whether it has waited for that long in vain. */
static int waits_in_vain(void)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += INTERVAL;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    return pthread_cond_timedwait(&is_free, &lock, &until) == ETIMEDOUT;
}

/* How often the thread that had it least has had it since the program was warm. */
static uint64_t least(void)
{
    uint64_t least = UINT64_MAX;
    for (unsigned at = 0; at < size; at++)
        least = taken[at] - cold[at] < least ? taken[at] - cold[at] : least;
    return least;
}

static void take(unsigned self)
{
    while (is_held) {
        uint64_t before = changes;
        if (waits_in_vain() && is_held && changes == before)
            atomic_store(&is_asked, 1);
    }
    is_held = 1;
    holder = self;
    taken[self]++;
    changes++;
    int was_warm = pace.is_warm;
    if (!goes_on(&pace) && least() > 0)
        is_over = 1;
    if (pace.is_warm != was_warm)
        memcpy(cold, taken, sizeof cold);
    atomic_store(&is_asked, 0);
    pthread_cond_signal(&is_taken);
}

static void give_away(unsigned self)
{
    is_held = 0;
    pthread_cond_signal(&is_free);
    while (holder == self && !is_over)
        pthread_cond_wait(&is_taken, &lock);
}

static void *interprets(void *number)
{
    unsigned self = (unsigned)(uintptr_t)number;
    uint64_t state = self + 1;
    pthread_mutex_lock(&lock);
    for (;;) {
        take(self);
        if (is_over)
            break;
        pthread_mutex_unlock(&lock);
        while (!atomic_load_explicit(&is_asked, memory_order_relaxed))
            state = compute(state, STEPS);
        pthread_mutex_lock(&lock);
        give_away(self);
    }
    is_held = 0;
    pthread_cond_broadcast(&is_free);
    pthread_cond_broadcast(&is_taken);
    pthread_mutex_unlock(&lock);
    CHECK(state != 0);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[MOST];
    pthread_condattr_t attributes;
    size = (unsigned)argument(argc, argv, 2, 3);
    CHECK(size > 1 && size <= MOST);
    CHECK(pthread_condattr_init(&attributes) == 0);
    CHECK(pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0);
    CHECK(pthread_cond_init(&is_free, &attributes) == 0);
    CHECK(pthread_cond_init(&is_taken, NULL) == 0);
    pace = pace_of(argument(argc, argv, 1, 1), 0);
    for (uintptr_t at = 0; at < size; at++)
        threads[at] = start_thread(interprets, (void *)at);
    for (unsigned at = 0; at < size; at++)
        join_thread(threads[at]);
    report(least() * size, now() - pace.start, changes);
    return 0;
}
