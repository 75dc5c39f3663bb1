/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Each thread has a number, a name, an affinity and a policy of its own, which are the same before
 * and after each wait; and the numbers of the process are the same in all. */
#include "check.h"
#include <dirent.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>

enum { THREADS = 12, TURNS = 8 };

static pid_t numbers[THREADS];
static pthread_t selves[THREADS];
static pthread_barrier_t barrier;
static cpu_set_t all;

static void read_comm(pid_t number, char *name, size_t size)
{
    char path[64];
    FILE *file;

    snprintf(path, sizeof path, "/proc/self/task/%d/comm", (int)number);
    file = fopen(path, "re");
    MUST(file != NULL && fgets(name, (int)size, file) != NULL && fclose(file) == 0);
    name[strcspn(name, "\n")] = 0;
}

static void check_identity(int own, const char *expected)
{
    char name[32];
    cpu_set_t set;

    MUST(gettid() == numbers[own] && syscall(SYS_gettid) == numbers[own]);
    MUST(getpid() != gettid() && syscall(SYS_getpid) == getpid());
    MUST(pthread_equal(pthread_self(), selves[own]));
    OK(pthread_getname_np(pthread_self(), name, sizeof name));
    MUST(!strcmp(name, expected));
    MUST(prctl(PR_GET_NAME, name) == 0 && !strcmp(name, expected));
    read_comm(gettid(), name, sizeof name);
    MUST(!strcmp(name, expected));
    OK(pthread_getaffinity_np(pthread_self(), sizeof set, &set));
    MUST(own % 2 ? CPU_COUNT(&set) == 1 : CPU_EQUAL(&set, &all));
    MUST(getpriority(PRIO_PROCESS, 0) == own % 5);
    MUST(sched_getscheduler(0) == (own % 3 ? SCHED_OTHER : SCHED_BATCH));
}

static void *is_itself(void *arg)
{
    int own = (int)(intptr_t)arg;
    struct sched_param parameter = {0};
    char name[16];
    cpu_set_t one;

    numbers[own] = gettid();
    selves[own] = pthread_self();
    snprintf(name, sizeof name, "thread-%d", own);
    pthread_barrier_wait(&barrier);
    OK(pthread_setname_np(pthread_self(), name));
    if (own % 2) {
        CPU_ZERO(&one);
        for (size_t cpu = 0; CPU_COUNT(&one) == 0; cpu++)
            if (CPU_ISSET(cpu, &all))
                CPU_SET(cpu, &one);
        OK(pthread_setaffinity_np(pthread_self(), sizeof one, &one));
    }
    MUST(setpriority(PRIO_PROCESS, (id_t)gettid(), own % 5) == 0);
    MUST(sched_setscheduler(0, own % 3 ? SCHED_OTHER : SCHED_BATCH, &parameter) == 0);
    for (int turn = 0; turn < TURNS; turn++) {
        check_identity(own, name);
        pthread_barrier_wait(&barrier);
        usleep(100);
        sched_yield();
    }
    return NULL;
}

static void distinct(void)
{
    for (int one = 0; one < THREADS; one++)
        for (int other = 0; other < one; other++)
            MUST(numbers[one] != numbers[other]);
}

/* Another thread's name and affinity, while it waits. */
static void of_another(pthread_t thread)
{
    char name[32];
    cpu_set_t set;

    OK(pthread_setname_np(thread, "given"));
    OK(pthread_getname_np(thread, name, sizeof name));
    MUST(!strcmp(name, "given"));
    OK(pthread_getaffinity_np(thread, sizeof set, &set));
    MUST(CPU_EQUAL(&set, &all));
    RETURNS(ERANGE, pthread_setname_np(thread, "a name that is too long"));
}

static void *waits(void *arg)
{
    char name[32];

    down(arg);
    OK(pthread_getname_np(pthread_self(), name, sizeof name));
    MUST(!strcmp(name, "given"));
    return NULL;
}

static void policies(void)
{
    struct sched_param parameter = {0};
    int policy;

    OK(pthread_getschedparam(pthread_self(), &policy, &parameter));
    MUST(policy == SCHED_OTHER && parameter.sched_priority == 0);
    parameter.sched_priority = 1;
    FAILS(EINVAL, sched_setscheduler(0, SCHED_OTHER, &parameter));
    FAILS(EINVAL, sched_setscheduler(0, 12345, &parameter));
    FAILS(ESRCH, sched_getscheduler(1 << 30));
    MUST(sched_get_priority_max(SCHED_FIFO) == 99);
    CPU_ZERO(&all);
    FAILS(EINVAL, sched_setaffinity(0, sizeof all, &all));
}

int main(void)
{
    static sem_t sem;
    pthread_t thread;

    MUST(sched_getaffinity(0, sizeof all, &all) == 0);
    MUST(gettid() == getpid());
    OK(pthread_barrier_init(&barrier, NULL, THREADS));
    in_threads(THREADS, is_itself);
    distinct();
    SHOWN("each its own");
    OK(sem_init(&sem, 0, 0));
    thread = spawn(waits, &sem);
    usleep(1000);
    of_another(thread);
    OK(sem_post(&sem));
    join(thread);
    SHOWN("of another");
    policies();
    SHOWN("policies");
    return 0;
}
