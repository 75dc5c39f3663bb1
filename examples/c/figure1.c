/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The test application of the UthLib paper (its Figure 1), for 64-bit machines: two uths run their
 * first round on the first virtual processor and go on with their second round on another.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "uth.h"

#define THREADS 2

static uth_t worker[THREADS];
static uth_t processor_a;
static uth_t processor_b;

static int global;

static void say_round(const char *round, int id, int local)
{
    uth_t self = uth_self();
    printf("[%p] Round %s: arg (%d / %d) - [Local = %d Global = %d]\n", (void *)self, round, id,
           (int)(intptr_t)uth_getarg(self), local, global);
}

static void say_start(const char *master)
{
    printf("[%p] Master thread %s starts - [pthread_t = %#lx getpid = %ld]\n", (void *)uth_self(),
           master, (unsigned long)pthread_self(), (long)getpid());
}

static void worker_func(void *arg)
{
    int id = (int)(intptr_t)arg;
    int local = 0;

    global++;
    local++;
    say_round("One", id, local);
    uth_switchto(worker[id], id == THREADS - 1 ? processor_a : worker[id + 1]);

    /* On the other virtual processor now. */
    global++;
    local++;
    say_round("Two", id, local);
    uth_switchto(NULL, id == THREADS - 1 ? processor_b : worker[id + 1]);
}

static void *kernel_thread_func(void *arg)
{
    (void)arg;
    uth_vp_init(1);
    processor_b = uth_self();
    say_start("B");
    uth_switchto(processor_b, worker[0]);
    printf("[%p] Master thread B exits - [Global = %d]\n", (void *)uth_self(), global);
    return NULL;
}

int main(void)
{
    pthread_t thread;

    uth_init(0);
    uth_vp_init(0);
    for (int i = 0; i < THREADS; i++)
        worker[i] = uth_create(worker_func, (void *)(intptr_t)i);
    say_start("A");

    processor_a = uth_self();
    uth_switchto(processor_a, worker[0]);
    printf("[%p] Master thread A continues - [Global = %d]\n", (void *)uth_self(), global);

    pthread_create(&thread, NULL, kernel_thread_func, NULL);
    pthread_join(thread, NULL);

    for (int i = 0; i < THREADS; i++)
        uth_delete(worker[i]);
    printf("[%p] Master thread A exits\n", (void *)uth_self());
    return 0;
}
