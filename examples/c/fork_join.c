/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Divide and conquer by fork and join: Fibonacci numbers, with a worker for each call, and
 * quicksort, with one for each large half. The workers are light: they use no thread-locals.
 *
 *   fork_join [N [LENGTH]]
 */
#include <stdio.h>
#include <stdlib.h>

#include "umcg/rt.h"

static umcg_worker_t *fork_light(void *(*fn)(void *), void *arg)
{
    umcg_spawn_attr_t attr = UMCG_SPAWN_ATTR_INIT;
    umcg_worker_t *worker;
    attr.own_tls = 0;
    worker = umcg_spawn_attr(NULL, &attr, fn, arg);
    if (worker == NULL) {
        perror("fork_join");
        exit(1);
    }
    return worker;
}

static void *fib(void *arg)
{
    intptr_t n = (intptr_t)arg;
    void *one, *other;
    umcg_worker_t *worker;

    if (n < 2)
        return (void *)n;
    worker = fork_light(fib, (void *)(n - 1));
    other = fib((void *)(n - 2));
    umcg_join(worker, &one);
    return (void *)((intptr_t)one + (intptr_t)other);
}

struct part {
    int *data;
    size_t length;
};

#define SMALL 1000

static int compare(const void *one, const void *other)
{
    int a = *(const int *)one, b = *(const int *)other;
    return (a > b) - (a < b);
}

static void swap(int *one, int *other)
{
    int was = *one;
    *one = *other;
    *other = was;
}

/* Moves the elements that are less than the middle one to the front, and those that are not behind
 * it; returns the middle one's new place. */
static size_t divide(struct part *part)
{
    size_t end = part->length - 1, less = 0;

    swap(&part->data[part->length / 2], &part->data[end]);
    for (size_t i = 0; i < end; i++)
        if (part->data[i] < part->data[end])
            swap(&part->data[i], &part->data[less++]);
    swap(&part->data[less], &part->data[end]);
    return less;
}

static void *sort(void *arg)
{
    struct part *part = arg, lower, upper;
    umcg_worker_t *worker;
    size_t middle;

    if (part->length < SMALL) {
        qsort(part->data, part->length, sizeof *part->data, compare);
        return NULL;
    }
    middle = divide(part);
    lower.data = part->data, lower.length = middle;
    upper.data = part->data + middle + 1, upper.length = part->length - middle - 1;
    worker = fork_light(sort, &lower); /* it uses this frame until it is joined */
    sort(&upper);
    umcg_join(worker, NULL);
    return NULL;
}

int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 18;
    struct part all = {NULL, argc > 2 ? (size_t)atol(argv[2]) : 100000};
    unsigned state = 1;
    intptr_t previous = 1, expected = 0;
    void *result;

    umcg_join(fork_light(fib, (void *)(intptr_t)n), &result);
    for (int i = 0; i < n; i++) {
        intptr_t next = previous + expected;
        previous = expected;
        expected = next;
    }
    printf("fib(%d) = %ld\n", n, (long)(intptr_t)result);
    if ((intptr_t)result != expected)
        return 1;

    all.data = malloc(all.length * sizeof *all.data);
    if (all.data == NULL)
        return 1;
    for (size_t i = 0; i < all.length; i++)
        all.data[i] = (int)((state = state * 1664525 + 1013904223) >> 8);
    umcg_join(fork_light(sort, &all), NULL);
    for (size_t i = 1; i < all.length; i++)
        if (all.data[i - 1] > all.data[i])
            return 1;
    printf("%zu numbers are sorted\n", all.length);
    free(all.data);
    return 0;
}
