/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Condition variables: one waiter a signal, all by a broadcast, limits of time on both clocks, a
 * bounded buffer, and threads that take turns. */
#include "check.h"

enum { WAITERS = 64, ITEMS = 3000, ROOM = 4, TURNS = 2000 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pthread_cond_t arrived = PTHREAD_COND_INITIALIZER;
static int waiting, tickets, woken;

static void *wait_for_ticket(void *arg)
{
    OK(pthread_mutex_lock(&mutex));
    waiting++;
    OK(pthread_cond_signal(&arrived));
    while (tickets == 0)
        OK(pthread_cond_wait(&changed, &mutex));
    tickets--;
    woken++;
    OK(pthread_cond_signal(&arrived));
    OK(pthread_mutex_unlock(&mutex));
    return arg;
}

/* All waiters wait; half of them are woken one by one, the others all at once. */
static void signals_and_broadcast(void)
{
    pthread_t threads[WAITERS];

    for (int at = 0; at < WAITERS; at++)
        threads[at] = spawn(wait_for_ticket, NULL);
    OK(pthread_mutex_lock(&mutex));
    while (waiting < WAITERS)
        OK(pthread_cond_wait(&arrived, &mutex));
    for (int at = 0; at < WAITERS / 2; at++) {
        tickets++;
        OK(pthread_cond_signal(&changed));
        while (woken == at)
            OK(pthread_cond_wait(&arrived, &mutex));
        MUST(woken == at + 1);
    }
    tickets = WAITERS / 2;
    OK(pthread_cond_broadcast(&changed));
    OK(pthread_mutex_unlock(&mutex));
    for (int at = 0; at < WAITERS; at++)
        join(threads[at]);
    MUST(woken == WAITERS && tickets == 0);
}

static void limits_of_time(void)
{
    pthread_condattr_t attributes;
    pthread_cond_t monotonic;
    struct timespec limit;

    OK(pthread_condattr_init(&attributes));
    OK(pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC));
    OK(pthread_cond_init(&monotonic, &attributes));
    OK(pthread_mutex_lock(&mutex));
    for (int ms = 0; ms < 12; ms += 4) {
        limit = in_ms(CLOCK_REALTIME, ms);
        while (pthread_cond_timedwait(&changed, &mutex, &limit) != ETIMEDOUT)
            ;
        MUST(is_past(CLOCK_REALTIME, limit));
        limit = in_ms(CLOCK_MONOTONIC, ms);
        while (pthread_cond_timedwait(&monotonic, &mutex, &limit) != ETIMEDOUT)
            ;
        MUST(is_past(CLOCK_MONOTONIC, limit));
        limit = in_ms(CLOCK_MONOTONIC, ms);
        while (pthread_cond_clockwait(&changed, &mutex, CLOCK_MONOTONIC, &limit) != ETIMEDOUT)
            ;
        MUST(is_past(CLOCK_MONOTONIC, limit));
    }
    limit.tv_nsec = -1;
    RETURNS(EINVAL, pthread_cond_timedwait(&changed, &mutex, &limit));
    OK(pthread_mutex_unlock(&mutex));
    OK(pthread_cond_destroy(&monotonic));
}

static int buffer[ROOM], filled, taken;
static long sum;
static pthread_cond_t not_full = PTHREAD_COND_INITIALIZER;
static pthread_cond_t not_empty = PTHREAD_COND_INITIALIZER;

static void *produce(void *arg)
{
    for (int item = 1; item <= ITEMS; item++) {
        OK(pthread_mutex_lock(&mutex));
        while (filled == ROOM)
            OK(pthread_cond_wait(&not_full, &mutex));
        buffer[filled++] = item;
        OK(pthread_cond_signal(&not_empty));
        OK(pthread_mutex_unlock(&mutex));
    }
    return arg;
}

/* Every other consumer waits with a limit, which is too far away to be reached. */
static void *consume(void *arg)
{
    struct timespec far = in_ms(CLOCK_REALTIME, 600000);
    int has_limit = (intptr_t)arg % 2;

    for (;;) {
        OK(pthread_mutex_lock(&mutex));
        while (filled == 0 && taken < 2 * ITEMS)
            OK(has_limit ? pthread_cond_timedwait(&not_empty, &mutex, &far)
                         : pthread_cond_wait(&not_empty, &mutex));
        if (taken == 2 * ITEMS) {
            OK(pthread_mutex_unlock(&mutex));
            return NULL;
        }
        sum += buffer[--filled];
        if (++taken == 2 * ITEMS)
            OK(pthread_cond_broadcast(&not_empty));
        OK(pthread_cond_signal(&not_full));
        OK(pthread_mutex_unlock(&mutex));
    }
}

static void *producer_or_consumer(void *arg)
{
    return (intptr_t)arg < 2 ? produce(arg) : consume(arg);
}

static int turn;

static void *take_turns(void *arg)
{
    int own = (int)(intptr_t)arg;

    OK(pthread_mutex_lock(&mutex));
    for (int at = 0; at < TURNS; at++) {
        while (turn % 4 != own)
            OK(pthread_cond_wait(&changed, &mutex));
        turn++;
        OK(pthread_cond_broadcast(&changed));
    }
    OK(pthread_mutex_unlock(&mutex));
    return NULL;
}

int main(void)
{
    signals_and_broadcast();
    SHOWN("signals and a broadcast");
    limits_of_time();
    SHOWN("limits of time");
    in_threads(5, producer_or_consumer);
    MUST(sum == (long)ITEMS * (ITEMS + 1));
    SHOWN("a bounded buffer");
    in_threads(4, take_turns);
    MUST(turn == 4 * TURNS);
    SHOWN("turns");
    return 0;
}
