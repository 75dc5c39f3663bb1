/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* pthread_cancel of a thread worker: it ends at its next point of cancellation, on a server or in a
 * blocking scope, and its server has EXIT. */
#include "worker.h"

static struct worker a;
static volatile int is_there, goes_on;

static void on_server(struct worker *self)
{
    (void)self;
    is_there = 1;
    while (!goes_on)
        ;
    for (;;)
        pthread_testcancel();
}

static void in_scope(struct worker *self)
{
    (void)self;
    MUST(umcg_blocking_begin() == 0);
    is_there = 1;
    for (;;)
        pause();
}

static void *cancel(void *arg)
{
    (void)arg;
    while (!is_there)
        check_sleep_ms(1);
    MUST(pthread_cancel(a.thread) == 0);
    goes_on = 1;
    return NULL;
}

static void ends(void (*body)(struct worker *), int blocks)
{
    pthread_t canceller;
    uint64_t event;
    memset(&a, 0, sizeof a);
    a.kind = THREAD;
    a.index = 1;
    a.body = body;
    is_there = goes_on = 0;
    MUST(pthread_create(&canceller, NULL, cancel, NULL) == 0);
    start(&a);
    MUST(next_event() == EV(&a, UMCG_WE_WAKE));
    event = run(&a);
    if (blocks) {
        CHECK("it blocks", event == EV(&a, UMCG_WE_BLOCK));
        event = next_event();
        /* It may have reported that it is back, if the end of its scope came first. */
        if (event == EV(&a, UMCG_WE_WAKE))
            event = run(&a);
    }
    CHECK("EXIT", event == EV(&a, UMCG_WE_EXIT));
    void *result = NULL;
    MUST(pthread_join(a.thread, &result) == 0);
    CHECK("it was cancelled", result == PTHREAD_CANCELED);
    MUST(pthread_join(canceller, NULL) == 0);
}

int main(void)
{
    check_start(30);
    MUST(umcg_ctl(0, UMCG_REGISTER_SERVER, 0, 0, NULL, 0) == 0);
    MUST(umcg_set_preemption(0) == 0);
    ends(on_server, 0);
    ends(in_scope, 1);
    MUST(umcg_ctl(0, UMCG_UNREGISTER, 0, 0, NULL, 0) == 0);
    return check_done();
}
