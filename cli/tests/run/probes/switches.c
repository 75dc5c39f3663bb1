/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Prints how many times threads gave up their CPU during a thousand round trips between two of
 * them: at least a thousand times natively, hardly ever where they are switched in user mode. */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <sys/resource.h>

static sem_t ping, pong;

static void *answer(void *arg)
{
    for (int turn = 0; turn < 1000; turn++) {
        sem_wait(&ping);
        sem_post(&pong);
    }
    return arg;
}

int main(void)
{
    struct rusage before, after;
    pthread_t thread;

    sem_init(&ping, 0, 0);
    sem_init(&pong, 0, 0);
    pthread_create(&thread, NULL, answer, NULL);
    getrusage(RUSAGE_SELF, &before);
    for (int turn = 0; turn < 1000; turn++) {
        sem_post(&ping);
        sem_wait(&pong);
    }
    getrusage(RUSAGE_SELF, &after);
    pthread_join(thread, NULL);
    printf("%ld\n", after.ru_nvcsw - before.ru_nvcsw);
    return 0;
}
