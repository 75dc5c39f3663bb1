/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A library with thread-local storage and system calls of its own is loaded while threads wait and
 * compute; used by threads older and younger than it; and unloaded, again and again.
 * run: library storage.c */
#include "check.h"
#include <dlfcn.h>
#include <limits.h>

enum { THREADS = 6, ROUNDS = 10 };

static int (*add)(int);
static long (*sleep_there)(long);
static void (*wait_there)(uint32_t *);
static pthread_barrier_t barrier;
static char path[PATH_MAX];
static volatile int stop;

static void *load(void)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);

    if (library == NULL)
        fprintf(stderr, "%s\n", dlerror());
    MUST(library != NULL);
    *(void **)&add = dlsym(library, "library_add");
    *(void **)&sleep_there = dlsym(library, "library_sleep");
    *(void **)&wait_there = dlsym(library, "library_wait");
    MUST(add && sleep_there && wait_there);
    MUST(dlsym(library, "no_such_name") == NULL && dlerror() != NULL);
    return library;
}

/* Storage begins anew in each thread, and each time the library is loaded. */
static void use(int own)
{
    MUST(add(0) == 16);
    MUST(sleep_there(20000) == 0);
    MUST(add(own) == 16 + own);
    MUST(sleep_there(-1) == -EINVAL);
    usleep(50);
    MUST(add(0) == 16 + 2 * own);
}

static void *older(void *arg)
{
    for (int round = 0; round < ROUNDS; round++) {
        pthread_barrier_wait(&barrier);
        use((int)(intptr_t)arg);
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

static void *younger(void *arg)
{
    use((int)(intptr_t)arg + 100);
    return NULL;
}

static void *computes(void *arg)
{
    while (!stop)
        free(malloc(64));
    return arg;
}

static uint32_t word;

static void *waits_there(void *arg)
{
    wait_there(&word);
    return arg;
}

static void waits_in_it(void)
{
    pthread_t threads[THREADS];

    word = 0;
    for (int at = 0; at < THREADS; at++)
        threads[at] = spawn(waits_there, NULL);
    usleep(500);
    __atomic_store_n(&word, 1, __ATOMIC_RELEASE);
    wait_there(&word);
    for (int at = 0; at < THREADS; at++)
        join(threads[at]);
}

int main(void)
{
    pthread_t threads[THREADS], computing;
    const char *folder = getenv("UMCG_RUN_LIBRARIES");

    snprintf(path, sizeof path, "%s/storage.so", folder ? folder : ".");
    OK(pthread_barrier_init(&barrier, NULL, THREADS + 1));
    for (intptr_t at = 0; at < THREADS; at++)
        threads[at] = spawn(older, (void *)at);
    computing = spawn(computes, NULL);
    for (int round = 0; round < ROUNDS; round++) {
        void *library = load();

        pthread_barrier_wait(&barrier);
        in_threads(THREADS, younger);
        pthread_barrier_wait(&barrier);
        waits_in_it();
        MUST(dlclose(library) == 0);
    }
    stop = 1;
    for (int at = 0; at < THREADS; at++)
        join(threads[at]);
    join(computing);
    SHOWN("loaded and unloaded");
    return 0;
}
