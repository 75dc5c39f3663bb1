/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Mutexes, locks, condition variables and their like, between workers and plain threads. */
#include "runtime.h"
#include "umcg/sync.h"

#define MANY 6

/* By the initialisers of the header, and by none. */
static umcg_mutex_t mutex = UMCG_MUTEX_INIT, fair = UMCG_MUTEX_FAIR_INIT, zero_mutex;
static umcg_rwlock_t rwlock = UMCG_RWLOCK_INIT, zero_rwlock;
static umcg_cond_t cond = UMCG_COND_INIT, zero_cond;
static umcg_once_t once = UMCG_ONCE_INIT, zero_once;
static umcg_barrier_t barrier = UMCG_BARRIER_INIT(2 * MANY);
static umcg_wait_group_t group = UMCG_WAIT_GROUP_INIT, zero_group;
static umcg_event_t manual = UMCG_EVENT_INIT(UMCG_EVENT_MANUAL),
                    set = UMCG_EVENT_INIT(UMCG_EVENT_SET), zero_event;

static int times;

static void counts_once(void)
{
    times++;
}

/* ---- Each call, where no other caller is ---- */

static void mutexes(void)
{
    umcg_mutex_t made, *all[] = {&mutex, &fair, &zero_mutex, &made};

    CHECK("init", umcg_mutex_init(&made, UMCG_MUTEX_FAIR) == 0);
    CHECK("as its initialiser",
          made.word == fair.word && made.is_fair == fair.is_fair && made.is_fair != mutex.is_fair);
    for (int i = 0; i < 4; i++) {
        umcg_mutex_t *m = all[i];
        FAILS("unlock a free one", EPERM, umcg_mutex_unlock(m));
        CHECK("lock", umcg_mutex_lock(m) == 0);
        FAILS("busy", EBUSY, umcg_mutex_trylock(m));
        FAILS("busy until", ETIMEDOUT, umcg_mutex_lock_until(m, in_ms(1)));
        FAILS("busy now", ETIMEDOUT, umcg_mutex_lock_until(m, UMCG_POLL));
        CHECK("unlock",
              umcg_mutex_unlock(m) == 0 && umcg_mutex_trylock(m) == 0 && umcg_mutex_unlock(m) == 0);
        CHECK("until", umcg_mutex_lock_until(m, UMCG_NO_TIMEOUT) == 0 && umcg_mutex_unlock(m) == 0);
    }
    FAILS("a flag that is not", EINVAL, umcg_mutex_init(&made, 2));
    FAILS("no mutex", EINVAL, umcg_mutex_init(NULL, 0));
    FAILS("no mutex", EINVAL, umcg_mutex_lock(NULL));
    FAILS("no mutex", EINVAL, umcg_mutex_unlock(NULL));
}

static void rwlocks(void)
{
    umcg_rwlock_t made, *all[] = {&rwlock, &zero_rwlock, &made};

    CHECK("init", umcg_rwlock_init(&made) == 0);
    for (int i = 0; i < 3; i++) {
        umcg_rwlock_t *l = all[i];
        FAILS("unlock a free one", EPERM, umcg_rwlock_unlock(l));
        CHECK("many read", umcg_rwlock_rdlock(l) == 0 && umcg_rwlock_tryrdlock(l) == 0);
        CHECK("and more", umcg_rwlock_rdlock_until(l, UMCG_POLL) == 0);
        FAILS("none writes", EBUSY, umcg_rwlock_trywrlock(l));
        FAILS("nor in time", ETIMEDOUT, umcg_rwlock_wrlock_until(l, in_ms(1)));
        FAILS("no writer", EPERM, umcg_rwlock_downgrade(l));
        CHECK("unlock", umcg_rwlock_unlock(l) == 0 && umcg_rwlock_unlock(l) == 0 &&
                            umcg_rwlock_unlock(l) == 0);
        CHECK("write", umcg_rwlock_wrlock(l) == 0);
        FAILS("alone", EBUSY, umcg_rwlock_tryrdlock(l));
        FAILS("alone", EBUSY, umcg_rwlock_trywrlock(l));
        FAILS("in time", ETIMEDOUT, umcg_rwlock_rdlock_until(l, in_ms(1)));
        CHECK("downgrade", umcg_rwlock_downgrade(l) == 0 && umcg_rwlock_tryrdlock(l) == 0);
        CHECK("unlock", umcg_rwlock_unlock(l) == 0 && umcg_rwlock_unlock(l) == 0);
        CHECK("write until",
              umcg_rwlock_wrlock_until(l, UMCG_NO_TIMEOUT) == 0 && umcg_rwlock_unlock(l) == 0);

        FAILS("nothing to upgrade", EPERM, umcg_rwlock_upgrade(l));
        FAILS("nor to unlock", EPERM, umcg_rwlock_upunlock(l));
        CHECK("to upgrade, beside a reader",
              umcg_rwlock_uplock(l) == 0 && umcg_rwlock_rdlock(l) == 0);
        FAILS("one only", EBUSY, umcg_rwlock_tryuplock(l));
        FAILS("nor in time", ETIMEDOUT, umcg_rwlock_uplock_until(l, in_ms(1)));
        FAILS("no writer", EBUSY, umcg_rwlock_trywrlock(l));
        FAILS("not beside a reader", EBUSY, umcg_rwlock_tryupgrade(l));
        FAILS("nor in time", ETIMEDOUT, umcg_rwlock_upgrade_until(l, in_ms(1)));
        CHECK("the reader", umcg_rwlock_unlock(l) == 0);
        FAILS("is the only one", EPERM, umcg_rwlock_unlock(l));
        FAILS("not a writer", EPERM, umcg_rwlock_downgrade_up(l));
        CHECK("upgraded", umcg_rwlock_tryupgrade(l) == 0);
        FAILS("alone", EBUSY, umcg_rwlock_tryrdlock(l));
        FAILS("no more to upgrade", EPERM, umcg_rwlock_tryupgrade(l));
        FAILS("nor so", EPERM, umcg_rwlock_upgrade_until(l, UMCG_POLL));
        CHECK("back, and again", umcg_rwlock_downgrade_up(l) == 0 && umcg_rwlock_upgrade(l) == 0 &&
                                     umcg_rwlock_unlock(l) == 0);
        CHECK("in time", umcg_rwlock_uplock_until(l, UMCG_POLL) == 0 &&
                             umcg_rwlock_upgrade_until(l, UMCG_POLL) == 0);
        CHECK("given up", umcg_rwlock_downgrade_up(l) == 0 && umcg_rwlock_upunlock(l) == 0);
        CHECK("a plain one", umcg_rwlock_tryuplock(l) == 0 && umcg_rwlock_updowngrade(l) == 0);
        FAILS("no more than that", EPERM, umcg_rwlock_updowngrade(l));
        CHECK("beside another", umcg_rwlock_tryuplock(l) == 0 && umcg_rwlock_upunlock(l) == 0 &&
                                    umcg_rwlock_unlock(l) == 0);
        CHECK("free", umcg_rwlock_trywrlock(l) == 0 && umcg_rwlock_unlock(l) == 0);
    }
    FAILS("no lock", EINVAL, umcg_rwlock_rdlock(NULL));
    FAILS("no lock", EINVAL, umcg_rwlock_unlock(NULL));
    FAILS("no lock", EINVAL, umcg_rwlock_uplock(NULL));
    FAILS("no lock", EINVAL, umcg_rwlock_upgrade_until(NULL, UMCG_POLL));
    FAILS("no lock", EINVAL, umcg_rwlock_downgrade_up(NULL));
}

static void conds_and_once(void)
{
    umcg_cond_t made, *all[] = {&cond, &zero_cond, &made};
    umcg_once_t own = UMCG_ONCE_INIT;

    CHECK("init", umcg_cond_init(&made) == 0);
    for (int i = 0; i < 3; i++) {
        CHECK("nobody waits", umcg_cond_signal(all[i]) == 0 && umcg_cond_broadcast(all[i]) == 0);
        FAILS("not locked", EPERM, umcg_cond_wait(all[i], &mutex));
        CHECK("lock", umcg_mutex_lock(&mutex) == 0);
        FAILS("late", ETIMEDOUT, umcg_cond_wait_until(all[i], &mutex, in_ms(1)));
        CHECK("locked again", umcg_mutex_unlock(&mutex) == 0);
    }
    FAILS("no condition", EINVAL, umcg_cond_wait(NULL, &mutex));
    FAILS("no mutex", EINVAL, umcg_cond_wait(&made, NULL));

    times = 0;
    FAILS("not done", ETIMEDOUT, umcg_once_wait_until(&own, in_ms(1)));
    CHECK("not done", umcg_once_is_done(&own) == 0 && times == 0);
    CHECK("once",
          umcg_once(&own, counts_once) == 0 && umcg_once(&own, counts_once) == 0 && times == 1);
    CHECK("done", umcg_once_is_done(&own) == 1 && umcg_once_wait(&own) == 0);
    FAILS("no function", EINVAL, umcg_once(&own, NULL));
    FAILS("nothing", EINVAL, umcg_once(NULL, counts_once));
}

static void barriers_and_groups(void)
{
    umcg_barrier_t one, two = UMCG_BARRIER_INIT(2);
    umcg_wait_group_t made, *all[] = {&group, &zero_group, &made};

    CHECK("alone", umcg_barrier_init(&one, 1) == 0 && umcg_barrier_wait(&one) == 1 &&
                       umcg_barrier_wait(&one) == 1);
    FAILS("not all", ETIMEDOUT, umcg_barrier_wait_until(&two, in_ms(1)));
    FAILS("who was late has not come", ETIMEDOUT, umcg_barrier_wait_until(&two, UMCG_POLL));
    FAILS("for none", EINVAL, umcg_barrier_init(&one, 0));
    FAILS("no barrier", EINVAL, umcg_barrier_wait(NULL));

    CHECK("init", umcg_wait_group_init(&made) == 0);
    for (int i = 0; i < 3; i++) {
        umcg_wait_group_t *g = all[i];
        CHECK("nothing to do", umcg_wait_group_wait(g) == 0 && umcg_wait_group_count(g) == 0);
        FAILS("nothing was done", EPERM, umcg_wait_group_done(g));
        CHECK("add", umcg_wait_group_add(g, UINT32_MAX - 1) == 0 && umcg_wait_group_add(g, 1) == 0);
        FAILS("too much", EOVERFLOW, umcg_wait_group_add(g, 1));
        CHECK("count",
              umcg_wait_group_count(g) == (int64_t)UINT32_MAX && umcg_wait_group_done(g) == 0);
        FAILS("not done", ETIMEDOUT, umcg_wait_group_wait_until(g, in_ms(1)));
        MUST(umcg_wait_group_init(g) == 0);
    }
    FAILS("no group", EINVAL, umcg_wait_group_add(NULL, 1));
}

static void events(void)
{
    umcg_event_t made;

    MUST(umcg_event_init(&made, UMCG_EVENT_SET | UMCG_EVENT_MANUAL) == 0);
    MUST(umcg_event_reset(&manual) == 0 && umcg_event_set(&set) == 0);
    CHECK("by hand", umcg_event_wait(&made) == 0 && umcg_event_trywait(&made) == 0 &&
                         umcg_event_is_set(&made) == 1);
    CHECK("it was", umcg_event_reset(&made) == 1 && umcg_event_reset(&made) == 0 &&
                        umcg_event_is_set(&made) == 0);
    FAILS("not set", EAGAIN, umcg_event_trywait(&made));
    FAILS("late", ETIMEDOUT, umcg_event_wait_until(&manual, in_ms(1)));
    CHECK("for one", umcg_event_trywait(&set) == 0);
    FAILS("and no more", EAGAIN, umcg_event_trywait(&set));
    CHECK("twice is once", umcg_event_set(&zero_event) == 0 && umcg_event_set(&zero_event) == 0);
    CHECK("once", umcg_event_wait_until(&zero_event, UMCG_POLL) == 0);
    FAILS("not twice", ETIMEDOUT, umcg_event_wait_until(&zero_event, UMCG_POLL));
    CHECK("pulse for nobody",
          umcg_event_pulse(&zero_event) == 0 && umcg_event_is_set(&zero_event) == 0);
    FAILS("a flag that is not", EINVAL, umcg_event_init(&made, 2));
    FAILS("no event", EINVAL, umcg_event_set(NULL));
}

static void any_and_all(void)
{
    umcg_event_t ready = UMCG_EVENT_INIT(0);
    umcg_mutex_t m = UMCG_MUTEX_INIT;
    Sem s = UMCG_SEM_INIT(1), shut = UMCG_SEM_INIT(0);
    umcg_op_t ops[20] = {UMCG_HAPPENED(&ready), UMCG_ACQUIRE(&s), UMCG_LOCK(&m), UMCG_NEVER};

    CHECK("the lowest",
          umcg_wait_any(ops, 3, UMCG_NO_TIMEOUT) == 1 && umcg_wait_any(ops, 3, UMCG_POLL) == 2);
    FAILS("none", ETIMEDOUT, umcg_wait_any(ops, 3, in_ms(1)));
    upsem(&s);
    FAILS("not all", ETIMEDOUT, umcg_wait_all(ops, 3, in_ms(1)));
    CHECK("nothing was taken",
          umcg_sem_available(&s) == 1 && umcg_event_set(&ready) == 0 && umcg_mutex_unlock(&m) == 0);
    CHECK("all", umcg_wait_all(ops, 3, UMCG_NO_TIMEOUT) == 0 && umcg_sem_available(&s) == 0);
    CHECK("taken", umcg_event_is_set(&ready) == 0 && umcg_mutex_trylock(&m) == -1);
    CHECK("select", umcg_mutex_unlock(&m) == 0 && umcg_select(ops, 3, 0, UMCG_NO_TIMEOUT) == 2);
    CHECK("an event", umcg_event_set(&ready) == 0 && umcg_select(ops, 3, 0, UMCG_NO_TIMEOUT) == 0);
    CHECK("it is locked", umcg_mutex_unlock(&m) == 0);
    for (int i = 3; i < 20; i++)
        ops[i] = ops[0];
    FAILS("twice", EINVAL, umcg_wait_all(ops, 4, UMCG_POLL));
    CHECK("of many", umcg_mutex_lock(&m) == 0 && umcg_event_set(&ready) == 0 &&
                         umcg_wait_any(ops + 2, 18, UMCG_POLL) == 1);
    ops[0].object = &shut;
    ops[0].kind = UMCG_OP_ACQUIRE;
    MUST(umcg_sem_close(&shut) == 0);
    FAILS("closed", ESHUTDOWN, umcg_wait_any(ops, 3, UMCG_NO_TIMEOUT));
    FAILS("closed", ESHUTDOWN, umcg_wait_all(ops, 3, UMCG_NO_TIMEOUT));
    ops[1].kind = UMCG_OP_TIME;
    FAILS("not of this kind", EINVAL, umcg_wait_any(ops, 2, UMCG_POLL));
    ops[2].object = NULL;
    FAILS("no mutex", EINVAL, umcg_select(ops + 2, 1, 0, UMCG_POLL));
    FAILS("no list", EINVAL, umcg_wait_all(NULL, 1, UMCG_POLL));
    FAILS("an empty one", EINVAL, umcg_wait_any(ops, 0, UMCG_POLL));
}

static void *each_call(void *arg)
{
    mutexes();
    rwlocks();
    conds_and_once();
    barriers_and_groups();
    events();
    any_and_all();
    return arg;
}

/* ---- Sums: workers and threads together ---- */

static struct {
    int rounds, kind, turn, writers, readers, led;
    long sum, other;
} all;

static void together(function *fn)
{
    umcg_worker_t *workers[MANY];
    pthread_t threads[MANY];

    for (int i = 0; i < MANY; i++) {
        workers[i] = spawn(fn, NULL);
        MUST(pthread_create(&threads[i], NULL, fn, NULL) == 0);
    }
    for (int i = 0; i < MANY; i++)
        joined(workers[i]);
    umcg_blocking_begin(); /* threads may wait for workers of the caller's server */
    for (int i = 0; i < MANY; i++)
        MUST(pthread_join(threads[i], NULL) == 0);
    umcg_blocking_end();
}

/* A worker that polls lets the others have the processor, as there are more kernel threads than
 * processors. */
static void late(void)
{
    CHECK("late", check_errno() == ETIMEDOUT);
    sched_yield();
}

static void *adds(void *arg)
{
    umcg_mutex_t *m = all.kind ? &fair : &mutex;
    umcg_op_t op = UMCG_LOCK(m), both[2] = {UMCG_LOCK(&mutex), UMCG_LOCK(&fair)};

    for (int i = 0; i < all.rounds; i++) {
        if (i % 4 == 0)
            CHECK("lock", umcg_mutex_lock(m) == 0);
        else if (i % 4 == 1)
            while (umcg_mutex_lock_until(m, in_ms(i % 3)) != 0)
                late();
        else if (i % 4 == 2)
            CHECK("select", umcg_select(&op, 1, 0, UMCG_NO_TIMEOUT) == 0);
        else
            CHECK("both", umcg_wait_all(both, 2, UMCG_NO_TIMEOUT) == 0);
        all.sum++;
        if (i % 4 == 3) {
            all.other++;
            CHECK("unlock", umcg_mutex_unlock(all.kind ? &mutex : &fair) == 0);
        }
        CHECK("unlock", umcg_mutex_unlock(m) == 0);
    }
    return arg;
}

static void *reads_and_writes(void *arg)
{
    for (int i = 0; i < all.rounds; i++) {
        int writes = i % 3 == 0;
        if (i % 9 == 3) {
            CHECK("to upgrade", umcg_rwlock_uplock(&rwlock) == 0 && all.writers == 0);
            long sum = all.sum;
            if (umcg_rwlock_upgrade_until(&rwlock, in_ms(i % 2)) != 0)
                CHECK("late", check_errno() == ETIMEDOUT && umcg_rwlock_upgrade(&rwlock) == 0);
            CHECK("nobody wrote in between", sum == all.sum);
        } else if (i % 2)
            CHECK("lock",
                  (writes ? umcg_rwlock_wrlock(&rwlock) : umcg_rwlock_rdlock(&rwlock)) == 0);
        else
            while ((writes ? umcg_rwlock_wrlock_until
                           : umcg_rwlock_rdlock_until)(&rwlock, in_ms(i % 3)) != 0)
                late();
        if (writes) {
            CHECK("alone",
                  __atomic_load_n(&all.readers, __ATOMIC_RELAXED) == 0 && all.writers++ == 0);
            all.sum++;
            all.writers--;
            if (i % 2) {
                add(&all.readers);
                CHECK("a reader now", umcg_rwlock_downgrade(&rwlock) == 0 && all.writers == 0);
                __atomic_sub_fetch(&all.readers, 1, __ATOMIC_RELAXED);
            }
        } else {
            add(&all.readers);
            CHECK("nobody writes", all.writers == 0);
            __atomic_sub_fetch(&all.readers, 1, __ATOMIC_RELAXED);
        }
        CHECK("unlock", umcg_rwlock_unlock(&rwlock) == 0);
    }
    return arg;
}

/* Each in its turn, which is passed on by a signal to one waiter, or to all. */
static void *takes_turns(void *arg)
{
    static int next;
    int me = __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED) % (2 * MANY);

    for (int i = 0; i < all.rounds / 20; i++) {
        CHECK("lock", umcg_mutex_lock(&mutex) == 0);
        while (all.turn % (2 * MANY) != me) {
            if (i % 2)
                CHECK("wait", umcg_cond_wait(&cond, &mutex) == 0);
            else
                CHECK("wait", umcg_cond_wait_until(&cond, &mutex, in_ms(1)) == 0 ||
                                  check_errno() == ETIMEDOUT);
        }
        all.turn++;
        CHECK("wake", umcg_cond_broadcast(&cond) == 0 && umcg_mutex_unlock(&mutex) == 0);
    }
    return arg;
}

static void *phases(void *arg)
{
    for (int i = 0; i < all.rounds / 8; i++) {
        int led;
        CHECK("done here, or by another",
              umcg_once(all.kind ? &once : &zero_once, counts_once) == 0 && times == 1);
        add(&all.turn);
        led = umcg_barrier_wait(&barrier);
        CHECK("all have come",
              led >= 0 && __atomic_load_n(&all.turn, __ATOMIC_RELAXED) == 2 * MANY * (i + 1));
        __atomic_add_fetch(&all.led, led, __ATOMIC_RELAXED);
        CHECK("again", umcg_barrier_wait(&barrier) >= 0);
    }
    CHECK("done", umcg_wait_group_done(&group) == 0);
    return arg;
}

/* One waiter takes an event that is set: an event that is not reset by hand keeps one token, which
 * goes round. */
static void *one_token(void *arg)
{
    umcg_op_t ops[2] = {UMCG_HAPPENED(&manual), UMCG_HAPPENED(&zero_event)};

    for (int i = 0; i < all.rounds; i++) {
        if (i % 3 == 0)
            CHECK("wait", umcg_event_wait(&zero_event) == 0);
        else if (i % 3 == 1)
            CHECK("any", umcg_wait_any(ops, 2, UMCG_NO_TIMEOUT) == 1);
        else
            CHECK("select", umcg_select(ops, 2, 0, UMCG_NO_TIMEOUT) == 1);
        all.sum++;
        CHECK("set", umcg_event_set(&zero_event) == 0);
    }
    return arg;
}

static void *sums(void *arg)
{
    for (int kind = 0; kind < 2; kind++) {
        memset(&all, 0, sizeof all);
        all.kind = kind;
        all.rounds = check_count("UMCG_TEST_UTHS", 1200);
        together(adds);
        CHECK("the sum", all.sum == 2L * MANY * all.rounds && all.other == all.sum / 4);
    }
    all.sum = 0;
    together(reads_and_writes);
    CHECK("each write",
          all.sum == 2L * MANY * ((all.rounds + 2) / 3) && umcg_rwlock_trywrlock(&rwlock) == 0);
    CHECK("unlock", umcg_rwlock_unlock(&rwlock) == 0);
    together(takes_turns);
    CHECK("each turn", all.turn == 2 * MANY * (all.rounds / 20));
    for (all.kind = 0; all.kind < 2; all.kind++) {
        times = all.turn = all.led = 0;
        MUST(umcg_wait_group_add(&group, 2 * MANY) == 0);
        together(phases);
        CHECK("one leader a time", all.led == all.rounds / 8 && umcg_wait_group_wait(&group) == 0);
    }
    all.sum = 0;
    MUST(umcg_event_set(&zero_event) == 0);
    together(one_token);
    CHECK("the token", all.sum == 2L * MANY * all.rounds && umcg_event_trywait(&zero_event) == 0);
    return arg;
}

/* ---- Being asked to end ---- */

static struct {
    umcg_mutex_t m;
    umcg_rwlock_t l, shared;
    umcg_cond_t c;
    umcg_once_t o;
    umcg_barrier_t b;
    umcg_wait_group_t g;
    umcg_event_t e;
    int begun;
} asked;

static void nothing(void)
{
}

static void *is_cut_short(void *arg)
{
    umcg_op_t ops[2] = {UMCG_HAPPENED(&asked.e), UMCG_LOCK(&asked.m)};
    umcg_mutex_t own = UMCG_MUTEX_INIT;
    umcg_once_t fresh = UMCG_ONCE_INIT;
    int result;

    MUST(umcg_mutex_lock(&own) == 0);
    add(&asked.begun);
    check_set_errno(0);
    switch (*(int *)arg) {
    case 0: result = umcg_mutex_lock_until(&asked.m, UMCG_NO_TIMEOUT); break;
    case 1: result = umcg_rwlock_rdlock_until(&asked.l, UMCG_NO_TIMEOUT); break;
    case 2: result = umcg_rwlock_wrlock_until(&asked.l, in_ms(60000)); break;
    case 3: result = umcg_cond_wait(&asked.c, &own); break;
    case 4: result = umcg_cond_wait_until(&asked.c, &own, in_ms(60000)); break;
    case 5: result = umcg_once_wait(&asked.o); break;
    case 6: result = umcg_barrier_wait(&asked.b); break;
    case 7: result = umcg_wait_group_wait(&asked.g); break;
    case 8: result = umcg_event_wait(&asked.e); break;
    case 9: result = umcg_wait_any(ops, 2, UMCG_NO_TIMEOUT); break;
    case 10: result = umcg_wait_all(ops, 2, in_ms(60000)); break;
    case 11: result = umcg_rwlock_uplock_until(&asked.l, UMCG_NO_TIMEOUT); break;
    case 12:
        MUST(umcg_rwlock_uplock(&asked.shared) == 0);
        result = umcg_rwlock_upgrade_until(&asked.shared, UMCG_NO_TIMEOUT);
        CHECK("as before", umcg_rwlock_upunlock(&asked.shared) == 0);
        break;
    default: result = umcg_select(ops, 2, 0, UMCG_NO_TIMEOUT);
    }
    CHECK("cut short", result == -1 && check_errno() == ECANCELED && umcg_cancelled() == 1);
    CHECK("the mutex of a wait is locked again", umcg_mutex_unlock(&own) == 0);
    CHECK("what is there", umcg_mutex_lock_until(&own, UMCG_NO_TIMEOUT) == 0);
    CHECK("what nobody does", umcg_once(&fresh, nothing) == 0 && umcg_once_is_done(&fresh) == 1);
    return arg;
}

static void *aborted(void *arg)
{
    memset(&asked, 0, sizeof asked);
    MUST(umcg_mutex_lock(&asked.m) == 0 && umcg_rwlock_wrlock(&asked.l) == 0 &&
         umcg_barrier_init(&asked.b, 2) == 0);
    MUST(umcg_rwlock_rdlock(&asked.shared) == 0);
    MUST(umcg_wait_group_add(&asked.g, 1) == 0);
    for (int round = 0; round < 8 * 14; round++) {
        int which = round % 14;
        umcg_worker_t *worker;

        asked.begun = 0;
        worker = spawn(is_cut_short, &which);
        if (round % 5)
            await(&asked.begun, round % 5 > 1);
        CHECK("abort", umcg_abort(worker) == 0);
        joined(worker);
    }
    CHECK("nobody stands there",
          umcg_mutex_unlock(&asked.m) == 0 && umcg_mutex_trylock(&asked.m) == 0);
    CHECK("nor there", umcg_rwlock_unlock(&asked.l) == 0 && umcg_rwlock_trywrlock(&asked.l) == 0);
    CHECK("nor there",
          umcg_rwlock_unlock(&asked.shared) == 0 && umcg_rwlock_trywrlock(&asked.shared) == 0);
    CHECK("nor there", umcg_event_set(&asked.e) == 0 && umcg_event_trywait(&asked.e) == 0);
    FAILS("nor has come", ETIMEDOUT, umcg_barrier_wait_until(&asked.b, UMCG_POLL));
    return arg;
}

/* A lock without a deadline waits on, and so does a caller that runs a once function. */
static void waits_in_it(void)
{
    add(&asked.begun);
    CHECK("waits on", umcg_mutex_lock(&asked.m) == 0 && umcg_mutex_unlock(&asked.m) == 0);
}

static void *waits_on(void *arg)
{
    CHECK("is done", umcg_once(&asked.o, waits_in_it) == 0 && umcg_once_is_done(&asked.o) == 1);
    FAILS("asked", ECANCELED, umcg_event_wait(&asked.e));
    return arg;
}

static void *not_cut_short(void *arg)
{
    umcg_worker_t *worker;

    memset(&asked, 0, sizeof asked);
    MUST(umcg_mutex_lock(&asked.m) == 0);
    worker = spawn(waits_on, NULL);
    await(&asked.begun, 1);
    CHECK("abort", umcg_abort(worker) == 0);
    umcg_sleep_ns(500000);
    CHECK("unlock", umcg_mutex_unlock(&asked.m) == 0);
    joined(worker);
    return arg;
}

int main(void)
{
    check_start(60);
    each_call(NULL); /* as a plain thread */
    in_runtime(each_call, NULL);
    in_runtime(sums, NULL);
    in_runtime(aborted, NULL);
    in_runtime(not_cut_short, NULL);
    return check_done();
}
