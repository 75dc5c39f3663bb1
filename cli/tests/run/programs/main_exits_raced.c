/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The initial thread ends by pthread_exit at the moment at which others end. The process ends with
 * the last of them, whichever that is. */
#include "check.h"

enum { OTHERS = 2 };

static volatile int is_over;

static void at_exit(void)
{
    SHOWN("at exit");
}

static void *computes(void *arg)
{
    while (!is_over) {
    }
    return arg;
}

int main(void)
{
    MUST(atexit(at_exit) == 0);
    for (int at = 0; at < OTHERS; at++)
        OK(pthread_detach(spawn(computes, NULL)));
    usleep(20000);
    is_over = 1;
    pthread_exit(NULL);
}
