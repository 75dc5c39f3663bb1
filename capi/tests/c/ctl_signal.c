/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Signals: EINTR out of a server's WAIT, repeated with UMCG_WAIT_FLAG_INTERRUPTED, and no event
 * lost in between. */
#include "worker.h"

static int handled, done;
static pthread_t server;

static void on_signal(int sig)
{
    (void)sig;
    __atomic_add_fetch(&handled, 1, __ATOMIC_RELAXED);
}

static void *send_until_done(void *arg)
{
    (void)arg;
    while (!__atomic_load_n(&done, __ATOMIC_ACQUIRE)) {
        pthread_kill(server, SIGUSR1);
        check_sleep_ms(1);
    }
    return NULL;
}

static pthread_t storm(void)
{
    pthread_t sender;
    __atomic_store_n(&done, 0, __ATOMIC_RELEASE);
    MUST(pthread_create(&sender, NULL, send_until_done, NULL) == 0);
    return sender;
}

static void calm(pthread_t sender)
{
    __atomic_store_n(&done, 1, __ATOMIC_RELEASE);
    MUST(pthread_join(sender, NULL) == 0);
}

/* The storm goes on until WAIT has returned, so the signal cannot come too early. */
static void interrupted(void)
{
    uint64_t list[2] = {77, 77};
    pthread_t sender = storm();

    FAILS("WAIT", EINTR, umcg_ctl(0, UMCG_WAIT, 0, 0, list, 2));
    FAILS("WAIT with a deadline", EINTR, umcg_ctl(0, UMCG_WAIT, 0, after_ms(10000), list, 2));
    FAILS("WAIT, repeated", EINTR, umcg_ctl(UMCG_WAIT_FLAG_INTERRUPTED, UMCG_WAIT, 0, 0, list, 2));
    CHECK("nothing was written", list[0] == 77 && list[1] == 77);
    calm(sender);
    CHECK("the handler ran", __atomic_load_n(&handled, __ATOMIC_RELAXED) >= 3);
    FAILS("repeated with a deadline that passes", ETIMEDOUT,
          umcg_ctl(UMCG_WAIT_FLAG_INTERRUPTED, UMCG_WAIT, 0, after_ms(10), list, 2));
    FAILS("repeated as a poll", ETIMEDOUT,
          umcg_ctl(UMCG_WAIT_FLAG_INTERRUPTED, UMCG_WAIT, 0, UMCG_POLL, list, 2));
}

static void blocks(struct worker *self)
{
    for (int i = 0; i < 100; i++) {
        MUST(umcg_blocking_begin() == 0);
        if (i % 10 == 0)
            check_sleep_ms(2);
        MUST(umcg_blocking_end() == 0);
        self->result |= WAIT_IN_WORKER(0);
        self->steps++;
    }
}

/* Every event is accounted for while signals come. */
static void nothing_lost(enum kind kind)
{
    enum { COUNT = 4 };
    struct worker w[COUNT];
    int count[COUNT][UMCG_WE_PREEMPT + 1] = {{0}}, left = COUNT;
    pthread_t sender;

    memset(w, 0, sizeof w);
    for (int i = 0; i < COUNT; i++) {
        w[i].kind = kind, w[i].index = (uint64_t)i, w[i].body = blocks;
        start(&w[i]);
    }
    sender = storm();
    while (left) {
        uint64_t event = next_event();
        int i = (int)(event >> UMCG_WORKER_ID_SHIFT);
        MUST(event && i < COUNT);
        count[i][UMCG_EVENT_TYPE(event)]++;
        /* WAIT leaves the worker RUNNABLE: it is run until it blocks or ends. */
        do {
            event = run(&w[i]);
            MUST(event);
            count[i][UMCG_EVENT_TYPE(event)]++;
        } while (UMCG_EVENT_TYPE(event) == UMCG_WE_WAIT);
        left -= UMCG_EVENT_TYPE(event) == UMCG_WE_EXIT;
    }
    calm(sender);
    NO_EVENT("nothing is left");
    for (int i = 0; i < COUNT; i++) {
        join(&w[i]);
        CHECK("a WAKE for each scope, and one for the start", count[i][UMCG_WE_WAKE] == 101);
        CHECK("a BLOCK for each scope", count[i][UMCG_WE_BLOCK] == 100);
        CHECK("a WAIT for each call", count[i][UMCG_WE_WAIT] == 100);
        CHECK("one EXIT", count[i][UMCG_WE_EXIT] == 1);
        CHECK("nothing else", count[i][UMCG_WE_TIMEOUT] == 0 && count[i][UMCG_WE_PREEMPT] == 0);
        CHECK("it came to its end", w[i].steps == 100 && w[i].result == 0);
    }
}

/* A signal that arrives while a worker runs in the server's place is handled there, and is no
 * event. */
static void handles(struct worker *self)
{
    int before = __atomic_load_n(&handled, __ATOMIC_RELAXED);
    while (__atomic_load_n(&handled, __ATOMIC_RELAXED) < before + 5)
        ;
    self->steps++;
}

static void in_a_worker(enum kind kind)
{
    struct worker w = {.kind = kind, .index = 1, .body = handles};
    pthread_t sender;

    start_ready(&w);
    sender = storm();
    finish(&w);
    calm(sender);
    CHECK("the worker ran on", w.steps == 1);
}

static int own_handled;

static void on_own_signal(int sig)
{
    (void)sig;
    own_handled += (pid_t)syscall(SYS_gettid) != 0 && umcg_gettid() > 0;
}

/* A signal that a worker sends to itself by pthread_kill is handled, in a blocking scope at the
 * latest. */
static void to_itself(struct worker *self)
{
    pthread_kill(self->thread, SIGUSR2);
    MUST(umcg_blocking_begin() == 0);
    check_sleep_ms(5);
    MUST(umcg_blocking_end() == 0);
    self->steps = own_handled;
}

static void worker_signals_itself(void)
{
    struct worker w = {.kind = THREAD, .index = 1, .body = to_itself};

    signal(SIGUSR2, on_own_signal);
    start_ready(&w);
    RUN("BLOCK", &w, UMCG_WE_BLOCK);
    EXPECT("WAKE", EV(&w, UMCG_WE_WAKE));
    finish(&w);
    CHECK("its signal was handled once", w.steps == 1 && own_handled == 1);
}

int main(void)
{
    struct sigaction action;

    check_start(60);
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal; /* and no SA_RESTART */
    MUST(sigaction(SIGUSR1, &action, NULL) == 0);
    server = pthread_self();
    begin_server();
    interrupted();
    for (int i = THREAD; i <= LIGHT; i++) {
        nothing_lost((enum kind)i);
        in_a_worker((enum kind)i);
    }
    worker_signals_itself();
    end_server();
    return check_done();
}
