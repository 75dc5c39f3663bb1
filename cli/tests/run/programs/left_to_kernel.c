/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Threads for which the kernel does more than to run them: with processors, a nice value, a policy
 * or an I/O priority of their own, with timers on the clocks of their CPU time, and with a GS base
 * of their own. */
#include "check.h"
#include <asm/prctl.h>
#include <sys/resource.h>

enum { TURNS = 200, BUSY_US = 200, TIMER_MS = 20, PATIENCE_MS = 10000 };

static sem_t go, gone;
static _Atomic int fired;
static int nice_value;

/* Waits and wakes, so that it has been elsewhere. */
static void take_turns(void)
{
    for (int turn = 0; turn < TURNS; turn++) {
        down(&go);
        OK(sem_post(&gone));
    }
}

static void give_turns(void)
{
    for (int turn = 0; turn < TURNS; turn++) {
        OK(sem_post(&go));
        down(&gone);
    }
}

/* The clock of the kernel thread itself, as /proc has it: a tick late at most. */
static int64_t kernel_time(void)
{
    char path[64], text[128];
    FILE *file;

    snprintf(path, sizeof path, "/proc/self/task/%ld/schedstat", syscall(SYS_gettid));
    file = fopen(path, "r");
    if (!file)
        return now_ns(CLOCK_THREAD_CPUTIME_ID);
    MUST(fgets(text, sizeof text, file));
    fclose(file);
    return strtoll(text, NULL, 10);
}

/* The caller, which waits and wakes meanwhile, is run by its own kernel thread. */
static void is_at_home(void)
{
    int64_t before = kernel_time(), own = now_ns(CLOCK_THREAD_CPUTIME_ID), begin;

    for (int turn = 0; turn < TURNS; turn++) {
        down(&go);
        begin = now_ns(CLOCK_THREAD_CPUTIME_ID);
        while (now_ns(CLOCK_THREAD_CPUTIME_ID) - begin < BUSY_US * 1000)
            ;
        OK(sem_post(&gone));
    }
    MUST(kernel_time() - before >= (now_ns(CLOCK_THREAD_CPUTIME_ID) - own) / 2);
}

static void *is_pinned(void *arg)
{
    cpu_set_t all, one;
    int cpu = 0;

    take_turns();
    MUST(sched_getaffinity(0, sizeof all, &all) == 0);
    while (!CPU_ISSET(cpu, &all))
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    OK(pthread_setaffinity_np(pthread_self(), sizeof one, &one));
    MUST(sched_getcpu() == cpu);
    for (int turn = 0; turn < TURNS; turn++) {
        down(&go);
        MUST(sched_getcpu() == cpu);
        OK(sem_post(&gone));
    }
    MUST(sched_getcpu() == cpu);
    OK(pthread_setaffinity_np(pthread_self(), sizeof all, &all));
    take_turns();
    return arg;
}

/* By another thread, while it waits. */
static void *is_nicer(void *arg)
{
    *(long *)arg = syscall(SYS_gettid);
    take_turns();
    is_at_home();
    MUST(getpriority(PRIO_PROCESS, 0) == nice_value);
    return NULL;
}

static void nicer(void)
{
    long tid;
    pthread_t thread;

    /* One that the process does not have. */
    nice_value = (getpriority(PRIO_PROCESS, 0) + 20) / 2;
    thread = spawn(is_nicer, &tid);
    give_turns();
    MUST(setpriority(PRIO_PROCESS, (id_t)tid, nice_value) == 0);
    give_turns();
    join(thread);
}

static void *is_idle(void *arg)
{
    struct sched_param none = {0};

    take_turns();
    OK(pthread_setschedparam(pthread_self(), SCHED_BATCH, &none));
    is_at_home();
    MUST(sched_getscheduler(0) == SCHED_BATCH);
    return arg;
}

static void *is_late_at_disks(void *arg)
{
    enum { THREAD = 1, IDLE = 3 << 13 };

    take_turns();
    MUST(syscall(SYS_ioprio_set, THREAD, 0, IDLE) == 0);
    is_at_home();
    MUST(syscall(SYS_ioprio_get, THREAD, 0) == IDLE);
    return arg;
}

static void handles(int number)
{
    (void)number;
    fired = 1;
}

static void set(timer_t timer)
{
    struct itimerspec when = {.it_value.tv_nsec = TIMER_MS * 1000000};

    MUST(timer_settime(timer, 0, &when, NULL) == 0);
}

static void compute_until_fired(void)
{
    int64_t begin = now_ns(CLOCK_MONOTONIC);

    while (!fired && now_ns(CLOCK_MONOTONIC) - begin < PATIENCE_MS * 1000000LL)
        ;
    MUST(fired);
}

static void *has_timer(void *arg)
{
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    timer_t timer;

    take_turns();
    MUST(timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer) == 0);
    take_turns();
    set(timer);
    compute_until_fired();
    MUST(timer_delete(timer) == 0);
    return arg;
}

static void *is_timed(void *arg)
{
    take_turns();
    take_turns();
    compute_until_fired();
    return arg;
}

static void timed_by_another(void)
{
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    pthread_t thread = spawn(is_timed, NULL);
    clockid_t clock;
    timer_t timer;

    fired = 0;
    give_turns();
    OK(pthread_getcpuclockid(thread, &clock));
    MUST(timer_create(clock, &event, &timer) == 0);
    set(timer);
    give_turns();
    join(thread);
    MUST(timer_delete(timer) == 0);
}

static uint64_t behind_gs(void)
{
    uint64_t value;

    __asm__ volatile("movq %%gs:0, %0" : "=r"(value));
    return value;
}

static sem_t *const turns[] = {&go, &gone};

/* A thread with this base, which stays its own while two threads take turns. */
static void *has_base(void *arg)
{
    uint64_t own = (uint64_t)(intptr_t)arg;

    for (int turn = 0; turn < 2 * TURNS; turn++) {
        down(turns[own]);
        if (turn == TURNS)
            MUST(syscall(SYS_arch_prctl, ARCH_SET_GS, &own) == 0);
        if (turn >= TURNS)
            MUST(behind_gs() == own);
        OK(sem_post(turns[!own]));
    }
    return arg;
}

static void bases(void)
{
    OK(sem_post(&go));
    in_threads(2, has_base);
    down(&go);
}

int main(void)
{
    struct sigaction action = {.sa_handler = handles};
    pthread_t thread;

    MUST(sigaction(SIGUSR1, &action, NULL) == 0);
    OK(sem_init(&go, 0, 0));
    OK(sem_init(&gone, 0, 0));
    thread = spawn(is_pinned, NULL);
    for (int at = 0; at < 3; at++)
        give_turns();
    join(thread);
    SHOWN("processors");
    nicer();
    SHOWN("nice value");
    thread = spawn(is_idle, NULL);
    give_turns();
    give_turns();
    join(thread);
    SHOWN("policy");
    thread = spawn(is_late_at_disks, NULL);
    give_turns();
    give_turns();
    join(thread);
    SHOWN("I/O priority");
    thread = spawn(has_timer, NULL);
    give_turns();
    give_turns();
    join(thread);
    timed_by_another();
    SHOWN("timers");
    bases();
    SHOWN("GS base");
    return 0;
}
