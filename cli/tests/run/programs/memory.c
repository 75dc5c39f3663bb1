/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Threads that map, protect, move and unmap memory at the same time; a pipeline of eight threads
 * that hand over allocated memory; memory that threads free for each other. */
#include "check.h"

enum { THREADS = 8, TURNS = 60, PAGE = 4096, STAGES = 8, ITEMS = 600 };

static void *maps(void *arg)
{
    size_t own = (size_t)(intptr_t)arg + 1;

    for (size_t turn = 0; turn < TURNS; turn++) {
        size_t size = PAGE * (own + turn % 16);
        char *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        MUST(at != MAP_FAILED);
        memset(at, (int)own, size);
        if (turn % 4 == 0)
            sched_yield();
        MUST(mprotect(at, size, PROT_READ) == 0 && at[size - 1] == (char)own);
        MUST(mprotect(at, size, PROT_READ | PROT_WRITE) == 0);
        at = mremap(at, size, 4 * size, MREMAP_MAYMOVE);
        MUST(at != MAP_FAILED && at[size - 1] == (char)own && at[4 * size - 1] == 0);
        MUST(madvise(at, size, MADV_DONTNEED) == 0 && at[0] == 0);
        MUST(munmap(at, 4 * size) == 0);
    }
    return NULL;
}

struct item {
    struct item *next;
    char *text;
    size_t size;
};

struct queue {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct item *first, **last;
};

static struct queue queues[STAGES + 1];

static void put(struct queue *queue, struct item *item)
{
    item->next = NULL;
    OK(pthread_mutex_lock(&queue->mutex));
    *queue->last = item;
    queue->last = &item->next;
    OK(pthread_cond_signal(&queue->changed));
    OK(pthread_mutex_unlock(&queue->mutex));
}

static struct item *get(struct queue *queue)
{
    struct item *item;

    OK(pthread_mutex_lock(&queue->mutex));
    while (queue->first == NULL)
        OK(pthread_cond_wait(&queue->changed, &queue->mutex));
    item = queue->first;
    queue->first = item->next;
    if (queue->first == NULL)
        queue->last = &queue->first;
    OK(pthread_mutex_unlock(&queue->mutex));
    return item;
}

/* Takes each item to new memory, one letter longer, and frees what the thread before allocated. */
static void *stage(void *arg)
{
    intptr_t own = (intptr_t)arg;

    for (int at = 0; at < ITEMS; at++) {
        struct item *old = get(&queues[own]), *new = malloc(sizeof *new);

        MUST(new != NULL);
        new->size = old->size + 1;
        new->text = malloc(new->size);
        MUST(new->text != NULL);
        memcpy(new->text, old->text, old->size);
        new->text[old->size] = (char)('a' + own);
        free(old->text);
        free(old);
        put(&queues[own + 1], new);
    }
    return NULL;
}

static void pipeline(void)
{
    pthread_t threads[STAGES];

    for (int at = 0; at <= STAGES; at++) {
        OK(pthread_mutex_init(&queues[at].mutex, NULL));
        OK(pthread_cond_init(&queues[at].changed, NULL));
        queues[at].last = &queues[at].first;
    }
    for (intptr_t at = 0; at < STAGES; at++)
        threads[at] = spawn(stage, (void *)at);
    for (int at = 0; at < ITEMS; at++) {
        struct item *item = malloc(sizeof *item);

        item->size = 1 + (size_t)at % 700;
        item->text = malloc(item->size);
        memset(item->text, 'x', item->size);
        put(&queues[0], item);
    }
    for (int at = 0; at < ITEMS; at++) {
        struct item *item = get(&queues[STAGES]);

        MUST(item->size == 1 + (size_t)at % 700 + STAGES);
        MUST(!memcmp(item->text + item->size - STAGES, "abcdefgh", STAGES));
        free(item->text);
        free(item);
    }
    for (int at = 0; at < STAGES; at++)
        join(threads[at]);
}

static char *blocks[THREADS][64];
static pthread_barrier_t barrier;

/* Each allocates its row, and frees the row of another. */
static void *frees_for_another(void *arg)
{
    int own = (int)(intptr_t)arg;

    for (int round = 0; round < 20; round++) {
        int other = (own + round) % THREADS;

        for (int at = 0; at < 64; at++) {
            blocks[own][at] = malloc((size_t)(16 << (at % 8)));
            memset(blocks[own][at], own, (size_t)(16 << (at % 8)));
        }
        pthread_barrier_wait(&barrier);
        for (int at = 0; at < 64; at++) {
            MUST(blocks[other][at][0] == other);
            MUST(blocks[other][at][(16 << (at % 8)) - 1] == other);
            free(blocks[other][at]);
        }
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

int main(void)
{
    in_threads(THREADS, maps);
    SHOWN("mappings");
    pipeline();
    SHOWN("a pipeline");
    OK(pthread_barrier_init(&barrier, NULL, THREADS));
    in_threads(THREADS, frees_for_another);
    SHOWN("freed by others");
    return 0;
}
