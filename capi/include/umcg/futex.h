/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * umcg/futex.h - waiting for words, one or many: the operations of futex(2), for workers and kernel
 * threads alike.
 *
 * A wait compares a 32-bit word with an expected value. If they are equal, the caller waits until
 * the word is woken. If a caller changes a word and then wakes it, no waiter is missed: either it
 * is woken, or it sees the change. The longest waiter is woken first, workers and threads in one
 * order. No wait returns without a reason, but a wake-up says nothing about the value: put a wait
 * into a loop. A woken waiter sees what was written before the wake-up.
 *
 * Without flags a word belongs to this process. Its waiters, kernel threads too, stand in a table
 * of the library; FUTEX_WAKE and FUTEX_WAIT of other code do not meet them. With UMCG_FUTEX_SHARED
 * its waiters are in the kernel. Such a word may lie in memory that processes share, and meets all
 * code that uses futex(2) without FUTEX_PRIVATE_FLAG. The two kinds do not meet each other.
 *
 * A caller may wait for many words, and gets the index of one that was woken. The meaning is that
 * of FUTEX_WAIT_MULTIPLE and futex_waitv(2), for any number of words. Use umcg_futex_wait_multiple
 * for a single wait, and a wait set to wait again and again. A wait set keeps its places in the
 * queues, so except for comparing the words a wait costs the same for one word and for many.
 *
 * The words of umcg/rt.h mean here what they mean there: "anywhere", "may switch", "cancellable",
 * deadlines (deadline_ns is nanoseconds of CLOCK_MONOTONIC, 0 for never; umcg_after_ns makes one,
 * umcg_at_realtime_ns makes one from a time of CLOCK_REALTIME). A call that need not wait is not
 * cut short. A wait that is cut short, or late, was not woken: the wake-up goes to the next waiter.
 */
#ifndef UMCG_FUTEX_H
#define UMCG_FUTEX_H

#include <stddef.h>
#include <stdint.h>

#include "../umcg.h"

#ifdef __cplusplus
extern "C" {
#endif

/* In flags: the word is shared between processes, or with code that does not use this library. */
#define UMCG_FUTEX_SHARED 1

/* A word to wait for, and the value that it is expected to have. */
typedef struct umcg_futex_word {
    const uint32_t *word;
    uint32_t expected;
    int flags;
} umcg_futex_word_t;

/* A set of words to wait for again and again. One worker or thread at a time uses it. */
typedef struct umcg_waitset umcg_waitset_t;

/*
 * umcg_futex_wait - if the word has this value, waits until it is woken, until deadline_ns at most.
 *
 * Fails with EWOULDBLOCK (EAGAIN): the word has another value; EINVAL: word is NULL or not aligned,
 * or flags has an unknown bit; EFAULT: the word cannot be read, or it is shared and the kernel
 * reports this. (The kernel knows no word in private memory that may only be read and was never
 * written.) A word that can be read when the call begins must stay readable until it returns.
 * EFAULT needs the library's handler of SIGSEGV and SIGBUS, which passes other faults on to the
 * program's. It is not available on threads that block these signals.
 *
 * Called from anywhere. May switch. Cancellable.
 */
int umcg_futex_wait(const uint32_t *word, uint32_t expected, int flags, uint64_t deadline_ns);

/*
 * umcg_futex_wake - wakes up to count waiters of the word, in their order, and returns how many.
 *
 * Fails with EINVAL: as umcg_futex_wait does, or count is negative; EFAULT: as umcg_futex_wait
 * does, if the word is shared. A word of this process is not read.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_futex_wake(const uint32_t *word, int count, int flags);

/*
 * umcg_futex_requeue - wakes up to wake waiters of the word from, and moves up to others more of
 * them to the word to. Returns the number of both together. A waiter for many words is woken
 * instead of moved. umcg_futex_cmp_requeue - the same, if the word from has this value.
 *
 * Before you move the waiters of a word with UMCG_FUTEX_SHARED, change the word. When a process is
 * stopped and continued (SIGSTOP, a debugger, a frozen container), the kernel begins its waits
 * anew. Waiters that were moved then wait for the word from again, if it still has the value that
 * they expect.
 *
 * Fails with EAGAIN: the word has another value, and nothing was done; EINVAL: as umcg_futex_wake
 * does; EFAULT: as umcg_futex_wait does, for either word.
 *
 * Called from anywhere. Neither switches.
 */
int umcg_futex_requeue(const uint32_t *from, const uint32_t *to, int wake, int others, int flags);
int umcg_futex_cmp_requeue(const uint32_t *from, uint32_t expected, const uint32_t *to, int wake,
                           int others, int flags);

/*
 * umcg_futex_wait_multiple - if all n words have their expected values, waits until one of them is
 * woken, and returns its index; until deadline_ns at most. A word may be in the list more than
 * once, and the list may have words of both kinds.
 *
 * Fails with EWOULDBLOCK (EAGAIN): a word has another value; its index is written to *changed,
 * unless that is NULL; EINVAL: words is NULL or not aligned, n is not positive, or umcg_futex_wait
 * fails with EINVAL for an element; EFAULT: likewise, or the list cannot be read.
 *
 * Called from anywhere. May switch. Cancellable.
 */
int umcg_futex_wait_multiple(const umcg_futex_word_t words[], int n, uint64_t deadline_ns,
                             int *changed);

/*
 * umcg_waitset_create - makes an empty wait set. Aborts the process if there is no memory.
 * umcg_waitset_destroy - ends it; NULL is allowed, and does nothing. Until then its words must stay
 * valid.
 *
 * Called from anywhere. Neither switches.
 */
umcg_waitset_t *umcg_waitset_create(void);
void umcg_waitset_destroy(umcg_waitset_t *set);

/*
 * umcg_waitset_add - adds a word, and returns its index: 0, 1, 2... The word must stay valid until
 * umcg_waitset_clear or umcg_waitset_destroy. umcg_waitset_expect - sets the expected value of the
 * word with this index. umcg_waitset_clear - takes all words out.
 *
 * Fails with EINVAL: set is NULL, there is no such index, or umcg_futex_wait fails with EINVAL for
 * the word; EFAULT: likewise; EOVERFLOW: there are 1,000,000,000 words already.
 *
 * Called from anywhere. None switches.
 */
int umcg_waitset_add(umcg_waitset_t *set, const uint32_t *word, uint32_t expected, int flags);
int umcg_waitset_expect(umcg_waitset_t *set, int index, uint32_t expected);
int umcg_waitset_clear(umcg_waitset_t *set);

/*
 * umcg_waitset_wait - umcg_futex_wait_multiple for the words in the set, with the same results.
 *
 * Fails with EINVAL: set is NULL or empty; EFAULT: the kernel does not accept a shared word, as in
 * umcg_futex_wait.
 *
 * A set takes its place among a word's waiters at its first wait. When it is woken there it goes to
 * the end.
 *
 * Called from anywhere. May switch. Cancellable.
 */
int umcg_waitset_wait(umcg_waitset_t *set, uint64_t deadline_ns, int *changed);

#if defined(__cplusplus) && __cplusplus >= 201103L
static_assert(sizeof(umcg_futex_word_t) == 8 + sizeof(void *), "umcg_futex_word_t");
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
_Static_assert(sizeof(umcg_futex_word_t) == 8 + sizeof(void *), "umcg_futex_word_t");
#endif

#ifdef __cplusplus
}
#endif

#endif /* UMCG_FUTEX_H */
