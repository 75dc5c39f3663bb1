/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The C library reserves much for each thread that allocates. Threads that are not the program's
 * own leave it alone, but for two. */
#include "check.h"

#define RESERVED (60UL << 20)

int main(void)
{
    char line[256], access[8];
    unsigned long start, end;
    int count = 0;

    several();
    FILE *maps = fopen("/proc/self/maps", "r");
    MUST(maps != NULL);
    while (fgets(line, sizeof line, maps))
        if (sscanf(line, "%lx-%lx %7s", &start, &end, access) == 3)
            count += end - start > RESERVED && strcmp(access, "---p") == 0;
    MUST(fclose(maps) == 0);
    MUST(count <= 2);
    SHOWN("few arenas");
    return 0;
}
