/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * umcg_ctl with any commands from any roles: a server and some other threads and light workers,
 * each of which does steps of its own. In the end the server runs every worker that can be run,
 * until all have come to their ends: no earlier step may keep them from that.
 */
#define _GNU_SOURCE
#include "fuzz.h"

#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <umcg.h>

enum { PARTIES = 5, STEPS_EACH = 24 };

struct party {
    pthread_t thread;
    pid_t tid;
    int is_light, is_done, count;
    uint8_t steps[STEPS_EACH][STEP];
};

static struct party parties[PARTIES];
static uint64_t *unwritable;
static pid_t server_tid;

static int is_done(struct party *p)
{
    return __atomic_load_n(&p->is_done, __ATOMIC_ACQUIRE);
}

static pid_t some_tid(struct input *in)
{
    static const pid_t wrong[] = {0, 1, -1, INT_MAX, INT_MIN, 999999999};
    unsigned which = pick(in, PARTIES + 8);
    if (which < PARTIES)
        return __atomic_load_n(&parties[which].tid, __ATOMIC_ACQUIRE);
    return which == PARTIES       ? server_tid
           : which == PARTIES + 1 ? umcg_gettid()
                                  : wrong[which - PARTIES - 2];
}

/* Near, or past; without a deadline only where the end of the test ends the wait. */
static uint64_t some_time(struct input *in, int may_be_never)
{
    switch (pick(in, 6)) {
    case 0: return may_be_never ? UMCG_NO_TIMEOUT : UMCG_POLL;
    case 1: return UMCG_POLL;
    case 2: return 2;
    case 3: return fuzz_now(CLOCK_REALTIME) + 1000u * byte(in);
    case 4: return fuzz_now(CLOCK_REALTIME) - 1000u;
    default: return fuzz_now(CLOCK_REALTIME) + 2000000u;
    }
}

static void looks_like_events(const uint64_t *events, int size)
{
    for (int i = 0; i < size && events[i]; i++) {
        int type = UMCG_EVENT_TYPE(events[i]);
        PROMISED(type >= UMCG_WE_BLOCK && type <= UMCG_WE_PREEMPT);
        PROMISED(UMCG_EVENT_WORKER(events[i]) >> UMCG_WORKER_ID_SHIFT <= PARTIES);
    }
}

/* A call with any arguments. A server never waits for ever, as it is to run the others in the end.
 */
static void any_call(struct input *in, int is_worker)
{
    uint64_t events[8] = {0}, *list = events;
    uint32_t flags = pick(in, 5) ? 0 : byte(in), command = pick(in, 8);
    pid_t tid = pick(in, 2) ? some_tid(in) : 0;
    int size = (int)pick(in, 8), result;
    uint64_t time;

    /* Registration as a worker that no server could run would be for ever. */
    if (command == UMCG_REGISTER_WORKER && !is_worker)
        command = UMCG_REGISTER_SERVER;
    time = some_time(in, is_worker && command != UMCG_REGISTER_WORKER);
    if (is_worker && command == UMCG_REGISTER_SERVER)
        command = UMCG_WAIT;
    /*
     * A worker that has unregistered may register again: the time is its id, which has to be one
     * that the events may name.
     */
    if (command == UMCG_REGISTER_WORKER)
        time = pick(in, 4) ? (uint64_t)PARTIES << UMCG_WORKER_ID_SHIFT : time | 1;
    switch (pick(in, 6)) {
    case 0: list = NULL; break;
    case 1: list = unwritable; break;
    case 2: list = NULL, size = 0; break;
    case 3: size = pick(in, 2) ? -1 : INT_MIN; break;
    default: break;
    }
    /* A list of a few words is not written beyond. */
    if (is_worker && pick(in, 3))
        list = NULL, size = 0;
    trace("%d: umcg_ctl(%u, %u, %d, %" PRIu64 ", %p, %d)", umcg_gettid(), flags, command, tid, time,
          (void *)list, size);
    result = umcg_ctl(flags, command, tid, time, list, size);
    if (result == 0 && !is_worker && list == events &&
        (command == UMCG_WAIT || command == UMCG_CTX_SWITCH))
        looks_like_events(events, size);
    PROMISED(result == 0 || result == -1);
}

static void one_step(struct input *in, int is_worker)
{
    switch (pick(in, 12)) {
    case 0: umcg_blocking_begin(); break;
    case 1: umcg_blocking_end(); break;
    case 2: umcg_critical_begin(); break;
    case 3: umcg_critical_end(); break;
    case 4: umcg_set_name(pick(in, 2) ? "somebody" : NULL); break;
    case 5: is_worker ? 0 : umcg_set_preemption(pick(in, 2) ? 0 : 100000u * byte(in)); break;
    case 6: PROMISED(umcg_light_create(byte(in) | 1, NULL, NULL, NULL) == -1); break;
    default: any_call(in, is_worker);
    }
}

/* Closes everything that the steps have opened. */
static void tidy_up(void)
{
    for (int i = 0; i < STEPS_EACH && umcg_critical_end() == 0; i++)
        ;
    for (int i = 0; i < STEPS_EACH && umcg_blocking_end() == 0; i++)
        ;
}

static void all_steps(struct party *p, int is_worker)
{
    for (int i = 0; i < p->count; i++) {
        struct input in = {p->steps[i], p->steps[i] + STEP};
        one_step(&in, is_worker);
    }
}

static void light(void *arg)
{
    struct party *p = (struct party *)arg;
    all_steps(p, 1);
    tidy_up();
    __atomic_store_n(&p->is_done, 1, __ATOMIC_RELEASE);
}

static void *thread(void *arg)
{
    struct party *p = (struct party *)arg;
    int index = (int)(p - parties), is_worker = index % 2 == 0;
    __atomic_store_n(&p->tid, umcg_gettid(), __ATOMIC_RELEASE);
    if (is_worker)
        PROMISED(umcg_ctl(0, UMCG_REGISTER_WORKER, 0, (uint64_t)(index + 1) << UMCG_WORKER_ID_SHIFT,
                          NULL, 0) == 0);
    all_steps(p, is_worker);
    tidy_up();
    umcg_ctl(0, UMCG_UNREGISTER, 0, 0, NULL, 0);
    __atomic_store_n(&p->is_done, 1, __ATOMIC_RELEASE);
    return NULL;
}

void fuzz_begin(struct input *in)
{
    unwritable = (uint64_t *)mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    PROMISED(unwritable != MAP_FAILED);
    umcg_set_preemption(pick(in, 3) ? 0 : 1000000);
    server_tid = umcg_gettid();
    PROMISED(umcg_ctl(0, UMCG_REGISTER_SERVER, 0, 0, NULL, 0) == 0);
    for (int i = 0; i < PARTIES; i++)
        parties[i].is_light = i >= 3;
}

/* Most steps are kept for the others, some are the server's own. */
static uint8_t own[MOST_STEPS][STEP];
static int own_count;

void fuzz_step(struct input *in)
{
    unsigned who = pick(in, PARTIES + 3);
    size_t left = (size_t)(in->end - in->at);
    uint8_t *to;
    if (who >= PARTIES)
        to = own[own_count++];
    else if (parties[who].count < STEPS_EACH)
        to = parties[who].steps[parties[who].count++];
    else
        return;
    memcpy(to, in->at, left);
}

static void start_all(void)
{
    for (int i = 0; i < PARTIES; i++) {
        struct party *p = &parties[i];
        if (p->is_light) {
            pid_t tid =
                umcg_light_create((uint64_t)(i + 1) << UMCG_WORKER_ID_SHIFT, light, p, NULL);
            PROMISED(tid > 0);
            __atomic_store_n(&p->tid, tid, __ATOMIC_RELEASE);
        } else {
            PROMISED(pthread_create(&p->thread, NULL, thread, p) == 0);
        }
    }
}

void fuzz_end(void)
{
    uint64_t events[8];
    int left = PARTIES;
    start_all();
    for (int i = 0; i < own_count; i++) {
        struct input in = {own[i], own[i] + STEP};
        one_step(&in, 0);
    }
    /* It may have unregistered. */
    umcg_ctl(0, UMCG_REGISTER_SERVER, 0, 0, NULL, 0);
    umcg_set_preemption(0);
    while (left) {
        left = 0;
        for (int i = 0; i < PARTIES; i++) {
            if (is_done(&parties[i]))
                continue;
            left++;
            if (umcg_ctl(0, UMCG_CTX_SWITCH, __atomic_load_n(&parties[i].tid, __ATOMIC_ACQUIRE), 0,
                         events, 8) == 0)
                looks_like_events(events, 8);
        }
        if (umcg_ctl(0, UMCG_WAIT, 0, fuzz_now(CLOCK_REALTIME) + 300000, events, 8) == 0)
            looks_like_events(events, 8);
    }
    for (int i = 0; i < PARTIES; i++)
        if (!parties[i].is_light)
            pthread_join(parties[i].thread, NULL);
}
