/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The users and groups of all threads are set again and again, while the threads run, wait, and
 * make others. */
#include "check.h"

enum { MAKERS = 5, CHILDREN = 3, WAITERS = 4, ROUNDS = 12, CHANGES = 15 };

static uid_t user;
static gid_t group;
static pthread_barrier_t barrier;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile int stop;

static void *has_ids(void *arg)
{
    uid_t users[3];
    gid_t groups[3];

    MUST(getresuid(&users[0], &users[1], &users[2]) == 0);
    MUST(getresgid(&groups[0], &groups[1], &groups[2]) == 0);
    for (int at = 0; at < 3; at++)
        MUST(users[at] == user && groups[at] == group);
    return arg;
}

static void *makes(void *arg)
{
    while (!stop) {
        pthread_t threads[CHILDREN];

        for (int at = 0; at < CHILDREN; at++)
            threads[at] = spawn(has_ids, NULL);
        OK(pthread_mutex_lock(&lock));
        usleep(10);
        OK(pthread_mutex_unlock(&lock));
        for (int at = 0; at < CHILDREN; at++)
            join(threads[at]);
    }
    return arg;
}

static void *waits(void *arg)
{
    for (int round = 0; round < ROUNDS; round++) {
        pthread_barrier_wait(&barrier);
        has_ids(NULL);
    }
    return arg;
}

int main(void)
{
    pthread_t threads[MAKERS + WAITERS];

    user = getuid();
    group = getgid();
    MUST(setresuid(user, user, user) == 0 && setresgid(group, group, group) == 0);
    OK(pthread_barrier_init(&barrier, NULL, WAITERS + 1));
    for (int at = 0; at < MAKERS + WAITERS; at++)
        threads[at] = spawn(at < MAKERS ? makes : waits, NULL);
    for (int round = 0; round < ROUNDS; round++) {
        for (int change = 0; change < CHANGES; change++) {
            MUST(setresuid((uid_t)-1, user, (uid_t)-1) == 0);
            MUST(setresgid((gid_t)-1, group, (gid_t)-1) == 0);
        }
        pthread_barrier_wait(&barrier);
    }
    stop = 1;
    for (int at = 0; at < MAKERS + WAITERS; at++)
        join(threads[at]);
    SHOWN("users and groups of busy threads");
    return 0;
}
