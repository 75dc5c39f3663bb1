/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Two makers of many short threads: joined, detached and cancelled before they begin, with signals
 * sent to them at random, destructors of thread-specific data, and robust locks left behind. */
#include "check.h"
#include <sched.h>
#include <stdatomic.h>

enum { EACH = 1000 };

static pthread_key_t key;
static atomic_int destroyed, handled, detached_ends, cancelled;
static pthread_mutex_t left[2];

static void on_signal(int sig)
{
    (void)sig;
    atomic_fetch_add(&handled, 1);
}

static void destroys(void *value)
{
    MUST(value == (void *)0x55);
    atomic_fetch_add(&destroyed, 1);
}

struct task {
    int kind, maker;
    sem_t begun;
};

static void *works(void *arg)
{
    struct task *task = arg;

    OK(pthread_setspecific(key, (void *)0x55));
    switch (task->kind) {
    case 0:
        return arg;
    case 1:
        sched_yield();
        break;
    case 2:
        sem_post(&task->begun);
        sleep_ms(0);
        break;
    case 3: {
        int result = pthread_mutex_lock(&left[task->maker]);

        if (result == EOWNERDEAD)
            OK(pthread_mutex_consistent(&left[task->maker]));
        else
            OK(result);
        break; /* with the lock */
    }
    case 4:
        free(task);
        atomic_fetch_add(&detached_ends, 1);
        return NULL;
    default:
        pthread_testcancel();
        sleep_ms(1);
        pthread_testcancel();
    }
    return arg;
}

static void *makes(void *arg)
{
    int maker = (int)(intptr_t)arg;
    unsigned state = 12345u + (unsigned)maker;
    int detached = 0;

    for (int round = 0; round < EACH; round++) {
        struct task *task = malloc(sizeof *task);
        pthread_attr_t attributes;
        pthread_t thread;
        void *result;

        state = state * 1103515245u + 12345u;
        task->kind = (int)(state >> 16) % 6;
        task->maker = maker;
        MUST(sem_init(&task->begun, 0, 0) == 0);
        OK(pthread_attr_init(&attributes));
        if (task->kind == 4)
            OK(pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED));
        detached += task->kind == 4;
        int kind = task->kind;

        OK(pthread_create(&thread, &attributes, works, task));
        OK(pthread_attr_destroy(&attributes));
        if (kind == 4)
            continue;
        if (kind == 5 && (state & 1 << 20)) {
            OK(pthread_cancel(thread));
        } else if (kind == 2) {
            down(&task->begun);
            OK(pthread_kill(thread, SIGUSR1));
        } else if (state & 1 << 21) {
            int sent = pthread_kill(thread, SIGUSR1);

            MUST(sent == 0 || sent == ESRCH);
        }
        OK(pthread_join(thread, &result));
        MUST(result == task || result == PTHREAD_CANCELED);
        atomic_fetch_add(&cancelled, result == PTHREAD_CANCELED);
        free(task);
    }
    return (void *)(intptr_t)detached;
}

int main(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    pthread_mutexattr_t attributes;

    MUST(sigaction(SIGUSR1, &action, NULL) == 0);
    OK(pthread_key_create(&key, destroys));
    OK(pthread_mutexattr_init(&attributes));
    OK(pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST));
    OK(pthread_mutex_init(&left[0], &attributes));
    OK(pthread_mutex_init(&left[1], &attributes));
    pthread_t first = spawn(makes, (void *)0), second = spawn(makes, (void *)1);
    int detached = (int)(intptr_t)join(first) + (int)(intptr_t)join(second);

    while (atomic_load(&detached_ends) != detached)
        sleep_ms(1);
    SHOWN("all have ended");
    /* A cancelled thread may not have set its value. */
    for (int tries = 0; atomic_load(&destroyed) + atomic_load(&cancelled) < 2 * EACH; tries++) {
        MUST(tries < 5000);
        sleep_ms(1);
    }
    MUST(atomic_load(&destroyed) <= 2 * EACH);
    SHOWN("destructors have run");
    MUST(atomic_load(&handled) > 0);
    SHOWN("signals were handled");
    return 0;
}
