/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Cleanup handlers of thread workers that are preempted in them. They are like any other code of
   the program's, since no lock is held for them. The C library calls destructors of thread-specific
   data, so no worker is taken off in one. */
#include <signal.h>

#include "worker.h"

enum { WORKERS = 4, ROUNDS = 24, WORDS = 128 };

enum end { EXITS, RETURNS, IS_CANCELLED, ENDS };

struct flow {
    struct worker worker;
    enum end end;
    int stage;            /* 1: in the inner handler; 2: in the outer one; 3: in the destructor */
    int preempted;        /* in a handler; taken back by the thread that waits for it */
    int damaged, unordered;
};

static struct flow flows[WORKERS];
static pthread_key_t key;
static int over, preempted_in_destructor;
static pid_t server;

/* Allocates, and keeps its stack, until it has been taken off in there. */
static void is_taken_off(struct flow *self)
{
    volatile uint64_t mine[WORDS];
    uint64_t tag = (uint64_t)(uintptr_t)self;

    for (int i = 0; i < WORDS; i++)
        mine[i] = tag ^ (uint64_t)i;
    do {
        for (int i = 0; i < 10; i++) {
            char *memory = (char *)malloc(1040);
            MUST(memory);
            memset(memory, i, 1040);
            free(memory);
        }
        for (volatile int n = 0; n < 10000; n++)
            ;
    } while (!__atomic_exchange_n(&self->preempted, 0, __ATOMIC_RELAXED));
    for (int i = 0; i < WORDS; i++)
        self->damaged += mine[i] != (tag ^ (uint64_t)i);
}

static void inner(void *arg)
{
    struct flow *self = (struct flow *)arg;

    self->unordered += self->stage != 0;
    __atomic_store_n(&self->stage, 1, __ATOMIC_RELAXED);
    is_taken_off(self);
}

static void outer(void *arg)
{
    struct flow *self = (struct flow *)arg;

    self->unordered += self->stage != 1;
    __atomic_store_n(&self->stage, 2, __ATOMIC_RELAXED);
    is_taken_off(self);
}

static void destroy(void *arg)
{
    struct flow *self = (struct flow *)arg;

    self->unordered += self->stage != 2;
    __atomic_store_n(&self->stage, 3, __ATOMIC_RELAXED);
    check_spin_ms(3);
}

static void ends_below(struct flow *self)
{
    pthread_cleanup_push(inner, self);
    self->worker.steps++;
    if (self->end == EXITS)
        pthread_exit(NULL);
    if (self->end == IS_CANCELLED) {
        MUST(pthread_cancel(pthread_self()) == 0);
        pthread_testcancel();
    }
    pthread_cleanup_pop(1);
}

static void body(struct worker *worker)
{
    struct flow *self = (struct flow *)worker->arg;

    MUST(pthread_setspecific(key, self) == 0);
    pthread_cleanup_push(outer, self);
    ends_below(self);
    pthread_cleanup_pop(1);
}

/* Sends the timer's signal nearly all the time. A signal that is always pending leaves no
   instruction between two handlers. A worker at a place where none is taken off would stay there.
 */
static void *ticks(void *arg)
{
    const struct timespec rest = {0, 1000000};
    (void)arg;
    for (unsigned round = 0; !__atomic_load_n(&over, __ATOMIC_ACQUIRE); round++) {
        siginfo_t info;
        memset(&info, 0, sizeof info);
        info.si_signo = SIGURG;
        info.si_code = SI_TIMER;
        syscall(SYS_rt_tgsigqueueinfo, getpid(), server, SIGURG, &info);
        /* Where they stay on their own kernel threads. One may be gone. */
        for (int i = 0; i < WORKERS; i++) {
            pid_t tid = __atomic_load_n(&flows[i].worker.tid, __ATOMIC_ACQUIRE);
            if (tid > 0)
                syscall(SYS_rt_tgsigqueueinfo, getpid(), tid, SIGURG, &info);
        }
        for (volatile int n = 0; n < 1000; n++)
            ;
        if (round % 16 == 0)
            nanosleep(&rest, NULL);
    }
    return NULL;
}

static void begin(struct flow *flow, int round)
{
    memset(flow, 0, sizeof *flow);
    flow->end = (enum end)(round % ENDS);
    flow->worker.kind = THREAD;
    flow->worker.index = (uint64_t)(flow - flows);
    flow->worker.body = body;
    flow->worker.arg = flow;
    flow->worker.keeps = 1;
    start(&flow->worker);
    while (next_event() != EV(&flow->worker, UMCG_WE_WAKE))
        MUST(check_failures == 0);
}

static void check_end(struct flow *flow)
{
    join(&flow->worker);
    CHECK("it ran", flow->worker.steps == 1);
    CHECK("each handler ran, the inner one first", flow->stage == 3 && flow->unordered == 0);
    CHECK("nobody's frames were overwritten", flow->damaged == 0);
}

int main(void)
{
    pthread_t ticker;
    int begun = 0, running = WORKERS;

    check_start(120);
    server = (pid_t)syscall(SYS_gettid);
    /* Before the library has a key of its own: this one's destructor comes first. */
    MUST(pthread_key_create(&key, destroy) == 0);
    /* No ticks but those that are sent. */
    MUST(umcg_set_preemption(3600000000000) == 0);
    MUST(umcg_notice_blocking(0) == 0);
    MUST(umcg_ctl(0, UMCG_REGISTER_SERVER, 0, 0, NULL, 0) == 0);
    for (; begun < WORKERS; begun++)
        begin(&flows[begun], begun);
    MUST(pthread_create(&ticker, NULL, ticks, NULL) == 0);
    for (int i = 0; running; i = (i + 1) % WORKERS) {
        struct flow *flow = &flows[i];
        uint64_t event;

        if (flow->worker.tid < 0)
            continue;
        event = run(&flow->worker);
        if (event == EV(&flow->worker, UMCG_WE_PREEMPT)) {
            int stage = __atomic_load_n(&flow->stage, __ATOMIC_RELAXED);
            preempted_in_destructor += stage == 3;
            __atomic_store_n(&flow->preempted, stage == 1 || stage == 2, __ATOMIC_RELAXED);
            continue;
        }
        check_event(__FILE__, __LINE__, "it ends", EV(&flow->worker, UMCG_WE_EXIT), event);
        check_end(flow);
        if (begun < ROUNDS) {
            begin(flow, begun++);
        } else {
            __atomic_store_n(&flow->worker.tid, -1, __ATOMIC_RELEASE);
            running--;
        }
    }
    CHECK("nobody was taken off in a destructor", preempted_in_destructor == 0);
    __atomic_store_n(&over, 1, __ATOMIC_RELEASE);
    MUST(pthread_join(ticker, NULL) == 0);
    end_server();
    return check_done();
}
