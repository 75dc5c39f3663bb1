/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A library is loaded again and again, while another thread maps and unmaps memory. The library's
 * own system calls answer as the C library's, from its first instruction on.
 *
 * run: library calls.c */
#include "check.h"

#include <dlfcn.h>

static volatile int is_over;

static void *maps(void *arg)
{
    while (!is_over) {
        char *place = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                           0);

        MUST(place != MAP_FAILED);
        *place = 1;
        MUST(mprotect(place, 4096, PROT_READ) == 0);
        MUST(munmap(place, 1 << 20) == 0);
    }
    return arg;
}

int main(void)
{
    char path[4096];
    pthread_t other = spawn(maps, NULL);

    MUST(getenv("UMCG_RUN_LIBRARIES") != NULL);
    snprintf(path, sizeof path, "%s/calls.so", getenv("UMCG_RUN_LIBRARIES"));

    for (int round = 0; round < 40; round++) {
        void *library = dlopen(path, RTLD_NOW);

        MUST(library != NULL);
        MUST(dlclose(library) == 0);
    }
    is_over = 1;
    join(other);
    SHOWN("all as one");
    return 0;
}
