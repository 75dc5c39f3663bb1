/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Faults for the runner to notice, chosen by UMCG_PLANTED. Without it the program is sound. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static volatile int spins;

static void *wait_for_ever(void *arg)
{
    while (spins)
        ;
    pause();
    return arg;
}

/* A process and a child of it that both ignore the polite signals; two threads in the first. */
static void hang(void)
{
    pthread_t thread;

    signal(SIGTERM, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    if (fork() == 0)
        wait_for_ever(NULL);
    pthread_create(&thread, NULL, wait_for_ever, NULL);
    pthread_join(thread, NULL);
}

int main(void)
{
    const char *fault = getenv("UMCG_PLANTED");

    fault = fault ? fault : "none";
    puts("the first line");
    fflush(stdout);
    if (!strcmp(fault, "shorter"))
        return 0;
    if (!strcmp(fault, "exits"))
        return 9;
    if (!strcmp(fault, "crashes")) {
        signal(SIGSEGV, SIG_DFL);
        raise(SIGSEGV);
    }
    if (!strcmp(fault, "asks"))
        printf("membarrier: %d\n", syscall(SYS_membarrier, 0, 0, 0) < 0 ? errno : 0);
    spins = !strcmp(fault, "spins");
    if (spins || !strcmp(fault, "hangs"))
        hang();
    if (!strcmp(fault, "leaves") && fork() == 0)
        wait_for_ever(NULL);
    puts(!strcmp(fault, "differs") ? "a second line that differs" : "the second line");
    return 0;
}
