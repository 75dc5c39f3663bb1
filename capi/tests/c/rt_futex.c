/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Futexes: one word and many, between workers, threads and processes. */
#include "runtime.h"
#include "umcg/futex.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sys/mman.h>

#define WORDS 150

static long kernel_futex(uint32_t *word, int operation, uint32_t value)
{
    return syscall(SYS_futex, word, operation, value, NULL, NULL, 0);
}

static uint32_t load(uint32_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static umcg_futex_word_t word_of(uint32_t *word, uint32_t expected, int flags)
{
    umcg_futex_word_t made = {word, expected, flags};
    return made;
}

/* ---- Each call ---- */

static void *each_call(void *arg)
{
    uint32_t word = 3, other = 4;
    const uint32_t *crooked = (const uint32_t *)(const void *)((const char *)&word + 1);

    (void)arg;
    FAILS("another value", EAGAIN, umcg_futex_wait(&word, 2, 0, UMCG_NO_TIMEOUT));
    FAILS("another value, in the kernel", EWOULDBLOCK,
          umcg_futex_wait(&word, 2, UMCG_FUTEX_SHARED, UMCG_NO_TIMEOUT));
    FAILS("the past", ETIMEDOUT, umcg_futex_wait(&word, 3, 0, UMCG_POLL));
    FAILS("a while", ETIMEDOUT, umcg_futex_wait(&word, 3, 0, in_ms(1)));
    FAILS("a while, in the kernel", ETIMEDOUT,
          umcg_futex_wait(&word, 3, UMCG_FUTEX_SHARED, in_ms(1)));
    FAILS("a time of the other clock", ETIMEDOUT,
          umcg_futex_wait(&word, 3, 0, umcg_at_realtime_ns(check_now(CLOCK_REALTIME) + 1000000)));
    FAILS("no word", EINVAL, umcg_futex_wait(NULL, 3, 0, UMCG_POLL));
    FAILS("a crooked word", EINVAL, umcg_futex_wait(crooked, 3, 0, UMCG_POLL));
    FAILS("a flag that is not", EINVAL, umcg_futex_wait(&word, 3, 2, UMCG_POLL));
    CHECK("nobody",
          umcg_futex_wake(&word, 9, 0) == 0 && umcg_futex_wake(&word, 9, UMCG_FUTEX_SHARED) == 0);
    FAILS("wake no word", EINVAL, umcg_futex_wake(NULL, 1, 0));
    FAILS("wake fewer than none", EINVAL, umcg_futex_wake(&word, -1, 0));
    FAILS("wake with a flag that is not", EINVAL, umcg_futex_wake(&word, 1, 4));
    CHECK("move nobody", umcg_futex_requeue(&word, &other, 1, 1, 0) == 0);
    CHECK("move nobody in the kernel",
          umcg_futex_cmp_requeue(&word, 3, &other, 1, 1, UMCG_FUTEX_SHARED) == 0);
    FAILS("move if", EAGAIN, umcg_futex_cmp_requeue(&word, 4, &other, 1, 1, 0));
    FAILS("move if, in the kernel", EAGAIN,
          umcg_futex_cmp_requeue(&word, 4, &other, 1, 1, UMCG_FUTEX_SHARED));
    FAILS("move to nowhere", EINVAL, umcg_futex_requeue(&word, NULL, 1, 1, 0));
    FAILS("move fewer than none", EINVAL, umcg_futex_requeue(&word, &other, 1, -1, 0));
    return NULL;
}

static void *each_call_on_many(void *arg)
{
    uint32_t word = 3, other = 4;
    umcg_futex_word_t list[WORDS];
    umcg_waitset_t *set = umcg_waitset_create();
    int changed = -7;

    (void)arg;
    for (int i = 0; i < WORDS; i++)
        list[i] = word_of(&word, 3, i % 3 == 2 ? UMCG_FUTEX_SHARED : 0);
    FAILS("few", ETIMEDOUT, umcg_futex_wait_multiple(list, 2, UMCG_POLL, NULL));
    FAILS("many", ETIMEDOUT, umcg_futex_wait_multiple(list, WORDS, in_ms(1), &changed));
    CHECK("left alone", changed == -7);
    list[WORDS - 1].expected = 4;
    FAILS("one of many", EAGAIN, umcg_futex_wait_multiple(list, WORDS, UMCG_NO_TIMEOUT, &changed));
    CHECK("which", changed == WORDS - 1);
    FAILS("nobody asks which", EAGAIN,
          umcg_futex_wait_multiple(list, WORDS, UMCG_NO_TIMEOUT, NULL));
    list[1].word = NULL;
    FAILS("no word among few", EINVAL, umcg_futex_wait_multiple(list, 2, UMCG_POLL, NULL));
    FAILS("no word among many", EINVAL, umcg_futex_wait_multiple(list, WORDS, UMCG_POLL, NULL));
    FAILS("none", EINVAL, umcg_futex_wait_multiple(list, 0, UMCG_POLL, NULL));
    FAILS("fewer than none", EINVAL, umcg_futex_wait_multiple(list, -1, UMCG_POLL, NULL));
    FAILS("no list", EINVAL, umcg_futex_wait_multiple(NULL, 1, UMCG_POLL, NULL));

    FAILS("an empty set", EINVAL, umcg_waitset_wait(set, UMCG_POLL, NULL));
    for (int i = 0; i < WORDS; i++)
        CHECK("add", umcg_waitset_add(set, i % 2 ? &word : &other, i % 2 ? 3 : 4,
                                      i % 3 == 2 ? UMCG_FUTEX_SHARED : 0) == i);
    FAILS("add no word", EINVAL, umcg_waitset_add(set, NULL, 0, 0));
    FAILS("add with a flag that is not", EINVAL, umcg_waitset_add(set, &word, 0, 2));
    FAILS("a set", ETIMEDOUT, umcg_waitset_wait(set, in_ms(1), &changed));
    CHECK("expect", umcg_waitset_expect(set, 7, 9) == 0);
    FAILS("one of a set", EAGAIN, umcg_waitset_wait(set, UMCG_NO_TIMEOUT, &changed));
    CHECK("which of the set", changed == 7);
    FAILS("expect of nothing", EINVAL, umcg_waitset_expect(set, WORDS, 9));
    FAILS("expect of less", EINVAL, umcg_waitset_expect(set, -1, 9));
    CHECK("clear", umcg_waitset_clear(set) == 0);
    FAILS("a cleared set", EINVAL, umcg_waitset_wait(set, UMCG_POLL, NULL));
    FAILS("no set", EINVAL, umcg_waitset_wait(NULL, UMCG_POLL, NULL));
    FAILS("no set", EINVAL, umcg_waitset_add(NULL, &word, 3, 0));
    FAILS("no set", EINVAL, umcg_waitset_expect(NULL, 0, 3));
    FAILS("no set", EINVAL, umcg_waitset_clear(NULL));
    umcg_waitset_destroy(set);
    umcg_waitset_destroy(NULL);
    return NULL;
}

/* ---- Words that are not there ---- */

/*
 * Where nothing can be read: EFAULT, as futex(2) says. A wake-up of a word of this process alone
 * looks at no memory.
 */
static void not_there(uint32_t *word)
{
    uint32_t fine = 0;
    umcg_waitset_t *set = umcg_waitset_create();

    for (int flags = 0; flags <= UMCG_FUTEX_SHARED; flags += UMCG_FUTEX_SHARED) {
        umcg_futex_word_t list[40];
        FAILS("wait", EFAULT, umcg_futex_wait(word, 0, flags, in_ms(1000)));
        FAILS("requeue from it", EFAULT, umcg_futex_requeue(word, &fine, 1, 1, flags));
        FAILS("requeue to it", EFAULT, umcg_futex_requeue(&fine, word, 1, 1, flags));
        FAILS("requeue from it, if", EFAULT, umcg_futex_cmp_requeue(word, 0, &fine, 1, 1, flags));
        FAILS("add it to a set", EFAULT, umcg_waitset_add(set, word, 0, flags));
        for (int at = 0; at < 40; at++)
            list[at] = word_of(&fine, 0, flags);
        list[1] = word_of(word, 0, flags);
        FAILS("wait for few", EFAULT, umcg_futex_wait_multiple(list, 2, in_ms(1000), NULL));
        FAILS("wait for many", EFAULT, umcg_futex_wait_multiple(list, 40, in_ms(1000), NULL));
        FAILS("wait for it first", EFAULT,
              umcg_futex_wait_multiple(list + 1, 2, in_ms(1000), NULL));
        FAILS("a list that is neither there nor aligned", EINVAL,
              umcg_futex_wait_multiple((const umcg_futex_word_t *)((uintptr_t)word + 4), 2,
                                       in_ms(1000), NULL));
        FAILS("a list that is not there", EFAULT,
              umcg_futex_wait_multiple((const umcg_futex_word_t *)(const void *)word, 2,
                                       in_ms(1000), NULL));
    }
    FAILS("wake", EFAULT, umcg_futex_wake(word, 1, UMCG_FUTEX_SHARED));
    CHECK("wake in this process", umcg_futex_wake(word, 1, 0) == 0);
    FAILS("nothing was added", EINVAL, umcg_waitset_wait(set, in_ms(1000), NULL));
    umcg_waitset_destroy(set);
}

/*
 * Memory that is private, may only be read and was never written: the kernel knows no word there.
 */
static void never_written(uint32_t *word)
{
    uint32_t fine = 0;
    umcg_futex_word_t list[2];
    umcg_waitset_t *set = umcg_waitset_create();

    list[0] = word_of(&fine, 0, 0), list[1] = word_of(word, 0, UMCG_FUTEX_SHARED);
    FAILS("one", EFAULT, umcg_futex_wait(word, 0, UMCG_FUTEX_SHARED, in_ms(20000)));
    FAILS("one of two", EFAULT, umcg_futex_wait_multiple(list, 2, in_ms(20000), NULL));
    CHECK("add", umcg_waitset_add(set, word, 0, UMCG_FUTEX_SHARED) == 0);
    FAILS("a set", EFAULT, umcg_waitset_wait(set, in_ms(20000), NULL));
    FAILS("wake", EFAULT, umcg_futex_wake(word, 1, UMCG_FUTEX_SHARED));
    FAILS("as a word of this process", ETIMEDOUT, umcg_futex_wait(word, 0, 0, in_ms(1)));
    umcg_waitset_destroy(set);
}

static void *bad_words(void *arg)
{
    uint32_t *none = (uint32_t *)mmap(NULL, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint32_t *only_read =
        (uint32_t *)mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int empty = memfd_create("empty", MFD_CLOEXEC);
    uint32_t *behind_the_end =
        (uint32_t *)mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, empty, 0);

    MUST(none != MAP_FAILED && only_read != MAP_FAILED && behind_the_end != MAP_FAILED);
    not_there(none);
    not_there((uint32_t *)(uintptr_t)8);
    not_there((uint32_t *)((uintptr_t)1 << 63));
    not_there(behind_the_end);
    never_written(only_read);
    MUST(munmap(none, 8192) == 0 && munmap(only_read, 4096) == 0 &&
         munmap(behind_the_end, 4096) == 0 && close(empty) == 0);
    return arg;
}

/* ---- A mutex of a word ---- */

struct account {
    uint32_t lock; /* 0 free, 1 held, 2 held and waited for */
    int money, turns;
};

static void lock(uint32_t *word)
{
    uint32_t expected = 0;
    if (__atomic_compare_exchange_n(word, &expected, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        return;
    while (__atomic_exchange_n(word, 2, __ATOMIC_ACQUIRE) != 0)
        umcg_futex_wait(word, 2, 0, UMCG_NO_TIMEOUT);
}

static void unlock(uint32_t *word)
{
    if (__atomic_exchange_n(word, 0, __ATOMIC_RELEASE) == 2)
        umcg_futex_wake(word, 1, 0);
}

static void *pays_in(void *arg)
{
    struct account *account = (struct account *)arg;
    for (int i = 0; i < account->turns; i++) {
        lock(&account->lock);
        int before = account->money;
        if (i % 8 == 0)
            umcg_yield();
        account->money = before + 1;
        unlock(&account->lock);
    }
    return NULL;
}

static void *account(void *arg)
{
    struct account account = {0, 0, check_count("UMCG_TEST_WORKERS", 400)};
    umcg_worker_t *workers[6];
    pthread_t threads[2];

    (void)arg;
    for (int i = 0; i < 2; i++)
        MUST(pthread_create(&threads[i], NULL, pays_in, &account) == 0);
    for (int i = 0; i < 6; i++)
        workers[i] = spawn(pays_in, &account);
    for (int i = 0; i < 6; i++)
        joined(workers[i]);
    umcg_blocking_begin();
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    umcg_blocking_end();
    CHECK("all was paid in", account.money == 8 * account.turns);
    return NULL;
}

/* ---- Many words ---- */

struct shop {
    uint32_t goods[WORDS], over;
    int kinds, flags, use_set, taken, each;
};

static void *takes(void *arg)
{
    struct shop *shop = (struct shop *)arg;
    umcg_waitset_t *set = umcg_waitset_create();
    umcg_futex_word_t list[WORDS + 1];

    for (int i = 0; i <= shop->kinds; i++) {
        list[i] = word_of(i < shop->kinds ? &shop->goods[i] : &shop->over, 0, shop->flags);
        MUST(umcg_waitset_add(set, list[i].word, 0, shop->flags) == i);
    }
    while (!load(&shop->over)) {
        int changed = -1, index = shop->use_set
                                      ? umcg_waitset_wait(set, UMCG_NO_TIMEOUT, &changed)
                                      : umcg_futex_wait_multiple(list, shop->kinds + 1,
                                                                 UMCG_NO_TIMEOUT, &changed);
        if (index < 0) {
            MUST(check_errno() == EAGAIN);
            index = changed;
        }
        MUST(index >= 0 && index <= shop->kinds);
        if (index == shop->kinds)
            break;
        uint32_t there = load(&shop->goods[index]);
        while (there && !__atomic_compare_exchange_n(&shop->goods[index], &there, there - 1, 1,
                                                     __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            ;
        if (there)
            add(&shop->taken);
    }
    umcg_waitset_destroy(set);
    return NULL;
}

static void *brings(void *arg)
{
    struct shop *shop = (struct shop *)arg;
    for (int i = 0; i < shop->each; i++) {
        uint32_t *word = &shop->goods[i * 7 % shop->kinds];
        __atomic_add_fetch(word, 1, __ATOMIC_RELEASE);
        umcg_futex_wake(word, 1, shop->flags);
    }
    return NULL;
}

static void shop_of(int kinds, int flags, int use_set)
{
    static struct shop shop;
    umcg_worker_t *takers[3], *bringers[3];

    memset(&shop, 0, sizeof shop);
    shop.kinds = kinds;
    shop.flags = flags;
    shop.use_set = use_set;
    shop.each = check_count("UMCG_TEST_WORKERS", flags ? 30 : 300);
    for (int i = 0; i < 3; i++) {
        takers[i] = spawn(takes, &shop);
        bringers[i] = spawn(brings, &shop);
    }
    for (int i = 0; i < 3; i++)
        joined(bringers[i]);
    await(&shop.taken, 3 * shop.each);
    __atomic_store_n(&shop.over, 1, __ATOMIC_RELEASE);
    umcg_futex_wake(&shop.over, 9, flags);
    for (int i = 0; i < 3; i++)
        joined(takers[i]);
    CHECK("all was taken", shop.taken == 3 * shop.each);
}

static void *shops(void *arg)
{
    (void)arg;
    for (int use_set = 0; use_set < 2; use_set++) {
        shop_of(1, 0, use_set);
        shop_of(3, 0, use_set);
        shop_of(WORDS, 0, use_set);
        shop_of(2, UMCG_FUTEX_SHARED, use_set);
        shop_of(WORDS, UMCG_FUTEX_SHARED, use_set);
    }
    return NULL;
}

/* ---- Moving ---- */

static void *waits(void *arg)
{
    CHECK("wait", umcg_futex_wait((uint32_t *)arg, 0, 0, UMCG_NO_TIMEOUT) == 0);
    return NULL;
}

static void *moving(void *arg)
{
    static uint32_t here, there;
    umcg_worker_t *workers[5];

    (void)arg;
    for (int i = 0; i < 5; i++)
        workers[i] = spawn(waits, &here);
    while (umcg_futex_requeue(&here, &here, 0, 9, 0) != 5)
        umcg_yield();
    CHECK("one goes on, two move", umcg_futex_cmp_requeue(&here, 0, &there, 1, 2, 0) == 3);
    CHECK("those that moved", umcg_futex_wake(&there, 9, 0) == 2);
    CHECK("those that stayed", umcg_futex_wake(&here, 9, 0) == 2);
    for (int i = 0; i < 5; i++)
        joined(workers[i]);
    return NULL;
}

/* A wake-up of none wakes none, a shared word too, though the kernel takes 0 for 1. */
static void *waits_in_the_kernel(void *arg)
{
    CHECK("wait", umcg_futex_wait((uint32_t *)arg, 0, UMCG_FUTEX_SHARED, UMCG_NO_TIMEOUT) == 0);
    return NULL;
}

static void *wakes_of_none(void *arg)
{
    static uint32_t words[2];
    pthread_t threads[2];

    MUST(pthread_create(&threads[0], NULL, waits, &words[0]) == 0);
    MUST(pthread_create(&threads[1], NULL, waits_in_the_kernel, &words[1]) == 0);
    for (int i = 0; i < 2; i++) {
        int flags = i ? UMCG_FUTEX_SHARED : 0;
        while (umcg_futex_requeue(&words[i], &words[i], 0, 9, flags) != 1)
            umcg_yield();
        CHECK("none is woken", umcg_futex_wake(&words[i], 0, flags) == 0);
        CHECK("it still waits", umcg_futex_wake(&words[i], 1, flags) == 1);
        thread_joined(threads[i]);
    }
    return arg;
}

/* ---- Being asked to end ---- */

static void *is_cut(void *arg)
{
    uint32_t *word = (uint32_t *)arg, own = 0;
    umcg_futex_word_t list[2] = {{word, 0, 0}, {&own, 0, UMCG_FUTEX_SHARED}};
    umcg_waitset_t *set = umcg_waitset_create();

    add((int *)&word[1]);
    FAILS("cut", ECANCELED, umcg_futex_wait(word, 0, 0, UMCG_NO_TIMEOUT));
    FAILS("cut at once", ECANCELED, umcg_futex_wait(word, 0, 0, UMCG_NO_TIMEOUT));
    FAILS("many", ECANCELED, umcg_futex_wait_multiple(list, 2, UMCG_NO_TIMEOUT, NULL));
    MUST(umcg_waitset_add(set, word, 0, 0) == 0);
    FAILS("a set", ECANCELED, umcg_waitset_wait(set, UMCG_NO_TIMEOUT, NULL));
    FAILS("who need not wait is not cut", EAGAIN, umcg_futex_wait(word, 1, 0, UMCG_NO_TIMEOUT));
    FAILS("nor for a set", EAGAIN,
          (umcg_waitset_expect(set, 0, 1), umcg_waitset_wait(set, UMCG_NO_TIMEOUT, NULL)));
    umcg_waitset_destroy(set);
    return NULL;
}

static void *cutting(void *arg)
{
    uint32_t words[2] = {0, 0};
    umcg_worker_t *worker = spawn(is_cut, words);

    (void)arg;
    await((int *)&words[1], 1);
    umcg_sleep_ns(1000000);
    CHECK("abort", umcg_abort(worker) == 0);
    joined(worker);
    CHECK("nobody waits", umcg_futex_wake(words, 9, 0) == 0);
    return NULL;
}

/* ---- Another process ---- */

static void *answers(void *arg)
{
    uint32_t *word = (uint32_t *)arg;
    for (uint32_t round = 0; round < 100; round++) {
        __atomic_store_n(word, 2 * round + 1, __ATOMIC_RELEASE);
        umcg_futex_wake(word, 1, UMCG_FUTEX_SHARED);
        while (load(word) != 2 * round + 2)
            umcg_futex_wait(word, 2 * round + 1, UMCG_FUTEX_SHARED, UMCG_NO_TIMEOUT);
    }
    return NULL;
}

static void *between_processes(void *arg)
{
    uint32_t *word =
        (uint32_t *)mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status = -1;
    pid_t child;

    (void)arg;
    MUST(word != MAP_FAILED);
    child = fork();
    MUST(child >= 0);
    if (child == 0) {
        for (uint32_t round = 0; round < 100; round++) {
            while (load(word) != 2 * round + 1)
                kernel_futex(word, FUTEX_WAIT, 2 * round);
            __atomic_store_n(word, 2 * round + 2, __ATOMIC_RELEASE);
            kernel_futex(word, FUTEX_WAKE, 1);
        }
        _exit(0);
    }
    answers(word);
    MUST(waitpid(child, &status, 0) == child && status == 0);
    munmap(word, 4096);
    return NULL;
}

int main(void)
{
    check_start(120);
    each_call(NULL);
    each_call_on_many(NULL);
    bad_words(NULL);
    wakes_of_none(NULL);
    between_processes(NULL);
    in_runtime(each_call, NULL);
    in_runtime(each_call_on_many, NULL);
    in_runtime(bad_words, NULL);
    in_runtime(wakes_of_none, NULL);
    in_runtime(account, NULL);
    in_runtime(shops, NULL);
    in_runtime(moving, NULL);
    in_runtime(cutting, NULL);
    in_runtime(between_processes, NULL);
    return check_done();
}
