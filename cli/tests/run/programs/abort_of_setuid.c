/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A change of users that not all threads can make ends the process by abort, whichever thread it is
 * that cannot. The program's handler for that is called. */
#include "check.h"

static sem_t is_changed, never;

static void on_abort(int number)
{
    static const char text[] = "the handler of SIGABRT is called\n";

    (void)number;
    if (write(1, text, sizeof text - 1) < 0)
        _exit(2);
    _exit(0);
}

static void *has_other_users(void *arg)
{
    MUST(syscall(SYS_setresuid, 2001, 2002, 2003) == 0);
    OK(sem_post(&is_changed));
    down(&never);
    return arg;
}

int main(void)
{
    struct sigaction action = {.sa_handler = on_abort};

    if (geteuid() != 0)
        SKIP("the user may not change to others");
    OK(sem_init(&is_changed, 0, 0));
    OK(sem_init(&never, 0, 0));
    MUST(sigaction(SIGABRT, &action, NULL) == 0);
    spawn(has_other_users, NULL);
    down(&is_changed);
    sleep_ms(5);
    setresuid(1001, 1002, 1003);
    MUST(!"the process has ended");
}
