/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A library with a system call of its own, which its constructor's thread makes. */
#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static long id(void)
{
    long result;

    __asm__ volatile("syscall" : "=a"(result) : "a"(SYS_gettid) : "rcx", "r11", "memory");
    return result;
}

static void *asks(void *arg)
{
    for (int turn = 0; turn < 3; turn++)
        if (id() != syscall(SYS_gettid))
            abort();
    return arg;
}

__attribute__((constructor)) static void begins(void)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, asks, NULL) != 0 || pthread_join(thread, NULL) != 0)
        abort();
}
