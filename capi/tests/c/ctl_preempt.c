/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* PREEMPT: comes to a worker that runs too long, never inside a critical section, never when it is
 * off. */
#include "worker.h"

static struct worker a, b;
static int stop, left_critical;

static void reset(enum kind kind, void (*body)(struct worker *))
{
    reset_pair(&a, &b, kind, body);
    __atomic_store_n(&stop, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&left_critical, 0, __ATOMIC_RELAXED);
}

static void spins(struct worker *self)
{
    /* Values in registers, floating-point ones too, must outlive the preemption. */
    double sum = 0.5;
    uint64_t count = 1;

    self->steps++;
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        sum += 1.0;
        count++;
        if (sum != (double)count - 0.5) {
            self->error++;
            break;
        }
    }
    self->steps++;
}

static void preempted(enum kind kind, int times)
{
    reset(kind, spins);
    start_ready(&a);
    for (int i = 0; i < times; i++)
        RUN("a worker that runs on gives PREEMPT", &a, UMCG_WE_PREEMPT);
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    finish(&a);
    CHECK("its registers outlived it", a.error == 0 && a.steps == 2);
}

/* RUNNABLE at once: two that spin share the server. */
static void shared(enum kind kind_a, enum kind kind_b)
{
    reset(kind_a, spins);
    b.kind = kind_b;
    b.body = spins;
    start_ready(&a);
    start_ready(&b);
    for (int i = 0; i < 5; i++) {
        RUN("PREEMPT of a", &a, UMCG_WE_PREEMPT);
        RUN("PREEMPT of b", &b, UMCG_WE_PREEMPT);
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    finish(&a);
    finish(&b);
}

static void spins_in_critical(struct worker *self)
{
    MUST(umcg_critical_begin() == 0);
    MUST(umcg_critical_begin() == 0);
    check_spin_ms(40);
    MUST(umcg_critical_end() == 0);
    check_spin_ms(40);
    self->steps++;
    __atomic_store_n(&left_critical, 1, __ATOMIC_RELAXED);
    MUST(umcg_critical_end() == 0);
    FAILS("an end too many", EINVAL, umcg_critical_end());
    spins(self);
}

static void critical(enum kind kind)
{
    reset(kind, spins_in_critical);
    start_ready(&a);
    RUN("PREEMPT", &a, UMCG_WE_PREEMPT);
    CHECK("not before the end of the outermost critical section",
          __atomic_load_n(&left_critical, __ATOMIC_RELAXED));
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    finish(&a);
    CHECK("it came to its end", a.steps == 3);
}

static void spins_a_while(struct worker *self)
{
    check_spin_ms(50);
    self->result = WAIT_IN_WORKER(0);
    self->steps++;
}

static void off(enum kind kind)
{
    MUST(umcg_set_preemption(0) == 0);
    reset(kind, spins_a_while);
    start_ready(&a);
    RUN("preemption off: WAIT and no PREEMPT", &a, UMCG_WE_WAIT);
    finish(&a);
    MUST(umcg_set_preemption(5000000) == 0);
}

enum { WAITS = 200 };

/* For several intervals in all, however slow the machine. */
static void waits_often(struct worker *self)
{
    unsigned long long end = check_now(CLOCK_MONOTONIC) + 60000000u;
    for (int i = 0; i < WAITS || check_now(CLOCK_MONOTONIC) < end; i++)
        self->result |= WAIT_IN_WORKER(0);
    self->steps++;
}

/*
 * A worker that gives way in time is not preempted, however long it has run in all. (If the machine
 * takes the processor away for as long as an interval it may be.)
 */
static void gives_way(enum kind kind)
{
    int waits = 0;
    uint64_t event;

    reset(kind, waits_often);
    start_ready(&a);
    for (;;) {
        unsigned long long before = check_now(CLOCK_MONOTONIC);
        if ((event = run(&a)) == EV(&a, UMCG_WE_EXIT))
            break;
        MUST(event == EV(&a, UMCG_WE_WAIT) || event == EV(&a, UMCG_WE_PREEMPT));
        if (event == EV(&a, UMCG_WE_WAIT))
            waits++;
        else
            CHECK("preempted after an interval", check_now(CLOCK_MONOTONIC) - before >= 4500000u);
    }
    join(&a);
    CHECK("it waited often", waits >= WAITS);
    CHECK("WAIT gave 0 each time", a.result == 0 && a.steps == 1);
}

/* Preemption inside malloc, stdio and the library's own calls does no harm. */
static void allocates(struct worker *self)
{
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        char *text;
        MUST(umcg_critical_begin() == 0);
        text = (char *)malloc(100);
        MUST(text);
        snprintf(text, 100, "%d", self->steps);
        free(text);
        MUST(umcg_critical_end() == 0);
        umcg_gettid();
    }
}

static void in_the_middle(enum kind kind)
{
    reset(kind, allocates);
    b.kind = kind;
    b.body = allocates;
    MUST(umcg_set_preemption(1000000) == 0);
    start_ready(&a);
    start_ready(&b);
    for (int i = 0; i < 20; i++) {
        RUN("PREEMPT of a", &a, UMCG_WE_PREEMPT);
        RUN("PREEMPT of b", &b, UMCG_WE_PREEMPT);
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    finish(&a);
    finish(&b);
    MUST(umcg_set_preemption(5000000) == 0);
}

/* A server that registered while preemption was off, and then it is turned on by its own thread or
 * by another. */
static pthread_barrier_t registered, turned_on;

static void *late_server(void *arg)
{
    enum kind kind = (enum kind)(intptr_t)arg;

    MUST(umcg_ctl(0, UMCG_REGISTER_SERVER, 0, 0, NULL, 0) == 0);
    pthread_barrier_wait(&registered);
    pthread_barrier_wait(&turned_on);
    preempted(kind, 2);
    end_server();
    return NULL;
}

static void turned_on_later(enum kind kind)
{
    pthread_t server;

    MUST(pthread_barrier_init(&registered, NULL, 2) == 0 &&
         pthread_barrier_init(&turned_on, NULL, 2) == 0);
    MUST(umcg_set_preemption(0) == 0);
    MUST(pthread_create(&server, NULL, late_server, (void *)(intptr_t)kind) == 0);
    pthread_barrier_wait(&registered);
    MUST(umcg_set_preemption(5000000) == 0);
    pthread_barrier_wait(&turned_on);
    MUST(pthread_join(server, NULL) == 0);
}

static void outside_a_worker(void)
{
    CHECK("critical_begin outside a worker", umcg_critical_begin() == 0);
    CHECK("critical_end outside a worker", umcg_critical_end() == 0);
}

int main(void)
{
    unsigned long long before;

    check_start(60);
    outside_a_worker();
    MUST(umcg_ctl(0, UMCG_REGISTER_SERVER, 0, 0, NULL, 0) == 0);
    before = check_now(CLOCK_MONOTONIC);
    preempted(THREAD, 3); /* the default, 10 ms, is not off */
    CHECK("not before 10 ms", check_now(CLOCK_MONOTONIC) - before >= 3 * 9000000u);
    MUST(umcg_set_preemption(5000000) == 0);
    for (int i = THREAD; i <= LIGHT; i++) {
        enum kind kind = (enum kind)i;
        preempted(kind, 10);
        shared(kind, THREAD);
        shared(kind, LIGHT);
        critical(kind);
        off(kind);
        gives_way(kind);
        in_the_middle(kind);
    }
    outside_a_worker();
    end_server();
    turned_on_later(THREAD);
    turned_on_later(LIGHT);
    return check_done();
}
