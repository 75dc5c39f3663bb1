/* OpenMP: regions of OUTER threads, and in each of these regions of INNER, if there are more than
 * one. An operation is an outer region, which has a barrier and a sum inside. */
#include "common.h"
#include <omp.h>

static uint64_t inner_region(uint64_t seed, int inner)
{
    uint64_t sum = 0;
#pragma omp parallel num_threads(inner) reduction(+ : sum)
    {
        sum += seed + (uint64_t)omp_get_thread_num();
#pragma omp barrier
    }
    return sum;
}

static uint64_t region(int outer, int inner)
{
    uint64_t sum = 0;
#pragma omp parallel num_threads(outer) reduction(+ : sum)
    {
        uint64_t number = (uint64_t)omp_get_thread_num();
        sum += inner > 1 ? inner_region(number, inner) : number;
#pragma omp barrier
    }
    return sum;
}

int main(int argc, char **argv)
{
    int outer = (int)argument(argc, argv, 2, 16), inner = (int)argument(argc, argv, 3, 1);
    omp_set_dynamic(0);
    omp_set_max_active_levels(2);
    uint64_t o = (uint64_t)outer, i = (uint64_t)inner;
    uint64_t expected = inner > 1 ? i * o * (o - 1) / 2 + o * i * (i - 1) / 2 : o * (o - 1) / 2;
    struct pace pace = pace_of(argument(argc, argv, 1, 1), inner > 1 ? 0 : 7);
    while (goes_on(&pace))
        CHECK(region(outer, inner) == expected);
    printf("sum %llu\n", (unsigned long long)expected);
    report_pace(&pace, 1);
    return 0;
}
