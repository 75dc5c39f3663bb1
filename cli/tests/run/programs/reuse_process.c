/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Processes whose threads have come and gone: fork, exec and spawn by a late thread, user ids, the
 * end of the first thread, signals to the process and to threads that have ended, and processor
 * time. */
#include "check.h"
#include <sched.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/resource.h>

extern char **environ;

static void *forks(void *arg)
{
    several();
    for (int round = 0; round < 3; round++) {
        pid_t child = fork();

        MUST(child >= 0);
        if (child == 0) {
            in_threads(4, idles);
            _exit(join(spawn(idles, (void *)3)) == (void *)3 ? 3 : 1);
        }
        MUST(exits(child, 3));
    }
    return arg;
}

static void *spawns(void *arg)
{
    char *const words[] = {(char *)"true", NULL};

    for (int round = 0; round < 3; round++) {
        pid_t child;

        OK(posix_spawnp(&child, "true", NULL, NULL, words, environ));
        MUST(exits(child, 0));
    }
    return arg;
}

static void *execs(void *arg)
{
    execlp("sh", "sh", "-c", "exit 5", NULL);
    return arg;
}

static void by_late_threads(void)
{
    several();
    join(spawn(forks, NULL));
    join(spawn(spawns, NULL));
    pid_t child = fork();

    if (child == 0) {
        several();
        join(spawn(execs, NULL));
        _exit(1);
    }
    MUST(exits(child, 5));
    SHOWN("fork, spawn and exec by late threads");
}

static sem_t go;

static void *has_ids(void *arg)
{
    uid_t real, effective, saved;

    MUST(getresuid(&real, &effective, &saved) == 0);
    MUST(effective == *(uid_t *)arg);
    return NULL;
}

static void *waits_and_has_ids(void *arg)
{
    down(&go);
    return has_ids(arg);
}

static void user_ids(void)
{
    MUST(sem_init(&go, 0, 0) == 0);
    pid_t child = fork();

    if (child == 0) {
        pthread_t threads[6];
        uid_t target = getuid() == 0 ? 65534 : getuid();

        several();
        for (int at = 0; at < 6; at++)
            threads[at] = spawn(waits_and_has_ids, &target);
        MUST(setresuid(target, target, target) == 0);
        for (int at = 0; at < 6; at++)
            sem_post(&go);
        for (int at = 0; at < 6; at++)
            join(threads[at]);
        for (int round = 0; round < 10; round++)
            join(spawn(has_ids, &target));
        in_threads(4, idles);
        _exit(7);
    }
    MUST(exits(child, 7));
    SHOWN("user ids");
}

static void *ends_late(void *arg)
{
    several();
    sleep_ms(5);
    MUST(write(*(int *)arg, "x", 1) == 1);
    return NULL;
}

static void first_thread_ends(void)
{
    for (int round = 0; round < 3; round++) {
        /* Not on the stack, which ends before its reader. */
        static int ends[2];
        char byte;

        MUST(pipe(ends) == 0);
        pid_t child = fork();

        if (child == 0) {
            several();
            spawn(ends_late, &ends[1]);
            spawn(idles, NULL);
            pthread_exit(NULL);
        }
        close(ends[1]);
        MUST(exits(child, 0));
        MUST(read(ends[0], &byte, 1) == 1);
        close(ends[0]);
    }
    SHOWN("the first thread ends");
}

static void signals_to_the_process(void)
{
    sigset_t set;
    siginfo_t information;
    struct timespec second = {1, 0};

    several();
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGRTMIN + 3);
    OK(pthread_sigmask(SIG_BLOCK, &set, NULL));
    several();
    for (int round = 0; round < 5; round++) {
        pid_t child = fork();

        if (child == 0) {
            union sigval value = {.sival_int = 40 + round};

            MUST(kill(getppid(), SIGUSR1) == 0);
            MUST(sigqueue(getppid(), SIGRTMIN + 3, value) == 0);
            _exit(0);
        }
        MUST(exits(child, 0));
        several();
        MUST(sigtimedwait(&set, &information, &second) == SIGUSR1);
        MUST(information.si_pid == child);
        MUST(sigtimedwait(&set, &information, &second) == SIGRTMIN + 3);
        MUST(information.si_pid == child && information.si_value.sival_int == 40 + round);
    }
    OK(pthread_sigmask(SIG_UNBLOCK, &set, NULL));
    SHOWN("signals to the process");
}

static void *tells_id(void *arg)
{
    (void)arg;
    return (void *)syscall(SYS_gettid);
}

static void signals_to_the_ended(void)
{
    several();
    for (int round = 0; round < 10; round++) {
        pid_t tid = (pid_t)(intptr_t)join(spawn(tells_id, NULL));
        int tries = 0;

        while (syscall(SYS_tgkill, getpid(), tid, 0) == 0 && tries++ < 5000)
            sleep_ms(1);
        FAILS(ESRCH, syscall(SYS_tgkill, getpid(), tid, SIGUSR1));
    }
    join(spawn(idles, NULL));
    SHOWN("signals to threads that have ended");
}

static void *computes(void *arg)
{
    int64_t until = now_ns(CLOCK_MONOTONIC) + 20 * 1000000;

    while (now_ns(CLOCK_MONOTONIC) < until)
        ;
    return arg;
}

static void *has_a_new_clock(void *arg)
{
    struct rusage usage;
    struct timespec now;

    MUST(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) == 0);
    MUST(now.tv_sec == 0 && now.tv_nsec < 10 * 1000000);
    MUST(getrusage(RUSAGE_THREAD, &usage) == 0);
    MUST(usage.ru_utime.tv_sec == 0 && usage.ru_utime.tv_usec < 20000);
    return arg;
}

static void clocks(void)
{
    several();
    for (int round = 0; round < 4; round++) {
        join(spawn(computes, NULL));
        join(spawn(has_a_new_clock, NULL));
    }
    SHOWN("processor time");
}

int main(void)
{
    by_late_threads();
    user_ids();
    first_thread_ends();
    signals_to_the_process();
    signals_to_the_ended();
    clocks();
    return 0;
}
