/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Segments between processes, each of which has workers and plain threads; some are killed while
 * they wait, while they have something, and within an inner lock.
 *
 * Processes are forked by one that has no runtime yet. They use the segment they inherit, or open
 * it anew.
 */
#include <sys/stat.h>

#include "processes.h"
#include "segment.h"

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
    in_runtime(corrupt, NULL);
    return check_done();
}
