/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Semaphores, altsems, events and tubes between processes, each of which has workers and plain
 * threads; some are killed while they wait, while they have something, and within an inner lock.
 *
 * Processes are forked by one that has no runtime yet. They use the segment they inherit, or open
 * it anew.
 */
#include <sys/stat.h>

#include "processes.h"
#include "runtime.h"
#include "umcg/segment.h"

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

/* ---- Waiting, in each way ---- */

enum { ACQUIRE, ANY, WAIT, RECEIVE, SEND, WAYS };

struct world {
    umcg_segment_sem_t *a, *b;
    umcg_segment_event_t *event;
    umcg_segment_tube_t *tube;
};

static struct world world_of(umcg_segment_t *segment)
{
    struct world world;
    world.a = umcg_segment_sem(segment, "a", 0);
    world.b = umcg_segment_sem(segment, "b", 0);
    world.event = umcg_segment_event(segment, "event", 0);
    world.tube = umcg_segment_tube(segment, "tube", sizeof(uint64_t), 2);
    MUST(world.a && world.b && world.event && world.tube);
    return world;
}

static void free_world(struct world *world)
{
    umcg_segment_sem_free(world->a);
    umcg_segment_sem_free(world->b);
    umcg_segment_event_free(world->event);
    umcg_segment_tube_free(world->tube);
}

static int wait_in(struct world *world, int way, uint64_t deadline)
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
static void prepare(struct world *world, int way)
{
    uint64_t message = 0;
    for (int i = 0; way == SEND && i < 2; i++)
        MUST(umcg_segment_tube_send(world->tube, &message) == 0);
}

/* The data of one waiter. */
static void give(struct world *world, int way)
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
static long left(struct world *world, int way)
{
    switch (way) {
    case ACQUIRE:
    case ANY: return (long)umcg_segment_sem_available(world->a);
    case WAIT: return umcg_segment_event_is_set(world->event);
    case RECEIVE: return (long)umcg_segment_tube_length(world->tube);
    default: return 2 - (long)umcg_segment_tube_length(world->tube);
    }
}

static long waiters(struct world *world, int way)
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

static void await_waiters(struct world *world, int way, long count)
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

static void *waits(void *arg)
{
    struct party *party = (struct party *)arg;
    party->result = wait_in(party->world, party->way, party->deadline);
    party->error = check_errno();
    add(&party->done);
    return arg;
}

static void start_party(struct party *party, struct world *world, int way, int by_thread)
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

static void join_party(struct party *party)
{
    await(&party->done, 1);
    if (party->by_thread)
        MUST(pthread_join(party->thread, NULL) == 0);
    else
        joined(party->worker);
}

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

/* ---- Processes ---- */

/* Workers and threads of several processes take tokens, and change a number that only the holder of
 * one of them may change. */
enum { PROCESSES = 3, PARTIES = 4 };

struct bank {
    umcg_segment_t *segment;
    int rounds;
};

static void *uses_tokens(void *arg)
{
    struct bank *bank = (struct bank *)arg;
    umcg_segment_sem_t *a = umcg_segment_sem(bank->segment, "a", 0),
                       *b = umcg_segment_sem(bank->segment, "b", 0);
    umcg_segment_sem_t *guarded = umcg_segment_sem(bank->segment, "guarded", 0), *list[2] = {a, b};
    umcg_segment_tube_t *account = umcg_segment_tube(bank->segment, "account", sizeof(uint64_t), 1);

    MUST(a && b && guarded && account);
    for (int i = 0; i < bank->rounds; i++) {
        int index = i % 3 == 0 ? umcg_segment_sem_acquire(a)
                               : umcg_segment_sem_any(list, 2, UMCG_NO_TIMEOUT);
        uint64_t value = 0;
        MUST(index == 0 || index == 1);
        while (umcg_segment_sem_acquire_until(guarded, in_ms(1)) != 0)
            CHECK("late", check_errno() == ETIMEDOUT);
        CHECK("the number", umcg_segment_tube_try_recv(account, &value) == 0);
        value++;
        CHECK("goes back", umcg_segment_tube_try_send(account, &value) == 0);
        CHECK("for the next", umcg_segment_sem_release(guarded, 1) == 0);
        CHECK("the token too", umcg_segment_sem_release(list[index], 1) == 0);
    }
    umcg_segment_sem_free(a);
    umcg_segment_sem_free(b);
    umcg_segment_sem_free(guarded);
    umcg_segment_tube_free(account);
    return arg;
}

static void *use_tokens(void *arg)
{
    umcg_worker_t *workers[PARTIES / 2];
    pthread_t threads[PARTIES / 2];

    for (int i = 0; i < PARTIES / 2; i++) {
        workers[i] = spawn(uses_tokens, arg);
        MUST(pthread_create(&threads[i], NULL, uses_tokens, arg) == 0);
    }
    for (int i = 0; i < PARTIES / 2; i++)
        joined(workers[i]);
    /* Now no other thread needs the server, which this keeps. */
    for (int i = 0; i < PARTIES / 2; i++)
        MUST(pthread_join(threads[i], NULL) == 0);
    return arg;
}

/* By the descriptor that it has inherited. */
static void teller(void *arg)
{
    struct bank bank = *(struct bank *)arg;
    MUST((bank.segment = umcg_segment_open_fd(umcg_segment_fd(bank.segment))) != NULL);
    in_runtime(use_tokens, &bank);
    umcg_segment_close(bank.segment);
}

static void sums(void)
{
    struct bank bank = {umcg_segment_create(NULL), check_count("UMCG_TEST_UTHS", 500) / 5};
    umcg_segment_sem_t *a = umcg_segment_sem(bank.segment, "a", 2),
                       *b = umcg_segment_sem(bank.segment, "b", 2);
    umcg_segment_sem_t *guarded = umcg_segment_sem(bank.segment, "guarded", 1);
    umcg_segment_tube_t *account = umcg_segment_tube(bank.segment, "account", sizeof(uint64_t), 1);
    pid_t others[PROCESSES - 1];
    uint64_t value = 0;

    MUST(a && b && guarded && account && umcg_segment_tube_send(account, &value) == 0);
    for (int i = 0; i < PROCESSES - 1; i++)
        others[i] = start(teller, &bank);
    in_runtime(use_tokens, &bank);
    for (int i = 0; i < PROCESSES - 1; i++)
        ends_well(others[i]);
    CHECK("the number", umcg_segment_tube_recv(account, &value) == 0 &&
                            value == (uint64_t)(PROCESSES * PARTIES * bank.rounds));
    CHECK("all tokens", umcg_segment_sem_available(a) + umcg_segment_sem_available(b) == 4);
    CHECK("nobody waits", umcg_segment_sem_waiters(a) == 0 && umcg_segment_sem_waiters(b) == 0);
}

/* A process that is killed while it waits, or after it was given something that it has not taken:
 * the next waiter gets that. */
enum { VICTIMS = 2 * WAYS };

struct victim {
    struct world world;
    struct party next;
    pid_t child;
    int way;
};

static void is_killed(void *arg)
{
    struct victim *victim = (struct victim *)arg;
    wait_in(&victim->world, victim->way, UMCG_NO_TIMEOUT);
    CHECK("it was to wait for ever", 0);
}

static void *inherits(void *arg)
{
    struct victim *victims = (struct victim *)arg;

    for (int i = 0; i < VICTIMS; i++) {
        struct victim *victim = &victims[i];
        await_waiters(&victim->world, victim->way, 1);
        start_party(&victim->next, &victim->world, victim->way, i % 2);
        await_waiters(&victim->world, victim->way, 2);
        if (i < WAYS) {
            stop_it(victim->child);
            give(&victim->world, victim->way);
            CHECK("the first has it", waiters(&victim->world, victim->way) == 1);
            kill_it(victim->child);
        } else {
            kill_it(victim->child);
            give(&victim->world, victim->way);
        }
    }
    for (int i = 0; i < VICTIMS; i++) {
        struct victim *victim = &victims[i];
        join_party(&victim->next);
        CHECK("the next has it", victim->next.result == 0);
        CHECK("and nobody else",
              waiters(&victim->world, victim->way) == 0 && left(&victim->world, victim->way) == 0);
    }
    return arg;
}

static void deaths(void)
{
    static struct victim victims[VICTIMS];

    for (int i = 0; i < VICTIMS; i++) {
        victims[i].way = i % WAYS;
        victims[i].world = world_of(umcg_segment_create(NULL));
        prepare(&victims[i].world, victims[i].way);
        victims[i].child = start(is_killed, &victims[i]);
    }
    in_runtime(inherits, victims);
}

/* A process that is killed after it has taken something has taken it. */
static void takes(void *arg)
{
    struct world *world = (struct world *)arg;
    CHECK("takes",
          umcg_segment_sem_acquire(world->a) == 0 && umcg_segment_event_set(world->event) == 0);
    for (;;)
        pause();
}

static void *replaces(void *arg)
{
    struct world *world = (struct world *)arg;
    struct party party;

    start_party(&party, world, ACQUIRE, 0);
    await_waiters(world, ACQUIRE, 1);
    umcg_sleep_ns(1200000000); /* as long as it takes to see which process died */
    CHECK("nobody gives it back", party.done == 0 && umcg_segment_sem_available(world->a) == 0);
    give(world, ACQUIRE);
    join_party(&party);
    CHECK("but the program can", party.result == 0);
    return arg;
}

static void taken(void)
{
    struct world world = world_of(umcg_segment_create(NULL));
    pid_t child = start(takes, &world);

    give(&world, ACQUIRE);
    MUST(umcg_segment_event_wait(world.event) == 0);
    kill_it(child);
    in_runtime(replaces, &world);
}

/* ---- Errors ---- */

/* It is in the inner lock nearly always. */
enum { LARGE = 256 << 10 };
static char large[LARGE];

static void is_busy(void *arg)
{
    umcg_segment_tube_t *tube = (umcg_segment_tube_t *)arg;
    for (;;) {
        umcg_segment_tube_try_send(tube, large);
        umcg_segment_tube_try_recv(tube, large);
    }
}

struct told {
    umcg_segment_tube_t *tube;
    int result, error;
};

static void *waits_for_the_dead(void *arg)
{
    struct told *told = (struct told *)arg;
    char *message = (char *)calloc(1, LARGE);
    for (int i = 0; i < 3 && told->result == 0; i++)
        told->result = umcg_segment_tube_send(told->tube, message);
    told->error = check_errno();
    free(message);
    return arg;
}

static void *comes_later(void *arg)
{
    umcg_segment_tube_t *tube = (umcg_segment_tube_t *)arg;
    FAILS("receive", EOWNERDEAD, umcg_segment_tube_recv(tube, large));
    FAILS("until", EOWNERDEAD, umcg_segment_tube_recv_until(tube, large, in_ms(60000)));
    FAILS("try", EOWNERDEAD, umcg_segment_tube_try_recv(tube, large));
    FAILS("send", EOWNERDEAD, umcg_segment_tube_send(tube, large));
    FAILS("close", EOWNERDEAD, umcg_segment_tube_close(tube));
    FAILS("waiters", EOWNERDEAD, umcg_segment_tube_waiters(tube, NULL, NULL));
    CHECK("to look only", umcg_segment_tube_length(tube) >= 0);
    return arg;
}

static void dead_objects(void)
{
    for (int attempt = 0; attempt < 50; attempt++) {
        umcg_segment_t *segment = umcg_segment_create(NULL);
        umcg_segment_tube_t *tube = umcg_segment_tube(segment, "large", LARGE, 1);
        umcg_segment_sem_t *other = umcg_segment_sem(segment, "other", 1);
        struct told told = {tube, 0, 0};
        pthread_t thread;
        pid_t busy;
        int is_dead;

        MUST(tube && other);
        busy = start(is_busy, tube);
        while (umcg_segment_tube_length(tube) == 0)
            check_sleep_ms(1);
        kill_it(busy);
        MUST(pthread_create(&thread, NULL, waits_for_the_dead, &told) == 0);
        check_sleep_ms(2);
        is_dead = umcg_segment_tube_waiters(tube, NULL, NULL) != 0;
        if (!is_dead)
            umcg_segment_tube_close(tube);
        MUST(pthread_join(thread, NULL) == 0);
        CHECK("who waits is told",
              told.result == -1 && told.error == (is_dead ? EOWNERDEAD : ESHUTDOWN));
        if (is_dead) {
            comes_later(tube);
            in_runtime(comes_later, tube);
            CHECK("others are not concerned", umcg_segment_sem_acquire(other) == 0);
            return;
        }
    }
    CHECK("it dies in the lock", 0);
}

/* The position in the segment's file of the 64 bits whose lower half is `count`. */
static off_t find_word(int fd, uint32_t count)
{
    struct stat status;
    uint32_t word[2];
    MUST(fstat(fd, &status) == 0);
    for (off_t at = 0; at < status.st_size; at += 8) {
        MUST(pread(fd, word, sizeof word, at) == (ssize_t)sizeof word);
        if (word[0] == count)
            return at;
    }
    MUST(!"found");
    return 0;
}

static void *corrupt(void *arg)
{
    umcg_segment_options_t options = UMCG_SEGMENT_OPTIONS_INIT;
    umcg_segment_t *segment;
    umcg_segment_sem_t *list[2];
    struct world world;
    struct party parties[2];
    off_t at;
    uint32_t nobody = 1000000;

    options.objects = options.waiters = options.processes = 8;
    options.bytes = 64;
    MUST((segment = umcg_segment_create(&options)) != NULL);
    MUST(umcg_segment_sem(segment, "a", 0x5eed1234) != NULL);
    at = find_word(umcg_segment_fd(segment), 0x5eed1234);
    world = world_of(segment);
    CHECK("none is left", umcg_segment_sem_try_acquire_many(world.a, 0x5eed1234) == 0);
    for (int i = 0; i < 2; i++)
        start_party(&parties[i], &world, ACQUIRE, i);
    await_waiters(&world, ACQUIRE, 2);
    CHECK("a name of what is in order stays", umcg_segment_forget(segment, "a") == 0);
    /* The first entry of the queue is an impossible waiter. */
    MUST(pwrite(umcg_segment_fd(segment), &nobody, sizeof nobody, at + 32) ==
         (ssize_t)sizeof nobody);
    FAILS("release", EBADMSG, umcg_segment_sem_release(world.a, 1));
    for (int i = 0; i < 2; i++) {
        join_party(&parties[i]);
        CHECK("who waits is told", parties[i].result == -1 && parties[i].error == EBADMSG);
    }
    list[0] = list[1] = world.a;
    FAILS("acquire", EBADMSG, umcg_segment_sem_acquire(world.a));
    FAILS("until", EBADMSG, umcg_segment_sem_acquire_until(world.a, in_ms(60000)));
    FAILS("try", EBADMSG, umcg_segment_sem_try_acquire(world.a));
    FAILS("any", EBADMSG, umcg_segment_sem_any(list, 2, UMCG_NO_TIMEOUT));
    FAILS("waiters", EBADMSG, umcg_segment_sem_waiters(world.a));
    CHECK("its name is free again",
          umcg_segment_forget(segment, "a") == 1 && umcg_segment_forget(segment, "a") == 0);
    list[0] = umcg_segment_sem(segment, "a", 5);
    CHECK("for a new one", list[0] && umcg_segment_sem_available(list[0]) == 5);
    FAILS("the old one", EBADMSG, umcg_segment_sem_try_acquire(world.a));
    umcg_segment_sem_free(list[0]);
    list[0] = world.a;
    list[1] = world.b;
    CHECK("another one", umcg_segment_sem_release(world.b, 1) == 0 &&
                             umcg_segment_sem_any(list, 2, UMCG_NO_TIMEOUT) == 1);
    return arg;
}

int main(void)
{
    check_start(100);
    /* In processes of their own, which fork before they have a runtime. */
    check_passes("sums", sums);
    check_passes("deaths", deaths);
    check_passes("what was taken", taken);
    check_passes("dead objects", dead_objects);
    each_call(NULL); /* as a plain thread */
    in_runtime(each_call, NULL);
    in_runtime(order, NULL);
    in_runtime(closed, NULL);
    in_runtime(aborted, NULL);
    in_runtime(corrupt, NULL);
    return check_done();
}
