/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Urgent requests beside a batch load. The batch keeps every server busy and never gives way, and
 * yet a request is answered at once, because it is more urgent and preemption is on. The last line
 * shows the effect: with "fair" requests wait their turn.
 *
 *   urgent [REQUESTS [fair]]
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "umcg/rt.h"

#define BATCH 4

static atomic_int over, begun;
static int ends[2];

static uint64_t now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Computes without waiting anywhere; returns how many steps it made. */
static void *batch(void *arg)
{
    intptr_t steps = 0;

    (void)arg;
    atomic_fetch_add(&begun, 1);
    while (!atomic_load_explicit(&over, memory_order_relaxed))
        steps++;
    return (void *)steps;
}

/* Answers each request, a time, with the time when it got it. */
static void *answer(void *arg)
{
    uint64_t times[2];

    (void)arg;
    while (umcg_read(ends[1], &times[0], sizeof times[0]) == sizeof times[0]) {
        times[1] = now();
        if (umcg_write(ends[1], times, sizeof times) != sizeof times)
            break;
    }
    return NULL;
}

static int by_size(const void *one, const void *other)
{
    uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;
    return (a > b) - (a < b);
}

/* The client: a plain thread. Returns how many requests were answered. */
static int ask(int requests)
{
    uint64_t *late = calloc((size_t)requests, sizeof *late), times[2];
    int answered = 0;

    while (late && answered < requests) {
        usleep(1000);
        times[0] = now();
        if (write(ends[0], &times[0], sizeof times[0]) != sizeof times[0] ||
            read(ends[0], times, sizeof times) != sizeof times)
            break;
        late[answered++] = times[1] - times[0];
    }
    if (answered) {
        qsort(late, (size_t)answered, sizeof *late, by_size);
        printf("requests waited %.3f ms, half of them; %.3f ms, the longest\n",
               (double)late[answered / 2] / 1e6, (double)late[answered - 1] / 1e6);
    }
    free(late);
    return answered;
}

int main(int argc, char **argv)
{
    int requests = argc > 1 ? atoi(argv[1]) : 50,
        is_fair = argc > 2 && strcmp(argv[2], "fair") == 0, answered;
    umcg_rt_options_t options = UMCG_RT_OPTIONS_INIT;
    umcg_spawn_attr_t attr = UMCG_SPAWN_ATTR_INIT;
    umcg_worker_t *workers[BATCH + 1];
    umcg_rt_t *rt;
    int idle = 0;

    options.servers = 2;
    options.scheduler = is_fair ? UMCG_FIFO : UMCG_PRIORITY;
    options.preemption_ns = 10000000;
    rt = umcg_rt_start(&options);
    if (rt == NULL || socketpair(AF_UNIX, SOCK_STREAM, 0, ends) < 0) {
        perror("urgent");
        return 1;
    }
    attr.name = "urgent";
    attr.priority = 255;
    workers[BATCH] = umcg_spawn_attr(rt, &attr, answer, NULL);
    attr.name = "batch";
    attr.priority = 0;
    for (int i = 0; i < BATCH; i++)
        workers[i] = umcg_spawn_attr(rt, &attr, batch, NULL);
    while (atomic_load(&begun) < BATCH) /* among equals each gets its turn, by preemption too */
        usleep(1000);

    answered = ask(requests);
    atomic_store(&over, 1);
    shutdown(ends[0], SHUT_WR);
    for (int i = 0; i <= BATCH; i++) {
        void *steps = NULL;
        umcg_join(workers[i], &steps);
        idle += i < BATCH && steps == NULL;
    }
    printf("%d of %d requests were answered while %d workers computed\n", answered, requests,
           BATCH - idle);
    return answered != requests || umcg_rt_stop(rt, UMCG_NO_TIMEOUT) < 0;
}
