/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A round-robin scheduler on umcg_ctl: one server runs the worker that has waited longest; a worker
 * that blocks (here: sleeps in a blocking scope) stands aside until it wakes. Half of the workers
 * are pthreads, half are light.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "umcg.h"

#define WORKERS 6
#define TURNS 4

static pid_t tids[WORKERS];

static void work(uint64_t me)
{
    for (int turn = 0; turn < TURNS; turn++) {
        printf("worker %d, turn %d\n", (int)me, turn);
        if (turn == 1 && me % 3 == 0) {
            umcg_blocking_begin();
            usleep(1000);
            umcg_blocking_end();
        }
        umcg_ctl(0, UMCG_WAIT, 0, 0, NULL, 0); /* give way */
    }
}

static void light_worker(void *arg)
{
    work((uint64_t)(uintptr_t)arg);
}

static void *thread_worker(void *arg)
{
    uint64_t me = (uint64_t)(uintptr_t)arg;
    tids[me] = umcg_gettid();
    umcg_ctl(0, UMCG_REGISTER_WORKER, 0, me << UMCG_WORKER_ID_SHIFT, NULL, 0);
    work(me);
    umcg_ctl(0, UMCG_UNREGISTER, 0, 0, NULL, 0);
    return NULL;
}

int main(void)
{
    uint64_t queue[WORKERS + 1], events[WORKERS + 2];
    size_t head = 0, tail = 0, alive = WORKERS;
    pthread_t threads[WORKERS];

    umcg_ctl(0, UMCG_REGISTER_SERVER, 0, 0, NULL, 0);
    for (uintptr_t i = 0; i < WORKERS; i++) {
        if (i % 2 == 0)
            pthread_create(&threads[i], NULL, thread_worker, (void *)i);
        else
            tids[i] = umcg_light_create((uint64_t)i << UMCG_WORKER_ID_SHIFT, light_worker,
                                        (void *)i, NULL);
    }
    while (alive) {
        /* Run the first in the queue; with nobody to run, wait for an event. */
        int status = head != tail
                         ? umcg_ctl(0, UMCG_CTX_SWITCH, tids[queue[head++ % (WORKERS + 1)]], 0,
                                    events, WORKERS + 2)
                         : umcg_ctl(0, UMCG_WAIT, 0, 0, events, WORKERS + 2);
        if (status < 0) {
            perror("umcg_ctl");
            return 1;
        }
        for (int i = 0; i < WORKERS + 2 && events[i]; i++) {
            if (UMCG_EVENT_TYPE(events[i]) == UMCG_WE_EXIT)
                alive--;
            /* WAKE, WAIT, PREEMPT: it can run */
            else if (UMCG_EVENT_TYPE(events[i]) != UMCG_WE_BLOCK)
                queue[tail++ % (WORKERS + 1)] =
                    UMCG_EVENT_WORKER(events[i]) >> UMCG_WORKER_ID_SHIFT;
        }
    }
    for (int i = 0; i < WORKERS; i += 2)
        pthread_join(threads[i], NULL);
    return 0;
}
