/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The initial thread ends by pthread_exit. The process ends with status 0 when its last thread has
 * ended, after the handlers of atexit have run in that thread. */
#include "check.h"

static pthread_t initial, last;
static sem_t order;

static void at_exit(void)
{
    MUST(pthread_equal(pthread_self(), last));
    SHOWN("at exit");
}

static void *joins_the_initial_thread(void *arg)
{
    OK(pthread_join(initial, NULL));
    SHOWN("the initial thread has ended");
    MUST(getpid() != gettid());
    OK(sem_post(&order));
    return arg;
}

static void *ends_last(void *arg)
{
    last = pthread_self();
    down(&order);
    sleep_ms(5);
    SHOWN("the last thread");
    return arg;
}

static void clean_up(void *arg)
{
    SHOWN(arg);
}

int main(void)
{
    OK(sem_init(&order, 0, 0));
    initial = pthread_self();
    MUST(atexit(at_exit) == 0);
    OK(pthread_detach(spawn(ends_last, NULL)));
    spawn(joins_the_initial_thread, NULL);
    pthread_cleanup_push(clean_up, "cleaned up");
    pthread_exit((void *)5);
    pthread_cleanup_pop(0);
}
