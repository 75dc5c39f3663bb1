/* A thread is made and joined. */
#include "common.h"

static void *counts(void *count)
{
    ++*(uint64_t *)count;
    return count;
}

int main(int argc, char **argv)
{
    uint64_t count = 0;
    struct pace pace = pace_of(argument(argc, argv, 1, 1), 3);
    while (goes_on(&pace))
        join_thread(start_thread(counts, &count));
    report_pace(&pace, 1);
    CHECK(count == pace.begun);
    return 0;
}
