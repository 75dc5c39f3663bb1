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

static void *exchanges(void *arg)
{
    char byte;

    for (int turn = 0; turn < 1000; turn++) {
        MUST(write(ends[1], "x", 1) == 1);
        MUST(read(ends[0], &byte, 1) == 1);
    }
    return arg;
}

int main(void)
{
    pthread_t threads[2];

    MUST(pipe(ends) == 0);
    in_threads(2, closes_its_own);
    for (int at = 0; at < 2; at++)
        threads[at] = spawn(exchanges, NULL);
    closes_its_own(NULL);
    for (int at = 0; at < 2; at++)
        join(threads[at]);
    several();
    SHOWN("the others have theirs");
    return 0;
}
