/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Threads that compute with a lock held, as interpreters do. A thread that has waited for the lock
 * for 5 ms asks its holder to give it away. The holder then waits until another thread has taken
 * it. Ends when each thread has had it often enough. Prints how often it was taken until then.
 * Called as `given_away THREADS`; three where not given. */
#include "../programs/check.h"

#include <stdatomic.h>

enum { TIMES = 20 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t is_free = PTHREAD_COND_INITIALIZER;
static pthread_cond_t is_taken = PTHREAD_COND_INITIALIZER;
static unsigned long takes; /* as all that follows, under the mutex, but for is_asked */
static int is_held;
static int lacking; /* threads that have not had it often enough */
static atomic_int is_asked;

static int times_out(void)
{
    struct timespec until = in_ms(CLOCK_REALTIME, 5);

    return pthread_cond_timedwait(&is_free, &mutex, &until) == ETIMEDOUT;
}

static void take(void)
{
    while (is_held) {
        unsigned long before = takes;

        if (times_out() && is_held && takes == before)
            atomic_store(&is_asked, 1);
    }
    is_held = 1;
    takes++;
    atomic_store(&is_asked, 0);
    pthread_cond_signal(&is_taken);
}

static void give_away(void)
{
    unsigned long before = takes;

    is_held = 0;
    pthread_cond_signal(&is_free);
    while (takes == before && lacking > 0)
        pthread_cond_wait(&is_taken, &mutex);
}

static void *computes(void *arg)
{
    int is_over = 0;

    pthread_mutex_lock(&mutex);
    for (int times = 1; !is_over; times++) {
        take();
        if (times == TIMES)
            lacking--;
        is_over = lacking == 0;
        pthread_mutex_unlock(&mutex);
        while (!is_over && !atomic_load_explicit(&is_asked, memory_order_relaxed)) {
        }
        pthread_mutex_lock(&mutex);
        if (!is_over)
            give_away();
    }
    is_held = 0;
    pthread_cond_broadcast(&is_free);
    pthread_cond_broadcast(&is_taken);
    pthread_mutex_unlock(&mutex);
    return arg;
}

int main(int argc, char **argv)
{
    lacking = argc > 1 ? atoi(argv[1]) : 3;
    in_threads(lacking, computes);
    printf("%lu\n", takes);
    return 0;
}
