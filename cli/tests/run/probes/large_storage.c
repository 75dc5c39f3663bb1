/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* As switches.c, in a program whose thread-local variables take more than the stacks of most
 * libraries' threads. */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <sys/resource.h>

static __thread char storage[3 << 20];
static sem_t ping, pong;

static void *answer(void *arg)
{
    for (int turn = 0; turn < 1000; turn++) {
        sem_wait(&ping);
        storage[turn]++;
        sem_post(&pong);
    }
    return arg;
}

int main(void)
{
    struct rusage used;
    pthread_t thread;

    sem_init(&ping, 0, 0);
    sem_init(&pong, 0, 0);
    if (pthread_create(&thread, NULL, answer, storage) != 0)
        return 1;
    for (int turn = 0; turn < 1000; turn++) {
        sem_post(&ping);
        sem_wait(&pong);
    }
    pthread_join(thread, NULL);
    getrusage(RUSAGE_SELF, &used);
    printf("%ld\n", used.ru_nvcsw);
    return 0;
}
