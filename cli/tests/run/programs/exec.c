/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A thread replaces the program while others wait, compute and sleep: the process keeps its number
 * and its descriptors, the signal mask is that of the thread, handlers are gone; it makes threads
 * again, and replaces itself again. */
#include "check.h"

static sem_t never;
static char *program;
static int stage;

static void *waits(void *arg)
{
    down(&never);
    return arg;
}

static void *computes(void *arg)
{
    for (;;)
        ;
    return arg;
}

static void *sleeps(void *arg)
{
    sleep(1000);
    return arg;
}

static void handler(int signal)
{
    (void)signal;
}

static void *replaces(void *arg)
{
    char next[16], pid[16], fd[16];
    int kept = open("/dev/null", O_RDONLY), closed = open("/dev/null", O_RDONLY | O_CLOEXEC);
    sigset_t set;

    MUST(kept >= 0 && closed > kept);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    OK(pthread_sigmask(SIG_SETMASK, &set, NULL));
    snprintf(next, sizeof next, "%d", stage + 1);
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    snprintf(fd, sizeof fd, "%d", kept);
    usleep(1000);
    FAILS(ENOENT, execl("/no/such/program", "none", NULL));
    execl(program, program, next, pid, fd, NULL);
    MUST(!"replaced");
    return arg;
}

/* What the program before has left. */
static void check_inheritance(char **arguments)
{
    struct sigaction action;
    int kept = atoi(arguments[3]);
    sigset_t set;

    stage = atoi(arguments[1]);
    MUST(getpid() == atoi(arguments[2]) && gettid() == getpid());
    MUST(fcntl(kept, F_GETFD) == 0 && close(kept) == 0);
    FAILS(EBADF, fcntl(kept + 1, F_GETFD));
    OK(pthread_sigmask(SIG_SETMASK, NULL, &set));
    MUST(sigismember(&set, SIGUSR2) == 1 && sigismember(&set, SIGUSR1) == 0);
    OK(sigaction(SIGUSR1, NULL, &action));
    MUST(action.sa_handler == SIG_DFL);
    OK(sigaction(SIGHUP, NULL, &action));
    MUST(action.sa_handler == SIG_IGN);
}

int main(int count, char **arguments)
{
    program = "/proc/self/exe";
    OK(sem_init(&never, 0, 0));
    if (count == 4)
        check_inheritance(arguments);
    else
        MUST(count == 1);
    signal(SIGUSR1, handler);
    signal(SIGHUP, SIG_IGN);
    printf("stage %d\n", stage);
    if (stage == 5)
        return 0;
    spawn(waits, NULL);
    spawn(sleeps, NULL);
    spawn(computes, NULL);
    /* Once it is the initial thread that goes. */
    if (stage == 3)
        replaces(NULL);
    join(spawn(replaces, NULL));
    return 1;
}
