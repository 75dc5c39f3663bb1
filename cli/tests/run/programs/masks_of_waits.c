/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Threads that block all signals, and at once wait with another mask, or for signals: they get the
 * one that was sent, and no other. */
#include "check.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/signalfd.h>

enum { ROUNDS = 12, MASKS = 6, KINDS = 8 };

static __thread volatile int taken;

static void take(int signal)
{
    MUST(signal == SIGUSR1);
    taken++;
}

/* io_uring_enter, which has the mask itself or a record with it. */
static void wait_in_ring(int has_record, const sigset_t *none)
{
    struct {
        uint64_t mask;
        uint32_t bytes, more;
        uint64_t time;
    } record = {(uintptr_t)none, 8, 0, 0};
    char parameters[120] = {0};
    int fd = (int)syscall(SYS_io_uring_setup, 1, parameters);

    if (fd < 0) {
        FAILS(EINTR, sigsuspend(none));
        return;
    }
    if (has_record)
        FAILS(EINTR, syscall(SYS_io_uring_enter, fd, 0, 1, 1 | 8, &record, sizeof record));
    else
        FAILS(EINTR, syscall(SYS_io_uring_enter, fd, 0, 1, 1, none, 8));
    MUST(close(fd) == 0);
}

static void wait_with(int kind, const sigset_t *none)
{
    struct epoll_event event;
    int fd;

    switch (kind) {
    case 0:
        FAILS(EINTR, sigsuspend(none));
        break;
    case 1:
        FAILS(EINTR, ppoll(NULL, 0, NULL, none));
        break;
    case 2:
        FAILS(EINTR, pselect(0, NULL, NULL, NULL, NULL, none));
        break;
    case 3:
    case 4:
        wait_in_ring(kind == 3, none);
        break;
    default:
        fd = epoll_create1(EPOLL_CLOEXEC);
        FAILS(EINTR, epoll_pwait(fd, &event, 1, -1, none));
        MUST(close(fd) == 0);
    }
    MUST(taken == 1);
}

static void wait_for(int kind, const sigset_t *all)
{
    struct timespec short_time = {0, 1000000}, no_time = {0, 0};
    struct signalfd_siginfo info;
    int fd;

    if (kind == MASKS) {
        MUST(sigtimedwait(all, NULL, &short_time) == SIGUSR1);
        FAILS(EAGAIN, sigtimedwait(all, NULL, &no_time));
    } else {
        fd = signalfd(-1, all, SFD_CLOEXEC | SFD_NONBLOCK);
        MUST(read(fd, &info, sizeof info) == sizeof info && info.ssi_signo == SIGUSR1);
        FAILS(EAGAIN, read(fd, &info, sizeof info));
        MUST(close(fd) == 0);
    }
    MUST(taken == 0);
}

static void *waits(void *arg)
{
    int kind = (int)(intptr_t)arg % KINDS;
    sigset_t all, none, now;

    sigfillset(&all);
    sigemptyset(&none);
    OK(pthread_sigmask(SIG_SETMASK, &all, NULL));
    OK(pthread_kill(pthread_self(), SIGUSR1));
    if (kind < MASKS)
        wait_with(kind, &none);
    else
        wait_for(kind, &all);
    OK(pthread_sigmask(SIG_SETMASK, &none, &now));
    MUST(sigismember(&now, SIGUSR1) && sigismember(&now, SIGTERM));
    MUST(taken == (kind < MASKS));
    return NULL;
}

int main(void)
{
    struct sigaction action = {.sa_handler = take};

    OK(sigaction(SIGUSR1, &action, NULL));
    for (int round = 0; round < ROUNDS; round++)
        in_threads(3 * KINDS, waits);
    SHOWN("waits with masks of their own get what was sent");
    return 0;
}
