/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Workers of both kinds, and a server's event list, for the tests of umcg_ctl. For C and C++. */
#ifndef WORKER_H
#define WORKER_H

#include <inttypes.h>
#include <pthread.h>

#include "check.h"
#include "umcg.h"

enum kind { THREAD, LIGHT };

struct worker {
    enum kind kind;
    uint64_t index;
    void (*body)(struct worker *self);
    void *arg;
    pthread_t thread;
    pid_t tid;       /* set before the worker registers */
    int result;      /* for the body */
    int error;       /* errno that goes with it */
    int steps;       /* how far the body came */
    int keeps;       /* a thread worker that is to end without unregistering */
};

#define ID(i) ((uint64_t)(i) << UMCG_WORKER_ID_SHIFT)
#define EV(w, type) (ID((w)->index) | (uint64_t)(type))
#define SWITCH(w, events, size) umcg_ctl(0, UMCG_CTX_SWITCH, (w)->tid, 0, events, size)
#define WAIT_IN_WORKER(deadline) umcg_ctl(0, UMCG_WAIT, 0, deadline, NULL, 0)

static inline uint64_t after_ms(uint64_t ms)
{
    return check_now(CLOCK_REALTIME) + ms * 1000000u;
}

/* Two workers of a kind, which have not begun; the first has a body. */
static inline void reset_pair(struct worker *a, struct worker *b, enum kind kind,
                              void (*body)(struct worker *))
{
    memset(a, 0, sizeof *a);
    memset(b, 0, sizeof *b);
    a->kind = b->kind = kind;
    a->index = 1, b->index = 2;
    a->body = body;
}

static inline void *worker_thread(void *arg)
{
    struct worker *w = (struct worker *)arg;
    __atomic_store_n(&w->tid, (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
    MUST(umcg_ctl(0, UMCG_REGISTER_WORKER, 0, ID(w->index), NULL, 0) == 0);
    w->body(w);
    if (!w->keeps)
        MUST(umcg_ctl(0, UMCG_UNREGISTER, 0, 0, NULL, 0) == 0);
    return NULL;
}

static inline void worker_light(void *arg)
{
    struct worker *w = (struct worker *)arg;
    w->body(w);
}

/* Starts a worker; its WAKE will come. */
static inline void start(struct worker *w)
{
    if (w->kind == LIGHT) {
        __atomic_store_n(&w->tid, umcg_light_create(ID(w->index), worker_light, w, NULL),
                         __ATOMIC_RELEASE);
        MUST(w->tid > 0);
        return;
    }
    MUST(pthread_create(&w->thread, NULL, worker_thread, w) == 0);
    while (__atomic_load_n(&w->tid, __ATOMIC_ACQUIRE) == 0)
        sched_yield();
}

/* After its EXIT. */
static inline void join(struct worker *w)
{
    if (w->kind == THREAD)
        MUST(pthread_join(w->thread, NULL) == 0);
}

/* The events that this server was handed and the test has not looked at. */
static __thread uint64_t inbox[64];
static __thread int inbox_count;

static inline void inbox_add(const uint64_t *events, int size)
{
    for (int i = 0; i < size && events[i]; i++) {
        MUST(inbox_count < 64);
        inbox[inbox_count++] = events[i];
    }
}

static inline uint64_t inbox_take(void)
{
    uint64_t first = inbox_count ? inbox[0] : 0;
    if (inbox_count)
        memmove(inbox, inbox + 1, (size_t)--inbox_count * sizeof inbox[0]);
    return first;
}

/* The next event of an idle worker, or 0 if there is none within a minute. */
static inline uint64_t next_event(void)
{
    uint64_t events[8];
    uint32_t flags = 0;
    while (inbox_count == 0) {
        int r = umcg_ctl(flags, UMCG_WAIT, 0, after_ms(60000), events, 8);
        if (r == 0)
            inbox_add(events, 8);
        else if (errno != EINTR)
            return 0;
        flags = r == 0 ? 0 : UMCG_WAIT_FLAG_INTERRUPTED;
    }
    return inbox_take();
}

/* Switches to a worker and returns its event, or 0 with errno; the events behind it stay for
 * next_event. */
static inline uint64_t run(struct worker *w)
{
    uint64_t events[8];
    if (SWITCH(w, events, 8) < 0)
        return 0;
    inbox_add(events + 1, 7);
    return events[0];
}

static inline const char *event_name(uint64_t event)
{
    static const char *const names[] = {"?", "BLOCK", "WAKE", "WAIT", "EXIT", "TIMEOUT", "PREEMPT"};
    int type = UMCG_EVENT_TYPE(event);
    return event == 0 ? "none" : type <= UMCG_WE_PREEMPT ? names[type] : "?";
}

static inline void check_event(const char *file, int line, const char *what, uint64_t expected,
                               uint64_t got)
{
    if (expected == got)
        return;
    fprintf(stderr, "%s:%d: FAILED: %s: expected event %s of %" PRIu64 ", got %s of %" PRIu64 "\n",
            file, line, what, event_name(expected), expected >> UMCG_WORKER_ID_SHIFT,
            event_name(got), got >> UMCG_WORKER_ID_SHIFT);
    __atomic_add_fetch(&check_failures, 1, __ATOMIC_RELAXED);
}

/* The next event of an idle worker must be this one. */
#define EXPECT(what, event) \
    (CHECK_HERE(), check_event(__FILE__, __LINE__, what, event, next_event()))

/* The result of a switch to the worker must be this event. */
#define RUN(what, w, type) \
    (CHECK_HERE(), check_event(__FILE__, __LINE__, what, EV(w, type), run(w)))

/* There must be no event. */
#define NO_EVENT(what) (CHECK_HERE(), check_event(__FILE__, __LINE__, what, 0, poll_event()))

static inline uint64_t poll_event(void)
{
    uint64_t events[8];
    if (inbox_count == 0 && umcg_ctl(0, UMCG_WAIT, 0, UMCG_POLL, events, 8) == 0)
        inbox_add(events, 8);
    return inbox_take();
}

/* Starts a worker and takes its WAKE, so that it is RUNNABLE. */
static inline void start_ready(struct worker *w)
{
    start(w);
    EXPECT("a new worker gives WAKE", EV(w, UMCG_WE_WAKE));
}

/* Runs a worker whose next event is EXIT, and joins it. */
static inline void finish(struct worker *w)
{
    RUN("a worker at its end gives EXIT", w, UMCG_WE_EXIT);
    join(w);
}

/* Preemption, and blocking that is noticed, would add events that depend on how fast the machine
 * is; the tests of them turn them on again. */
static inline void begin_server(void)
{
    MUST(umcg_notice_blocking(0) == 0);
    MUST(umcg_set_preemption(0) == 0);
    MUST(umcg_ctl(0, UMCG_REGISTER_SERVER, 0, 0, NULL, 0) == 0);
}

static inline void end_server(void)
{
    NO_EVENT("no event is left at the end");
    MUST(umcg_ctl(0, UMCG_UNREGISTER, 0, 0, NULL, 0) == 0);
}

#endif /* WORKER_H */
