/* Eight stages, a thread each, with bounded queues between them. Each stage takes a message, makes
 * one of another size with malloc, frees the first, and passes the new one on. An operation is a
 * message that has gone through all. */
#include "common.h"

enum { STAGES = 8, ROOM = 64 };

struct message {
    uint64_t number;
    unsigned passed;
    unsigned char rest[];
};

struct queue {
    pthread_mutex_t lock;
    pthread_cond_t has_room, has_some;
    unsigned first, count;
    struct message *all[ROOM];
};

/* Queue i is before stage i, and the last one is behind all. */
static struct queue queues[STAGES + 1];

static void put(struct queue *queue, struct message *message)
{
    pthread_mutex_lock(&queue->lock);
    while (queue->count == ROOM)
        pthread_cond_wait(&queue->has_room, &queue->lock);
    queue->all[(queue->first + queue->count++) % ROOM] = message;
    pthread_cond_signal(&queue->has_some);
    pthread_mutex_unlock(&queue->lock);
}

static struct message *take(struct queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    while (queue->count == 0)
        pthread_cond_wait(&queue->has_some, &queue->lock);
    struct message *message = queue->all[queue->first];
    queue->first = (queue->first + 1) % ROOM;
    queue->count--;
    pthread_cond_signal(&queue->has_room);
    pthread_mutex_unlock(&queue->lock);
    return message;
}

static struct message *made(uint64_t number, unsigned passed)
{
    size_t rest = 16 + (number * 31 + passed * 61) % 480;
    struct message *message = malloc(sizeof *message + rest);
    CHECK(message != NULL);
    message->number = number;
    message->passed = passed;
    memset(message->rest, (int)passed, rest);
    return message;
}

/* A null message is the end, and goes through all stages too. */
static void *stage(void *data)
{
    struct queue *queue = data;
    for (;;) {
        struct message *message = take(queue);
        if (message == NULL) {
            put(queue + 1, NULL);
            return NULL;
        }
        put(queue + 1, made(message->number, message->passed + 1));
        free(message);
    }
}

static void *feeds(void *data)
{
    struct pace pace = pace_of(*(double *)data, 63);
    while (goes_on(&pace))
        put(&queues[0], made(pace.begun, 0));
    put(&queues[0], NULL);
    /* The messages that are under way at the beginning and at the end are about as many. */
    report_pace(&pace, 1);
    *(double *)data = (double)pace.begun;
    return NULL;
}

int main(int argc, char **argv)
{
    double budget = argument(argc, argv, 1, 1);
    pthread_t threads[STAGES + 1];
    for (int i = 0; i <= STAGES; i++) {
        pthread_mutex_init(&queues[i].lock, NULL);
        pthread_cond_init(&queues[i].has_room, NULL);
        pthread_cond_init(&queues[i].has_some, NULL);
    }
    for (int i = 0; i < STAGES; i++)
        threads[i] = start_thread(stage, &queues[i]);
    threads[STAGES] = start_thread(feeds, &budget);
    uint64_t number = 0;
    for (struct message *message; (message = take(&queues[STAGES])) != NULL; free(message)) {
        CHECK(message->number == ++number);
        CHECK(message->passed == STAGES && message->rest[15] == STAGES);
    }
    for (int i = 0; i <= STAGES; i++)
        join_thread(threads[i]);
    CHECK((double)number == budget);
    return 0;
}
