/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Queues and semaphores of System V, message queues of POSIX with their notifications, asynchronous
 * input and output: between threads, all of whose waits are in the kernel or in helper threads. */
#include "check.h"
#include <aio.h>
#include <mqueue.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>

enum { MESSAGES = 200, THREADS = 4 };

struct message {
    long type;
    int value;
};

static int queue, set;
static mqd_t posix_queue;
static sem_t notified;
static int counter;

static void *sends(void *arg)
{
    struct message message = {(long)(intptr_t)arg, 0};

    for (int at = 0; at < MESSAGES; at++) {
        message.value = at;
        MUST(msgsnd(queue, &message, sizeof message.value, 0) == 0);
    }
    return NULL;
}

/* Each type of message arrives in order. */
static void *receives(void *arg)
{
    struct message message;

    for (int at = 0; at < MESSAGES; at++) {
        MUST(msgrcv(queue, &message, sizeof message.value, (long)(intptr_t)arg, 0) ==
             sizeof message.value);
        MUST(message.value == at && message.type == (long)(intptr_t)arg);
    }
    return NULL;
}

static void system_v_messages(void)
{
    pthread_t threads[4];

    queue = msgget(IPC_PRIVATE, 0600);
    MUST(queue >= 0);
    for (intptr_t at = 0; at < 4; at++)
        threads[at] = spawn(at < 2 ? receives : sends, (void *)(at % 2 + 1));
    for (int at = 0; at < 4; at++)
        join(threads[at]);
    MUST(msgctl(queue, IPC_RMID, NULL) == 0);
}

static void *counts(void *arg)
{
    for (int turn = 0; turn < 100; turn++) {
        struct sembuf lock = {0, -1, SEM_UNDO}, unlock = {0, 1, SEM_UNDO};

        MUST(semop(set, &lock, 1) == 0);
        counter++;
        if (turn % 10 == 0)
            sched_yield();
        MUST(semop(set, &unlock, 1) == 0);
    }
    return arg;
}

static void system_v_semaphores(void)
{
    struct sembuf never = {1, -1, 0};
    struct timespec limit = {0, 5000000};

    set = semget(IPC_PRIVATE, 2, 0600);
    MUST(set >= 0 && semctl(set, 0, SETVAL, 1) == 0 && semctl(set, 1, SETVAL, 0) == 0);
    in_threads(THREADS, counts);
    MUST(counter == THREADS * 100);
    FAILS(EAGAIN, semtimedop(set, &never, 1, &limit));
    MUST(semctl(set, 0, IPC_RMID) == 0);
}

static void notify(union sigval value)
{
    MUST(value.sival_int == 12);
    OK(sem_post(&notified));
}

static void *receives_posix(void *arg)
{
    char text[16];
    unsigned priority;

    for (int at = 0; at < MESSAGES; at++) {
        MUST(mq_receive(posix_queue, text, sizeof text, &priority) == 5);
        MUST(priority == 1 && !memcmp(text, "hello", 5));
    }
    return arg;
}

static void posix_messages(void)
{
    struct mq_attr attributes = {.mq_maxmsg = 4, .mq_msgsize = 16};
    struct sigevent event = {.sigev_notify = SIGEV_THREAD};
    struct timespec limit = in_ms(CLOCK_REALTIME, 5);
    char name[64], text[16];
    pthread_t thread;

    snprintf(name, sizeof name, "/umcg-run-%d", (int)getpid());
    posix_queue = mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, &attributes);
    if (posix_queue == (mqd_t)-1 && errno == ENOSYS)
        return;
    MUST(posix_queue != (mqd_t)-1 && mq_unlink(name) == 0);
    FAILS(ETIMEDOUT, mq_timedreceive(posix_queue, text, sizeof text, NULL, &limit));
    event.sigev_value.sival_int = 12;
    event.sigev_notify_function = notify;
    MUST(mq_notify(posix_queue, &event) == 0);
    MUST(mq_send(posix_queue, "first", 5, 0) == 0);
    down(&notified);
    MUST(mq_receive(posix_queue, text, sizeof text, NULL) == 5);
    thread = spawn(receives_posix, NULL);
    for (int at = 0; at < MESSAGES; at++)
        MUST(mq_send(posix_queue, "hello", 5, 1) == 0);
    join(thread);
    MUST(mq_close(posix_queue) == 0);
}

static void asynchronous(void)
{
    static char text[] = "written later", read_back[sizeof text];
    struct aiocb request = {.aio_buf = text, .aio_nbytes = sizeof text};
    const struct aiocb *list[] = {&request};
    FILE *file = tmpfile();

    MUST(file != NULL);
    request.aio_fildes = fileno(file);
    request.aio_sigevent.sigev_notify = SIGEV_NONE;
    MUST(aio_write(&request) == 0);
    while (aio_error(&request) == EINPROGRESS)
        MUST(aio_suspend(list, 1, NULL) == 0 || errno == EINTR);
    MUST(aio_error(&request) == 0 && aio_return(&request) == sizeof text);
    request.aio_buf = read_back;
    request.aio_sigevent.sigev_notify = SIGEV_THREAD;
    request.aio_sigevent.sigev_notify_function = notify;
    request.aio_sigevent.sigev_value.sival_int = 12;
    MUST(aio_read(&request) == 0);
    down(&notified);
    MUST(aio_return(&request) == sizeof text && !strcmp(text, read_back));
    fclose(file);
}

int main(void)
{
    OK(sem_init(&notified, 0, 0));
    system_v_messages();
    SHOWN("messages of System V");
    system_v_semaphores();
    SHOWN("semaphores of System V");
    posix_messages();
    SHOWN("messages of POSIX");
    asynchronous();
    SHOWN("asynchronous input and output");
    return 0;
}
