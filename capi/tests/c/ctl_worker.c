/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Workers: register, wait, switch to each other, unregister; which events come, where, and in which
 * order. */
#include "worker.h"

static struct worker a, b, c;

static void reset(enum kind kind, void (*body_a)(struct worker *), void (*body_b)(struct worker *))
{
    memset(&a, 0, sizeof a);
    memset(&b, 0, sizeof b);
    memset(&c, 0, sizeof c);
    a.kind = b.kind = c.kind = kind;
    a.index = 1, b.index = 2, c.index = UINT64_MAX >> UMCG_WORKER_ID_SHIFT;
    a.body = body_a, b.body = body_b;
}

static void wait_thrice(struct worker *self)
{
    for (int i = 0; i < 3; i++) {
        self->steps++;
        self->result |= WAIT_IN_WORKER(0);
    }
    self->steps++;
}

static void one_worker(enum kind kind)
{
    uint64_t list[4] = {77, 77, 77, 77};

    reset(kind, wait_thrice, NULL);
    start(&a);
    check_sleep_ms(20);
    CHECK("a worker does not run before a server switches to it", a.steps == 0);
    EXPECT("REGISTER_WORKER gives WAKE", EV(&a, UMCG_WE_WAKE));
    NO_EVENT("once");
    CHECK("nor when its WAKE was taken", a.steps == 0);
    for (int i = 1; i <= 3; i++) {
        CHECK("the switch succeeds", SWITCH(&a, list, 4) == 0);
        check_event(__FILE__, __LINE__, "WAIT is the result of the switch", EV(&a, UMCG_WE_WAIT),
                    list[0]);
        CHECK("the list is ended, and no slot behind the end is written",
              list[1] == 0 && list[2] == 77 && list[3] == 77);
        CHECK("the worker ran until its WAIT", a.steps == i);
        NO_EVENT("WAIT comes once");
        list[1] = 77;
    }
    CHECK("one slot is enough", SWITCH(&a, list, 1) == 0 && list[1] == 77);
    check_event(__FILE__, __LINE__, "EXIT at its end", EV(&a, UMCG_WE_EXIT), list[0]);
    CHECK("WAIT gave 0 each time", a.result == 0 && a.steps == 4);
    if (kind == LIGHT)
        FAILS("a light worker is gone after its EXIT", ESRCH, SWITCH(&a, list, 4));
    join(&a);
    FAILS("a joined thread is gone", ESRCH, SWITCH(&a, list, 4));
    NO_EVENT("nothing comes after EXIT");
}

static void switch_to_b(struct worker *self)
{
    self->steps++;
    self->result = SWITCH(&b, NULL, 0);
    self->steps++;
}

static void wait_once(struct worker *self)
{
    self->steps++;
    self->result = WAIT_IN_WORKER(0);
    self->steps++;
}

/* a switches to b, which inherits the server; a's WAIT comes behind b's event. */
static void worker_to_worker(enum kind kind_a, enum kind kind_b)
{
    uint64_t list[4] = {77, 77, 77, 77};

    reset(kind_a, switch_to_b, wait_once);
    b.kind = kind_b;
    start_ready(&a);
    start_ready(&b);
    CHECK("switch to a", SWITCH(&a, list, 4) == 0);
    check_event(__FILE__, __LINE__, "the event of the worker that ran last is first",
                EV(&b, UMCG_WE_WAIT), list[0]);
    check_event(__FILE__, __LINE__, "then that of the worker that switched", EV(&a, UMCG_WE_WAIT),
                list[1]);
    CHECK("then the end", list[2] == 0 && list[3] == 77);
    CHECK("both ran", a.steps == 1 && b.steps == 1);
    finish(&a);
    CHECK("a's CTX_SWITCH gave 0", a.result == 0 && a.steps == 2);
    finish(&b);
    CHECK("b's WAIT gave 0", b.result == 0 && b.steps == 2);

    /* With one slot, a's WAIT stays for the next WAIT, and a is not RUNNABLE until it was taken. */
    reset(kind_a, switch_to_b, wait_once);
    b.kind = kind_b;
    start_ready(&a);
    start_ready(&b);
    list[1] = 77;
    CHECK("switch to a, one slot", SWITCH(&a, list, 1) == 0 && list[1] == 77);
    check_event(__FILE__, __LINE__, "b's WAIT", EV(&b, UMCG_WE_WAIT), list[0]);
    FAILS("a is not RUNNABLE yet", EINVAL, SWITCH(&a, list, 4));
    EXPECT("a's WAIT", EV(&a, UMCG_WE_WAIT));
    NO_EVENT("once");
    finish(&a);
    finish(&b);
}

static void end_at_once(struct worker *self)
{
    self->steps++;
}

/* b, which a switched to, ends: its EXIT goes to the server that a was switched to by. */
static void switch_then_exit(enum kind kind)
{
    reset(kind, switch_to_b, end_at_once);
    start_ready(&a);
    start_ready(&b);
    check_event(__FILE__, __LINE__, "b's EXIT", EV(&b, UMCG_WE_EXIT), run(&a));
    join(&b);
    EXPECT("a's WAIT", EV(&a, UMCG_WE_WAIT));
    finish(&a);
    CHECK("a came to its end", a.steps == 2 && a.result == 0);
}

static void switch_to_each_other(struct worker *self)
{
    struct worker *other = self == &a ? &b : &a;
    for (int i = 0; i < 100; i++) {
        if (SWITCH(other, NULL, 0) < 0 && errno == EINVAL)
            self->error++;
        self->steps++;
    }
}

/* A worker whose WAIT no server took is not RUNNABLE, so a and b cannot play alone: b's switch back
 * must fail. */
static void no_switch_to_the_idle(enum kind kind)
{
    reset(kind, switch_to_b, NULL);
    b.body = switch_to_each_other;
    start_ready(&a);
    start_ready(&b);
    check_event(__FILE__, __LINE__, "b's EXIT", EV(&b, UMCG_WE_EXIT), run(&a));
    join(&b);
    CHECK("all of b's switches to a failed", b.error == 100 && b.steps == 100);
    EXPECT("a's WAIT", EV(&a, UMCG_WE_WAIT));
    NO_EVENT("and nothing of the failed switches");
    finish(&a);
}

/* Starts workers whose WAKE events come in their order, the first with this index. */
static void start_in_order(struct worker *w, int count, enum kind kind, uint64_t index,
                           void (*body)(struct worker *))
{
    memset(w, 0, (size_t)count * sizeof *w);
    for (int i = 0; i < count; i++) {
        w[i].kind = kind, w[i].index = index + (uint64_t)i, w[i].body = body;
        start(&w[i]);
        while (umcg_ctl(0, UMCG_WAIT, w[i].tid, 0, NULL, 0) < 0)
            check_sleep_ms(1);
    }
}

/* Many workers: the events come in the order they arose. */
static void in_order(enum kind kind, int count)
{
    struct worker *w = (struct worker *)calloc((size_t)count, sizeof *w);

    start_in_order(w, count, kind, 100, wait_once);
    for (int i = 0; i < count; i++)
        EXPECT("WAKE events in order of registration", EV(&w[i], UMCG_WE_WAKE));
    NO_EVENT("and no more");
    for (int i = 0; i < count; i++)
        RUN("WAIT", &w[i], UMCG_WE_WAIT);
    for (int i = count - 1; i >= 0; i--)
        finish(&w[i]);
    for (int i = 0; i < count; i++)
        CHECK("each ran to its end", w[i].steps == 2 && w[i].result == 0);
    free(w);
}

/*
 * A worker's event is handed over only while two slots are left, as a TIMEOUT may come with its
 * WAIT. With two slots that is one worker and the end, and a server that reads events[0] alone
 * loses no worker.
 */
static void two_slots(enum kind kind)
{
    struct worker w[5];
    uint64_t list[3];
    int taken = 0;

    start_in_order(w, 5, kind, 1, end_at_once);
    while (taken < 5) {
        list[0] = list[1] = 0, list[2] = 77;
        MUST(umcg_ctl(0, UMCG_WAIT, 0, UMCG_POLL, list, 2) == 0);
        CHECK("no more than two slots are written", list[2] == 77);
        MUST(list[0] != 0);
        check_event(__FILE__, __LINE__, "in order", EV(&w[taken++], UMCG_WE_WAKE), list[0]);
        CHECK("one worker with two slots", list[1] == 0);
    }
    FAILS("and no more", ETIMEDOUT, umcg_ctl(0, UMCG_WAIT, 0, UMCG_POLL, list, 2));
    for (int i = 0; i < 5; i++)
        finish(&w[i]);
}

/* A server that waits for a worker which is just registering finds its WAKE afterwards. */
static void wait_for_one_that_registers(enum kind kind)
{
    for (int i = 0; i < 300; i++) {
        struct worker w;
        uint64_t list[3] = {0, 0, 0};

        memset(&w, 0, sizeof w);
        w.kind = kind, w.index = (uint64_t)i + 1, w.body = end_at_once;
        start(&w);
        while (umcg_ctl(0, UMCG_WAIT, w.tid, 0, NULL, 0) < 0)
            sched_yield();
        CHECK("an event", umcg_ctl(0, UMCG_WAIT, 0, UMCG_POLL, list, 3) == 0);
        if (list[0])
            check_event(__FILE__, __LINE__, "its WAKE", EV(&w, UMCG_WE_WAKE), list[0]);
        else
            EXPECT("its WAKE, too late", EV(&w, UMCG_WE_WAKE));
        finish(&w);
    }
}

/* With more slots: as many workers as leave one behind the last of them. */
static void slots_of_wait(enum kind kind, int slots)
{
    struct worker w[5];
    uint64_t list[8];
    int taken = 0;

    start_in_order(w, 5, kind, 1, end_at_once);
    while (taken < 5) {
        int now = 5 - taken < slots - 1 ? 5 - taken : slots - 1;
        for (int i = 0; i < 8; i++)
            list[i] = 77;
        MUST(umcg_ctl(0, UMCG_WAIT, 0, UMCG_POLL, list, slots) == 0);
        for (int i = 0; i < now; i++)
            check_event(__FILE__, __LINE__, "in order", EV(&w[taken++], UMCG_WE_WAKE), list[i]);
        CHECK("then the end, and nothing behind it", list[now] == 0 && list[now + 1] == 77);
    }
    for (int i = 0; i < 5; i++)
        finish(&w[i]);
}

/*
 * Behind the result of a switch events of idle workers come by the same rule: none with two slots,
 * one with three.
 */
static void slots_of_switch(enum kind kind, int slots)
{
    struct worker w[3];
    uint64_t list[6] = {77, 77, 77, 77, 77, 77};
    int behind = slots < 3 ? 0 : slots - 2 < 2 ? slots - 2 : 2;

    memset(w, 0, sizeof *w);
    w[0].kind = kind, w[0].index = 1, w[0].body = wait_once;
    start_ready(&w[0]);
    start_in_order(w + 1, 2, kind, 2, wait_once);
    MUST(SWITCH(&w[0], list, slots) == 0);
    check_event(__FILE__, __LINE__, "the event of the switch", EV(&w[0], UMCG_WE_WAIT), list[0]);
    for (int i = 1; i <= behind; i++)
        check_event(__FILE__, __LINE__, "behind it", EV(&w[i], UMCG_WE_WAKE), list[i]);
    CHECK("the end, where there is room", slots == 1 || list[behind + 1] == 0);
    CHECK("nothing behind that", list[slots == 1 ? 1 : behind + 2] == 77);
    for (int i = behind + 1; i < 3; i++)
        EXPECT("the others are still there", EV(&w[i], UMCG_WE_WAKE));
    finish(&w[0]);
    for (int i = 1; i < 3; i++) {
        RUN("WAIT", &w[i], UMCG_WE_WAIT);
        finish(&w[i]);
    }
}

/* UNREGISTER by a worker: it goes on as a plain thread, on its own, and may register again. */
static void twice(struct worker *self)
{
    self->steps = 1;
    MUST(umcg_ctl(0, UMCG_UNREGISTER, 0, 0, NULL, 0) == 0);
    CHECK("a plain thread has the kernel's tid", (pid_t)syscall(SYS_gettid) == self->tid);
    FAILS("a plain thread cannot wait", EINVAL, WAIT_IN_WORKER(0));
    CHECK("UNREGISTER of a plain thread", umcg_ctl(0, UMCG_UNREGISTER, 0, 0, NULL, 0) == 0);
    MUST(umcg_ctl(0, UMCG_REGISTER_WORKER, 0, ID(77), NULL, 0) == 0);
    self->steps = 2;
}

static void register_again(void)
{
    reset(THREAD, twice, NULL);
    start_ready(&a);
    RUN("UNREGISTER gives EXIT", &a, UMCG_WE_EXIT);
    a.index = 77;
    EXPECT("WAKE with the new id", EV(&a, UMCG_WE_WAKE));
    CHECK("it waits for a server", a.steps == 1);
    finish(&a);
    CHECK("it came to its end", a.steps == 2);
}

static void largest_id(enum kind kind)
{
    reset(kind, NULL, NULL);
    c.body = wait_once;
    start_ready(&c);
    RUN("any worker id whose low bits are zero", &c, UMCG_WE_WAIT);
    finish(&c);
}

int main(void)
{
    check_start(60);
    begin_server();
    for (int kind = THREAD; kind <= LIGHT; kind++) {
        one_worker((enum kind)kind);
        worker_to_worker((enum kind)kind, THREAD);
        worker_to_worker((enum kind)kind, LIGHT);
        switch_then_exit((enum kind)kind);
        no_switch_to_the_idle((enum kind)kind);
        in_order((enum kind)kind, 20);
        two_slots((enum kind)kind);
        wait_for_one_that_registers((enum kind)kind);
        for (int slots = 2; slots <= 6; slots++)
            slots_of_wait((enum kind)kind, slots);
        for (int slots = 1; slots <= 5; slots++)
            slots_of_switch((enum kind)kind, slots);
        largest_id((enum kind)kind);
    }
    register_again();
    end_server();
    return check_done();
}
