/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The objects of one segment, the ways to wait for them, and parties that wait. */
#ifndef SEGMENT_H
#define SEGMENT_H

#include "runtime.h"
#include "umcg/segment.h"

enum { ACQUIRE, ANY, WAIT, RECEIVE, SEND, WAYS };

struct world {
    umcg_segment_sem_t *a, *b;
    umcg_segment_event_t *event;
    umcg_segment_tube_t *tube;
};

static inline struct world world_of(umcg_segment_t *segment)
{
    struct world world;
    world.a = umcg_segment_sem(segment, "a", 0);
    world.b = umcg_segment_sem(segment, "b", 0);
    world.event = umcg_segment_event(segment, "event", 0);
    world.tube = umcg_segment_tube(segment, "tube", sizeof(uint64_t), 2);
    MUST(world.a && world.b && world.event && world.tube);
    return world;
}

static inline void free_world(struct world *world)
{
    umcg_segment_sem_free(world->a);
    umcg_segment_sem_free(world->b);
    umcg_segment_event_free(world->event);
    umcg_segment_tube_free(world->tube);
}

static inline int wait_in(struct world *world, int way, uint64_t deadline)
{
    umcg_segment_sem_t *list[2] = {world->b, world->a};
    uint64_t message = 1;
    switch (way) {
    case ACQUIRE: return umcg_segment_sem_acquire_until(world->a, deadline);
    case ANY: return umcg_segment_sem_any(list, 2, deadline) < 0 ? -1 : 0;
    case WAIT: return umcg_segment_event_wait_until(world->event, deadline);
    case RECEIVE: return umcg_segment_tube_recv_until(world->tube, &message, deadline);
    default: return umcg_segment_tube_send_until(world->tube, &message, deadline);
    }
}

/* So that wait_in waits. */
static inline void prepare(struct world *world, int way)
{
    uint64_t message = 0;
    for (int i = 0; way == SEND && i < 2; i++)
        MUST(umcg_segment_tube_send(world->tube, &message) == 0);
}

/* The data of one waiter. */
static inline void give(struct world *world, int way)
{
    uint64_t message = 9;
    switch (way) {
    case ACQUIRE:
    case ANY: CHECK("release", umcg_segment_sem_release(world->a, 1) == 0); break;
    case WAIT: CHECK("set", umcg_segment_event_set(world->event) == 0); break;
    case RECEIVE: CHECK("send", umcg_segment_tube_try_send(world->tube, &message) == 0); break;
    default: CHECK("receive", umcg_segment_tube_try_recv(world->tube, &message) == 0);
    }
}

/* How many were given, and not taken. */
static inline long left(struct world *world, int way)
{
    switch (way) {
    case ACQUIRE:
    case ANY: return (long)umcg_segment_sem_available(world->a);
    case WAIT: return umcg_segment_event_is_set(world->event);
    case RECEIVE: return (long)umcg_segment_tube_length(world->tube);
    default: return 2 - (long)umcg_segment_tube_length(world->tube);
    }
}

static inline long waiters(struct world *world, int way)
{
    size_t receivers = 0, senders = 0;
    switch (way) {
    case ACQUIRE:
    case ANY: return (long)umcg_segment_sem_waiters(world->a);
    case WAIT: return (long)umcg_segment_event_waiters(world->event);
    }
    MUST(umcg_segment_tube_waiters(world->tube, &receivers, &senders) == 0);
    return (long)(way == RECEIVE ? receivers : senders);
}

static inline void await_waiters(struct world *world, int way, long count)
{
    while (waiters(world, way) != count)
        umcg_sleep_ns(200000);
}

/* A waiter of this process: a worker or a plain thread. */
struct party {
    struct world *world;
    uint64_t deadline;
    int way, by_thread, done, result, error;
    umcg_worker_t *worker;
    pthread_t thread;
};

static inline void *waits(void *arg)
{
    struct party *party = (struct party *)arg;
    party->result = wait_in(party->world, party->way, party->deadline);
    party->error = check_errno();
    add(&party->done);
    return arg;
}

static inline void start_party(struct party *party, struct world *world, int way, int by_thread)
{
    memset(party, 0, sizeof *party);
    party->world = world;
    party->way = way;
    party->by_thread = by_thread;
    party->deadline = way % 2 ? in_ms(60000) : UMCG_NO_TIMEOUT;
    if (by_thread)
        MUST(pthread_create(&party->thread, NULL, waits, party) == 0);
    else
        party->worker = spawn(waits, party);
}

static inline void join_party(struct party *party)
{
    await(&party->done, 1);
    if (party->by_thread)
        MUST(pthread_join(party->thread, NULL) == 0);
    else
        joined(party->worker);
}

#endif /* SEGMENT_H */
