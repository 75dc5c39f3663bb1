/* Two threads raise an unnamed semaphore for each other. An operation is there and back. */
#include "common.h"
#include <semaphore.h>

static sem_t ping, pong;
static int is_over;

static void take(sem_t *semaphore)
{
    while (sem_wait(semaphore) != 0)
        CHECK(errno == EINTR);
}

static void *answers(void *count)
{
    for (;;) {
        take(&ping);
        if (is_over)
            return NULL;
        ++*(uint64_t *)count;
        sem_post(&pong);
    }
}

int main(int argc, char **argv)
{
    uint64_t answered = 0;
    CHECK(sem_init(&ping, 0, 0) == 0 && sem_init(&pong, 0, 0) == 0);
    pthread_t other = start_thread(answers, &answered);
    struct pace pace = pace_of(argument(argc, argv, 1, 1), 15);
    while (goes_on(&pace)) {
        sem_post(&ping);
        take(&pong);
    }
    report_pace(&pace, 1);
    is_over = 1;
    sem_post(&ping);
    join_thread(other);
    CHECK(answered == pace.begun);
    return 0;
}
