/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Children that share the memory of their parent, and the storage of the thread that has made them:
 * by a bare clone, beside the parent's threads, and by vfork. They wait for words, sleep, write,
 * handle signals and run other programs. Other programs begin with the mask of the thread. */
#include "check.h"
#include <linux/futex.h>

enum { CHILDREN = 6, TURNS = 200, STACK = 256 << 10 };

/* errno is the parent's, too: it is not looked at in the child, nor in the thread that has made
 * it while the child lives. */
static unsigned turn;
static int ends[2];
static volatile pid_t handled_in;
static volatile int may_go_on;

static void wait_for_turn(unsigned own)
{
    unsigned now;

    while ((now = __atomic_load_n(&turn, __ATOMIC_ACQUIRE)) % 2 != own)
        syscall(SYS_futex, &turn, FUTEX_WAIT_PRIVATE, now, NULL, NULL, 0);
}

static void end_turn(void)
{
    __atomic_fetch_add(&turn, 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, &turn, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void on_signal(int number)
{
    (void)number;
    handled_in = (pid_t)syscall(SYS_getpid);
}

/* Its status says what was wrong. */
static int lives_beside(void *arg)
{
    static const struct timespec soon = {.tv_nsec = 20000};
    pid_t own = (pid_t)syscall(SYS_getpid);

    for (int at = 0; at < TURNS; at++) {
        wait_for_turn(1);
        if (syscall(SYS_getpid) != own || syscall(SYS_gettid) != own)
            return 2;
        if (syscall(SYS_getppid) != (intptr_t)arg)
            return 3;
        if (at % 8 == 0 && syscall(SYS_nanosleep, &soon, NULL) != 0)
            return 4;
        end_turn();
    }
    if (syscall(SYS_kill, own, SIGUSR1) != 0 || handled_in != own)
        return 5;
    if (syscall(SYS_write, ends[1], "beside", 6) != 6)
        return 6;
    return 7;
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int side;

/* Two threads wait for each other, one of which has made the child. */
static void change_sides(int own, int times)
{
    pid_t id = (pid_t)syscall(SYS_gettid);

    for (int at = 0; at < times; at++) {
        OK(pthread_mutex_lock(&mutex));
        while (side != own)
            OK(pthread_cond_wait(&changed, &mutex));
        side = !own;
        OK(pthread_cond_signal(&changed));
        OK(pthread_mutex_unlock(&mutex));
        MUST(syscall(SYS_gettid) == id);
    }
}

static void *other_side(void *arg)
{
    change_sides(1, TURNS);
    return arg;
}

static void *takes_turns(void *arg)
{
    for (int at = 0; at < TURNS; at++) {
        wait_for_turn(0);
        end_turn();
    }
    return arg;
}

static pid_t make_beside(int (*body)(void *), char *stack, void *arg)
{
    pid_t child = clone(body, stack + STACK, CLONE_VM | SIGCHLD, arg);

    MUST(child > 0);
    return child;
}

static void beside_threads(char *stack)
{
    struct sigaction action = {.sa_handler = on_signal};

    MUST(sigaction(SIGUSR1, &action, NULL) == 0);
    for (int at = 0; at < CHILDREN; at++) {
        char text[6];

        turn = 0;
        pthread_t one = spawn(takes_turns, NULL), other = spawn(other_side, NULL);

        pid_t child = make_beside(lives_beside, stack, (void *)(intptr_t)getpid());
        change_sides(0, TURNS);
        join(one);
        join(other);
        MUST(exits(child, 7));
        MUST(handled_in == child);
        MUST(read(ends[0], text, sizeof text) == sizeof text && !memcmp(text, "beside", 6));
    }
}

/* ---- Masks of other programs ---- */

static char *const shows_mask[] = {"grep", "SigBlk", "/proc/self/status", NULL};
extern char **environ;

static int becomes_another(void *arg)
{
    (void)arg;
    while (!may_go_on)
        ;
    syscall(SYS_dup2, ends[1], 1);
    execve("/bin/grep", shows_mask, environ);
    return 99;
}

static void expect_mask(pid_t child)
{
    static const char expected[] = "SigBlk:\t0000000000000800\n";
    char text[sizeof expected] = "";
    size_t size = 0;

    MUST(exits(child, 0));
    while (size < sizeof expected - 1) {
        ssize_t got = read(ends[0], text + size, sizeof expected - 1 - size);
        MUST(got > 0);
        size += (size_t)got;
    }
    MUST(!strcmp(text, expected));
}

static void masks_of_others(char *stack)
{
    sigset_t set;
    pid_t child;

    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    OK(pthread_sigmask(SIG_SETMASK, &set, NULL));
    may_go_on = 1;
    child = vfork();
    if (child == 0) {
        becomes_another(NULL);
        _exit(98);
    }
    expect_mask(child);
    may_go_on = 0;
    child = make_beside(becomes_another, stack, NULL);
    pthread_t other = spawn(other_side, NULL);
    change_sides(0, TURNS);
    may_go_on = 1;
    join(other);
    expect_mask(child);
}

int main(void)
{
    char *stack = malloc(STACK);

    MUST(stack != NULL && pipe(ends) == 0);
    beside_threads(stack);
    SHOWN("beside threads");
    masks_of_others(stack);
    SHOWN("masks of other programs");
    free(stack);
    return 0;
}
