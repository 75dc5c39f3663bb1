/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Prints how many times threads gave up their CPU while a thousand threads were made and joined,
 * one after the other: a thousand times natively, hardly ever where kernel threads are used again.
 * The first ones end before there is any to use, and each that has ended is to serve for the next.
 */
#include <pthread.h>
#include <stdio.h>
#include <sys/resource.h>

static void *ends(void *arg)
{
    return arg;
}

static void make_and_join(int count)
{
    while (count-- > 0) {
        pthread_t thread;

        if (pthread_create(&thread, NULL, ends, NULL) != 0 || pthread_join(thread, NULL) != 0)
            puts("a thread could not be made");
    }
}

int main(void)
{
    struct rusage before, after;

    make_and_join(10);
    getrusage(RUSAGE_SELF, &before);
    make_and_join(1000);
    getrusage(RUSAGE_SELF, &after);
    printf("%ld\n", after.ru_nvcsw - before.ru_nvcsw);
    return 0;
}
