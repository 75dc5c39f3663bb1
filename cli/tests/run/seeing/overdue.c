/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A thread that waits until a deadline, again and again, beside others that compute. All of them
 * have left their homes. Prints how many waits it took per second. */
#include "../programs/check.h"

#include <stdatomic.h>

enum { OTHERS = 2, WAITS = 20 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static atomic_int is_over;

static void wait_once(void)
{
    struct timespec until = in_ms(CLOCK_REALTIME, 5);

    OK(pthread_mutex_lock(&mutex));
    RETURNS(ETIMEDOUT, pthread_cond_timedwait(&never, &mutex, &until));
    OK(pthread_mutex_unlock(&mutex));
}

static void *computes(void *arg)
{
    wait_once();
    while (!atomic_load_explicit(&is_over, memory_order_relaxed)) {
    }
    return arg;
}

int main(void)
{
    pthread_t others[OTHERS];
    int64_t start;

    for (int at = 0; at < OTHERS; at++)
        others[at] = spawn(computes, NULL);
    wait_once();
    start = now_ns(CLOCK_MONOTONIC);
    for (int turn = 0; turn < WAITS; turn++)
        wait_once();
    printf("%.3f\n", WAITS / ((double)(now_ns(CLOCK_MONOTONIC) - start) * 1e-9));
    atomic_store(&is_over, 1);
    for (int at = 0; at < OTHERS; at++)
        join(others[at]);
    return 0;
}
