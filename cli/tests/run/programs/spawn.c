/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Other programs, begun from several threads at once: vfork and exec, posix_spawn with actions on
 * descriptors and attributes, system, popen. */
#include "check.h"
#include <spawn.h>

enum { THREADS = 4, ROUNDS = 3 };

extern char **environ;

static char *const echo[] = {"sh", "-c", "echo \"$0 $NAME\"; exit 7", "said", NULL};
static char *const with_name[] = {"NAME=name", "PATH=/usr/bin:/bin", NULL};

static void expect_line(int fd, const char *expected)
{
    char text[64] = "";
    size_t size = 0;
    ssize_t got;

    while ((got = read(fd, text + size, sizeof text - 1 - size)) > 0)
        size += (size_t)got;
    MUST(!strcmp(text, expected));
    MUST(close(fd) == 0);
}

/* The child of vfork writes to the memory of its parent, which goes on after the exec. */
static void by_vfork(void)
{
    volatile int was_in_child = 0;
    int ends[2];
    pid_t child;

    MUST(pipe2(ends, O_CLOEXEC) == 0);
    child = vfork();
    if (child == 0) {
        was_in_child = 1;
        dup2(ends[1], 1);
        execve("/bin/sh", echo, with_name);
        _exit(99);
    }
    MUST(was_in_child && child > 0 && close(ends[1]) == 0);
    expect_line(ends[0], "said name\n");
    MUST(exits(child, 7));
    child = vfork();
    if (child == 0) {
        execve("/no/such/program", echo, with_name);
        _exit(errno == ENOENT ? 4 : 5);
    }
    MUST(exits(child, 4));
}

static void by_spawn(void)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t set;
    int ends[2];
    pid_t child;

    MUST(pipe2(ends, O_CLOEXEC) == 0);
    OK(posix_spawn_file_actions_init(&actions));
    OK(posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0));
    OK(posix_spawn_file_actions_adddup2(&actions, ends[1], 1));
    OK(posix_spawn_file_actions_addclose(&actions, ends[0]));
    OK(posix_spawn_file_actions_addchdir_np(&actions, "/"));
    OK(posix_spawnattr_init(&attributes));
    sigfillset(&set);
    OK(posix_spawnattr_setsigdefault(&attributes, &set));
    sigemptyset(&set);
    OK(posix_spawnattr_setsigmask(&attributes, &set));
    OK(posix_spawnattr_setflags(&attributes,
                                POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                    POSIX_SPAWN_RESETIDS));
    OK(posix_spawnp(&child, "sh", &actions, &attributes, echo, with_name));
    MUST(close(ends[1]) == 0);
    expect_line(ends[0], "said name\n");
    MUST(exits(child, 7));
    RETURNS(ENOENT, posix_spawn(&child, "/no/such/program", NULL, NULL, echo, with_name));
    OK(posix_spawnattr_destroy(&attributes));
    OK(posix_spawn_file_actions_destroy(&actions));
}

static void by_library(int own)
{
    char command[64], line[64], expected[64];
    FILE *stream;
    int status;

    snprintf(command, sizeof command, "exit %d", own + 20);
    status = system(command);
    MUST(WIFEXITED(status) && WEXITSTATUS(status) == own + 20);
    MUST(system(NULL) != 0);
    snprintf(command, sizeof command, "echo line %d", own);
    stream = popen(command, "re");
    MUST(stream != NULL && fgets(line, sizeof line, stream) != NULL);
    snprintf(expected, sizeof expected, "line %d\n", own);
    MUST(!strcmp(line, expected));
    MUST(pclose(stream) == 0);
    stream = popen("read first; test \"$first\" = given; exit $?", "we");
    MUST(stream != NULL && fputs("given\n", stream) >= 0 && pclose(stream) == 0);
}

static void *begins_programs(void *arg)
{
    for (int round = 0; round < ROUNDS; round++) {
        by_vfork();
        usleep(100);
        by_spawn();
        by_library((int)(intptr_t)arg);
    }
    return NULL;
}

/* Signals of the terminal are ignored by system while its child runs, and only then. */
static void signals_of_system(void)
{
    struct sigaction action;

    MUST(system("kill -INT $PPID") == 0);
    OK(sigaction(SIGINT, NULL, &action));
    MUST(action.sa_handler == SIG_DFL);
}

int main(void)
{
    struct sigaction action = {.sa_handler = SIG_DFL};

    OK(sigaction(SIGINT, &action, NULL));
    begins_programs((void *)0);
    SHOWN("from the initial thread");
    in_threads(THREADS, begins_programs);
    SHOWN("from several threads");
    signals_of_system();
    SHOWN("signals of system");
    return 0;
}
