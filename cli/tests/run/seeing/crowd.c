/* Threads that fight for locks, wait for each other and compute, until a byte comes on standard
 * input: for a look from outside at how many servers run them. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CHECK(what) do { if (!(what)) { printf("wrong: %s\n", #what); exit(1); } } while (0)

enum { THREADS = 12, PAIRS = THREADS / 2 };

struct pair {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    long turns;
};

static struct pair pairs[PAIRS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long total, stopped;
static volatile long computed[THREADS];

static void count(void)
{
    pthread_mutex_lock(&lock);
    total++;
    pthread_mutex_unlock(&lock);
}

/* Even turns are the first one's of a pair, odd ones the second's. */
static void *player(void *number)
{
    long me = (long) number, done = 0;
    struct pair *pair = &pairs[me / 2];
    int goes_on = 1;
    while (goes_on) {
        pthread_mutex_lock(&pair->lock);
        while (pair->turns >= 0 && pair->turns % 2 != me % 2)
            pthread_cond_wait(&pair->changed, &pair->lock);
        /* The first one decides, and the second one has the last turn. */
        if (me % 2 == 0 && __atomic_load_n(&stopped, __ATOMIC_SEQ_CST))
            goes_on = 0, pair->turns = -1;
        else if (pair->turns < 0)
            goes_on = 0;
        else
            pair->turns++, done++;
        pthread_cond_signal(&pair->changed);
        pthread_mutex_unlock(&pair->lock);
        if (goes_on)
            count();
        for (int step = 0; step < 1000; step++)
            computed[me]++;
    }
    return (void *) done;
}

int main(void)
{
    pthread_t threads[THREADS];
    for (int number = 0; number < PAIRS; number++) {
        pthread_mutex_init(&pairs[number].lock, NULL);
        pthread_cond_init(&pairs[number].changed, NULL);
    }
    for (long number = 0; number < THREADS; number++)
        CHECK(pthread_create(&threads[number], NULL, player, (void *) number) == 0);
    printf("ready\n");
    fflush(stdout);
    char byte;
    CHECK(read(0, &byte, 1) == 1);
    __atomic_store_n(&stopped, 1, __ATOMIC_SEQ_CST);
    long sum = 0;
    for (int number = 0; number < THREADS; number++) {
        void *done;
        CHECK(pthread_join(threads[number], &done) == 0);
        sum += (long) done;
    }
    CHECK(sum == total && sum > 0);
    printf("ended\n");
    return 0;
}
