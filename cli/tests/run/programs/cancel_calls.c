/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Cancellation of threads that wait in a call: in each call that POSIX lists and that can wait.
 * Each is cancelled while it waits, and once more before it gets there. Cleanup handlers run. */
#include "check.h"
#include <netinet/in.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>

static int empty[2], full[2], listener, stream[2], epoll, queue;
static pid_t child;
static sem_t never, begun;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_t sleeper;
static struct sockaddr_un address = {.sun_family = AF_UNIX};
static char buffer[1 << 16];
static struct iovec vector = {buffer, sizeof buffer};
static int cleaned;

static void call_read(void) { MUST(read(empty[0], buffer, 1) && 0); }
static void call_readv(void) { MUST(readv(empty[0], &vector, 1) && 0); }
static void call_write(void) { MUST(write(full[1], buffer, sizeof buffer) && 0); }
static void call_writev(void) { MUST(writev(full[1], &vector, 1) && 0); }
static void call_accept(void) { MUST(accept(listener, NULL, NULL) && 0); }
static void call_poll(void) { MUST(poll(NULL, 0, -1) && 0); }
static void call_pause(void) { MUST(pause() && 0); }
static void call_sem(void) { MUST(sem_wait(&never) && 0); }
static void call_waitpid(void) { MUST(waitpid(child, NULL, 0) && 0); }
static void call_recv(void) { MUST(recv(stream[0], buffer, 1, 0) && 0); }
static void call_join(void) { MUST(pthread_join(sleeper, NULL) && 0); }
static void call_sleep(void) { MUST(sleep(1000) && 0); }
static void call_usleep(void) { MUST(usleep(999999999) && 0); }

static void call_connect(void)
{
    int client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    /* Waits for room in the queue of the listener. The descriptor is lost. */
    MUST(connect(client, (struct sockaddr *)&address, sizeof address) && 0);
}

static void call_ppoll(void)
{
    struct pollfd one = {empty[0], POLLIN, 0};
    struct timespec limit = {1000, 0};

    MUST(ppoll(&one, 1, &limit, NULL) && 0);
}

static void call_select(void)
{
    fd_set set;

    FD_ZERO(&set);
    FD_SET(empty[0], &set);
    MUST(select(empty[0] + 1, &set, NULL, NULL, NULL) && 0);
}

static void call_pselect(void)
{
    struct timespec limit = {1000, 0};

    MUST(pselect(0, NULL, NULL, NULL, &limit, NULL) && 0);
}

static void call_epoll(void)
{
    struct epoll_event event;

    MUST(epoll_wait(epoll, &event, 1, -1) && 0);
}

static void call_nanosleep(void)
{
    struct timespec limit = {1000, 0};

    MUST(nanosleep(&limit, NULL) && 0);
}

static void call_clock_nanosleep(void)
{
    struct timespec limit = in_ms(CLOCK_REALTIME, 1000000);

    MUST(clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &limit, NULL) && 0);
}

static void unlock(void *arg)
{
    OK(pthread_mutex_unlock(arg));
}

/* The mutex is held again while the handlers run. */
static void call_cond(void)
{
    OK(pthread_mutex_lock(&mutex));
    pthread_cleanup_push(unlock, &mutex);
    for (;;)
        OK(pthread_cond_wait(&cond, &mutex));
    pthread_cleanup_pop(1);
}

static void call_cond_timed(void)
{
    struct timespec limit = in_ms(CLOCK_REALTIME, 1000000);

    OK(pthread_mutex_lock(&mutex));
    pthread_cleanup_push(unlock, &mutex);
    for (;;)
        OK(pthread_cond_timedwait(&cond, &mutex, &limit));
    pthread_cleanup_pop(1);
}

static void call_sem_timed(void)
{
    struct timespec limit = in_ms(CLOCK_REALTIME, 1000000);

    MUST(sem_timedwait(&never, &limit) && 0);
}

static void call_sigwait(void)
{
    sigset_t set;
    int signal;

    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    MUST(sigwait(&set, &signal) && 0);
}

static void call_sigtimedwait(void)
{
    struct timespec limit = {1000, 0};
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    MUST(sigtimedwait(&set, NULL, &limit) && 0);
}

static void call_sigsuspend(void)
{
    sigset_t set;

    sigemptyset(&set);
    MUST(sigsuspend(&set) && 0);
}

static void call_waitid(void)
{
    siginfo_t info;

    MUST(waitid(P_PID, (id_t)child, &info, WEXITED) && 0);
}

static void call_msgrcv(void)
{
    struct msgbuf message;

    MUST(msgrcv(queue, &message, 1, 0, 0) && 0);
}

static void call_recvmsg(void)
{
    struct msghdr header = {.msg_iov = &vector, .msg_iovlen = 1};

    MUST(recvmsg(stream[0], &header, 0) && 0);
}

static void call_lock(void)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

    /* The child holds it. */
    MUST(fcntl(epoll + 1, F_SETLKW, &lock) && 0);
}

static const struct {
    const char *name;
    void (*call)(void);
} calls[] = {
    {"read", call_read},
    {"readv", call_readv},
    {"write to a full pipe", call_write},
    {"writev", call_writev},
    {"accept", call_accept},
    {"connect", call_connect},
    {"poll", call_poll},
    {"ppoll", call_ppoll},
    {"select", call_select},
    {"pselect", call_pselect},
    {"epoll_wait", call_epoll},
    {"pause", call_pause},
    {"sleep", call_sleep},
    {"usleep", call_usleep},
    {"nanosleep", call_nanosleep},
    {"clock_nanosleep", call_clock_nanosleep},
    {"pthread_cond_wait", call_cond},
    {"pthread_cond_timedwait", call_cond_timed},
    {"pthread_join", call_join},
    {"sem_wait", call_sem},
    {"sem_timedwait", call_sem_timed},
    {"sigwait", call_sigwait},
    {"sigtimedwait", call_sigtimedwait},
    {"sigsuspend", call_sigsuspend},
    {"waitpid", call_waitpid},
    {"waitid", call_waitid},
    {"msgrcv", call_msgrcv},
    {"recv", call_recv},
    {"recvmsg", call_recvmsg},
    {"fcntl, F_SETLKW", call_lock},
};

static void clean_up(void *arg)
{
    cleaned += (int)(intptr_t)arg;
}

static void *calls_one(void *arg)
{
    void (*call)(void) = calls[(intptr_t)arg].call;

    pthread_cleanup_push(clean_up, (void *)1);
    pthread_cleanup_push(clean_up, (void *)10);
    OK(sem_post(&begun));
    call();
    pthread_cleanup_pop(0);
    pthread_cleanup_pop(0);
    return NULL;
}

/* The file locked by the child is the descriptor after that of epoll. */
static void begin_child(void)
{
    int ready[2], file;
    char name[] = "cancel_calls.XXXXXX";
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    char byte;

    MUST(pipe(ready) == 0);
    file = mkstemp(name);
    MUST(file >= 0 && unlink(name) == 0);
    child = fork();
    if (child == 0) {
        MUST(fcntl(file, F_SETLK, &lock) == 0 && write(ready[1], "", 1) == 1);
        for (;;)
            pause();
    }
    MUST(read(ready[0], &byte, 1) == 1 && close(ready[0]) == 0 && close(ready[1]) == 0);
    if (file != epoll + 1)
        MUST(dup2(file, epoll + 1) == epoll + 1);
}

static void fill(void)
{
    struct sockaddr_un *at = &address;

    MUST(pipe(empty) == 0 && pipe(full) == 0);
    MUST(fcntl(full[1], F_SETFL, O_NONBLOCK) == 0);
    while (write(full[1], buffer, sizeof buffer) > 0)
        ;
    MUST(fcntl(full[1], F_SETFL, 0) == 0);
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, stream) == 0);
    listener = socket(AF_UNIX, SOCK_STREAM, 0);
    snprintf(at->sun_path + 1, sizeof at->sun_path - 1, "cancel_calls.%d", (int)getpid());
    MUST(bind(listener, (struct sockaddr *)at, sizeof *at) == 0 && listen(listener, 0) == 0);
    queue = msgget(IPC_PRIVATE, 0600);
    epoll = epoll_create1(0);
    MUST(queue >= 0 && epoll >= 0);
}

/* Takes the listener's place for one connection, so that the next has to wait. */
static int occupy(void)
{
    int client = socket(AF_UNIX, SOCK_STREAM, 0);

    MUST(connect(client, (struct sockaddr *)&address, sizeof address) == 0);
    return client;
}

static void *sleeps(void *arg)
{
    for (;;)
        pause();
    return arg;
}

static void cancel_each(int waits)
{
    for (size_t at = 0; at < sizeof calls / sizeof *calls; at++) {
        int client = calls[at].call == call_connect ? occupy() : -1;
        pthread_t thread;

        cleaned = 0;
        thread = spawn(calls_one, (void *)at);
        down(&begun);
        if (waits)
            sleep_ms(2);
        OK(pthread_cancel(thread));
        MUST(join(thread) == PTHREAD_CANCELED);
        MUST(cleaned == 11);
        if (client >= 0)
            MUST(close(client) == 0 && close(accept(listener, NULL, NULL)) == 0);
        if (waits)
            SHOWN(calls[at].name);
    }
}

int main(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    OK(pthread_sigmask(SIG_BLOCK, &set, NULL));
    OK(sem_init(&never, 0, 0));
    OK(sem_init(&begun, 0, 0));
    fill();
    begin_child();
    sleeper = spawn(sleeps, NULL);
    cancel_each(1);
    cancel_each(0);
    OK(pthread_mutex_lock(&mutex));
    OK(pthread_mutex_unlock(&mutex));
    MUST(kill(child, SIGKILL) == 0 && WIFSIGNALED(status_of(child)));
    MUST(msgctl(queue, IPC_RMID, NULL) == 0);
    OK(pthread_cancel(sleeper));
    MUST(join(sleeper) == PTHREAD_CANCELED);
    return 0;
}
