/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A runtime for the tests of umcg/rt.h, for C and C++. The environment says with how many servers
 * (UMCG_TEST_SERVERS), and whether workers are light (UMCG_TEST_LIGHT).
 */
#ifndef RUNTIME_H
#define RUNTIME_H

#include <poll.h>
#include <pthread.h>

#include "check.h"
#include "umcg/rt.h"

typedef void *function(void *arg);

static inline int is_light(void)
{
    return check_count("UMCG_TEST_LIGHT", 0);
}

static inline umcg_rt_options_t options(void)
{
    umcg_rt_options_t options = UMCG_RT_OPTIONS_INIT;
    options.servers = check_count("UMCG_TEST_SERVERS", 2);
    options.stack_size = 128 << 10;
    options.name = "test";
    return options;
}

static inline umcg_worker_t *spawn_in(umcg_rt_t *rt, function *fn, void *arg)
{
    umcg_spawn_attr_t attr = UMCG_SPAWN_ATTR_INIT;
    umcg_worker_t *worker;
    attr.own_tls = !is_light();
    worker = umcg_spawn_attr(rt, &attr, fn, arg);
    MUST(worker != NULL);
    return worker;
}

static inline umcg_worker_t *spawn(function *fn, void *arg)
{
    return spawn_in(NULL, fn, arg);
}

/* Joins a worker, and returns its result. */
static inline void *joined(umcg_worker_t *worker)
{
    void *result = NULL;
    MUST(umcg_join(worker, &result) == 0);
    return result;
}

/* Waits for a thread, which may wait for workers of the caller's server. */
static inline void thread_joined(pthread_t thread)
{
    umcg_blocking_begin();
    MUST(pthread_join(thread, NULL) == 0);
    umcg_blocking_end();
}

/* Calls fn(arg) as a worker of a runtime of its own, and ends that. */
static inline void in_runtime(function *fn, void *arg)
{
    umcg_rt_options_t own = options();
    umcg_rt_t *rt = umcg_rt_start(&own);
    MUST(rt != NULL);
    joined(spawn_in(rt, fn, arg));
    MUST(umcg_rt_stop(rt, UMCG_NO_TIMEOUT) == 0);
}

static inline uint64_t in_ms(uint64_t ms)
{
    return check_now(CLOCK_MONOTONIC) + ms * 1000000u;
}

/* Gives way until *word, which another worker writes, is at least this much. */
static inline void await(int *word, int least)
{
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) < least)
        umcg_sleep_ns(100000);
}

static inline void add(int *word)
{
    __atomic_add_fetch(word, 1, __ATOMIC_ACQ_REL);
}

#endif /* RUNTIME_H */
