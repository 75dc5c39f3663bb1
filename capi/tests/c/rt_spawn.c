/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Runtimes and workers: options and attributes, spawn, join, detach, stop, dump. */
#include "runtime.h"

static void *itself(void *arg)
{
    return arg;
}

static void *waits(void *arg)
{
    await((int *)arg, 1);
    return arg;
}

static void *counts(void *arg)
{
    umcg_yield();
    add((int *)arg);
    return NULL;
}

static void options_are_checked(void)
{
    struct {
        umcg_rt_options_t known;
        uint64_t more;
    } large = {UMCG_RT_OPTIONS_INIT, 0};
    umcg_rt_options_t bad;
    umcg_rt_t *rt;

#define REFUSES(what, expected, member, value)         \
    (bad = options(), bad.member = (value), errno = 0, \
     CHECK(what, umcg_rt_start(&bad) == NULL && errno == (expected)))
    REFUSES("negative servers", EINVAL, servers, -1);
    REFUSES("too many servers", EINVAL, servers, 1025);
    REFUSES("no such scheduler", EINVAL, scheduler, 4);
    REFUSES("a negative number of helpers", EINVAL, helpers, -1);
    REFUSES("something in what is reserved", EINVAL, reserved, 1);
    REFUSES("no such driver", EINVAL, driver, 3);
    REFUSES("no such stack", EINVAL, stack_size, SIZE_MAX);
    REFUSES("a size that does not hold itself", EINVAL, size, 1);
    setenv("UMCG_DRIVER", "neither", 1);
    REFUSES("a driver in the environment that there is not", EINVAL, driver, UMCG_DRIVER_AUTO);
    unsetenv("UMCG_DRIVER");
#undef REFUSES
    large.known.size = sizeof large;
    large.known.servers = 1;
    large.more = 1;
    errno = 0;
    CHECK("an option that is not known", umcg_rt_start(&large.known) == NULL && errno == E2BIG);
    large.more = 0;
    CHECK("a larger structure, with nothing in it", (rt = umcg_rt_start(&large.known)) != NULL);
    CHECK("stop", umcg_rt_stop(rt, UMCG_NO_TIMEOUT) == 0);
    large.known.size = offsetof(umcg_rt_options_t, servers); /* an older program's */
    large.known.servers = -1;
    CHECK("a smaller structure", (rt = umcg_rt_start(&large.known)) != NULL);
    CHECK("stop", umcg_rt_stop(rt, UMCG_NO_TIMEOUT) == 0);
    FAILS("stop of nothing", EINVAL, umcg_rt_stop(NULL, UMCG_NO_TIMEOUT));
}

static void memory_is_given_back(void)
{
    int done = 0, i;
    umcg_worker_t *workers[300];
    umcg_spawn_attr_t light = UMCG_SPAWN_ATTR_INIT;
    umcg_rt_options_t own = options();
    umcg_rt_t *rt;

    /* Others may be threads, as under Valgrind and sanitizers, and then have no stacks of ours. */
    light.own_tls = 0;
    CHECK("a runtime", (rt = umcg_rt_start(&own)) != NULL);
    for (i = 0; i < 300; i++)
        MUST((workers[i] = umcg_spawn_attr(rt, &light, counts, &done)) != NULL);
    for (i = 0; i < 300; i++)
        joined(workers[i]);
    CHECK("stacks are given back", umcg_rt_trim() > 0);
    joined(spawn_in(rt, counts, &done));
    CHECK("and used again", done == 301);
    CHECK("stop", umcg_rt_stop(rt, UMCG_NO_TIMEOUT) == 0);
}

static void every_scheduler_and_driver(void)
{
    for (int i = 0; i < 6; i++) {
        umcg_rt_options_t own = options();
        umcg_rt_t *rt;
        int done = 0;
        own.scheduler = i < 4 ? i : 0;
        own.driver = i == 4 ? UMCG_DRIVER_EPOLL : UMCG_DRIVER_AUTO;
        own.preemption_ns = i == 5 ? 10000000 : 0;
        own.pin = i % 2;
        MUST((rt = umcg_rt_start(&own)) != NULL);
        for (int j = 0; j < 50; j++)
            CHECK("detach", umcg_detach(spawn_in(rt, counts, &done)) == 0);
        CHECK("stop waits for workers that are detached", umcg_rt_stop(rt, UMCG_NO_TIMEOUT) == 0);
        CHECK("all have run", done == 50);
    }
}

static void attributes_are_checked(umcg_rt_t *rt)
{
    umcg_spawn_attr_t bad;

#define REFUSES(what, expected, member, value)             \
    (bad = good, bad.member = (value), check_set_errno(0), \
     CHECK(what, umcg_spawn_attr(rt, &bad, itself, NULL) == NULL && check_errno() == (expected)))
    umcg_spawn_attr_t good = UMCG_SPAWN_ATTR_INIT;
    REFUSES("priority below", EINVAL, priority, -1);
    REFUSES("priority above", EINVAL, priority, 256);
    REFUSES("no such server", EINVAL, server, -2);
    REFUSES("own_tls", EINVAL, own_tls, 2);
    REFUSES("stack", EINVAL, stack_size, SIZE_MAX);
    REFUSES("size", EINVAL, size, 0);
#undef REFUSES
    check_set_errno(0);
    CHECK("no function", umcg_spawn_attr(rt, NULL, NULL, NULL) == NULL && check_errno() == EINVAL);
    check_set_errno(0);
    CHECK("no function", umcg_spawn(NULL, NULL) == NULL && check_errno() == EINVAL);
    good.stack_size = 1; /* there is room for a function at least */
    CHECK("a small stack", joined(umcg_spawn_attr(rt, &good, itself, &good)) == &good);
    good.stack_size = 256 << 10;
    good.name = "named";
    good.deadline_ns = in_ms(5);
    good.priority = 255;
    good.server = 5000; /* there is none, so any */
    CHECK("a server that is not there", joined(umcg_spawn_attr(rt, &good, itself, &good)) == &good);
    good.server = 0;
    good.own_tls = !is_light();
    CHECK("all of them", joined(umcg_spawn_attr(rt, &good, itself, &good)) == &good);
}

static void *join_in_worker(void *arg)
{
    int word = 0;
    void *result = NULL;
    umcg_worker_t *worker = spawn(waits, &word), *self = *(umcg_worker_t **)arg;

    FAILS("join of nothing", EINVAL, umcg_join(NULL, NULL));
    FAILS("join_until of nothing", EINVAL, umcg_join_until(NULL, NULL, 0));
    FAILS("detach of nothing", EINVAL, umcg_detach(NULL));
    FAILS("abort of nothing", EINVAL, umcg_abort(NULL));
    check_set_errno(0);
    CHECK("handle of nothing", umcg_worker_handle(NULL) == NULL && check_errno() == EINVAL);
    if (self) {
        FAILS("join of itself", EDEADLK, umcg_join(self, NULL));
        FAILS("join_until of itself", EDEADLK, umcg_join_until(self, NULL, 0));
    }
    FAILS("too early", ETIMEDOUT, umcg_join_until(worker, &result, in_ms(1)));
    FAILS("a look", ETIMEDOUT, umcg_join_until(worker, &result, UMCG_POLL));
    CHECK("no result yet", result == NULL);
    add(&word);
    CHECK("join_until", umcg_join_until(worker, &result, UMCG_NO_TIMEOUT) == 0 && result == &word);
    CHECK("join without a result", umcg_join(spawn(itself, NULL), NULL) == 0);
    return NULL;
}

static void *many(void *arg)
{
    int count = check_count("UMCG_TEST_WORKERS", 2000), done = 0;
    umcg_worker_t **workers = (umcg_worker_t **)calloc((size_t)count, sizeof *workers);

    (void)arg;
    MUST(workers != NULL);
    for (int i = 0; i < count; i++)
        workers[i] = spawn(counts, &done);
    for (int i = 0; i < count; i++)
        joined(workers[i]);
    CHECK("all have run", done == count);
    free(workers);
    return NULL;
}

static void *stops_its_own(void *arg)
{
    FAILS("a worker stops its runtime", EDEADLK, umcg_rt_stop(*(umcg_rt_t **)arg, UMCG_NO_TIMEOUT));
    return NULL;
}

static void *stops_another(void *arg)
{
    return (void *)(intptr_t)umcg_rt_stop((umcg_rt_t *)arg, UMCG_NO_TIMEOUT);
}

static void *waits_for_ever(void *arg)
{
    add((int *)arg);
    while (umcg_park() == 0)
        ;
    return NULL;
}

static void stop_gives_up(void)
{
    static int begun;
    umcg_rt_options_t own = options();
    umcg_rt_t *rt = umcg_rt_start(&own);
    umcg_worker_t *worker;

    MUST(rt != NULL);
    worker = spawn_in(rt, waits_for_ever, &begun);
    umcg_detach(spawn_in(rt, waits_for_ever, &begun));
    await(&begun, 2);
    FAILS("two workers are left", ETIMEDOUT, umcg_rt_stop(rt, 1000000));
    FAILS("it will not end", ESHUTDOWN, umcg_join(worker, NULL));
}

static void dump(umcg_rt_t *rt)
{
    umcg_spawn_attr_t attr = UMCG_SPAWN_ATTR_INIT;
    static char text[65536];
    int word = 0, ends[2];
    umcg_worker_t *worker;

    attr.name = "sleepyhead";
    attr.own_tls = 0;
    MUST((worker = umcg_spawn_attr(rt, &attr, waits, &word)) != NULL);
    MUST(pipe(ends) == 0);
    CHECK("dump", umcg_rt_dump(rt, ends[1]) == 0);
    CHECK("a text", read(ends[0], text, sizeof text - 1) > 0);
    CHECK("with the worker's name", strstr(text, "sleepyhead") != NULL);
    FAILS("dump to nowhere", EBADF, umcg_rt_dump(rt, -1));
    add(&word);
    joined(worker);
    close(ends[0]);
    close(ends[1]);
}

/* The global runtime cannot be started: calls that need it say so and change nothing, all other
 * calls work.
 */
static void no_global(void)
{
    umcg_spawn_attr_t attr = UMCG_SPAWN_ATTR_INIT;
    int done = 0;
    setenv("UMCG_DRIVER", "neither", 1);
    for (int i = 0; i < 2; i++) {
        attr.own_tls = i;
        check_set_errno(0);
        CHECK("no runtime", umcg_spawn(counts, &done) == NULL && check_errno() == ENOMEM);
        check_set_errno(0);
        CHECK("no runtime",
              umcg_spawn_attr(NULL, &attr, counts, &done) == NULL && check_errno() == ENOMEM);
        CHECK("plain threads wait", umcg_sleep_ns(1000) == 0 && umcg_yield() == 0);
        FAILS("and have deadlines", ETIMEDOUT, umcg_park_until(in_ms(1)));
        CHECK("and block", umcg_blocking(itself, &done) == &done);
    }
    unsetenv("UMCG_DRIVER");
    joined(umcg_spawn(counts, &done));
    CHECK("now it can", done == 1);
}

/* A runtime of the parent answers each call of a child, and at once. */
static void child_has_no_runtime(void)
{
    umcg_rt_options_t own = options();
    umcg_spawn_attr_t light = UMCG_SPAWN_ATTR_INIT;
    umcg_rt_t *rt = umcg_rt_start(&own);
    pid_t child;
    int status = -1, over = 0;
    umcg_worker_t *worker;

    MUST(rt != NULL);
    worker = spawn_in(rt, waits, &over);
    MUST((child = fork()) >= 0);
    if (child == 0) {
        alarm(200);
        light.own_tls = 0;
        errno = 0;
        CHECK("spawn in a child",
              umcg_spawn_attr(rt, NULL, itself, NULL) == NULL && errno == EOPNOTSUPP);
        errno = 0;
        CHECK("a light worker in a child",
              umcg_spawn_attr(rt, &light, itself, NULL) == NULL && errno == EOPNOTSUPP);
        FAILS("stop in a child", EOPNOTSUPP, umcg_rt_stop(rt, 1000000));
        FAILS("stop in a child, without a timeout", EOPNOTSUPP, umcg_rt_stop(rt, UMCG_NO_TIMEOUT));
        CHECK("a dump in a child", umcg_rt_dump(rt, STDERR_FILENO) == 0);
        _exit(check_failures != 0);
    }
    MUST(waitpid(child, &status, 0) == child);
    CHECK("the child", status == 0);
    add(&over);
    CHECK("in the parent nothing has changed",
          joined(worker) == &over && joined(spawn_in(rt, itself, &over)) == &over);
    CHECK("stop", umcg_rt_stop(rt, UMCG_NO_TIMEOUT) == 0);
}

/* Timers are charged to signals that may be pending. */
static void no_timer_for_preemption(void)
{
    umcg_rt_options_t own = options();
    struct rlimit before, none;

    MUST(getrlimit(RLIMIT_SIGPENDING, &before) == 0);
    none = before;
    none.rlim_cur = 0;
    MUST(setrlimit(RLIMIT_SIGPENDING, &none) == 0);
    own.preemption_ns = 1000000;
    errno = 0;
    CHECK("no timers", umcg_rt_start(&own) == NULL && errno == EAGAIN);
    MUST(setrlimit(RLIMIT_SIGPENDING, &before) == 0);
}

int main(void)
{
    umcg_rt_options_t own = options();
    umcg_rt_t *rt, *other;
    umcg_worker_t *nobody = NULL;

    check_start(60);
    check_passes("without a global runtime", no_global);
    options_are_checked();
    memory_is_given_back();
    every_scheduler_and_driver();
    MUST((rt = umcg_rt_start(&own)) != NULL);
    attributes_are_checked(rt);
    join_in_worker(&nobody); /* as a plain thread, in the global runtime */
    joined(spawn_in(rt, join_in_worker, &nobody));
    nobody = spawn_in(rt, join_in_worker, &nobody);
    joined(nobody);
    joined(spawn_in(rt, many, NULL));
    joined(spawn_in(rt, stops_its_own, &rt));
    MUST((other = umcg_rt_start(&own)) != NULL);
    CHECK("a worker of one runtime stops another",
          joined(spawn_in(rt, stops_another, other)) == NULL);
    dump(rt);
    CHECK("stop", umcg_rt_stop(rt, UMCG_NO_TIMEOUT) == 0);
    stop_gives_up();
    child_has_no_runtime();
    no_timer_for_preemption();
    return check_done();
}
