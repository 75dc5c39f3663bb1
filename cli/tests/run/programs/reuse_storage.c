/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A thread whose memory the program frees at once after its end, and which has made another thread
 * when an earlier one had just ended: nothing looks at that memory after. */
#include "check.h"
#include <sys/resource.h>

enum { BYTES = 256 << 10, ROUNDS = 4, LATER = 6 };

static sem_t never;
static int priority;

static void wait_once(void)
{
    struct timespec limit = in_ms(CLOCK_REALTIME, 2);

    FAILS(ETIMEDOUT, sem_timedwait(&never, &limit));
}

/* Its kernel thread is none for another one. */
static void *changes_its_thread(void *arg)
{
    wait_once();
    MUST(setpriority(PRIO_PROCESS, (id_t)gettid(), priority) == 0);
    return arg;
}

static void *waits(void *arg)
{
    wait_once();
    return arg;
}

static void *makes_another(void *earlier)
{
    wait_once();
    join(*(pthread_t *)earlier);
    usleep(20000);
    join(spawn(waits, NULL));
    return NULL;
}

static void *makes_calls(void *arg)
{
    for (int turn = 0; turn < 20; turn++) {
        wait_once();
        MUST(getpriority(PRIO_PROCESS, 0) == priority);
    }
    return arg;
}

/* In a process of its own: its first thread has not waited when it makes the others. */
static void round_of_threads(void)
{
    pthread_attr_t attributes;
    pthread_t earlier, thread;
    void *stack = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    MUST(stack != MAP_FAILED);
    OK(pthread_attr_init(&attributes));
    OK(pthread_attr_setstack(&attributes, stack, BYTES));
    earlier = spawn(changes_its_thread, NULL);
    OK(pthread_create(&thread, &attributes, makes_another, &earlier));
    join(thread);
    MUST(munmap(stack, BYTES) == 0);
    in_threads(LATER, makes_calls);
}

int main(void)
{
    priority = getpriority(PRIO_PROCESS, 0);
    OK(sem_init(&never, 0, 0));
    for (int round = 0; round < ROUNDS; round++) {
        pid_t child = fork();

        MUST(child >= 0);
        if (child == 0) {
            round_of_threads();
            _exit(0);
        }
        MUST(exits(child, 0));
    }
    SHOWN("the memory of threads is the program's once they have ended");
    return 0;
}
