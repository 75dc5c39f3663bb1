/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Objects of NT, between workers and plain threads. */
#define UMCG_NT_NAMES
#include "runtime.h"
#include "umcg/nt.h"

#define MANY 200
#define HOUR 3600000000000u

static umcg_nt_t *made(umcg_nt_t *object)
{
    MUST(object != NULL);
    return object;
}

static int waits_for(umcg_nt_t *object, uint64_t deadline_ns)
{
    umcg_nt_t *list[] = {object};
    return umcg_nt_wait(list, 1, 0, NULL, deadline_ns, NULL);
}

/* ---- Each call ---- */

static void events(void)
{
    umcg_nt_t *automatic = made(umcg_nt_event_create(0, 0)),
              *manual = made(umcg_nt_event_create(1, 1));
    int was = -1, is = -1;

    CHECK("set", umcg_nt_event_set(automatic, &was) == 0 && was == 0 &&
                     umcg_nt_event_set(automatic, &was) == 0 && was == 1);
    CHECK("read", umcg_nt_event_read(automatic, &was, &is) == 0 && was == 1 && is == 0);
    CHECK("take", waits_for(automatic, UMCG_NO_TIMEOUT) == 0);
    FAILS("is reset", ETIMEDOUT, waits_for(automatic, UMCG_POLL));
    FAILS("for a while", ETIMEDOUT, waits_for(automatic, in_ms(1)));
    CHECK("stays", waits_for(manual, UMCG_POLL) == 0 && waits_for(manual, UMCG_POLL) == 0);
    CHECK("reset", umcg_nt_event_reset(manual, &was) == 0 && was == 1 &&
                       umcg_nt_event_reset(manual, NULL) == 0);
    CHECK("pulse", umcg_nt_event_pulse(manual, &was) == 0 && was == 0 &&
                       umcg_nt_event_read(manual, &is, NULL) == 0 && is == 0);
    FAILS("no semaphore", EINVAL, umcg_nt_sem_release(manual, 1, NULL));
    FAILS("no mutex", EINVAL, umcg_nt_mutex_release(manual, NULL));
    FAILS("no timer", EINVAL, umcg_nt_timer_cancel(manual));
    FAILS("no event", EINVAL, umcg_nt_event_set(NULL, NULL));
    umcg_nt_close(automatic);
    umcg_nt_close(manual);
}

static void semaphores(void)
{
    umcg_nt_t *sem = made(umcg_nt_sem_create(1, 3));
    uint32_t was = 9, most = 9;

    check_set_errno(0);
    CHECK("more than the most", umcg_nt_sem_create(2, 1) == NULL && check_errno() == EINVAL);
    CHECK("release", umcg_nt_sem_release(sem, 2, &was) == 0 && was == 1);
    FAILS("one more", EOVERFLOW, umcg_nt_sem_release(sem, 1, &was));
    CHECK("read", umcg_nt_sem_read(sem, &was, &most) == 0 && was == 3 && most == 3);
    for (int i = 0; i < 3; i++)
        CHECK("take", waits_for(sem, UMCG_POLL) == 0);
    FAILS("no more", ETIMEDOUT, waits_for(sem, UMCG_POLL));
    FAILS("no event", EINVAL, umcg_nt_event_pulse(sem, NULL));
    umcg_nt_close(sem);
}

static void mutexes(void)
{
    umcg_nt_t *mutex = made(umcg_nt_mutex_create_as(7, 1)), *mine = made(umcg_nt_mutex_create(1)),
              *list[2];
    uint32_t was = 9, owner = 9, index = 9;

    list[0] = mine;
    list[1] = mutex;
    FAILS("another's", ETIMEDOUT, waits_for(mutex, UMCG_POLL));
    CHECK("its owner", umcg_nt_wait_as(7, &mutex, 1, 0, NULL, UMCG_NO_TIMEOUT, NULL) == 0);
    FAILS("nobody's", EINVAL, umcg_nt_wait_as(0, &mutex, 1, 0, NULL, UMCG_POLL, NULL));
    CHECK("read", umcg_nt_mutex_read(mutex, &owner, &was) == 0 && owner == 7 && was == 2);
    FAILS("unlock another's", EPERM, umcg_nt_mutex_unlock(mutex, 8, &was));
    FAILS("unlock nobody's", EINVAL, umcg_nt_mutex_unlock(mutex, 0, &was));
    CHECK("unlock", umcg_nt_mutex_unlock(mutex, 7, &was) == 0 && was == 2 &&
                        umcg_nt_mutex_unlock(mutex, 7, NULL) == 0);
    FAILS("once more", EPERM, umcg_nt_mutex_unlock(mutex, 7, NULL));
    CHECK("both", umcg_nt_wait(list, 2, 1, NULL, UMCG_POLL, &index) == 0 && index == 0);
    CHECK("in my name",
          umcg_nt_mutex_read(mine, &owner, &was) == 0 && owner == umcg_nt_self() && was == 2);
    CHECK("release", umcg_nt_mutex_release(mine, &was) == 0 && was == 2 &&
                         umcg_nt_mutex_release(mine, NULL) == 0);
    FAILS("once more", EPERM, umcg_nt_mutex_release(mine, NULL));
    FAILS("kill another", EPERM, umcg_nt_mutex_kill(mutex, 7));
    FAILS("kill nobody", EINVAL, umcg_nt_mutex_kill(mutex, 0));
    CHECK("kill", umcg_nt_mutex_kill(mutex, umcg_nt_self()) == 0);
    FAILS("is abandoned", EOWNERDEAD, umcg_nt_mutex_read(mutex, &owner, &was));
    CHECK("nobody's", owner == 0 && was == 0);
    CHECK("mine is taken",
          waits_for(mine, UMCG_POLL) == 0 && umcg_nt_mutex_release(mine, NULL) == 0);
    umcg_nt_event_set(list[0] = made(umcg_nt_event_create(1, 0)), NULL);
    umcg_nt_event_reset(list[0], NULL);
    FAILS("take", EOWNERDEAD, umcg_nt_wait(list, 2, 0, NULL, UMCG_NO_TIMEOUT, &index));
    CHECK("taken", index == 1 && umcg_nt_mutex_release(mutex, &was) == 0 && was == 1);
    umcg_nt_close(list[0]);
    check_set_errno(0);
    CHECK("half an owner", umcg_nt_mutex_create_as(1, 0) == NULL && check_errno() == EINVAL);
    umcg_nt_close(mutex);
    umcg_nt_close(mine);
}

static void lists(void)
{
    umcg_nt_t *list[MANY + 1], *alert = made(umcg_nt_event_create(0, 1)), *twice[2];
    uint32_t index = 9;

    for (int i = 0; i <= MANY; i++)
        list[i] = made(umcg_nt_sem_create(0, 9));
    twice[0] = twice[1] = list[0];
    FAILS("none", ETIMEDOUT, umcg_nt_wait(list, MANY, 0, NULL, UMCG_POLL, &index));
    CHECK("the alert",
          umcg_nt_wait(list, MANY, 0, alert, UMCG_NO_TIMEOUT, &index) == 0 && index == MANY);
    umcg_nt_event_set(alert, NULL);
    CHECK("alone", umcg_nt_wait(NULL, 0, 0, alert, UMCG_NO_TIMEOUT, &index) == 0 && index == 0);
    FAILS("nothing", ETIMEDOUT, umcg_nt_wait(NULL, 0, 0, alert, in_ms(1), NULL));
    CHECK("all of nothing",
          umcg_nt_wait(NULL, 0, 1, NULL, UMCG_NO_TIMEOUT, &index) == 0 && index == 0);
    umcg_nt_sem_release(list[150], 1, NULL);
    umcg_nt_sem_release(list[170], 1, NULL);
    CHECK("the first of those",
          umcg_nt_wait(list, MANY, 0, alert, UMCG_NO_TIMEOUT, &index) == 0 && index == 150);
    CHECK("the other",
          umcg_nt_wait(list, MANY, 0, alert, UMCG_NO_TIMEOUT, &index) == 0 && index == 170);
    FAILS("all", ETIMEDOUT, umcg_nt_wait(list, MANY, 1, alert, in_ms(1), &index));
    for (int i = 0; i < MANY; i++)
        umcg_nt_sem_release(list[i], 1, NULL);
    FAILS("the same twice", EINVAL, umcg_nt_wait(twice, 2, 1, NULL, UMCG_POLL, NULL));
    CHECK("all", umcg_nt_wait(list, MANY, 1, alert, UMCG_NO_TIMEOUT, &index) == 0 && index == 0);
    FAILS("an alert that is none", EINVAL, umcg_nt_wait(list, 1, 0, list[1], UMCG_POLL, NULL));
    FAILS("no list", EINVAL, umcg_nt_wait(NULL, 1, 0, NULL, UMCG_POLL, NULL));
    twice[1] = NULL;
    FAILS("a NULL in it", EINVAL, umcg_nt_wait(twice, 2, 0, NULL, UMCG_POLL, NULL));
    for (int i = 0; i <= MANY; i++)
        umcg_nt_close(list[i]);
    umcg_nt_close(alert);
    umcg_nt_close(NULL);
    CHECK("NULL", umcg_nt_dup(NULL) == NULL);
}

static void timers(void)
{
    umcg_nt_t *timer = made(umcg_nt_timer_create(1)), *ticks = made(umcg_nt_timer_create(0));
    uint64_t due = 9, soon = in_ms(3);
    int is = 9;

    CHECK("not armed", umcg_nt_timer_read(timer, &is, &due) == 0 && is == 0 && due == 0 &&
                           umcg_nt_timer_cancel(timer) == 0);
    CHECK("set", umcg_nt_timer_set(timer, soon + HOUR, 0) == 0 &&
                     umcg_nt_timer_read(timer, &is, &due) == 0);
    CHECK("not yet", is == 0 && due == soon + HOUR);
    CHECK("set again", umcg_nt_timer_set(timer, soon, 0) == 0);
    CHECK("wait", waits_for(timer, UMCG_NO_TIMEOUT) == 0 && check_now(CLOCK_MONOTONIC) >= soon &&
                      waits_for(timer, UMCG_POLL) == 0);
    CHECK("cancel",
          umcg_nt_timer_set(timer, soon + HOUR, 0) == 0 && umcg_nt_timer_cancel(timer) == 1);
    FAILS("is not set", ETIMEDOUT, waits_for(timer, in_ms(1)));
    FAILS("never", EINVAL, umcg_nt_timer_set(timer, 0, 0));
    CHECK("ticks", umcg_nt_timer_set(ticks, UMCG_POLL, 1000000) == 0);
    for (int i = 0; i < 4; i++)
        CHECK("tick", waits_for(ticks, UMCG_NO_TIMEOUT) == 0);
    soon = in_ms(3);
    CHECK("from now",
          umcg_nt_timer_set_100ns(ticks, -30000, 0) == 0 && waits_for(ticks, UMCG_NO_TIMEOUT) == 0);
    CHECK("not before", check_now(CLOCK_MONOTONIC) >= soon);
    CHECK("once", umcg_nt_timer_cancel(ticks) == 0);
    CHECK("long ago",
          umcg_nt_timer_set_100ns(ticks, 1, 0) == 0 && waits_for(ticks, UMCG_POLL) == 0);
    FAILS("backwards", EINVAL, umcg_nt_timer_set_100ns(ticks, -1, -1));
    /* In an hour, by the clock of the day. */
    due = 116444736000000000u + check_now(CLOCK_REALTIME) / 100 + HOUR / 100;
    CHECK("tomorrow", umcg_nt_timer_set_100ns(ticks, (int64_t)due, 0) == 0 &&
                          umcg_nt_timer_read(ticks, NULL, &due) == 0);
    CHECK("that is when", due > in_ms(3000000) && due < in_ms(4200000));
    umcg_nt_close(timer);
    umcg_nt_close(ticks);
}

/* By the names that Windows has for all this. */
static void names(void)
{
    HANDLE event = made(CreateEvent(NULL, 0, 1, NULL)),
           sem = made(CreateSemaphore(NULL, 0, 2, NULL));
    HANDLE mutex = made(CreateMutex(NULL, 1, NULL)),
           timer = made(CreateWaitableTimer(NULL, 0, NULL));
    HANDLE alert = made(CreateEvent(NULL, 0, 0, NULL));
    HANDLE all[3], many[MAXIMUM_WAIT_OBJECTS + 1];
    int64_t due = -10000;
    int32_t was = 9;

    all[0] = sem;
    all[1] = event;
    all[2] = mutex;
    CHECK("any", WaitForMultipleObjects(3, all, 0, INFINITE) == WAIT_OBJECT_0 + 1);
    CHECK("all", WaitForMultipleObjects(3, all, 1, 1) == WAIT_TIMEOUT);
    CHECK("none, or fewer",
          !ReleaseSemaphore(sem, 0, &was) && !ReleaseSemaphore(sem, -1, &was) && was == 9);
    CHECK("nor can be made", !CreateSemaphore(NULL, -1, 2, NULL) &&
                                 !CreateSemaphore(NULL, 0, 0, NULL) &&
                                 !CreateSemaphore(NULL, -1, -1, NULL) && check_errno() == EINVAL);
    CHECK("at no time",
          !SetWaitableTimer(timer, NULL, 0, NULL, NULL, 0) && check_errno() == EINVAL);
    CHECK("release", SetEvent(event) && ReleaseSemaphore(sem, 2, &was) && was == 0 &&
                         !ReleaseSemaphore(sem, 1, NULL));
    CHECK("all", WaitForMultipleObjects(3, all, 1, 1000) == WAIT_OBJECT_0);
    CHECK("one", WaitForSingleObject(sem, 0) == WAIT_OBJECT_0 &&
                     WaitForSingleObject(sem, 0) == WAIT_TIMEOUT);
    CHECK("alert",
          SetEvent(alert) && WaitForSingleObjectEx(sem, INFINITE, alert) == WAIT_IO_COMPLETION);
    CHECK("not set", WaitForMultipleObjectsEx(2, all, 0, 0, alert) == WAIT_TIMEOUT);
    CHECK("mutex", ReleaseMutex(mutex) && ReleaseMutex(mutex) && !ReleaseMutex(mutex));
    CHECK("another's", WaitForSingleObject(mutex, 0) == WAIT_OBJECT_0 &&
                           umcg_nt_mutex_kill(mutex, umcg_nt_self()) == 0);
    CHECK("abandoned", WaitForMultipleObjects(3, all, 0, INFINITE) == WAIT_ABANDONED_0 + 2 &&
                           ReleaseMutex(mutex));
    CHECK("pulse", PulseEvent(event) && SetEvent(event) && ResetEvent(event) &&
                       WaitForSingleObject(event, 0) == WAIT_TIMEOUT);
    CHECK("timer", SetWaitableTimer(timer, &due, 0, NULL, NULL, 0) &&
                       WaitForSingleObject(timer, INFINITE) == WAIT_OBJECT_0);
    CHECK("cancel", CancelWaitableTimer(timer) && !CancelWaitableTimer(event));
    for (int i = 0; i <= MAXIMUM_WAIT_OBJECTS; i++)
        many[i] = event;
    SetEvent(event);
    check_set_errno(0);
    CHECK("too many", WaitForMultipleObjects(MAXIMUM_WAIT_OBJECTS + 1, many, 0, 0) == WAIT_FAILED &&
                          check_errno() == EINVAL);
    CHECK("as many as fit",
          WaitForMultipleObjects(MAXIMUM_WAIT_OBJECTS, many, 0, 0) == WAIT_OBJECT_0);
    CHECK("none", WaitForMultipleObjects(0, many, 0, 0) == WAIT_FAILED &&
                      WaitForSingleObject(NULL, 0) == WAIT_FAILED);
    CHECK("close", CloseHandle(event) && CloseHandle(sem) && CloseHandle(mutex) &&
                       CloseHandle(timer) && CloseHandle(alert));
}

static void *each_call(void *arg)
{
    events();
    semaphores();
    mutexes();
    lists();
    timers();
    names();
    return arg;
}

/* ---- Workers and threads ---- */

struct waiter {
    umcg_nt_t *list[2], *alert;
    uint32_t count, index;
    int all, began, error;
};

static void *waits(void *arg)
{
    struct waiter *waiter = (struct waiter *)arg;
    add(&waiter->began);
    if (umcg_nt_wait(waiter->list, waiter->count, waiter->all, waiter->alert, UMCG_NO_TIMEOUT,
                     &waiter->index) != 0)
        waiter->error = check_errno();
    return arg;
}

/* A worker, or a thread, that waits. */
struct party {
    umcg_worker_t *worker;
    pthread_t thread;
};

static struct party start(int is_thread, function *fn, void *arg)
{
    struct party party = {NULL, 0};
    if (is_thread)
        MUST(pthread_create(&party.thread, NULL, fn, arg) == 0);
    else
        party.worker = spawn(fn, arg);
    return party;
}

static void finish(struct party party)
{
    if (party.worker != NULL)
        joined(party.worker);
    else
        MUST(pthread_join(party.thread, NULL) == 0);
}

/* Whether a worker of this runtime is soon seen to stand in queues of objects. Under Valgrind dumps
 * name no workers. */
static int is_seen_waiting(void)
{
    char text[4096];
    for (int i = 0; i < 300; i++) {
        FILE *file = tmpfile();
        MUST(file != NULL && umcg_rt_dump(NULL, fileno(file)) == 0);
        rewind(file);
        text[fread(text, 1, sizeof text - 1, file)] = '\0';
        fclose(file);
        if (strstr(text, "waits: nt") != NULL)
            return 1;
        umcg_sleep_ns(100000);
    }
    return 0;
}

/* A waiter is served once everything is there, a worker and a thread. The handles of the objects
 * that a worker waits for are closed meanwhile. */
static void closed_meanwhile(int is_thread)
{
    for (int all = 0; all < 2; all++) {
        umcg_nt_t *event = made(umcg_nt_event_create(0, 0)), *sem = made(umcg_nt_sem_create(0, 1));
        struct waiter waiter = {{event, sem}, NULL, 2, 9, all, 0, 0};
        struct party party = start(is_thread, waits, &waiter);
        int is_seen = !is_thread && is_seen_waiting();
        await(&waiter.began, 1);
        if (all)
            CHECK("set", umcg_nt_event_set(event, NULL) == 0);
        if (is_seen)
            umcg_nt_close(event);
        CHECK("dup", umcg_nt_dup(sem) == sem);
        umcg_nt_close(sem);
        CHECK("release", umcg_nt_sem_release(sem, 1, NULL) == 0);
        finish(party);
        CHECK("index", waiter.error == 0 && waiter.index == (all ? 0u : 1u));
        umcg_nt_close(sem);
        if (!is_seen)
            umcg_nt_close(event);
    }
}

struct owner {
    umcg_nt_t *mutex, *go;
    int owns;
};

static void *owns(void *arg)
{
    struct owner *owner = (struct owner *)arg;
    CHECK("lock", waits_for(owner->mutex, UMCG_NO_TIMEOUT) == 0 &&
                      waits_for(owner->mutex, UMCG_NO_TIMEOUT) == 0);
    add(&owner->owns);
    CHECK("go", waits_for(owner->go, UMCG_NO_TIMEOUT) == 0);
    return arg;
}

/* The next waiter gets the mutexes that their owner had at its end, and is told; a worker's, and a
 * thread's.
 */
static void abandoned(int is_thread)
{
    umcg_nt_t *mutex = made(umcg_nt_mutex_create(0)), *go = made(umcg_nt_event_create(0, 0));
    struct owner owner = {mutex, go, 0};
    struct waiter heir = {{go, mutex}, NULL, 2, 9, 0, 0, 0};
    struct party first = start(is_thread, owns, &owner), second;
    uint32_t was = 9;

    await(&owner.owns, 1);
    FAILS("another's", ETIMEDOUT, waits_for(mutex, UMCG_POLL));
    heir.list[0] = made(umcg_nt_event_create(0, 0));
    second = start(!is_thread, waits, &heir);
    await(&heir.began, 1);
    CHECK("let it end", umcg_nt_event_set(go, NULL) == 0);
    finish(first);
    finish(second);
    CHECK("told", heir.error == EOWNERDEAD && heir.index == 1);
    /* The heir has ended, too. */
    FAILS("told again", EOWNERDEAD, waits_for(mutex, UMCG_NO_TIMEOUT));
    CHECK("unlock", umcg_nt_mutex_release(mutex, &was) == 0 && was == 1);
    umcg_nt_close(heir.list[0]);
    umcg_nt_close(mutex);
    umcg_nt_close(go);
}

/* An aborted worker's wait is cut short; it still takes an object that is signaled. */
static void *aborted(void *arg)
{
    umcg_nt_t **list = (umcg_nt_t **)arg;
    uint32_t index = 9;
    FAILS("cut short", ECANCELED, waits_for(list[0], UMCG_NO_TIMEOUT));
    CHECK("what is there",
          umcg_nt_wait(list, 2, 0, NULL, UMCG_NO_TIMEOUT, &index) == 0 && index == 1);
    FAILS("what is not", ECANCELED, umcg_nt_wait(list, 2, 0, NULL, UMCG_NO_TIMEOUT, NULL));
    FAILS("nor all", ECANCELED, umcg_nt_wait(list, 2, 1, NULL, UMCG_NO_TIMEOUT, NULL));
    return arg;
}

static void aborts(void)
{
    umcg_nt_t *list[] = {made(umcg_nt_event_create(0, 0)), made(umcg_nt_event_create(0, 1))};
    umcg_worker_t *worker = spawn(aborted, list);
    umcg_sleep_ns(2000000);
    CHECK("abort", umcg_abort(worker) == 0);
    joined(worker);
    umcg_nt_close(list[0]);
    umcg_nt_close(list[1]);
}

/* A count under a mutex, by workers and threads. */
struct count {
    umcg_nt_t *mutex;
    int rounds, value;
};

static void *counts(void *arg)
{
    struct count *count = (struct count *)arg;
    for (int i = 0; i < count->rounds; i++) {
        MUST(WaitForSingleObject(count->mutex, INFINITE) == WAIT_OBJECT_0);
        count->value++;
        MUST(ReleaseMutex(count->mutex));
    }
    return arg;
}

static void crowd(void)
{
    struct count count = {made(umcg_nt_mutex_create(0)), 500, 0};
    struct party parties[6];
    for (int i = 0; i < 6; i++)
        parties[i] = start(i % 3 == 2, counts, &count);
    for (int i = 0; i < 6; i++)
        finish(parties[i]);
    CHECK("all were counted", count.value == 6 * count.rounds);
    umcg_nt_close(count.mutex);
}

static void *together(void *arg)
{
    for (int is_thread = 0; is_thread < 2; is_thread++) {
        closed_meanwhile(is_thread);
        abandoned(is_thread);
    }
    aborts();
    crowd();
    return arg;
}

int main(void)
{
    check_start(60);
    each_call(NULL);
    in_runtime(each_call, NULL);
    in_runtime(together, NULL);
    return check_done();
}
