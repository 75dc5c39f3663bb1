/* One thread that computes, allocates and writes, for a fixed number of rounds: the bench measures
 * the whole life of the process, start-up included. Called as `PROGRAM ROUNDS`. */
#include "common.h"

int main(int argc, char **argv)
{
    unsigned rounds = (unsigned)argument(argc, argv, 1, 100);
    uint64_t state = 88172645463325252u;
    for (unsigned round = 0; round < rounds; round++) {
        size_t size = 1024 + state % 8192;
        unsigned char *block = malloc(size);
        CHECK(block != NULL);
        memset(block, (int)round, size);
        state = compute(state + block[size / 2], 100000);
        free(block);
        printf("%u %016llx\n", round, (unsigned long long)state);
    }
    return 0;
}
