/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Semaphores, altsems, events and tubes in segments, by one process: each call, and waiting in each
 * way, by workers and plain threads.
 */
#include <sys/stat.h>

#include "segment.h"

#define NONE(what, expected, call) \
    CHECK(what, (check_set_errno(0), (call) == NULL) && check_errno() == (expected))

/* ---- Each call ---- */

static void opening(umcg_segment_t *segment)
{
    umcg_segment_options_t options = UMCG_SEGMENT_OPTIONS_INIT;
    umcg_segment_t *small, *file;
    char path[64];
    int ends[2];

    NONE("no descriptor", EBADF, umcg_segment_open_fd(-1));
    NONE("one that is not open", EBADF, umcg_segment_open_fd(100000));
    MUST(pipe(ends) == 0);
    NONE("no segment", ENODATA, umcg_segment_open_fd(ends[0]));
    close(ends[0]);
    close(ends[1]);
    NONE("no path", EINVAL, umcg_segment_open_file(NULL));
    NONE("no file", ENOENT, umcg_segment_open_file("/nonexistent/segment"));
    NONE("no path", EINVAL, umcg_segment_create_file(NULL, NULL));
    NONE("no directory", ENOENT, umcg_segment_create_file("/nonexistent/segment", NULL));
    FAILS("no segment", EINVAL, umcg_segment_fd(NULL));
    FAILS("no segment", EINVAL, umcg_segment_set_patience(NULL, 1));
    FAILS("no segment", EINVAL, umcg_segment_forget(NULL, "s"));
    FAILS("no name", EINVAL, umcg_segment_forget(segment, NULL));
    CHECK("nobody has that name", umcg_segment_forget(segment, "nobody's") == 0);
    CHECK("patience", umcg_segment_set_patience(segment, 5000000000u) == 0);
    umcg_segment_close(NULL);

    options.flags = 1;
    NONE("a flag that is not", EINVAL, umcg_segment_create(&options));
    options.flags = 0;
    options.processes = 4097;
    NONE("too many", EINVAL, umcg_segment_create(&options));
    options.processes = options.objects = options.waiters = 1;
    options.bytes = 64;
    options.size = 4;
    NONE("no options", EINVAL, umcg_segment_create(&options));
    options.size = sizeof options;
    MUST((small = umcg_segment_create(&options)) != NULL);
    NONE("no room for another process", ENOSPC, umcg_segment_open_fd(umcg_segment_fd(small)));
    umcg_segment_close(small);

    snprintf(path, sizeof path, "/dev/shm/umcg-test-%d", (int)getpid());
    MUST((file = umcg_segment_create_file(path, &options)) != NULL);
    NONE("it is there already", EEXIST, umcg_segment_create_file(path, NULL));
    umcg_segment_close(file);
    CHECK("opened by its path", (file = umcg_segment_open_file(path)) != NULL);
    unlink(path);
    umcg_segment_close(file);
}

static void naming(umcg_segment_t *segment)
{
    umcg_segment_options_t options = UMCG_SEGMENT_OPTIONS_INIT;
    umcg_segment_t *small;
    umcg_segment_sem_t *s, *other;
    char name[66];

    NONE("no segment", EINVAL, umcg_segment_sem(NULL, "s", 1));
    NONE("no name", EINVAL, umcg_segment_event(segment, NULL, 0));
    NONE("an empty name", EINVAL, umcg_segment_tube(segment, "", 8, 1));
    NONE("not UTF-8", EINVAL, umcg_segment_sem(segment, "\xff", 1));
    memset(name, 'n', 65);
    name[65] = 0;
    NONE("a long name", EINVAL, umcg_segment_sem(segment, name, 1));
    name[64] = 0;
    MUST((s = umcg_segment_sem(segment, name, 1)) && (other = umcg_segment_sem(segment, name, 7)));
    CHECK("the same object",
          umcg_segment_sem_try_acquire(s) == 0 && umcg_segment_sem_available(other) == 0);
    umcg_segment_sem_free(s);
    CHECK("stays",
          umcg_segment_sem_release(other, 2) == 0 && umcg_segment_sem_available(other) == 2);
    umcg_segment_sem_free(other);
    NONE("another kind", EEXIST, umcg_segment_event(segment, name, 0));
    NONE("a flag that is not", EINVAL, umcg_segment_event(segment, "e", 2));
    NONE("no bytes", EINVAL, umcg_segment_tube(segment, "t", 0, 1));
    NONE("no capacity", EINVAL, umcg_segment_tube(segment, "t", 8, 0));
    NONE("more than there is", EINVAL, umcg_segment_tube(segment, "t", 1 << 30, 1));
    umcg_segment_sem_free(NULL);
    umcg_segment_event_free(NULL);
    umcg_segment_tube_free(NULL);

    options.objects = options.waiters = 1;
    MUST((small = umcg_segment_create(&options)) && (s = umcg_segment_sem(small, "s", 0)));
    NONE("no room for another", ENOSPC, umcg_segment_sem(small, "t", 0));
    umcg_segment_close(small);
    umcg_segment_sem_t *twice[2] = {s, s};
    FAILS("it is kept by its objects", EAGAIN, umcg_segment_sem_try_acquire(s));
    FAILS("no room for two waiters", ENOSPC, umcg_segment_sem_any(twice, 2, UMCG_NO_TIMEOUT));
    umcg_segment_sem_free(s);
}

static void semaphores(umcg_segment_t *segment)
{
    umcg_segment_t *again = umcg_segment_open_fd(umcg_segment_fd(segment));
    umcg_segment_sem_t *s = umcg_segment_sem(segment, "s", 2),
                       *empty = umcg_segment_sem(segment, "empty", 0);
    umcg_segment_sem_t *full = umcg_segment_sem(segment, "full", UINT32_MAX - 1),
                       *list[3] = {empty, s, empty}, *there;

    MUST(again && s && empty && full && (there = umcg_segment_sem(again, "s", 0)));
    CHECK("acquire", umcg_segment_sem_acquire(s) == 0 &&
                         umcg_segment_sem_acquire_until(there, UMCG_POLL) == 0);
    FAILS("try", EAGAIN, umcg_segment_sem_try_acquire(s));
    FAILS("until the past", ETIMEDOUT, umcg_segment_sem_acquire_until(s, UMCG_POLL));
    FAILS("for a while", ETIMEDOUT, umcg_segment_sem_acquire_until(there, in_ms(1)));
    CHECK("many", umcg_segment_sem_release(there, 5) == 0 &&
                      umcg_segment_sem_acquire_many(s, 2, UMCG_NO_TIMEOUT) == 0);
    CHECK("try many",
          umcg_segment_sem_try_acquire_many(s, 2) == 0 && umcg_segment_sem_available(s) == 1);
    FAILS("try too many", EAGAIN, umcg_segment_sem_try_acquire_many(s, 2));
    FAILS("too many", ETIMEDOUT, umcg_segment_sem_acquire_many(s, 2, in_ms(1)));
    CHECK("nobody waits", umcg_segment_sem_waiters(s) == 0);
    CHECK("any", umcg_segment_sem_any(list, 3, UMCG_NO_TIMEOUT) == 1);
    FAILS("none", ETIMEDOUT, umcg_segment_sem_any(list, 3, in_ms(1)));
    FAILS("none", ETIMEDOUT, umcg_segment_sem_any(list, 3, UMCG_POLL));
    CHECK("as many as fit", umcg_segment_sem_release(full, 1) == 0);
    FAILS("one more", EOVERFLOW, umcg_segment_sem_release(full, 1));
    CHECK("none was added", umcg_segment_sem_available(full) == (int64_t)UINT32_MAX);

    list[2] = there;
    FAILS("of several openings", EINVAL, umcg_segment_sem_any(list, 3, UMCG_NO_TIMEOUT));
    list[2] = NULL;
    FAILS("a NULL in it", EINVAL, umcg_segment_sem_any(list, 3, UMCG_NO_TIMEOUT));
    FAILS("an empty list", EINVAL, umcg_segment_sem_any(list, 0, UMCG_NO_TIMEOUT));
    FAILS("no list", EINVAL, umcg_segment_sem_any(NULL, 1, UMCG_NO_TIMEOUT));
    FAILS("no semaphore", EINVAL, umcg_segment_sem_acquire(NULL));
    FAILS("no semaphore", EINVAL, umcg_segment_sem_try_acquire(NULL));
    FAILS("no semaphore", EINVAL, umcg_segment_sem_release(NULL, 1));
    FAILS("no semaphore", EINVAL, umcg_segment_sem_available(NULL));
    FAILS("no semaphore", EINVAL, umcg_segment_sem_waiters(NULL));
    umcg_segment_sem_free(s);
    umcg_segment_sem_free(empty);
    umcg_segment_sem_free(full);
    umcg_segment_sem_free(there);
    umcg_segment_close(again);
}

static void events(umcg_segment_t *segment)
{
    umcg_segment_event_t *once = umcg_segment_event(segment, "auto", UMCG_EVENT_SET);
    umcg_segment_event_t *manual = umcg_segment_event(segment, "manual", UMCG_EVENT_MANUAL);

    MUST(once && manual);
    NONE("the other kind", EEXIST, umcg_segment_event(segment, "auto", UMCG_EVENT_MANUAL));
    CHECK("is set", umcg_segment_event_is_set(once) == 1 && umcg_segment_event_wait(once) == 0);
    FAILS("once", EAGAIN, umcg_segment_event_trywait(once));
    FAILS("no more", ETIMEDOUT, umcg_segment_event_wait_until(once, in_ms(1)));
    CHECK("set", umcg_segment_event_set(manual) == 0 && umcg_segment_event_wait(manual) == 0 &&
                     umcg_segment_event_trywait(manual) == 0);
    CHECK("reset", umcg_segment_event_reset(manual) == 1 && umcg_segment_event_reset(manual) == 0);
    CHECK("nobody waits",
          umcg_segment_event_pulse(manual) == 0 && umcg_segment_event_is_set(manual) == 0);
    CHECK("nobody", umcg_segment_event_waiters(manual) == 0);
    FAILS("no event", EINVAL, umcg_segment_event_set(NULL));
    FAILS("no event", EINVAL, umcg_segment_event_pulse(NULL));
    FAILS("no event", EINVAL, umcg_segment_event_reset(NULL));
    FAILS("no event", EINVAL, umcg_segment_event_is_set(NULL));
    FAILS("no event", EINVAL, umcg_segment_event_waiters(NULL));
    FAILS("no event", EINVAL, umcg_segment_event_wait(NULL));
    FAILS("no event", EINVAL, umcg_segment_event_trywait(NULL));
    umcg_segment_event_free(once);
    umcg_segment_event_free(manual);
}

static void tubes(umcg_segment_t *segment)
{
    const char a[5] = {'o', 'n', 'e', ' ', '1'}, b[5] = {'t', 'w', 'o', ' ', '2'};
    char into[7] = {0, 0, 0, 0, 0, 'x', 'y'};
    umcg_segment_tube_t *tube = umcg_segment_tube(segment, "tube", 5, 2);
    size_t receivers = 9, senders = 9;

    MUST(tube);
    NONE("other messages", EEXIST, umcg_segment_tube(segment, "tube", 6, 2));
    NONE("another capacity", EEXIST, umcg_segment_tube(segment, "tube", 5, 3));
    FAILS("empty", EAGAIN, umcg_segment_tube_try_recv(tube, into));
    FAILS("empty", ETIMEDOUT, umcg_segment_tube_recv_until(tube, into, in_ms(1)));
    CHECK("send", umcg_segment_tube_send(tube, a) == 0 && umcg_segment_tube_try_send(tube, b) == 0);
    CHECK("length", umcg_segment_tube_length(tube) == 2);
    FAILS("full", EAGAIN, umcg_segment_tube_try_send(tube, a));
    FAILS("full", ETIMEDOUT, umcg_segment_tube_send_until(tube, a, in_ms(1)));
    CHECK("the first", umcg_segment_tube_recv(tube, into) == 0 && memcmp(into, "one 1xy", 7) == 0);
    CHECK("nobody", umcg_segment_tube_waiters(tube, &receivers, &senders) == 0 && receivers == 0 &&
                        senders == 0);
    CHECK("to look only", umcg_segment_tube_waiters(tube, NULL, NULL) == 0);
    FAILS("no tube", EINVAL, umcg_segment_tube_send(NULL, a));
    FAILS("no message", EINVAL, umcg_segment_tube_send(tube, NULL));
    FAILS("no message", EINVAL, umcg_segment_tube_try_recv(tube, NULL));
    FAILS("no tube", EINVAL, umcg_segment_tube_recv(NULL, into));
    FAILS("no tube", EINVAL, umcg_segment_tube_close(NULL));
    FAILS("no tube", EINVAL, umcg_segment_tube_length(NULL));
    FAILS("no tube", EINVAL, umcg_segment_tube_waiters(NULL, NULL, NULL));
    CHECK("close", umcg_segment_tube_close(tube) == 0);
    FAILS("no more", ESHUTDOWN, umcg_segment_tube_send(tube, a));
    FAILS("no more", ESHUTDOWN, umcg_segment_tube_try_send(tube, a));
    CHECK("what was sent",
          umcg_segment_tube_recv(tube, into) == 0 && memcmp(into, "two 2xy", 7) == 0);
    FAILS("and no more", ESHUTDOWN, umcg_segment_tube_recv(tube, into));
    FAILS("and no more", ESHUTDOWN, umcg_segment_tube_recv_until(tube, into, in_ms(1)));
    FAILS("and no more", ESHUTDOWN, umcg_segment_tube_try_recv(tube, into));
    umcg_segment_tube_free(tube);
}

static void *each_call(void *arg)
{
    umcg_segment_t *segment = umcg_segment_create(NULL);
    MUST(segment != NULL);
    opening(segment);
    naming(segment);
    semaphores(segment);
    events(segment);
    tubes(segment);
    umcg_segment_close(segment);
    return arg;
}

/* ---- Waiting ---- */

/* In their order, in every way: no later caller takes a wakeup or message that was given to
 * another. */
static void *order(void *arg)
{
    for (int way = 0; way < WAYS; way++) {
        umcg_segment_t *segment = umcg_segment_create(NULL);
        struct world world = world_of(segment);
        struct party parties[3];

        prepare(&world, way);
        for (int i = 0; i < 3; i++) {
            start_party(&parties[i], &world, way, (i + way) % 2);
            await_waiters(&world, way, i + 1);
        }
        for (int i = 0; i < 3; i++) {
            give(&world, way);
            CHECK("it is given away",
                  wait_in(&world, way, UMCG_POLL) == -1 && check_errno() == ETIMEDOUT);
            join_party(&parties[i]);
            CHECK("to the first", parties[i].result == 0 && waiters(&world, way) == 2 - i);
        }
        CHECK("none is left", left(&world, way) == 0);
        free_world(&world);
        umcg_segment_close(segment);
    }
    return arg;
}

/* A waiter for a tube that is closed. */
static void *closed(void *arg)
{
    for (int way = RECEIVE; way <= SEND; way++) {
        umcg_segment_t *segment = umcg_segment_create(NULL);
        struct world world = world_of(segment);
        struct party parties[2];

        prepare(&world, way);
        for (int i = 0; i < 2; i++)
            start_party(&parties[i], &world, way, i);
        await_waiters(&world, way, 2);
        CHECK("close", umcg_segment_tube_close(world.tube) == 0);
        for (int i = 0; i < 2; i++) {
            join_party(&parties[i]);
            CHECK("is told", parties[i].result == -1 && parties[i].error == ESHUTDOWN);
        }
        free_world(&world);
        umcg_segment_close(segment);
    }
    return arg;
}

/* A wakeup or message given while a waiting worker is aborted is taken by it, or is still there. */
static void *aborted(void *arg)
{
    for (int round = 0; round < 8 * WAYS; round++) {
        umcg_segment_t *segment = umcg_segment_create(NULL);
        struct world world = world_of(segment);
        int way = round % WAYS, kind = round / WAYS % 4, is_given = kind != 1;
        struct party party;

        prepare(&world, way);
        start_party(&party, &world, way, 0);
        if (kind != 0)
            await_waiters(&world, way, 1);
        if (is_given)
            give(&world, way);
        CHECK("abort", umcg_abort(party.worker) == 0);
        join_party(&party);
        CHECK("cut short, or not", party.result == 0 || party.error == ECANCELED);
        CHECK("none is lost, and none doubled",
              left(&world, way) == is_given - (party.result == 0));
        CHECK("nobody stands there", waiters(&world, way) == 0);
        free_world(&world);
        umcg_segment_close(segment);
    }
    return arg;
}

int main(void)
{
    check_start(100);
    each_call(NULL); /* as a plain thread */
    in_runtime(each_call, NULL);
    in_runtime(order, NULL);
    in_runtime(closed, NULL);
    in_runtime(aborted, NULL);
    return check_done();
}
