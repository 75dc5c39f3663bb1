/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The system call itself: waits and wakes by number and by bits, requeues, WAKE_OP, limits of time
 * on both clocks, errors; private and shared words, also mixed. */
#include "check.h"
#include <linux/futex.h>

enum { WAITERS = 8 };

static uint32_t word, other;
static int private_flag, begun, ended;
static uint32_t bits[WAITERS];

static long futex(uint32_t *at, int operation, uint32_t value, uintptr_t time, uint32_t *second,
                  uint32_t third)
{
    return syscall(SYS_futex, at, operation | private_flag, value, time, second, third);
}

/* Waits with bits of its own until it is woken. A spurious return would be a fault. */
static void *wait_once(void *arg)
{
    int own = (int)(intptr_t)arg;

    __atomic_add_fetch(&begun, 1, __ATOMIC_SEQ_CST);
    MUST(futex(&word, FUTEX_WAIT_BITSET, 0, 0, NULL, bits[own]) == 0);
    __atomic_add_fetch(&ended, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

static pthread_t threads[WAITERS];

static void begin(void)
{
    begun = ended = 0;
    for (int at = 0; at < WAITERS; at++)
        threads[at] = spawn(wait_once, (void *)(intptr_t)at);
    while (__atomic_load_n(&begun, __ATOMIC_SEQ_CST) < WAITERS)
        usleep(100);
}

/* Wakes until so many have been woken: a thread may not wait yet. */
static void wake(uint32_t *at, uint32_t mask, int count)
{
    while (count > 0) {
        long woken = futex(at, FUTEX_WAKE_BITSET, (uint32_t)count, 0, NULL, mask);

        MUST(woken >= 0 && woken <= count);
        count -= (int)woken;
        if (count > 0)
            usleep(100);
    }
}

static void finish(void)
{
    for (int at = 0; at < WAITERS; at++)
        join(threads[at]);
    MUST(ended == WAITERS);
    MUST(futex(&word, FUTEX_WAKE, 100, 0, NULL, 0) == 0);
    MUST(futex(&other, FUTEX_WAKE, 100, 0, NULL, 0) == 0);
}

static void waits_and_wakes(void)
{
    for (int at = 0; at < WAITERS; at++)
        bits[at] = at < 3 ? 1 : 2;
    begin();
    wake(&word, 1, 3);
    MUST(futex(&word, FUTEX_WAKE_BITSET, 100, 0, NULL, 5) == 0);
    wake(&word, 2, WAITERS - 3);
    finish();
}

/* Requeues until so many stand at the other word; none is woken by that. */
static void requeues(void)
{
    int moved = 0;

    memset(bits, 0xff, sizeof bits);
    begin();
    FAILS(EAGAIN, futex(&word, FUTEX_CMP_REQUEUE, 0, 100, &other, 1));
    while (moved < WAITERS) {
        long now = futex(&word, FUTEX_CMP_REQUEUE, 0, 100, &other, 0);

        MUST(now >= 0);
        moved += (int)now;
        usleep(100);
    }
    MUST(moved == WAITERS);
    MUST(futex(&word, FUTEX_WAKE, 100, 0, NULL, 0) == 0);
    MUST(__atomic_load_n(&ended, __ATOMIC_SEQ_CST) == 0);
    /* Two of them go back. */
    MUST(futex(&other, FUTEX_REQUEUE, 1, 2, &word, 0) == 3);
    wake(&word, FUTEX_BITSET_MATCH_ANY, 2);
    wake(&other, FUTEX_BITSET_MATCH_ANY, WAITERS - 3);
    finish();
}

/* Changes the second word, and wakes there too if its old value compares. While threads wait for
 * it, the change leaves it as it is. */
static void wake_op(void)
{
    uint32_t add = (uint32_t)FUTEX_OP(FUTEX_OP_ADD, 7, FUTEX_OP_CMP_GT, 0);
    uint32_t if_greater = (uint32_t)FUTEX_OP(FUTEX_OP_ADD, 0, FUTEX_OP_CMP_GT, 0);
    uint32_t if_equal = (uint32_t)FUTEX_OP(FUTEX_OP_ADD, 0, FUTEX_OP_CMP_EQ, 0);
    long woken = 0;

    MUST(futex(&other, FUTEX_WAKE_OP, 100, 100, &word, add) == 0 && word == 7);
    word = 0;
    begin();
    MUST(futex(&other, FUTEX_WAKE_OP, 100, 100, &word, if_greater) == 0);
    while (woken < WAITERS) {
        long now = futex(&other, FUTEX_WAKE_OP, 100, 3, &word, if_equal);

        MUST(now >= 0 && now <= 3);
        woken += now;
        usleep(100);
    }
    finish();
}

static void limits_and_errors(void)
{
    struct timespec limit = {0, 5000000}, absolute;
    int64_t begin_ns = now_ns(CLOCK_MONOTONIC);

    FAILS(ETIMEDOUT, futex(&word, FUTEX_WAIT, 0, (uintptr_t)&limit, NULL, 0));
    MUST(now_ns(CLOCK_MONOTONIC) - begin_ns >= 5000000);
    FAILS(EAGAIN, futex(&word, FUTEX_WAIT, 1, (uintptr_t)&limit, NULL, 0));
    absolute = in_ms(CLOCK_MONOTONIC, 5);
    FAILS(ETIMEDOUT, futex(&word, FUTEX_WAIT_BITSET, 0, (uintptr_t)&absolute, NULL, 1));
    MUST(is_past(CLOCK_MONOTONIC, absolute));
    absolute = in_ms(CLOCK_REALTIME, 5);
    FAILS(ETIMEDOUT, futex(&word, FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, 0,
                           (uintptr_t)&absolute, NULL, 1));
    MUST(is_past(CLOCK_REALTIME, absolute));
    limit.tv_nsec = 1000000000;
    FAILS(EINVAL, futex(&word, FUTEX_WAIT, 0, (uintptr_t)&limit, NULL, 0));
    FAILS(EINVAL, futex(&word, FUTEX_WAIT_BITSET, 0, 0, NULL, 0));
    FAILS(EINVAL, futex(&word, FUTEX_WAKE_BITSET, 1, 0, NULL, 0));
    FAILS(EINVAL, futex((uint32_t *)((char *)&word + 1), FUTEX_WAIT, 0, 0, NULL, 0));
    FAILS(EINVAL, futex((uint32_t *)((char *)&word + 1), FUTEX_WAKE, 1, 0, NULL, 0));
    FAILS(EFAULT, futex(NULL, FUTEX_WAIT, 0, 0, NULL, 0));
    FAILS(EFAULT, futex((uint32_t *)-4096, FUTEX_WAIT, 0, 0, NULL, 0));
    FAILS(EFAULT, futex(&word, FUTEX_WAIT, 0, 8, NULL, 0));
    FAILS(ENOSYS, futex(&word, 99, 0, 0, NULL, 0));
}

int main(void)
{
    for (int is_private = 0; is_private < 2; is_private++) {
        private_flag = is_private ? FUTEX_PRIVATE_FLAG : 0;
        waits_and_wakes();
        requeues();
        wake_op();
        limits_and_errors();
        SHOWN(is_private ? "private" : "shared");
    }
    return 0;
}
