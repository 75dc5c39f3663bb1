/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* gettid() and umcg_gettid(): a worker's own tid on every server, the kernel's for all others.
 */
#include <semaphore.h>

#include "worker.h"

#define SERVERS 3
#define TURNS 30

static struct worker a;
static sem_t turn[SERVERS];
static int moved;

static void check_plain(const char *who)
{
    pid_t kernel = (pid_t)syscall(SYS_gettid);
    CHECK(who, gettid() == kernel && umcg_gettid() == kernel);
}

static void *plain_thread(void *arg)
{
    (void)arg;
    check_plain("a plain thread");
    return NULL;
}

static void body(struct worker *self)
{
    for (int i = 0; i < TURNS; i++) {
        CHECK("gettid is the worker's own", gettid() == self->tid);
        CHECK("umcg_gettid too", umcg_gettid() == self->tid);
        moved += (pid_t)syscall(SYS_gettid) != self->tid;
        self->result |= WAIT_IN_WORKER(0);
    }
    self->steps++;
}

/* The servers take turns with the one worker. */
static void *server(void *arg)
{
    int me = (int)(intptr_t)arg, ended = 0;
    uint64_t event;

    MUST(umcg_ctl(0, UMCG_REGISTER_SERVER, 0, 0, NULL, 0) == 0);
    check_plain("a server");
    while (!ended) {
        MUST(sem_wait(&turn[me]) == 0);
        if (!a.keeps) {
            MUST(SWITCH(&a, &event, 1) == 0);
            check_plain("a server after a switch");
            if (event == EV(&a, UMCG_WE_EXIT))
                a.keeps = 1;
            else
                check_event(__FILE__, __LINE__, "WAIT", EV(&a, UMCG_WE_WAIT), event);
        }
        ended = a.keeps; /* passed on with the turn: the worker has ended */
        sem_post(&turn[(me + 1) % SERVERS]);
    }
    MUST(umcg_ctl(0, UMCG_UNREGISTER, 0, 0, NULL, 0) == 0);
    check_plain("a server that was");
    return NULL;
}

static void round_of(enum kind kind)
{
    pthread_t threads[SERVERS];

    memset(&a, 0, sizeof a);
    a.kind = kind, a.index = 1, a.body = body;
    MUST(umcg_ctl(0, UMCG_REGISTER_SERVER, 0, 0, NULL, 0) == 0);
    start_ready(&a);
    CHECK("a light worker's tid is above the kernel's", kind == THREAD || a.tid > 4194303);
    MUST(umcg_ctl(0, UMCG_UNREGISTER, 0, 0, NULL, 0) == 0);
    for (int i = 0; i < SERVERS; i++) {
        MUST(sem_init(&turn[i], 0, 0) == 0);
        MUST(pthread_create(&threads[i], NULL, server, (void *)(intptr_t)i) == 0);
    }
    sem_post(&turn[0]);
    for (int i = 0; i < SERVERS; i++)
        MUST(pthread_join(threads[i], NULL) == 0);
    join(&a);
    CHECK("it came to its end", a.steps == 1 && a.result == 0);
}

int main(void)
{
    pthread_t plain;

    check_start(30);
    MUST(umcg_set_preemption(0) == 0);
    check_plain("the main thread");
    MUST(pthread_create(&plain, NULL, plain_thread, NULL) == 0 && pthread_join(plain, NULL) == 0);
    round_of(THREAD);
    round_of(LIGHT);
    CHECK("a light worker runs on its server's kernel thread", moved >= TURNS);
    return check_done();
}
