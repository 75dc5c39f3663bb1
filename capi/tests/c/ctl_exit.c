/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Workers that end without unregistering, in every way, and their remains. */
#include "worker.h"

static struct worker a;
static pthread_key_t key;
static int destroyed;

static void reset(enum kind kind, void (*body)(struct worker *))
{
    memset(&a, 0, sizeof a);
    a.kind = kind;
    a.index = 1;
    a.body = body;
    a.keeps = 1;
}

static void gone(void)
{
    uint64_t list[2];
    join(&a);
    FAILS("CTX_SWITCH to a worker that is gone", ESRCH, SWITCH(&a, list, 2));
    FAILS("WAIT for a worker that is gone", ESRCH, umcg_ctl(0, UMCG_WAIT, a.tid, 0, NULL, 0));
    NO_EVENT("nothing comes of it");
}

static void just_returns(struct worker *self)
{
    self->steps++;
}

static void leaves_from_below(void)
{
    a.steps++;
    pthread_exit(NULL);
}

static void leaves(struct worker *self)
{
    self->steps++;
    WAIT_IN_WORKER(0);
    leaves_from_below();
}

static void destroy(void *value)
{
    destroyed += value == &key && umcg_gettid() == a.tid;
}

static void with_key(struct worker *self)
{
    self->steps++;
    pthread_setspecific(key, &key);
}

static void cleaned(void *arg)
{
    *(int *)arg += 1;
}

static void with_cleanup(struct worker *self)
{
    pthread_cleanup_push(cleaned, &self->result);
    self->steps++;
    pthread_exit(NULL);
    pthread_cleanup_pop(0);
}

static void ends(enum kind kind)
{
    reset(kind, just_returns);
    start_ready(&a);
    RUN("a thread that returns gives EXIT", &a, UMCG_WE_EXIT);
    gone();
    CHECK("it ran once", a.steps == 1);
}

static void thread_ends(void)
{
    reset(THREAD, leaves);
    start_ready(&a);
    RUN("WAIT", &a, UMCG_WE_WAIT);
    RUN("pthread_exit gives EXIT", &a, UMCG_WE_EXIT);
    gone();
    CHECK("it ran", a.steps == 2);

    reset(THREAD, with_cleanup);
    start_ready(&a);
    RUN("pthread_exit with a cleanup handler gives EXIT", &a, UMCG_WE_EXIT);
    gone();
    CHECK("the handler ran once", a.result == 1);

    MUST(pthread_key_create(&key, destroy) == 0);
    reset(THREAD, with_key);
    start_ready(&a);
    RUN("a thread with thread-specific data gives EXIT", &a, UMCG_WE_EXIT);
    gone();
    CHECK("its destructor ran once, in the thread", destroyed == 1);
    MUST(pthread_key_delete(key) == 0);
}

/* Never switched to before its end by another: a blocked worker that exits in its scope. */
static void leaves_while_blocked(struct worker *self)
{
    MUST(umcg_blocking_begin() == 0);
    self->steps++;
    pthread_exit(NULL);
}

static void ends_in_a_scope(void)
{
    uint64_t event;

    reset(THREAD, leaves_while_blocked);
    start_ready(&a);
    RUN("BLOCK", &a, UMCG_WE_BLOCK);
    event = next_event();
    if (event == EV(&a, UMCG_WE_WAKE)) /* the library may call it back to a server first */
        RUN("EXIT of a worker that ended while blocking", &a, UMCG_WE_EXIT);
    else
        check_event(__FILE__, __LINE__, "EXIT of a worker that ended while blocking",
                    EV(&a, UMCG_WE_EXIT), event);
    gone();
    CHECK("it ran", a.steps == 1);
}

static void switches_and_ends(struct worker *self)
{
    self->steps++;
}

/* Many, one after the other: tids come again, and a new worker is never taken for an old one. */
static void many(enum kind kind)
{
    for (int i = 0; i < check_count("UMCG_TEST_WORKERS", 200); i++) {
        reset(kind, switches_and_ends);
        a.index = (uint64_t)i;
        start_ready(&a);
        RUN("EXIT", &a, UMCG_WE_EXIT);
        join(&a);
        MUST(a.steps == 1);
    }
    NO_EVENT("and nothing else");
}

int main(void)
{
    check_start(60);
    begin_server();
    ends(THREAD);
    ends(LIGHT);
    thread_ends();
    ends_in_a_scope();
    many(THREAD);
    many(LIGHT);
    end_server();
    return check_done();
}
