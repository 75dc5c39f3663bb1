/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The objects of the calls that `calls` makes. */
#ifndef OBJECTS_H
#define OBJECTS_H

#define _GNU_SOURCE
#define FUZZ_HAS_NAMES
#include "fuzz.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <umcg.h>
#include <umcg/futex.h>
#include <umcg/nt.h>
#include <umcg/rt.h>
#include <umcg/segment.h>
#include <umcg/select.h>
#include <umcg/sem.h>
#include <umcg/sync.h>
#include <umcg/tube.h>

enum { ROOM = 6, LASTING = 2, LARGEST = 4096, MESSAGES = 8, OPS = 8 };

/* ---- Where the sequence runs ---- */

static int is_worker, shields, blocks;
static uint64_t began; /* when the call began; 0 between calls */
static umcg_worker_t *self;
static uint8_t kept[MOST_STEPS][STEP];
static int steps;

/* ---- The objects of calls ---- */

static char buffer[LARGEST * MESSAGES];
static Sem sems[ROOM];
static umcg_mutex_t mutexes[ROOM];
static umcg_rwlock_t rwlocks[ROOM];
static umcg_cond_t conds[ROOM];
static umcg_once_t onces[ROOM];
static umcg_barrier_t barriers[ROOM];
static umcg_wait_group_t groups[ROOM];
static umcg_event_t events[ROOM];
static uint32_t words[ROOM];
static uint32_t *only_read, *none;
static void *place;
static int pipes[2] = {-1, -1}, sockets[2] = {-1, -1};

/* One of ROOM objects, or none. */
#define OBJECT(array) ({ unsigned at = pick(in, ROOM + 1); at < ROOM ? &(array)[at] : NULL; })

/* Objects that calls make and give back. The first LASTING stay: those that a set may know. */
#define POOL(type, name, plural)                                                      \
    static type *plural[ROOM];                                                        \
    static inline type *a_##name(struct input *in) { return plural[pick(in, ROOM)]; } \
    static inline type *gone_##name(struct input *in)                                 \
    {                                                                                 \
        unsigned at = LASTING + pick(in, ROOM - LASTING);                             \
        type *gone = plural[at];                                                      \
        plural[at] = NULL;                                                            \
        return gone;                                                                  \
    }                                                                                 \
    static inline int keep_in_##name(type *made)                                      \
    {                                                                                 \
        for (int i = 0; made && i < ROOM; i++)                                        \
            if (!plural[i])                                                           \
                return plural[i] = made, 1;                                           \
        return made == NULL;                                                          \
    }
/* Objects for which there is no room are given back at once. */
#define KEPT(type, name, plural, gone)         \
    POOL(type, name, plural)                   \
    static inline void keep_##name(type *made) \
    {                                          \
        if (!keep_in_##name(made))             \
            gone(made);                        \
    }

POOL(Tube, tube, tubes)
POOL(umcg_local_t, local, locals)
POOL(umcg_segment_tube_t, segment_tube, segment_tubes)
KEPT(umcg_worker_t, worker, workers, (void)umcg_detach)
KEPT(umcg_nt_t, object, objects, umcg_nt_close)
KEPT(umcg_waitset_t, waitset, waitsets, umcg_waitset_destroy)
KEPT(umcg_select_set_t, set, sets, umcg_select_set_destroy)
KEPT(umcg_segment_t, segment, segments, umcg_segment_close)
KEPT(umcg_segment_sem_t, segment_sem, segment_sems, umcg_segment_sem_free)
KEPT(umcg_segment_event_t, segment_event, segment_events, umcg_segment_event_free)

static inline void keep_local(umcg_local_t *made)
{
    keep_in_local(made);
}

/* A tube whose messages are larger than the buffer cannot be used here. */
static inline void keep_tube(Tube *made, size_t size)
{
    if (size > LARGEST || !keep_in_tube(made))
        umcg_tube_destroy(made);
}

static size_t segment_tube_size;

static inline void keep_segment_tube(umcg_segment_tube_t *made)
{
    if (segment_tube_size > LARGEST || !keep_in_segment_tube(made))
        umcg_segment_tube_free(made);
}

static inline void keep_runtime(umcg_rt_t *made)
{
    if (made)
        PROMISED(umcg_rt_stop(made, UMCG_NO_TIMEOUT) == 0);
}

static inline void keep_place(void *made)
{
    if (made)
        place = made;
}

static inline void joined(umcg_worker_t *worker, int result)
{
    for (int i = 0; result == 0 && i < ROOM; i++)
        if (workers[i] == worker)
            workers[i] = NULL;
}

#endif /* OBJECTS_H */
