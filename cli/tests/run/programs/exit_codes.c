/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Ends of a process, from any of its threads while the others go on: exit with its handlers in
 * order, _exit, quick_exit, return from main. The last of them is the program's own. run: ends 3 */
#include "check.h"

enum { EXIT, UNDERSCORE, QUICK, RETURN, KINDS };

static sem_t never;
static int results[2];
static char named;
static int kind;

static void first(void) { MUST(write(results[1], "1", 1) == 1); }
static void second(void) { MUST(write(results[1], "2", 1) == 1); }
static void quick(void) { MUST(write(results[1], "q", 1) == 1); }

static void by_status(int status, void *arg)
{
    char byte = (char)('a' + status);

    MUST(arg == &named && write(results[1], &byte, 1) == 1);
}

__attribute__((destructor)) static void destructor(void)
{
    if (results[1])
        MUST(write(results[1], "d", 1) == 1);
}

static void *goes_on(void *arg)
{
    if (arg)
        down(&never);
    for (;;)
        usleep(100);
    return arg;
}

static void *ends_process(void *arg)
{
    usleep(300);
    switch (kind) {
    case EXIT:
        exit(4);
    case UNDERSCORE:
        _exit(5);
    case QUICK:
        quick_exit(6);
    }
    return arg;
}

/* The child's handlers write to a pipe; their order is the result. */
static void in_child(int status, const char *expected)
{
    char text[16] = "";
    size_t size = 0;
    ssize_t got;
    pid_t child;

    MUST(pipe(results) == 0);
    fflush(stdout);
    child = fork();
    if (child == 0) {
        spawn(goes_on, NULL);
        spawn(goes_on, &never);
        if (kind == RETURN)
            exit(7);
        join(spawn(ends_process, NULL));
        _exit(99);
    }
    MUST(close(results[1]) == 0);
    while ((got = read(results[0], text + size, sizeof text - size)) > 0)
        size += (size_t)got;
    MUST(exits(child, status) && close(results[0]) == 0);
    MUST(!strcmp(text, expected));
    results[1] = 0;
}

static void *exits_with_three(void *arg)
{
    usleep(500);
    printf("a line that is still in the buffer");
    exit(3);
    return arg;
}

int main(void)
{
    OK(sem_init(&never, 0, 0));
    MUST(atexit(first) == 0 && atexit(second) == 0);
    MUST(on_exit(by_status, &named) == 0 && at_quick_exit(quick) == 0);
    for (int round = 0; round < 3; round++) {
        kind = EXIT;
        in_child(4, "e21d");
        kind = UNDERSCORE;
        in_child(5, "");
        kind = QUICK;
        in_child(6, "q");
        kind = RETURN;
        in_child(7, "h21d");
    }
    SHOWN("each kind of end");
    results[1] = open("/dev/null", O_WRONLY);
    spawn(goes_on, NULL);
    spawn(goes_on, &never);
    spawn(exits_with_three, NULL);
    down(&never);
    return 0;
}
