/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * umcg/futex.h - waiting for words, one or many: what futex(2) is to kernel threads, for workers
 * and kernel threads alike.
 *
 * A 32-bit word is compared, and if it has the value that it is expected to have, the caller waits
 * until somebody wakes the word. Who changes a word and then wakes it misses nobody: either a
 * waiter is woken, or it sees the change. Who waits longest is woken first, workers and threads in
 * one order. Nobody is woken without a reason, but a wake-up says nothing about the value: a wait
 * belongs into a loop. What was written before a wake-up is seen by who was woken.
 *
 * Without flags a word is one of this process: its waiters, kernel threads too, stand in a table of
 * the library's, and FUTEX_WAKE and FUTEX_WAIT of other code do not meet them. With
 * UMCG_FUTEX_SHARED its waiters are in the kernel: it may lie in memory that processes share, and
 * meets everybody who uses futex(2) without FUTEX_PRIVATE_FLAG. The two do not meet each other.
 *
 * One may wait for many words, and is told the index of one that was woken: the meaning is that of
 * FUTEX_WAIT_MULTIPLE and futex_waitv(2), for any number of words. umcg_futex_wait_multiple is for
 * now and then. A wait set is for who waits again and again: it keeps its places, and a wait costs
 * the same for one word and for many, but for comparing them.
 *
 * The words of umcg/rt.h mean here what they mean there: "anywhere", "may switch", "cancellable",
 * deadlines (deadline_ns is nanoseconds of CLOCK_MONOTONIC, 0 for never; umcg_after_ns makes one,
 * umcg_at_realtime_ns one of a time of CLOCK_REALTIME).
 * A call that need not wait is not cut short. A wait that is cut short, or late, was not woken: the
 * wake-up is the next one's.
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

/* Words that are waited for again and again. For one worker or thread at a time. */
typedef struct umcg_waitset umcg_waitset_t;

/*
 * umcg_futex_wait - waits until somebody wakes the word, if it has this value; until deadline_ns at
 * most.
 *
 * Fails with EWOULDBLOCK (EAGAIN): it has another value; EINVAL: word is NULL or not aligned, or
 * flags has an unknown bit; EFAULT: nothing can be read there, or the word is shared and the kernel
 * says so (it knows no word in private memory that may only be read and was never written). A word
 * that can be read when the call begins stays readable until it returns. EFAULT needs the library's
 * handler of SIGSEGV and SIGBUS, which passes other faults on to the program's: not for threads
 * that block these.
 *
 * Called from anywhere. May switch. Cancellable.
 */
int umcg_futex_wait(const uint32_t *word, uint32_t expected, int flags, uint64_t deadline_ns);

/*
 * umcg_futex_wake - wakes up to count of those that wait for the word, in their order, and returns
 * how many.
 *
 * Fails with EINVAL: as umcg_futex_wait does, or count is negative; EFAULT: as umcg_futex_wait
 * does, if the word is shared. A word of this process is not looked at.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_futex_wake(const uint32_t *word, int count, int flags);

/*
 * umcg_futex_requeue - wakes up to wake of those that wait for the word from, and has up to others
 * more wait for the word to instead; returns how many there were of both. Who waits for many words
 * is woken in place of that. umcg_futex_cmp_requeue - likewise, if the word from has this value.
 *
 * Of words with UMCG_FUTEX_SHARED: where a process is stopped and goes on (SIGSTOP, a debugger, a
 * frozen container), the kernel begins its waits anew: those that were moved wait for the word from
 * again if it still has the value that they expect. So change that word before you move its
 * waiters.
 *
 * Fails with EAGAIN: it has another value, and nothing was done; EINVAL: as umcg_futex_wake does;
 * EFAULT: as umcg_futex_wait does, for either word.
 *
 * Called from anywhere. Neither switches.
 */
int umcg_futex_requeue(const uint32_t *from, const uint32_t *to, int wake, int others, int flags);
int umcg_futex_cmp_requeue(const uint32_t *from, uint32_t expected, const uint32_t *to, int wake,
                           int others, int flags);

/*
 * umcg_futex_wait_multiple - waits until somebody wakes one of n words, if all have the values that
 * they are expected to have, and returns its index; until deadline_ns at most. A word may be in the
 * list more than once, and words of both kinds.
 *
 * Fails with EWOULDBLOCK (EAGAIN): one has another value; its index is written to *changed, unless
 * that is NULL; EINVAL: words is NULL or not aligned, n is not positive, or an element is as
 * umcg_futex_wait does not like it; EFAULT: likewise, or the list cannot be read.
 *
 * Called from anywhere. May switch. Cancellable.
 */
int umcg_futex_wait_multiple(const umcg_futex_word_t words[], int n, uint64_t deadline_ns,
                             int *changed);

/*
 * umcg_waitset_create - makes an empty wait set. Aborts the process when there is no memory.
 * umcg_waitset_destroy - ends it; NULL is left alone. Until then its words are there.
 *
 * Called from anywhere. Neither switches.
 */
umcg_waitset_t *umcg_waitset_create(void);
void umcg_waitset_destroy(umcg_waitset_t *set);

/*
 * umcg_waitset_add - adds a word, and returns its index: 0, 1, 2... The word stays where it is
 * until umcg_waitset_clear or umcg_waitset_destroy. umcg_waitset_expect - from now on the word with
 * this index is expected to have this value. umcg_waitset_clear - takes all words out.
 *
 * Fails with EINVAL: set is NULL, there is no such index, or the word is as umcg_futex_wait does
 * not like it; EFAULT: likewise; EOVERFLOW: there are 1,000,000,000 words already.
 *
 * Called from anywhere. None switches.
 */
int umcg_waitset_add(umcg_waitset_t *set, const uint32_t *word, uint32_t expected, int flags);
int umcg_waitset_expect(umcg_waitset_t *set, int index, uint32_t expected);
int umcg_waitset_clear(umcg_waitset_t *set);

/*
 * umcg_waitset_wait - umcg_futex_wait_multiple for the words in the set, with the same results.
 *
 * Fails with EINVAL: set is NULL or empty; EFAULT: the kernel knows no such shared word, as in
 * umcg_futex_wait.
 *
 * In the order of a word's waiters a set stands since its first wait; when it is woken there it
 * goes to the end.
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
