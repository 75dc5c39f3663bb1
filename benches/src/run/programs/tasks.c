/* A task runtime with many more threads than CPUs, as each of several libraries in a program may
 * start its own: SIZE threads and one queue. A phase adds a task for each thread and one more. Each
 * computes some microseconds, every fourth makes a child and waits for it, and the main thread
 * waits for all. An operation is a task. */
#include "common.h"

enum { ROOM = 4096, STEPS = 1500 };

struct task {
    uint64_t result;
    struct task *child;
    int is_done;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t has_work = PTHREAD_COND_INITIALIZER, is_done = PTHREAD_COND_INITIALIZER;
static struct task *queue[ROOM];
static unsigned first, count, undone;
static int is_over;

/* Under the lock. */
static void add(struct task *task)
{
    CHECK(count < ROOM);
    task->is_done = 0;
    queue[(first + count++) % ROOM] = task;
    undone++;
    pthread_cond_signal(&has_work);
}

/* Under the lock, which it gives up meanwhile. */
static void run_next(void)
{
    struct task *task = queue[first];
    first = (first + 1) % ROOM;
    count--;
    if (task->child != NULL)
        add(task->child);
    pthread_mutex_unlock(&lock);
    uint64_t result = compute(1, STEPS);
    pthread_mutex_lock(&lock);
    /* Helps meanwhile: a pool full of waiting parents would never come to the children. */
    while (task->child != NULL && !task->child->is_done) {
        if (count > 0)
            run_next();
        else
            pthread_cond_wait(&is_done, &lock);
    }
    task->result = result + (task->child != NULL ? task->child->result : 0);
    task->is_done = 1;
    undone--;
    pthread_cond_broadcast(&is_done);
}

static void *works(void *none)
{
    pthread_mutex_lock(&lock);
    for (;;) {
        while (count == 0 && !is_over)
            pthread_cond_wait(&has_work, &lock);
        if (count == 0)
            break;
        run_next();
    }
    pthread_mutex_unlock(&lock);
    return none;
}

int main(int argc, char **argv)
{
    unsigned threads = (unsigned)argument(argc, argv, 2, 16), parents = threads + 1;
    pthread_t others[threads];
    struct task *all = calloc((size_t)parents * 2, sizeof *all);
    CHECK(all != NULL && parents * 2 < ROOM);
    uint64_t each = 0, expected = compute(1, STEPS);
    for (unsigned i = 0; i < parents; i++) {
        all[i].child = i % 4 == 0 ? &all[parents + i] : NULL;
        each += all[i].child != NULL ? 2 : 1;
    }
    for (unsigned i = 0; i < threads; i++)
        others[i] = start_thread(works, NULL);
    struct pace pace = pace_of(argument(argc, argv, 1, 1), 0);
    while (goes_on(&pace)) {
        pthread_mutex_lock(&lock);
        for (unsigned i = 0; i < parents; i++)
            add(&all[i]);
        while (undone > 0)
            pthread_cond_wait(&is_done, &lock);
        pthread_mutex_unlock(&lock);
        for (unsigned i = 0; i < parents; i++)
            CHECK(all[i].result == (all[i].child != NULL ? 2 : 1) * expected);
    }
    printf("result %016llx\n", (unsigned long long)expected);
    report_pace(&pace, each);
    pthread_mutex_lock(&lock);
    is_over = 1;
    pthread_cond_broadcast(&has_work);
    pthread_mutex_unlock(&lock);
    for (unsigned i = 0; i < threads; i++)
        join_thread(others[i]);
    return 0;
}
