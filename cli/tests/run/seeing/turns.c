/* Two threads that take turns, and sleep now and then, for a trace. With an argument the process
 * becomes the same program again first. */
#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { TURNS = 1000, SLEEPS = 5 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static long turn;

static void *player(void *number)
{
    long me = (long) number;
    pthread_setname_np(pthread_self(), me ? "second" : "first");
    for (int round = 0; round < TURNS; round++) {
        pthread_mutex_lock(&lock);
        while (turn != me)
            pthread_cond_wait(&condition, &lock);
        if (round % (TURNS / SLEEPS) == 0) {
            struct timespec time = {0, 1000000};
            nanosleep(&time, NULL);
        }
        turn = 1 - me;
        pthread_cond_signal(&condition);
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

int main(int count, char **words)
{
    pthread_t threads[2];
    for (long number = 0; number < 2; number++)
        if (pthread_create(&threads[number], NULL, player, (void *) number) != 0)
            return 1;
    for (int number = 0; number < 2; number++)
        pthread_join(threads[number], NULL);
    printf("played\n");
    fflush(stdout);
    if (count > 1)
        execl(words[0], words[0], (char *) NULL);
    return 0;
}
