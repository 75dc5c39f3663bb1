/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Every form of deadline: of a server's WAIT, of a worker's WAIT, of a worker's CTX_SWITCH. */
#include "worker.h"

/* Long enough for a few calls to be made before it has passed; if it was not, it is made longer. */
static unsigned in_time_ms;

static struct worker a, b;
static uint64_t deadline;

/* Whether that was too short. If so, no event of the deadlines is left, and the test is repeated
 * with more time. */
static int was_late(uint64_t first)
{
    if (check_now(CLOCK_REALTIME) < first)
        return 0;
    while (poll_event() != 0)
        ;
    in_time_ms *= 4;
    return 1;
}

static void reset(enum kind kind, void (*body)(struct worker *))
{
    reset_pair(&a, &b, kind, body);
}

/* ---- A server's WAIT ---- */

static void end_at_once(struct worker *self)
{
    self->steps++;
}

static void start_idle(struct worker *w)
{
    start(w);
    while (umcg_ctl(0, UMCG_WAIT, w->tid, 0, NULL, 0) < 0)
        check_sleep_ms(1);
}

static void server_rows(enum kind kind)
{
    uint64_t list[2] = {77, 77}, before = check_now(CLOCK_REALTIME);

    FAILS("a poll", ETIMEDOUT, umcg_ctl(0, UMCG_WAIT, 0, UMCG_POLL, list, 2));
    FAILS("a deadline in 1970", ETIMEDOUT, umcg_ctl(0, UMCG_WAIT, 0, 2, list, 2));
    FAILS("a deadline a minute ago", ETIMEDOUT,
          umcg_ctl(0, UMCG_WAIT, 0, before - 60000000000u, list, 2));
    CHECK("none of them waits", check_now(CLOCK_REALTIME) - before < 30000000000u);
    for (int i = 0; i < 3; i++) {
        deadline = after_ms(20);
        FAILS("a deadline to come", ETIMEDOUT, umcg_ctl(0, UMCG_WAIT, 0, deadline, list, 2));
        CHECK("is waited for", check_now(CLOCK_REALTIME) >= deadline);
    }
    CHECK("nothing was written", list[0] == 77 && list[1] == 77);

    reset(kind, end_at_once);
    start_idle(&a);
    CHECK("a poll with an event there", umcg_ctl(0, UMCG_WAIT, 0, UMCG_POLL, list, 2) == 0);
    check_event(__FILE__, __LINE__, "a poll", EV(&a, UMCG_WE_WAKE), list[0]);
    CHECK("and the end", list[1] == 0);
    b.body = end_at_once;
    start_idle(&b);
    CHECK("a past deadline with an event there", umcg_ctl(0, UMCG_WAIT, 0, 2, list, 2) == 0);
    check_event(__FILE__, __LINE__, "a past deadline", EV(&b, UMCG_WE_WAKE), list[0]);
    finish(&a);
    finish(&b);

    reset(kind, end_at_once);
    start_idle(&a);
    CHECK("a deadline far away, with an event there",
          umcg_ctl(0, UMCG_WAIT, 0, UINT64_MAX, list, 2) == 0);
    check_event(__FILE__, __LINE__, "a deadline far away", EV(&a, UMCG_WE_WAKE), list[0]);
    finish(&a);
}

/* ---- A worker's WAIT ---- */

static void wait_until(struct worker *self)
{
    self->steps++;
    errno = 0;
    self->result = WAIT_IN_WORKER(deadline);
    self->error = errno;
    self->steps++;
}

static void wait_passes(enum kind kind)
{
    reset(kind, wait_until);
    start_ready(&a);
    deadline = after_ms(20);
    RUN("a WAIT with a deadline gives WAIT", &a, UMCG_WE_WAIT);
    EXPECT("and TIMEOUT once it has passed", EV(&a, UMCG_WE_TIMEOUT));
    CHECK("and not before", check_now(CLOCK_REALTIME) >= deadline);
    NO_EVENT("once");
    CHECK("the worker did not run meanwhile", a.steps == 1);
    finish(&a);
    CHECK("its WAIT gave ETIMEDOUT", a.result == -1 && a.error == ETIMEDOUT);
}

static void wait_is_in_time(enum kind kind)
{
    do {
        reset(kind, wait_until);
        start_ready(&a);
        deadline = after_ms(in_time_ms);
        RUN("a WAIT with a deadline gives WAIT", &a, UMCG_WE_WAIT);
        finish(&a);
    } while (was_late(deadline));
    CHECK("switched to in time, WAIT gave 0", a.result == 0 && a.steps == 2);
    check_sleep_ms(in_time_ms + 20);
    NO_EVENT("and no TIMEOUT comes");
}

static void wait_then_wait_for_ever(struct worker *self)
{
    wait_until(self);
    self->result |= WAIT_IN_WORKER(0);
}

/* The deadline of a WAIT that has returned is of no effect on the next. */
static void old_deadline(enum kind kind)
{
    for (;;) {
        reset(kind, wait_then_wait_for_ever);
        start_ready(&a);
        deadline = after_ms(in_time_ms);
        RUN("WAIT", &a, UMCG_WE_WAIT);
        RUN("the second WAIT", &a, UMCG_WE_WAIT);
        if (!was_late(deadline))
            break;
        finish(&a);
    }
    check_sleep_ms(in_time_ms + 20);
    NO_EVENT("the first one's deadline gives nothing");
    finish(&a);
    CHECK("both gave 0", a.result == 0);
}

static void wait_in_the_past(enum kind kind, uint64_t past)
{
    reset(kind, wait_until);
    start_ready(&a);
    deadline = past;
    RUN("a WAIT with a past deadline gives WAIT first", &a, UMCG_WE_WAIT);
    EXPECT("then TIMEOUT", EV(&a, UMCG_WE_TIMEOUT));
    NO_EVENT("once");
    CHECK("the worker did not run in between", a.steps == 1);
    finish(&a);
    CHECK("its WAIT gave ETIMEDOUT", a.result == -1 && a.error == ETIMEDOUT);
}

/* A waiting server is woken for a TIMEOUT, without a deadline of its own. */
static void server_is_woken(enum kind kind)
{
    uint64_t list[2];

    reset(kind, wait_until);
    start_ready(&a);
    deadline = after_ms(20);
    RUN("WAIT", &a, UMCG_WE_WAIT);
    MUST(umcg_ctl(0, UMCG_WAIT, 0, 0, list, 2) == 0);
    check_event(__FILE__, __LINE__, "TIMEOUT", EV(&a, UMCG_WE_TIMEOUT), list[0]);
    CHECK("and the end", list[1] == 0);
    finish(&a);
}

enum { COUNT = 8, APART_MS = 5 };

/* Has all of them wait, and returns the first of their deadlines. */
static uint64_t wait_at_once(enum kind kind, struct worker *w)
{
    uint64_t base;

    memset(w, 0, COUNT * sizeof *w);
    for (int i = 0; i < COUNT; i++) {
        w[i].kind = kind, w[i].index = (uint64_t)i + 1, w[i].body = wait_until;
        start_ready(&w[i]);
    }
    base = after_ms(in_time_ms);
    for (int i = 0; i < COUNT; i++) {
        deadline = base + (uint64_t)((i * 3) % COUNT) * APART_MS * 1000000u;
        RUN("WAIT", &w[i], UMCG_WE_WAIT);
    }
    return base;
}

/* Deadlines pass in their own order, not in that of the calls. */
static void many_deadlines(enum kind kind)
{
    struct worker w[COUNT];

    while (was_late(wait_at_once(kind, w))) {
        check_sleep_ms(COUNT * APART_MS);
        while (poll_event() != 0)
            ;
        for (int i = 0; i < COUNT; i++)
            finish(&w[i]);
    }
    for (int rank = 0; rank < COUNT; rank++)
        /* 3 is its own inverse mod 8 */
        EXPECT("TIMEOUT in order", EV(&w[(rank * 3) % COUNT], UMCG_WE_TIMEOUT));
    NO_EVENT("once each");
    for (int i = 0; i < COUNT; i++) {
        finish(&w[i]);
        CHECK("ETIMEDOUT", w[i].result == -1 && w[i].error == ETIMEDOUT);
    }
}

/* ---- A worker's CTX_SWITCH ---- */

static void switch_until(struct worker *self)
{
    self->steps++;
    errno = 0;
    self->result = umcg_ctl(0, UMCG_CTX_SWITCH, b.tid, deadline, NULL, 0);
    self->error = errno;
    self->steps++;
}

static void wait_once(struct worker *self)
{
    self->steps++;
    self->result = WAIT_IN_WORKER(0);
    self->steps++;
}

static void switch_set_up(enum kind kind)
{
    reset(kind, switch_until);
    b.body = wait_once;
    start_ready(&a);
    start_ready(&b);
}

static void switch_passes(enum kind kind)
{
    switch_set_up(kind);
    deadline = after_ms(20);
    check_event(__FILE__, __LINE__, "b's WAIT", EV(&b, UMCG_WE_WAIT), run(&a));
    EXPECT("a's WAIT", EV(&a, UMCG_WE_WAIT));
    EXPECT("a's TIMEOUT, though its WAIT was taken before", EV(&a, UMCG_WE_TIMEOUT));
    CHECK("not before its time", check_now(CLOCK_REALTIME) >= deadline);
    NO_EVENT("once");
    finish(&a);
    CHECK("a's CTX_SWITCH gave ETIMEDOUT", a.result == -1 && a.error == ETIMEDOUT);
    finish(&b);
    CHECK("b's WAIT gave 0", b.result == 0);
}

/* The deadline passes before a server took the WAIT. */
static void switch_passes_untaken(enum kind kind)
{
    uint64_t list[2];

    switch_set_up(kind);
    deadline = after_ms(20);
    CHECK("one slot", SWITCH(&a, list, 1) == 0);
    check_event(__FILE__, __LINE__, "b's WAIT", EV(&b, UMCG_WE_WAIT), list[0]);
    check_sleep_ms(60);
    EXPECT("a's WAIT", EV(&a, UMCG_WE_WAIT));
    EXPECT("a's TIMEOUT", EV(&a, UMCG_WE_TIMEOUT));
    NO_EVENT("once");
    finish(&a);
    CHECK("a's CTX_SWITCH gave ETIMEDOUT", a.result == -1 && a.error == ETIMEDOUT);
    finish(&b);
}

static void switch_is_in_time(enum kind kind)
{
    for (;;) {
        switch_set_up(kind);
        deadline = after_ms(in_time_ms);
        check_event(__FILE__, __LINE__, "b's WAIT", EV(&b, UMCG_WE_WAIT), run(&a));
        EXPECT("a's WAIT", EV(&a, UMCG_WE_WAIT));
        finish(&a);
        if (!was_late(deadline))
            break;
        finish(&b);
    }
    CHECK("switched to in time, CTX_SWITCH gave 0", a.result == 0 && a.steps == 2);
    check_sleep_ms(in_time_ms + 20);
    NO_EVENT("and no TIMEOUT comes");
    finish(&b);
}

static void switch_in_the_past(enum kind kind, uint64_t past)
{
    uint64_t list[5] = {77, 77, 77, 77, 77};

    switch_set_up(kind);
    deadline = past;
    CHECK("one slot", SWITCH(&a, list, 1) == 0 && list[1] == 77);
    check_event(__FILE__, __LINE__, "b's WAIT", EV(&b, UMCG_WE_WAIT), list[0]);
    CHECK("WAIT with two slots", umcg_ctl(0, UMCG_WAIT, 0, UMCG_POLL, list, 2) == 0);
    check_event(__FILE__, __LINE__, "both together: WAIT", EV(&a, UMCG_WE_WAIT), list[0]);
    check_event(__FILE__, __LINE__, "then TIMEOUT, without a terminating 0",
                EV(&a, UMCG_WE_TIMEOUT), list[1]);
    CHECK("no third slot is written", list[2] == 77);
    NO_EVENT("once");
    finish(&a);
    CHECK("a's CTX_SWITCH gave ETIMEDOUT", a.result == -1 && a.error == ETIMEDOUT);
    finish(&b);

    switch_set_up(kind);
    deadline = past;
    CHECK("one slot", SWITCH(&a, list, 1) == 0);
    CHECK("WAIT with four slots", umcg_ctl(0, UMCG_WAIT, 0, UMCG_POLL, list, 4) == 0);
    check_event(__FILE__, __LINE__, "WAIT", EV(&a, UMCG_WE_WAIT), list[0]);
    check_event(__FILE__, __LINE__, "TIMEOUT", EV(&a, UMCG_WE_TIMEOUT), list[1]);
    CHECK("then the end", list[2] == 0 && list[3] == 77);
    finish(&a);
    finish(&b);
}

/* Behind the result of a switch: both events come, in order, with any room. */
static void switch_in_the_past_behind(enum kind kind, int slots)
{
    uint64_t list[8] = {77, 77, 77, 77, 77, 77, 77, 77};

    switch_set_up(kind);
    deadline = 2;
    CHECK("switch", SWITCH(&a, list, slots) == 0 && list[slots] == 77);
    check_event(__FILE__, __LINE__, "b's WAIT", EV(&b, UMCG_WE_WAIT), list[0]);
    inbox_add(list + 1, slots - 1);
    EXPECT("a's WAIT", EV(&a, UMCG_WE_WAIT));
    EXPECT("a's TIMEOUT", EV(&a, UMCG_WE_TIMEOUT));
    NO_EVENT("once");
    finish(&a);
    CHECK("a's CTX_SWITCH gave ETIMEDOUT", a.result == -1 && a.error == ETIMEDOUT);
    finish(&b);
}

/*
 * A deadline that has passed when the worker's WAIT is handed over: the TIMEOUT comes with it if
 * there are two slots or more behind it, and by the next WAIT otherwise.
 */
static void wait_in_the_past_slots(enum kind kind, int slots)
{
    uint64_t list[5] = {77, 77, 77, 77, 77};

    reset(kind, wait_until);
    start_ready(&a);
    deadline = 2;
    MUST(SWITCH(&a, list, slots) == 0);
    check_event(__FILE__, __LINE__, "WAIT", EV(&a, UMCG_WE_WAIT), list[0]);
    if (slots >= 3)
        check_event(__FILE__, __LINE__, "TIMEOUT behind it", EV(&a, UMCG_WE_TIMEOUT), list[1]);
    else
        EXPECT("TIMEOUT by the next WAIT", EV(&a, UMCG_WE_TIMEOUT));
    CHECK("the end where there is room", slots == 1 || list[slots >= 3 ? 2 : 1] == 0);
    NO_EVENT("once");
    finish(&a);
    CHECK("ETIMEDOUT", a.result == -1 && a.error == ETIMEDOUT);
}

/* A switch that fails leaves no deadline behind. */
static void failed_switch(struct worker *self)
{
    self->result = umcg_ctl(0, UMCG_CTX_SWITCH, self->tid, after_ms(10), NULL, 0);
    self->result += WAIT_IN_WORKER(0);
    self->steps++;
}

static void failed_switch_rows(enum kind kind)
{
    reset(kind, failed_switch);
    start_ready(&a);
    RUN("WAIT", &a, UMCG_WE_WAIT);
    check_sleep_ms(30);
    NO_EVENT("no TIMEOUT of a switch that failed");
    finish(&a);
    CHECK("the switch failed, WAIT gave 0", a.result == -1);
}

int main(void)
{
    check_start(60);
    in_time_ms = 300u * (unsigned)check_count("UMCG_TEST_SLOW", 1);
    begin_server();
    for (int i = THREAD; i <= LIGHT; i++) {
        enum kind kind = (enum kind)i;
        server_rows(kind);
        wait_passes(kind);
        wait_is_in_time(kind);
        old_deadline(kind);
        wait_in_the_past(kind, 1);
        wait_in_the_past(kind, 2);
        wait_in_the_past(kind, check_now(CLOCK_REALTIME) - 1000000u);
        server_is_woken(kind);
        many_deadlines(kind);
        switch_passes(kind);
        switch_passes_untaken(kind);
        switch_is_in_time(kind);
        switch_in_the_past(kind, 1);
        switch_in_the_past(kind, 2);
        switch_in_the_past(kind, check_now(CLOCK_REALTIME) - 1000000u);
        for (int slots = 2; slots <= 4; slots++)
            switch_in_the_past_behind(kind, slots);
        for (int slots = 1; slots <= 4; slots++)
            wait_in_the_past_slots(kind, slots);
        failed_switch_rows(kind);
    }
    end_server();
    return check_done();
}
