/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Priority-inheriting mutexes of the C library in workers with storage of their own, as
 * docs/identity.md has it: without contention such a mutex is a mutex. A contender without a
 * deadline never gets it, and from then on no thread or worker does. Everything that does not use
 * that mutex goes on. In children, as the contenders stay.
 */
#include "runtime.h"

static pthread_mutex_t mutex;
static int stage, tid, got;
static umcg_rt_t *rt;

static void make(int robustness)
{
    pthread_mutexattr_t attr;
    MUST(pthread_mutexattr_init(&attr) == 0);
    MUST(pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT) == 0);
    MUST(pthread_mutexattr_setrobust(&attr, robustness) == 0);
    MUST(pthread_mutex_init(&mutex, &attr) == 0);
}

/* Each alone, on any server. */
static void *alone(void *arg)
{
    for (int i = 0; i < 100; i++) {
        CHECK("it is locked", pthread_mutex_lock(&mutex) == 0);
        umcg_yield();
        CHECK("it is unlocked", pthread_mutex_unlock(&mutex) == 0);
    }
    return arg;
}

static void *holds(void *arg)
{
    CHECK("nobody has it", pthread_mutex_lock(&mutex) == 0);
    add(&stage);
    await(&stage, 2);
    CHECK("it is unlocked, says the C library", pthread_mutex_unlock(&mutex) == 0);
    add(&stage);
    return arg;
}

static void *contends(void *arg)
{
    __atomic_store_n(&tid, (int)syscall(SYS_gettid), __ATOMIC_RELEASE);
    pthread_mutex_lock(&mutex);
    add(&got);
    return arg;
}

/* Whether the kernel thread of the contender sleeps. */
static int sleeps(void)
{
    char path[64], text[512];
    const char *end;
    FILE *file;
    size_t size;
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", __atomic_load_n(&tid, __ATOMIC_ACQUIRE));
    MUST((file = fopen(path, "r")) != NULL);
    size = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[size] = 0;
    end = strrchr(text, ')');
    return end && end[1] == ' ' && end[2] == 'S';
}

static void until_it_sleeps(void)
{
    while (!__atomic_load_n(&tid, __ATOMIC_ACQUIRE))
        check_sleep_ms(1);
    for (int times = 0; times < 20; times = sleeps() ? times + 1 : 0)
        check_sleep_ms(1);
}

static void *others(void *arg)
{
    for (int i = 0; i < 100; i++)
        umcg_yield();
    return arg;
}

/* The contender is there, and sleeps. */
static void goes_on_without_it(umcg_worker_t *holder)
{
    umcg_worker_t *workers[8];
    struct timespec soon;
    until_it_sleeps();
    for (int i = 0; i < 8; i++)
        workers[i] = spawn_in(rt, others, &stage);
    for (int i = 0; i < 8; i++)
        CHECK("others run", joined(workers[i]) == &stage);
    MUST(clock_gettime(CLOCK_REALTIME, &soon) == 0);
    CHECK("a deadline passes", pthread_mutex_timedlock(&mutex, &soon) == ETIMEDOUT);
    add(&stage);
    joined(holder);
    until_it_sleeps();
    CHECK("nobody gets it any more",
          __atomic_load_n(&got, __ATOMIC_ACQUIRE) == 0 && pthread_mutex_trylock(&mutex) == EBUSY);
    fflush(NULL);
    _exit(check_done());
}

static umcg_worker_t *begun(int robustness)
{
    umcg_rt_options_t own = options();
    umcg_worker_t *holder;
    MUST((rt = umcg_rt_start(&own)) != NULL);
    make(robustness);
    joined(spawn_in(rt, alone, NULL));
    holder = spawn_in(rt, holds, NULL);
    while (__atomic_load_n(&stage, __ATOMIC_ACQUIRE) < 1)
        check_sleep_ms(1);
    return holder;
}

static void a_thread_contends(void)
{
    umcg_worker_t *holder = begun(PTHREAD_MUTEX_STALLED);
    pthread_t thread;
    MUST(pthread_create(&thread, NULL, contends, NULL) == 0);
    goes_on_without_it(holder);
}

/* Its server is lost with it. */
static void a_worker_contends(void)
{
    umcg_worker_t *holder = begun(PTHREAD_MUTEX_STALLED);
    spawn_in(rt, contends, NULL);
    goes_on_without_it(holder);
}

/* Of a robust mutex, too, the C library takes the owner for dead where it cannot be. */
static void a_robust_one(void)
{
    begun(PTHREAD_MUTEX_ROBUST);
    contends(NULL);
}

static int has_own_storage;

/* Whether the C library's number for a worker differs from the kernel's for the thread it runs on.
 */
static void *looks(void *arg)
{
#ifdef __GLIBC__
    make(PTHREAD_MUTEX_STALLED);
    MUST(pthread_mutex_lock(&mutex) == 0);
    __atomic_store_n(&has_own_storage, mutex.__data.__owner != (int)syscall(SYS_gettid),
                     __ATOMIC_RELEASE);
    MUST(pthread_mutex_unlock(&mutex) == 0);
#endif
    return arg;
}

static void looks_in_runtime(void)
{
    in_runtime(looks, NULL);
    check_failures = !has_own_storage;
}

int main(void)
{
    static char text[8192];
    check_start(60);
    if (is_light() || check_child(looks_in_runtime, text, sizeof text) != 0)
        return check_done();
    check_passes("a thread contends", a_thread_contends);
    if (options().servers > 1)
        check_passes("a worker contends", a_worker_contends);
    check_aborts("a robust one", a_robust_one, "");
    return check_done();
}
