/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The sieve as a pipeline: a worker for each prime passes on what it does not divide. Between two workers there is a place
 * for one number; who finds it full or empty parks.
 *
 *   prime_sieve [COUNT]      prints the last of the first COUNT primes
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "umcg/rt.h"

struct channel {
    atomic_int number;    /* 0: empty */
    _Atomic(umcg_handle_t) reader, writer;
};

/* The last number, which ends each worker. */
#define END (-1)

static void put(struct channel *to, int number)
{
    atomic_store(&to->writer, umcg_self());
    while (atomic_load(&to->number) != 0)
        umcg_park();
    atomic_store(&to->number, number);
    if (atomic_load(&to->reader))
        umcg_unpark(atomic_load(&to->reader));
}

static int get(struct channel *from)
{
    int number;

    atomic_store(&from->reader, umcg_self());
    while ((number = atomic_load(&from->number)) == 0)
        umcg_park();
    atomic_store(&from->number, 0);
    umcg_unpark(atomic_load(&from->writer));
    return number;
}

static int wanted, found, last;

static umcg_worker_t *spawn_light(void *(*fn)(void *), void *arg)
{
    umcg_spawn_attr_t attr = UMCG_SPAWN_ATTR_INIT;
    attr.own_tls = 0; /* it uses no thread-locals */
    return umcg_spawn_attr(NULL, &attr, fn, arg);
}

static void *filter(void *arg)
{
    struct channel *from = arg, to = {0};
    umcg_worker_t *next = NULL;
    int prime = get(from), number;

    last = prime;
    found++; /* one after the other: this worker was made by a number from the last one */
    if (found < wanted)
        next = spawn_light(filter, &to);
    while ((number = get(from)) != END)
        if (number % prime != 0 && next)
            put(&to, number);
    if (next) {
        put(&to, END);
        umcg_join(next, NULL);
    }
    return NULL;
}

static void *generate(void *arg)
{
    struct channel first = {0};
    umcg_worker_t *filters = spawn_light(filter, &first);

    for (int number = 2; number <= *(int *)arg; number++)
        put(&first, number);
    put(&first, END);
    umcg_join(filters, NULL);
    return NULL;
}

/* Whether it is the prime that comes after count - 1 others. */
static int is_right(int number, int count)
{
    for (int i = 2; i <= number; i++) {
        int divisor = 2;
        while (i % divisor != 0)
            divisor++;
        count -= divisor == i;
    }
    return count == 0;
}

int main(int argc, char **argv)
{
    int limit = 20;

    wanted = argc > 1 ? atoi(argv[1]) : 100;
    while (limit < 14 * wanted) /* more than enough below a million */
        limit *= 2;
    umcg_join(umcg_spawn(generate, &limit), NULL);
    printf("prime number %d is %d\n", found, last);
    return found != wanted || !is_right(last, wanted);
}
