/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Attributes of new threads: sizes of stacks down to the least, stacks of the program's own,
 * guards, affinity, inherited signal masks; and all that a thread reads about itself. */
#include "check.h"
#include <limits.h>
#include <sched.h>

enum { OWN = 64 * 1024, AT_A_TIME = 32 };

static pthread_attr_t attributes;

/* Uses most of the stack that the thread says it has. */
static void use_stack(size_t size)
{
    volatile char room[size];

    for (size_t at = 0; at < size; at += 512)
        room[at] = (char)at;
    sched_yield();
    usleep(50);
    for (size_t at = 0; at < size; at += 512)
        MUST(room[at] == (char)at);
}

static void *measures_itself(void *arg)
{
    size_t expected = (size_t)arg, size, guard;
    pthread_attr_t own;
    void *lowest;
    char here;

    OK(pthread_getattr_np(pthread_self(), &own));
    OK(pthread_attr_getstack(&own, &lowest, &size));
    OK(pthread_attr_getguardsize(&own, &guard));
    MUST(size >= expected);
    MUST(&here > (char *)lowest && &here < (char *)lowest + size);
    use_stack(size / 2);
    OK(pthread_attr_destroy(&own));
    return (void *)guard;
}

static void *run(void *expected)
{
    pthread_t thread;

    OK(pthread_create(&thread, &attributes, measures_itself, expected));
    return join(thread);
}

static void sizes_and_guards(void)
{
    static const size_t sizes[] = {64 * 1024, 256 * 1024, 1 << 20, 64 << 20};

    for (size_t at = 0; at < sizeof sizes / sizeof *sizes; at++) {
        OK(pthread_attr_setstacksize(&attributes, sizes[at]));
        run((void *)(sizes[at] - 8192));
    }
    OK(pthread_attr_setstacksize(&attributes, 256 * 1024));
    OK(pthread_attr_setguardsize(&attributes, 0));
    MUST(run((void *)(200 * 1024)) == NULL);
    OK(pthread_attr_setguardsize(&attributes, 64 * 1024));
    MUST(run((void *)(128 * 1024)) == (void *)(64 * 1024));
    RETURNS(EINVAL, pthread_attr_setstacksize(&attributes, 1000));
}

static void *sleeps(void *arg)
{
    usleep(200);
    return arg;
}

/* The least that the system allows is enough to begin, to wait and to end. */
static void least(void)
{
    pthread_t threads[AT_A_TIME];

    OK(pthread_attr_setguardsize(&attributes, 4096));
    OK(pthread_attr_setstacksize(&attributes, (size_t)sysconf(_SC_THREAD_STACK_MIN)));
    for (int round = 0; round < 4; round++) {
        for (int at = 0; at < AT_A_TIME; at++)
            OK(pthread_create(&threads[at], &attributes, sleeps, NULL));
        for (int at = 0; at < AT_A_TIME; at++)
            MUST(join(threads[at]) == NULL);
    }
}

static void *is_on_it(void *arg)
{
    char *here = (char *)&arg;

    MUST(here > (char *)arg && here < (char *)arg + OWN);
    use_stack(OWN / 4);
    return arg;
}

/* A stack of the program's own is in its hands again after the join: it is used at once for the
 * next thread, and overwritten. */
static void own_stack(void)
{
    pthread_attr_t own;
    char *stack = NULL;
    pthread_t thread;

    MUST(posix_memalign((void **)&stack, 4096, OWN) == 0);
    OK(pthread_attr_init(&own));
    OK(pthread_attr_setstack(&own, stack, OWN));
    for (int round = 0; round < 200; round++) {
        OK(pthread_create(&thread, &own, is_on_it, stack));
        MUST(join(thread) == stack);
        memset(stack, round, OWN);
    }
    free(stack);
    OK(pthread_attr_destroy(&own));
}

static void *is_bound(void *arg)
{
    cpu_set_t *expected = arg, set;

    for (int round = 0; round < 5; round++) {
        OK(pthread_getaffinity_np(pthread_self(), sizeof set, &set));
        MUST(CPU_EQUAL(&set, expected));
        MUST(sched_getaffinity(0, sizeof set, &set) == 0 && CPU_EQUAL(&set, expected));
        MUST(CPU_ISSET((size_t)sched_getcpu(), expected));
        usleep(100);
    }
    return arg;
}

static void affinity(void)
{
    cpu_set_t all, one;
    size_t cpu = 0;

    MUST(sched_getaffinity(0, sizeof all, &all) == 0);
    while (!CPU_ISSET(cpu, &all))
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    OK(pthread_attr_setstacksize(&attributes, 256 * 1024));
    OK(pthread_attr_setaffinity_np(&attributes, sizeof one, &one));
    for (int round = 0; round < 20; round++) {
        pthread_t thread;

        OK(pthread_create(&thread, &attributes, is_bound, &one));
        MUST(join(thread) == &one);
        /* The next thread begins with the affinity of this one, not with that of the last. */
        MUST(join(spawn(is_bound, &all)) == &all);
    }
}

static void *has_mask(void *arg)
{
    sigset_t mask;

    OK(pthread_sigmask(SIG_SETMASK, NULL, &mask));
    MUST(sigismember(&mask, SIGUSR2) == 1 && sigismember(&mask, SIGUSR1) == 0);
    return arg;
}

static void mask(void)
{
    pthread_t thread;
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    OK(pthread_attr_setsigmask_np(&attributes, &set));
    OK(pthread_create(&thread, &attributes, has_mask, &set));
    MUST(join(thread) == &set);
    OK(pthread_sigmask(SIG_SETMASK, NULL, &set));
    MUST(sigismember(&set, SIGUSR2) == 0);
}

int main(void)
{
    OK(pthread_attr_init(&attributes));
    sizes_and_guards();
    SHOWN("sizes and guards");
    least();
    SHOWN("the least stack");
    own_stack();
    SHOWN("a stack of the program's own");
    affinity();
    SHOWN("affinity");
    mask();
    SHOWN("signal mask");
    return 0;
}
