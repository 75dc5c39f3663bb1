/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A thread asks for a table of descriptors of its own, with all but the standard ones closed. It
 * gets that, or is refused; the other threads' descriptors stay open in any case. */
#include "check.h"

#define UNSHARE 2U

static int ends[2];

static void *closes_its_own(void *arg)
{
    long result = syscall(SYS_close_range, 3U, ~0U, UNSHARE);

    MUST(result == 0 || errno == EINVAL || errno == ENOSYS);
    return arg;
}

static void *writes(void *arg)
{
    for (int turn = 0; turn < 1000; turn++)
        MUST(write(ends[1], "x", 1) == 1);
    return arg;
}

int main(void)
{
    char byte;

    MUST(pipe(ends) == 0);
    in_threads(2, closes_its_own);
    pthread_t writer = spawn(writes, NULL);
    for (int turn = 0; turn < 1000; turn++)
        MUST(read(ends[0], &byte, 1) == 1);
    join(writer);
    several();
    SHOWN("the others have theirs");
    return 0;
}
