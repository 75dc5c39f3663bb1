/* Four threads are made and joined, and the process ends: the bench measures the whole life of the
 * process, start-up included. */
#include "common.h"

static void *tells(void *told)
{
    *(int *)told = 1;
    return told;
}

int main(void)
{
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    int told[THREADS] = {0}, sum = 0;
    for (int i = 0; i < THREADS; i++)
        threads[i] = start_thread(tells, &told[i]);
    for (int i = 0; i < THREADS; i++)
        join_thread(threads[i]);
    for (int i = 0; i < THREADS; i++)
        sum += told[i];
    CHECK(sum == THREADS);
    printf("%d\n", sum);
    return 0;
}
