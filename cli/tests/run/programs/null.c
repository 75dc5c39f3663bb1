/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Reading through a null pointer ends the program, in a thread that has waited before; reading near
 * it does, and calling it does. The last ends the program itself. run: ends SIGSEGV */
#include "check.h"
#include <sys/resource.h>

static volatile int *volatile nowhere;
static void (*volatile no_function)(void);
static int kind;

static void *touches(void *arg)
{
    usleep(500);
    if (kind == 0)
        MUST(nowhere[0] && 0);
    if (kind == 1)
        MUST(nowhere[200] && 0);
    if (kind == 2)
        no_function();
    return arg;
}

int main(void)
{
    struct rlimit none = {0, 0};
    pid_t child;
    int status;

    setrlimit(RLIMIT_CORE, &none);
    for (kind = 0; kind < 3; kind++) {
        child = fork();
        if (child == 0) {
            join(spawn(touches, NULL));
            _exit(0);
        }
        status = status_of(child);
        MUST(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    }
    SHOWN("in children");
    kind = 0;
    join(spawn(touches, NULL));
    return 0;
}
