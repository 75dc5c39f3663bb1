/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A program that has registered an area for restartable sequences of its own, before its first
 * thread, if GLIBC_TUNABLES=glibc.pthread.rseq=0 lets it: then it runs natively, after a line,
 * which counts as a failure here. Without that the C library has an area, and the kernel refuses
 * a second one. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

static __thread struct { uint32_t words[8]; } area __attribute__((aligned(32)));

static void *body(void *arg)
{
    return arg;
}

int main(void)
{
    pthread_t thread;
    void *result = NULL;
    long registered = syscall(SYS_rseq, &area, sizeof area, 0, 0x53053053);
    if (pthread_create(&thread, NULL, body, &area) != 0 || pthread_join(thread, &result) != 0)
        return 1;
    puts(registered == 0 ? "an area of its own" : "the C library has one");
    return result == &area ? 0 : 1;
}
