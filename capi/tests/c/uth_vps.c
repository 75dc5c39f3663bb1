/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* More than eight virtual processors; uths that go on on another one; deletion elsewhere than where
 * they were made. */
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>

#include "check.h"
#include "uth.h"

#define VPS 24
#define UTHS 50
#define ROUNDS 20

static uth_t native[VPS];
static uth_t uths[VPS][UTHS]; /* by the VP that made them */
static int steps[VPS][UTHS];
static pthread_barrier_t barrier;

static void body(void *arg)
{
    int *mine = (int *)arg;
    for (int round = 0; round < ROUNDS; round++) {
        int vp = uth_get_vpid();
        MUST(uth_self2(vp) == uth_self());
        ++*mine;
        uth_switchto2(vp, uth_self(), native[vp]);
    }
}

static void *processor(void *arg)
{
    int me = (int)(intptr_t)arg;

    MUST(uth_vp_init(me == 0 ? 1000 : me) == 0);
    MUST(uth_get_vpid() == (me == 0 ? 1000 : me));
    return NULL;
}

static void *passes_on(void *arg)
{
    int me = (int)(intptr_t)arg;

    MUST(uth_vp_init(me) == 0 && uth_get_vpid() == me);
    native[me] = uth_self();
    for (int i = 0; i < UTHS; i++) {
        uths[me][i] = uth_create(body, &steps[me][i]);
        MUST(uths[me][i] && uth_getarg(uths[me][i]) == &steps[me][i]);
    }
    for (int round = 0; round <= ROUNDS; round++) {
        int from = (me + round) % VPS; /* in each round, those that another VP made */
        pthread_barrier_wait(&barrier);
        for (int i = 0; i < UTHS; i++) {
            uth_switchto(native[me], uths[from][i]);
            MUST(uth_self() == native[me] && uth_get_vpid() == me);
        }
    }
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < UTHS; i++)
        uth_delete(uths[(me + 1) % VPS][i]);
    pthread_barrier_wait(&barrier);
    /* Recycled ones are as good as new. */
    for (int i = 0; i < UTHS; i++) {
        steps[me][i] -= ROUNDS;
        uths[me][i] = uth_create(body, &steps[me][i]);
        MUST(uths[me][i]);
        uth_switchto(native[me], uths[me][i]);
        MUST(steps[me][i] == 1);
        uth_delete(uths[me][i]); /* in the middle */
    }
    return NULL;
}

static void *keeps_rank(void *arg)
{
    (void)arg;
    MUST(uth_vp_init(7) == 0);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    return NULL;
}

/* In the child of a fork there is no VP but the caller's. */
static void ranks_of_a_child(void)
{
    pthread_t other;
    int status;
    pid_t child;

    MUST(pthread_barrier_init(&barrier, NULL, 2) == 0);
    MUST(pthread_create(&other, NULL, keeps_rank, NULL) == 0);
    pthread_barrier_wait(&barrier);
    child = fork();
    MUST(child >= 0);
    if (child == 0)
        _exit(uth_vp_init(7) != 0 || uth_get_vpid() != 7);
    MUST(waitpid(child, &status, 0) == child);
    CHECK("a rank of another thread's of the parent", status == 0);
    FAILS("which is taken there", EBUSY, uth_vp_init(7));
    MUST(uth_vp_init(3) == 0);
    child = fork();
    MUST(child >= 0);
    if (child == 0)
        _exit(uth_get_vpid() != 3 || uth_self2(3) != uth_self());
    MUST(waitpid(child, &status, 0) == child);
    CHECK("the caller's own", status == 0);
    pthread_barrier_wait(&barrier);
    MUST(pthread_join(other, NULL) == 0);
}

int main(void)
{
    pthread_t threads[VPS];

    check_start(60);
    uth_init(0);
    for (int i = 0; i < VPS; i++) /* one after the other: their ranks end with them */
        MUST(pthread_create(&threads[i], NULL, processor, (void *)(intptr_t)i) == 0 &&
             pthread_join(threads[i], NULL) == 0);
    MUST(pthread_barrier_init(&barrier, NULL, VPS) == 0);
    for (int i = 0; i < VPS; i++)
        MUST(pthread_create(&threads[i], NULL, passes_on, (void *)(intptr_t)i) == 0);
    for (int i = 0; i < VPS; i++)
        MUST(pthread_join(threads[i], NULL) == 0);
    ranks_of_a_child();
    return check_done();
}
