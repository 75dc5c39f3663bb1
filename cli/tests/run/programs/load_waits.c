/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A library's constructor waits for a lock, in the midst of dlopen. The lock's holder makes a
 * thread before it gives the lock back: that needs no lock of the dynamic linker's. The same at
 * dlclose.
 *
 * run: library waits.c
 * run: flags -rdynamic */
#include "check.h"

#include <dlfcn.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static sem_t is_held, is_waiting;

void while_loading(void);
void while_unloading(void);

static void wait_for_lock(void)
{
    OK(sem_post(&is_waiting));
    OK(pthread_mutex_lock(&lock));
    OK(pthread_mutex_unlock(&lock));
}

void while_loading(void)
{
    wait_for_lock();
    SHOWN("the constructor has had the lock");
}

void while_unloading(void)
{
    wait_for_lock();
    SHOWN("the destructor has had the lock");
}

static void *does_nothing(void *arg)
{
    return arg;
}

static void *holds(void *arg)
{
    pthread_t thread;

    OK(pthread_mutex_lock(&lock));
    OK(sem_post(&is_held));
    down(&is_waiting);
    sleep_ms(5);
    thread = spawn(does_nothing, NULL);
    OK(pthread_mutex_unlock(&lock));
    join(thread);
    return arg;
}

int main(void)
{
    char path[4096];
    void *library;
    pthread_t holder;

    MUST(getenv("UMCG_RUN_LIBRARIES") != NULL);
    snprintf(path, sizeof path, "%s/waits.so", getenv("UMCG_RUN_LIBRARIES"));
    OK(sem_init(&is_held, 0, 0));
    OK(sem_init(&is_waiting, 0, 0));

    holder = spawn(holds, NULL);
    down(&is_held);
    library = dlopen(path, RTLD_NOW);
    MUST(library != NULL);
    join(holder);

    holder = spawn(holds, NULL);
    down(&is_held);
    OK(dlclose(library));
    join(holder);
    SHOWN("loaded and unloaded");
}
