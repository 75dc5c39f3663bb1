/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The sieve as a pipeline: a worker for each prime passes the numbers that it does not divide on to
 * the next, through a tube.
 *
 *   prime_sieve [COUNT [ROOM]]      prints the last of the first COUNT primes; a tube has room for
 *                                   ROOM numbers
 */
#include <stdio.h>
#include <stdlib.h>

#include "umcg/rt.h"
#include "umcg/tube.h"

static int wanted, found, last;
static unsigned long room;

static umcg_worker_t *spawn_light(void *(*fn)(void *), void *arg)
{
    umcg_spawn_attr_t attr = UMCG_SPAWN_ATTR_INIT;
    attr.own_tls = 0; /* it uses no thread-locals */
    return umcg_spawn_attr(NULL, &attr, fn, arg);
}

/* A closed tube is the end of the numbers. */
static void *filter(void *arg)
{
    Tube *from = arg, *to = NULL;
    umcg_worker_t *next = NULL;
    int prime, number;

    trecv(from, &prime);
    last = prime;
    found++; /* one after the other: this worker was made by a number from the last one */
    if (found < wanted) {
        to = newtube(sizeof number, room);
        next = spawn_light(filter, to);
    }
    while (umcg_tube_recv(from, &number) == 0)
        if (number % prime != 0 && to)
            tsend(to, &number);
    if (to) {
        umcg_tube_close(to);
        umcg_join(next, NULL);
        freetube(to);
    }
    return NULL;
}

static void *generate(void *arg)
{
    Tube *first = newtube(sizeof(int), room);
    umcg_worker_t *filters = spawn_light(filter, first);

    for (int number = 2; number <= *(int *)arg; number++)
        tsend(first, &number);
    umcg_tube_close(first);
    umcg_join(filters, NULL);
    freetube(first);
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
    room = argc > 2 ? strtoul(argv[2], NULL, 10) : 1;
    while (limit < 14 * wanted) /* more than enough below a million */
        limit *= 2;
    umcg_join(umcg_spawn(generate, &limit), NULL);
    printf("prime number %d is %d\n", found, last);
    return found != wanted || !is_right(last, wanted);
}
