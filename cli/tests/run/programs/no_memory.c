/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Threads are made until there are no addresses left for one more, several times over: each wait
 * and each end of theirs goes on then, and a later thread finds memory again. */
#include "check.h"
#include <stdatomic.h>
#include <sys/resource.h>

enum { MOST = 4096, ROUNDS = 3 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t opened = PTHREAD_COND_INITIALIZER;
static int is_open;
static atomic_int is_full;
static pthread_t threads[MOST];

static void *waits(void *arg)
{
    OK(pthread_mutex_lock(&lock));
    while (!is_open)
        OK(pthread_cond_wait(&opened, &lock));
    OK(pthread_mutex_unlock(&lock));
    return arg;
}

static void *waits_late(void *arg)
{
    while (!atomic_load(&is_full))
        sched_yield();
    return waits(arg);
}

/* Takes what is left in pieces that are smaller than a thread's stack. */
static void fill(void)
{
    for (size_t bytes = 1 << 20; bytes >= 4096; bytes /= 2)
        while (mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
            ;
}

/* Makes threads, besides so many, until one is refused. Returns how many. */
static int until_refused(const pthread_attr_t *small, int others)
{
    int made = others, result = 0;

    while (made < MOST && (result = pthread_create(&threads[made], small, waits, NULL)) == 0)
        made++;
    MUST(result == EAGAIN);
    return made - others;
}

static void let_go(int made)
{
    OK(pthread_mutex_lock(&lock));
    is_open = 1;
    OK(pthread_cond_broadcast(&opened));
    OK(pthread_mutex_unlock(&lock));
    for (int at = 0; at < made; at++)
        join(threads[at]);
    is_open = 0;
}

/* Leaves some addresses more than are in use. */
static void limit_addresses(void)
{
    struct rlimit limit;
    unsigned long pages;
    FILE *sizes = fopen("/proc/self/statm", "r");

    MUST(sizes != NULL && fscanf(sizes, "%lu", &pages) == 1);
    MUST(fclose(sizes) == 0 && getrlimit(RLIMIT_AS, &limit) == 0);
    limit.rlim_cur = pages * (rlim_t)sysconf(_SC_PAGESIZE) + ((rlim_t)256 << 20);
    MUST(setrlimit(RLIMIT_AS, &limit) == 0);
}

int main(void)
{
    pthread_attr_t small;

    OK(pthread_attr_init(&small));
    OK(pthread_attr_setstacksize(&small, 1 << 20));
    several();
    limit_addresses();
    for (int round = 0; round < ROUNDS; round++) {
        int made = until_refused(&small, 0);

        MUST(made > 0);
        let_go(made);
    }
    SHOWN("no thread more than there are addresses for");
    /* They are there, and begin to wait once nothing is left. */
    int made = 0;

    while (made < 16 && pthread_create(&threads[made], &small, waits_late, NULL) == 0)
        made++;
    MUST(made > 0);
    fill();
    atomic_store(&is_full, 1);
    sleep_ms(20);
    made += until_refused(&small, made);
    let_go(made);
    SHOWN("threads wait and end without memory");
}
