/* Two threads take turns through a mutex and two condition variables. An operation is there and
 * back. */
#include "common.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t is_theirs = PTHREAD_COND_INITIALIZER, is_ours = PTHREAD_COND_INITIALIZER;
static enum { OURS, THEIRS, OVER } turn;
static uint64_t answered;

static void *answers(void *none)
{
    pthread_mutex_lock(&lock);
    for (;;) {
        while (turn == OURS)
            pthread_cond_wait(&is_theirs, &lock);
        if (turn == OVER)
            break;
        answered++;
        turn = OURS;
        pthread_cond_signal(&is_ours);
    }
    pthread_mutex_unlock(&lock);
    return none;
}

int main(int argc, char **argv)
{
    pthread_t other = start_thread(answers, NULL);
    struct pace pace = pace_of(argument(argc, argv, 1, 1), 15);
    pthread_mutex_lock(&lock);
    while (goes_on(&pace)) {
        turn = THEIRS;
        pthread_cond_signal(&is_theirs);
        while (turn == THEIRS)
            pthread_cond_wait(&is_ours, &lock);
    }
    report_pace(&pace, 1);
    turn = OVER;
    pthread_cond_signal(&is_theirs);
    pthread_mutex_unlock(&lock);
    join_thread(other);
    CHECK(answered == pace.begun);
    return 0;
}
