/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Threads after threads that have ended: each begins as a new one, with the attributes of its
 * maker and nothing of the threads before: name, mask, signals, alternate stack, robust locks,
 * storage, affinity, nice value, control words, the maker's changes of all these. */
/* run: flags -lm */
#include "check.h"
#include <fenv.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>

static void name_of_self(char *name)
{
    memset(name, 0, 16);
    OK(pthread_getname_np(pthread_self(), name, 16));
}

static void *takes_a_name(void *arg)
{
    char name[16];

    name_of_self(name);
    MUST(strcmp(name, arg) == 0);
    OK(pthread_setname_np(pthread_self(), "another"));
    name_of_self(name);
    MUST(strcmp(name, "another") == 0);
    return NULL;
}

static void *has_the_name(void *arg)
{
    char name[16];

    name_of_self(name);
    MUST(strcmp(name, arg) == 0);
    return NULL;
}

static void *waits_for(void *arg)
{
    down(arg);
    return NULL;
}

static void names(void)
{
    char name[16];
    sem_t go;

    several();
    name_of_self(name);
    for (int round = 0; round < 10; round++) {
        join(spawn(takes_a_name, name));
        join(spawn(has_the_name, name));
    }
    /* By another thread. */
    MUST(sem_init(&go, 0, 0) == 0);
    for (int round = 0; round < 5; round++) {
        pthread_t thread = spawn(waits_for, &go);

        OK(pthread_setname_np(thread, "given"));
        sem_post(&go);
        join(thread);
        join(spawn(has_the_name, name));
    }
    /* The maker's name is inherited. */
    OK(pthread_setname_np(pthread_self(), "maker"));
    for (int round = 0; round < 10; round++)
        join(spawn(has_the_name, (void *)"maker"));
    OK(pthread_setname_np(pthread_self(), name));
    join(spawn(has_the_name, name));
    SHOWN("names");
}

static void *has_mask(void *arg)
{
    sigset_t now, pending;

    OK(pthread_sigmask(SIG_BLOCK, NULL, &now));
    for (int sig = 1; sig < 32; sig++)
        MUST(sigismember(&now, sig) == sigismember(arg, sig));
    MUST(sigpending(&pending) == 0);
    MUST(!sigismember(&pending, SIGUSR1) && !sigismember(&pending, SIGUSR2));
    return NULL;
}

static void *leaves_a_signal_pending(void *arg)
{
    sigset_t all, pending;

    sigfillset(&all);
    OK(pthread_sigmask(SIG_BLOCK, &all, NULL));
    OK(pthread_kill(pthread_self(), SIGUSR1));
    MUST(sigpending(&pending) == 0 && sigismember(&pending, SIGUSR1));
    return arg;
}

static void masks(void)
{
    sigset_t set, none;
    sem_t go;

    sigemptyset(&none);
    several();
    for (int round = 0; round < 10; round++) {
        join(spawn(leaves_a_signal_pending, NULL));
        join(spawn(has_mask, &none));
    }
    /* By another thread, while it waits with the signal blocked. */
    MUST(sem_init(&go, 0, 0) == 0);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    for (int round = 0; round < 10; round++) {
        OK(pthread_sigmask(SIG_BLOCK, &set, NULL));
        pthread_t thread = spawn(waits_for, &go);

        OK(pthread_sigmask(SIG_UNBLOCK, &set, NULL));
        OK(pthread_kill(thread, SIGUSR1));
        sem_post(&go);
        join(thread);
        join(spawn(has_mask, &none));
    }
    sigaddset(&set, SIGUSR2);
    OK(pthread_sigmask(SIG_SETMASK, &set, NULL));
    for (int round = 0; round < 10; round++)
        join(spawn(has_mask, &set));
    OK(pthread_sigmask(SIG_SETMASK, &none, NULL));
    join(spawn(has_mask, &none));
    SHOWN("masks and pending signals");
}

static void *leaves_a_stack(void *arg)
{
    stack_t stack = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16, .ss_flags = 0}, old;

    MUST(sigaltstack(&stack, &old) == 0);
    MUST(old.ss_flags == SS_DISABLE);
    return arg;
}

static void *has_no_stack(void *arg)
{
    stack_t old;

    MUST(sigaltstack(NULL, &old) == 0);
    MUST(old.ss_flags == SS_DISABLE);
    return arg;
}

static void stacks(void)
{
    several();
    for (int round = 0; round < 10; round++) {
        join(spawn(leaves_a_stack, NULL));
        join(spawn(has_no_stack, NULL));
    }
    SHOWN("alternate stacks");
}

static pthread_mutex_t robust[3];

static void *dies_with_locks(void *arg)
{
    OK(pthread_mutex_lock(&robust[0]));
    OK(pthread_mutex_lock(&robust[1]));
    OK(pthread_mutex_lock(&robust[2]));
    sem_post(arg);
    if ((intptr_t)arg & 1)
        sched_yield();
    OK(pthread_mutex_unlock(&robust[1]));
    return NULL;
}

static void *inherits_locks(void *arg)
{
    for (int at = 0; at < 3; at += 2) {
        RETURNS(EOWNERDEAD, pthread_mutex_lock(&robust[at]));
        OK(pthread_mutex_consistent(&robust[at]));
        OK(pthread_mutex_unlock(&robust[at]));
    }
    return arg;
}

static void robust_locks(int protocol)
{
    pthread_mutexattr_t attributes;
    sem_t locked;

    several();
    MUST(sem_init(&locked, 0, 0) == 0);
    OK(pthread_mutexattr_init(&attributes));
    OK(pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST));
    OK(pthread_mutexattr_setprotocol(&attributes, protocol));
    for (int at = 0; at < 3; at++)
        OK(pthread_mutex_init(&robust[at], &attributes));
    for (int round = 0; round < 10; round++) {
        pthread_t owner = spawn(dies_with_locks, &locked);

        down(&locked);
        if (round % 2) {
            /* It waits for a lock while the owner ends. */
            pthread_t next = spawn(inherits_locks, NULL);

            join(owner);
            join(next);
        } else {
            join(owner);
            inherits_locks(NULL);
        }
    }
    SHOWN("robust locks");
}

/* A lock with priority inheritance, without the C library: the kernel hands it over when its
 * owner ends. */
static uint32_t lock;

static void *takes_the_lock(void *arg)
{
    OK(syscall(SYS_futex, &lock, FUTEX_LOCK_PI | FUTEX_PRIVATE_FLAG, 0, NULL, NULL, 0));
    return arg;
}

static void *ends_with_the_lock(void *arg)
{
    takes_the_lock(arg);
    sem_post(arg);
    while (!(__atomic_load_n(&lock, __ATOMIC_RELAXED) & FUTEX_WAITERS))
        usleep(100);
    return arg;
}

static void inherited_locks(void)
{
    sem_t locked;

    several();
    MUST(sem_init(&locked, 0, 0) == 0);
    for (int round = 0; round < 10; round++) {
        pthread_t owner, next;

        lock = 0;
        owner = spawn(ends_with_the_lock, &locked);
        down(&locked);
        next = spawn(takes_the_lock, NULL);
        join(owner);
        join(next);
    }
    SHOWN("inherited locks");
}

static __thread int counter;
static __thread char zeroes[64];

static void *has_fresh_storage(void *arg)
{
    MUST(counter == 0 && errno == 0);
    for (size_t at = 0; at < sizeof zeroes; at++)
        MUST(zeroes[at] == 0);
    counter++;
    memset(zeroes, 7, sizeof zeroes);
    errno = EPERM;
    return arg;
}

static void storage(void)
{
    several();
    for (int round = 0; round < 50; round++)
        join(spawn(has_fresh_storage, NULL));
    in_threads(16, has_fresh_storage);
    SHOWN("storage");
}

static void *rounds_as(void *arg)
{
    MUST(fegetround() == (int)(intptr_t)arg);
    MUST(fesetround(FE_DOWNWARD) == 0);
    return NULL;
}

static void control_words(void)
{
    static const int modes[] = {FE_UPWARD, FE_TOWARDZERO, FE_TONEAREST};

    several();
    for (int round = 0; round < 12; round++) {
        int mode = modes[round % 3];

        MUST(fesetround(mode) == 0);
        join(spawn(rounds_as, (void *)(intptr_t)mode));
        MUST(fegetround() == mode);
    }
    MUST(fesetround(FE_TONEAREST) == 0);
    SHOWN("control words");
}

/* The nice value that the program began with. */
static int nice_at_first;

static void *has_attributes(void *arg)
{
    cpu_set_t set;

    OK(pthread_getaffinity_np(pthread_self(), sizeof set, &set));
    MUST(CPU_EQUAL(&set, (cpu_set_t *)arg));
    return (void *)(intptr_t)(getpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid)) - nice_at_first);
}

static void *changes_attributes(void *arg)
{
    cpu_set_t one;
    int first = 0;

    while (!CPU_ISSET(first, (cpu_set_t *)arg))
        first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    OK(pthread_setaffinity_np(pthread_self(), sizeof one, &one));
    MUST(setpriority(PRIO_PROCESS, 0, nice_at_first + 3) == 0);
    MUST((intptr_t)has_attributes(&one) == 3);
    MUST((intptr_t)join(spawn(has_attributes, &one)) == 3);
    return NULL;
}

static void *raises_slack(void *arg)
{
    MUST(prctl(PR_SET_TIMERSLACK, 12345) == 0);
    return arg;
}

static void *tells_slack(void *arg)
{
    (void)arg;
    return (void *)(intptr_t)prctl(PR_GET_TIMERSLACK);
}

static void attributes(void)
{
    cpu_set_t all, one;

    several();
    nice_at_first = getpriority(PRIO_PROCESS, 0);
    OK(pthread_getaffinity_np(pthread_self(), sizeof all, &all));
    for (int round = 0; round < 5; round++) {
        join(spawn(changes_attributes, &all));
        MUST(join(spawn(has_attributes, &all)) == NULL);
    }
    void *slack = join(spawn(tells_slack, NULL));

    for (int round = 0; round < 5; round++) {
        join(spawn(raises_slack, NULL));
        MUST(join(spawn(tells_slack, NULL)) == slack);
    }
    SHOWN("attributes of threads before");
    /* The maker's own. */
    several();
    CPU_ZERO(&one);
    for (int cpu = 0; CPU_COUNT(&one) == 0; cpu++)
        if (CPU_ISSET(cpu, &all))
            CPU_SET(cpu, &one);
    OK(pthread_setaffinity_np(pthread_self(), sizeof one, &one));
    join(spawn(has_attributes, &one));
    OK(pthread_setaffinity_np(pthread_self(), sizeof all, &all));
    join(spawn(has_attributes, &all));
    MUST(prctl(PR_SET_TIMERSLACK, 54321) == 0);
    MUST((intptr_t)join(spawn(tells_slack, NULL)) == 54321);
    MUST(setpriority(PRIO_PROCESS, 0, nice_at_first + 2) == 0);
    MUST((intptr_t)join(spawn(has_attributes, &all)) == 2);
    SHOWN("attributes of the maker");
}

int main(void)
{
    names();
    masks();
    stacks();
    robust_locks(PTHREAD_PRIO_NONE);
    robust_locks(PTHREAD_PRIO_INHERIT);
    inherited_locks();
    storage();
    control_words();
    attributes();
    return 0;
}
