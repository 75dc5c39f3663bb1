/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A library for load.c, with thread-local storage of both models, and system calls of its own. */
#include <errno.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

__thread int library_dynamic = 7;
static __thread int initial_exec __attribute__((tls_model("initial-exec"))) = 9;
static int constructed;

__attribute__((constructor)) static void construct(void)
{
    constructed = 1;
}

/* The sum of all that this thread has added, from 16 on. */
int library_add(int value)
{
    library_dynamic += value;
    initial_exec += value;
    return constructed ? library_dynamic + initial_exec - value : -1;
}

/* A wait by an instruction of the library itself: returns what the kernel does. */
long library_sleep(long ns)
{
#ifdef __x86_64__
    struct timespec time = {0, ns};
    long result;

    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"((long)SYS_nanosleep), "D"(&time), "S"(0L)
                     : "rcx", "r11", "memory");
    return result;
#else
    struct timespec time = {0, ns};

    return nanosleep(&time, 0) ? -errno : 0;
#endif
}

/* Waits until the word is not 0 any more, and wakes another that does. */
void library_wait(uint32_t *word)
{
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) == 0)
        syscall(SYS_futex, word, 128, 0, 0, 0, 0);
    syscall(SYS_futex, word, 129, 1, 0, 0, 0);
}
