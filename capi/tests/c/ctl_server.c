/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Servers: registering, polling, WAKE of an idle one, WAIT for a worker, several servers at once.
 */
#include "worker.h"

static int waiting, returned;
static uint64_t seen[2];
static int wait_result;

static void *idle_server(void *arg)
{
    (void)arg;
    MUST(umcg_ctl(0, UMCG_REGISTER_SERVER, 0, 0, NULL, 0) == 0);
    seen[0] = seen[1] = 77;
    __atomic_store_n(&waiting, 1, __ATOMIC_RELEASE);
    wait_result = umcg_ctl(0, UMCG_WAIT, 0, 0, seen, 2);
    __atomic_store_n(&returned, 1, __ATOMIC_RELEASE);
    MUST(umcg_ctl(0, UMCG_UNREGISTER, 0, 0, NULL, 0) == 0);
    return NULL;
}

/* From a plain thread, so that the only idle server is the one just started. */
static void wake_rows(void)
{
    pthread_t thread;
    int tries = 0;

    FAILS("WAKE with no server at all", EAGAIN, umcg_ctl(0, UMCG_WAKE, 0, 0, NULL, 0));
    waiting = returned = 0;
    MUST(pthread_create(&thread, NULL, idle_server, NULL) == 0);
    while (umcg_ctl(0, UMCG_WAKE, 0, 0, NULL, 0) < 0) {
        MUST(errno == EAGAIN && tries++ < 5000);
        check_sleep_ms(1);
    }
    CHECK("WAKE finds a server only once it waits",
          __atomic_load_n(&waiting, __ATOMIC_ACQUIRE) == 1);
    MUST(pthread_join(thread, NULL) == 0);
    CHECK("the woken server's WAIT gives 0", wait_result == 0);
    CHECK("with an empty list", seen[0] == 0);
    FAILS("WAKE with no server left", EAGAIN, umcg_ctl(0, UMCG_WAKE, 0, 0, NULL, 0));
}

static void register_rows(void)
{
    uint64_t events[2] = {77, 77};

    CHECK("UNREGISTER by a plain thread", umcg_ctl(0, UMCG_UNREGISTER, 0, 0, NULL, 0) == 0);
    FAILS("WAKE with no idle server", EAGAIN, umcg_ctl(0, UMCG_WAKE, 0, 0, NULL, 0));
    CHECK("REGISTER_SERVER", umcg_ctl(0, UMCG_REGISTER_SERVER, 0, 0, NULL, 0) == 0);
    FAILS("the WAKE before it was not remembered", ETIMEDOUT,
          umcg_ctl(0, UMCG_WAIT, 0, UMCG_POLL, events, 2));
    CHECK("a poll that finds nothing writes nothing", events[0] == 77 && events[1] == 77);
    FAILS("a running server is not idle", EAGAIN, umcg_ctl(0, UMCG_WAKE, 0, 0, NULL, 0));
    CHECK("UNREGISTER", umcg_ctl(0, UMCG_UNREGISTER, 0, 0, NULL, 0) == 0);
    CHECK("UNREGISTER again", umcg_ctl(0, UMCG_UNREGISTER, 0, 0, NULL, 0) == 0);
    FAILS("no server any more", EINVAL, umcg_ctl(0, UMCG_WAIT, 0, UMCG_POLL, events, 2));
    CHECK("REGISTER_SERVER again", umcg_ctl(0, UMCG_REGISTER_SERVER, 0, 0, NULL, 0) == 0);
    CHECK("and UNREGISTER again", umcg_ctl(0, UMCG_UNREGISTER, 0, 0, NULL, 0) == 0);
}

static void end_at_once(struct worker *self)
{
    self->steps++;
}

/* A server that waits for events, runs each worker to its end, and ends when it is woken for
 * nothing. */
static void *event_server(void *arg)
{
    /* Events of idle workers may come behind a switch as well: leave no room for them. */
    uint64_t events[8], one;
    struct worker *w = (struct worker *)arg;

    MUST(umcg_ctl(0, UMCG_REGISTER_SERVER, 0, 0, NULL, 0) == 0);
    __atomic_store_n(&waiting, 1, __ATOMIC_RELEASE);
    for (;;) {
        MUST(umcg_ctl(0, UMCG_WAIT, 0, 0, events, 8) == 0);
        if (events[0] == 0)
            break;
        for (int i = 0; i < 8 && events[i]; i++) {
            struct worker *of = &w[UMCG_EVENT_WORKER(events[i]) >> UMCG_WORKER_ID_SHIFT];
            check_event(__FILE__, __LINE__, "a new worker gives WAKE", EV(of, UMCG_WE_WAKE),
                        events[i]);
            /* umcg_light_create has not returned yet */
            while (__atomic_load_n(&of->tid, __ATOMIC_ACQUIRE) == 0)
                sched_yield();
            MUST(SWITCH(of, &one, 1) == 0);
            check_event(__FILE__, __LINE__, "it runs to its end", EV(of, UMCG_WE_EXIT), one);
            __atomic_add_fetch(&returned, 1, __ATOMIC_RELEASE);
        }
    }
    MUST(umcg_ctl(0, UMCG_UNREGISTER, 0, 0, NULL, 0) == 0);
    return NULL;
}

/* A server that waits is woken by an event. */
static void event_rows(enum kind kind)
{
    struct worker *w = (struct worker *)calloc(1, sizeof *w);
    pthread_t server;

    w->kind = kind;
    w->body = end_at_once;
    waiting = returned = 0;
    MUST(pthread_create(&server, NULL, event_server, w) == 0);
    while (!__atomic_load_n(&waiting, __ATOMIC_ACQUIRE))
        sched_yield();
    check_sleep_ms(5);
    start(w); /* worker id 0, which is a number as good as any */
    while (!__atomic_load_n(&returned, __ATOMIC_ACQUIRE))
        sched_yield();
    while (umcg_ctl(0, UMCG_WAKE, 0, 0, NULL, 0) < 0)
        check_sleep_ms(1);
    MUST(pthread_join(server, NULL) == 0);
    join(w);
    CHECK("the worker ran once", w->steps == 1);
    free(w);
}

static void several_servers(enum kind kind, int servers, int workers)
{
    struct worker *w = (struct worker *)calloc((size_t)workers, sizeof *w);
    pthread_t threads[8];

    returned = 0;
    for (int i = 0; i < servers; i++)
        MUST(pthread_create(&threads[i], NULL, event_server, w) == 0);
    for (int i = 0; i < workers; i++) {
        w[i].kind = kind, w[i].index = (uint64_t)i, w[i].body = end_at_once;
        start(&w[i]);
    }
    while (__atomic_load_n(&returned, __ATOMIC_ACQUIRE) < workers)
        check_sleep_ms(1);
    for (int i = 0; i < servers; i++) {
        while (umcg_ctl(0, UMCG_WAKE, 0, 0, NULL, 0) < 0)
            check_sleep_ms(1);
    }
    for (int i = 0; i < servers; i++)
        MUST(pthread_join(threads[i], NULL) == 0);
    for (int i = 0; i < workers; i++) {
        join(&w[i]);
        CHECK("each worker ran once", w[i].steps == 1);
    }
    free(w);
}

/* A server whose thread ends without unregistering is no server any more. */
static void *careless_server(void *arg)
{
    (void)arg;
    MUST(umcg_ctl(0, UMCG_REGISTER_SERVER, 0, 0, NULL, 0) == 0);
    return NULL;
}

static void ended_server(void)
{
    pthread_t thread;
    MUST(pthread_create(&thread, NULL, careless_server, NULL) == 0 &&
         pthread_join(thread, NULL) == 0);
    FAILS("a server that ended is not idle", EAGAIN, umcg_ctl(0, UMCG_WAKE, 0, 0, NULL, 0));
}

int main(void)
{
    check_start(60);
    MUST(umcg_set_preemption(0) == 0);
    register_rows();
    wake_rows();
    wake_rows();
    event_rows(THREAD);
    event_rows(LIGHT);
    for (int servers = 1; servers <= 4; servers *= 2) {
        several_servers(THREAD, servers, check_count("UMCG_TEST_WORKERS", 64));
        several_servers(LIGHT, servers, check_count("UMCG_TEST_WORKERS", 64));
    }
    ended_server();
    return check_done();
}
