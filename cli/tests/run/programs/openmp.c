/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* OpenMP: parallel loops, reductions, critical sections, barriers, nested teams, tasks, locks. Its
 * library waits by spinning first, and has system calls of its own.
 * run: flags -fopenmp
 * run: again GOMP_SPINCOUNT=0 OMP_WAIT_POLICY=active */
#include "check.h"
#include <omp.h>

enum { TEAM = 4, SIZE = 2000, ROUNDS = 40 };

static int values[SIZE];

static void loops(void)
{
    long sum = 0;

    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel for num_threads(TEAM) schedule(dynamic, 50)
        for (int at = 0; at < SIZE; at++)
            values[at] = at + round;
#pragma omp parallel for num_threads(TEAM) reduction(+ : sum)
        for (int at = 0; at < SIZE; at++)
            sum += values[at] - round;
    }
    MUST(sum == (long)ROUNDS * SIZE * (SIZE - 1) / 2);
}

static void sections(void)
{
    int counter = 0, atomics = 0, singles = 0, ordered = 0;

#pragma omp parallel num_threads(TEAM)
    {
        MUST(omp_get_num_threads() == TEAM);
        for (int round = 0; round < ROUNDS; round++) {
#pragma omp critical
            counter++;
#pragma omp atomic
            atomics++;
#pragma omp barrier
            MUST(counter >= (round + 1) * TEAM);
#pragma omp single
            singles++;
        }
#pragma omp for ordered
        for (int at = 0; at < 40; at++) {
#pragma omp ordered
            MUST(ordered++ == at);
        }
    }
    MUST(counter == ROUNDS * TEAM && atomics == counter && singles == ROUNDS && ordered == 40);
}

static void nested(void)
{
    int counter = 0;

    omp_set_max_active_levels(2);
    for (int round = 0; round < 5; round++) {
#pragma omp parallel num_threads(TEAM)
#pragma omp parallel num_threads(TEAM)
        {
            MUST(omp_get_level() == 2);
#pragma omp atomic
            counter++;
        }
    }
    MUST(counter == 5 * TEAM * TEAM);
}

static int fibonacci(int number)
{
    int left, right;

    if (number < 2)
        return number;
#pragma omp task shared(left)
    left = fibonacci(number - 1);
#pragma omp task shared(right)
    right = fibonacci(number - 2);
#pragma omp taskwait
    return left + right;
}

static void tasks(void)
{
    int result = 0;

#pragma omp parallel num_threads(TEAM)
#pragma omp single
    result = fibonacci(14);
    MUST(result == 377);
}

static void locks(void)
{
    omp_lock_t lock;
    int counter = 0;

    omp_init_lock(&lock);
#pragma omp parallel num_threads(8)
    for (int round = 0; round < ROUNDS; round++) {
        omp_set_lock(&lock);
        counter++;
        if (round % 10 == 0)
            sched_yield();
        omp_unset_lock(&lock);
    }
    omp_destroy_lock(&lock);
    MUST(counter == 8 * ROUNDS);
}

/* A team in each of several threads of the program's own. */
static void *has_a_team(void *arg)
{
    int counter = 0;

#pragma omp parallel num_threads(2) reduction(+ : counter)
    counter++;
    MUST(counter == 2);
    return arg;
}

int main(void)
{
    omp_set_dynamic(0);
    loops();
    SHOWN("loops");
    sections();
    SHOWN("sections");
    nested();
    SHOWN("nested");
    tasks();
    SHOWN("tasks");
    locks();
    SHOWN("locks");
    in_threads(4, has_a_team);
    SHOWN("teams of several threads");
    return 0;
}
