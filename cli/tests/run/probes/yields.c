/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Two threads pass a token to and fro, and give way meanwhile; they never wait. Prints how many
 * times the process's threads gave up their CPU: four thousand times natively, where they have one.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/resource.h>

enum { ROUNDS = 4000 };

static int token;

static void *pass(void *own)
{
    for (int at = own != NULL; at < ROUNDS; at += 2) {
        while (__atomic_load_n(&token, __ATOMIC_ACQUIRE) != at)
            sched_yield();
        __atomic_store_n(&token, at + 1, __ATOMIC_RELEASE);
    }
    return NULL;
}

int main(void)
{
    pthread_t thread;
    struct rusage used;

    if (pthread_create(&thread, NULL, pass, &token) != 0)
        return 1;
    pass(NULL);
    pthread_join(thread, NULL);
    getrusage(RUSAGE_SELF, &used);
    printf("%ld\n", used.ru_nvcsw + used.ru_nivcsw);
    return 0;
}
