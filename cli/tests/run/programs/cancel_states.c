/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Cancellation: asynchronous in a loop that makes no call, held back by its state, points that do
 * not wait, the order of cleanup handlers and destructors of keys. */
#include "check.h"

static sem_t begun;
static pthread_key_t key;
static char order[64];
static volatile int go, spins;

static void note(void *arg)
{
    size_t length = strlen(order);

    MUST(length + 1 < sizeof order);
    order[length] = *(char *)arg;
}

static void *computes(void *arg)
{
    int old;

    OK(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old));
    MUST(old == PTHREAD_CANCEL_DEFERRED);
    OK(sem_post(&begun));
    for (;;)
        spins++;
    return arg;
}

static void asynchronous(void)
{
    for (int round = 0; round < 20; round++) {
        pthread_t thread = spawn(computes, NULL);

        down(&begun);
        if (round % 2)
            usleep(200);
        OK(pthread_cancel(thread));
        MUST(join(thread) == PTHREAD_CANCELED);
    }
}

/* While it is held back, no point of cancellation acts; and computing is none. */
static void *holds_back(void *arg)
{
    int old;

    OK(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old));
    MUST(old == PTHREAD_CANCEL_ENABLE);
    OK(sem_post(&begun));
    while (!go)
        usleep(100);
    pthread_testcancel();
    sleep_ms(1);
    note("d");
    OK(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL));
    for (int at = 0; at < 1000; at++)
        spins++;
    note("e");
    pthread_testcancel();
    note("x");
    return arg;
}

static void held_back(void)
{
    pthread_t thread = spawn(holds_back, NULL);

    down(&begun);
    OK(pthread_cancel(thread));
    go = 1;
    MUST(join(thread) == PTHREAD_CANCELED);
    MUST(!strcmp(order, "de"));
}

/* With a cancellation pending, a call that need not wait acts on it all the same. */
static void *pends_at_read(void *arg)
{
    int *pipe_ends = arg;
    char byte;

    OK(pthread_cancel(pthread_self()));
    note("f");
    MUST(read(pipe_ends[0], &byte, 1) && 0);
    return arg;
}

static void points_that_need_not_wait(void)
{
    int ends[2];
    char byte;

    MUST(pipe(ends) == 0 && write(ends[1], "b", 1) == 1);
    order[0] = 0;
    MUST(join(spawn(pends_at_read, ends)) == PTHREAD_CANCELED);
    /* The byte was not taken. */
    MUST(read(ends[0], &byte, 1) == 1 && byte == 'b');
    MUST(!strcmp(order, "f"));
}

static void *cleans_up(void *arg)
{
    int exits = *(int *)arg;

    OK(pthread_setspecific(key, "k"));
    pthread_cleanup_push(note, "a");
    pthread_cleanup_push(note, "b");
    pthread_cleanup_push(note, "-");
    pthread_cleanup_pop(0);
    pthread_cleanup_push(note, "c");
    pthread_cleanup_pop(1);
    if (exits)
        pthread_exit(arg);
    OK(sem_post(&begun));
    for (;;)
        sleep(1000);
    pthread_cleanup_pop(0);
    pthread_cleanup_pop(0);
    return arg;
}

static void cleanup_order(void)
{
    static int exits = 1, waits = 0;
    pthread_t thread;

    memset(order, 0, sizeof order);
    MUST(join(spawn(cleans_up, &exits)) == &exits);
    MUST(!strcmp(order, "cbak"));
    memset(order, 0, sizeof order);
    thread = spawn(cleans_up, &waits);
    down(&begun);
    OK(pthread_cancel(thread));
    MUST(join(thread) == PTHREAD_CANCELED);
    MUST(!strcmp(order, "cbak"));
}

static void *waits_for_mutex(void *arg)
{
    OK(sem_post(&begun));
    OK(pthread_mutex_lock(arg));
    note("l");
    OK(pthread_mutex_unlock(arg));
    pthread_testcancel();
    note("x");
    return NULL;
}

/* Locking a mutex is no point of cancellation. */
static void not_at_a_mutex(void)
{
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_t thread;

    memset(order, 0, sizeof order);
    OK(pthread_mutex_lock(&mutex));
    thread = spawn(waits_for_mutex, &mutex);
    down(&begun);
    sleep_ms(1);
    OK(pthread_cancel(thread));
    sleep_ms(1);
    OK(pthread_mutex_unlock(&mutex));
    MUST(join(thread) == PTHREAD_CANCELED);
    MUST(!strcmp(order, "l"));
}

int main(void)
{
    OK(sem_init(&begun, 0, 0));
    OK(pthread_key_create(&key, note));
    asynchronous();
    SHOWN("asynchronous");
    held_back();
    SHOWN("held back");
    memset(order, 0, sizeof order);
    points_that_need_not_wait();
    SHOWN("points that need not wait");
    cleanup_order();
    SHOWN("cleanup handlers, then keys");
    not_at_a_mutex();
    SHOWN("not at a mutex");
    return 0;
}
