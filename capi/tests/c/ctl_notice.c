/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Blocking that no scope announces: BLOCK comes while the worker sleeps, reads, locks or faults,
 * WAKE when it is over, and nothing else in a million switches. */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

#include "worker.h"

static struct worker a, b;
static int ends[2];
static pid_t server_tid;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void reset(void (*body)(struct worker *))
{
    memset(&a, 0, sizeof a);
    memset(&b, 0, sizeof b);
    a.kind = b.kind = THREAD;
    a.index = 1, b.index = 2;
    a.body = body;
}

static void sleeps(struct worker *self)
{
    struct timespec time = {0, 20000000};
    uint64_t began = check_now(CLOCK_MONOTONIC);
    MUST(nanosleep(&time, NULL) == 0);
    CHECK("it has slept", check_now(CLOCK_MONOTONIC) - began >= 20000000);
    self->steps = 1;
}

static void reads(struct worker *self)
{
    char byte = 0;
    MUST(read(ends[0], &byte, 1) == 1);
    CHECK("the byte is there", byte == 'x');
    FAILS("an error of the call", EBADF, (int)read(-1, &byte, 1));
    self->steps = 1;
}

/* More than a pipe takes at once. */
enum { PART = 100000 };
static char part[PART];

static void writes_parts(struct worker *self)
{
    struct iovec parts[3] = {{part, PART}, {part, 0}, {part, PART}};
    CHECK("all is written", writev(ends[1], parts, 3) == 2 * PART);
    self->steps = 1;
}

static void read_parts(void)
{
    static char into[PART];
    for (size_t had = 0; had < 2 * PART;) {
        ssize_t some = read(ends[0], into, had < PART ? PART : 2 * PART - had);
        MUST(some > 0);
        had += (size_t)some;
    }
}

static void locks(struct worker *self)
{
    MUST(pthread_mutex_lock(&mutex) == 0);
    self->steps = 1;
    MUST(pthread_mutex_unlock(&mutex) == 0);
}

static void polls(struct worker *self)
{
    char byte;
    fd_set set;
    FD_ZERO(&set);
    FD_SET(ends[0], &set);
    MUST(select(ends[0] + 1, &set, NULL, NULL, NULL) == 1);
    MUST(read(ends[0], &byte, 1) == 1);
    self->steps = 1;
}

static void waits_for_child(struct worker *self)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        char byte = 0;
        _exit(read(ends[0], &byte, 1) == 1 ? 7 : 1);
    }
    MUST(waitpid(child, &status, 0) == child);
    CHECK("the child's status", WIFEXITED(status) && WEXITSTATUS(status) == 7);
    self->steps = 1;
}

static void write_byte(void)
{
    MUST(write(ends[1], "x", 1) == 1);
}

static void nothing(void)
{
}

static void unlock(void)
{
    MUST(pthread_mutex_unlock(&mutex) == 0);
}

/* A worker whose body blocks once, until `end` is called. */
static void blocks_once(const char *what, void (*body)(struct worker *), void (*end)(void))
{
    fprintf(stderr, "  %s\n", what);
    reset(body);
    start_ready(&a);
    RUN("BLOCK is the result of the switch", &a, UMCG_WE_BLOCK);
    CHECK("the server runs on meanwhile", (pid_t)syscall(SYS_gettid) == server_tid);
    CHECK("the worker blocks", a.steps == 0);
    end();
    EXPECT("WAKE when it is over", EV(&a, UMCG_WE_WAKE));
    NO_EVENT("once");
    finish(&a);
    CHECK("it came to its end", a.steps == 1);
}

/* ---- A page whose first access waits ---- */

static long fault_fd;
static volatile char *page;

static int slow_page(void)
{
    struct uffdio_api api = {UFFD_API, 0, 0};
    struct uffdio_register range;
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    void *at;

    fault_fd = syscall(SYS_userfaultfd, O_CLOEXEC | 1 /* UFFD_USER_MODE_ONLY */);
    if (fault_fd < 0)
        return 0;
    at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(at != MAP_FAILED);
    page = (volatile char *)at;
    MUST(ioctl((int)fault_fd, UFFDIO_API, &api) == 0);
    memset(&range, 0, sizeof range);
    range.range.start = (uintptr_t)at;
    range.range.len = size;
    range.mode = UFFDIO_REGISTER_MODE_MISSING;
    MUST(ioctl((int)fault_fd, UFFDIO_REGISTER, &range) == 0);
    return 1;
}

static void fill_page(void)
{
    static char from[65536];
    struct uffdio_copy copy;
    memset(from, 'p', sizeof from);
    memset(&copy, 0, sizeof copy);
    copy.dst = (uintptr_t)page;
    copy.src = (uintptr_t)from;
    copy.len = (size_t)sysconf(_SC_PAGESIZE);
    MUST(ioctl((int)fault_fd, UFFDIO_COPY, &copy) == 0);
}

static void faults(struct worker *self)
{
    CHECK("what was read is there", page[3] == 'p');
    CHECK("gettid is the worker's own", umcg_gettid() == self->tid);
    self->steps = 1;
}

/* ---- Switches without blocking ---- */

enum { SWITCHES = 500000 };

static void waits_often(struct worker *self)
{
    for (int i = 0; i < SWITCHES; i++)
        self->result |= WAIT_IN_WORKER(0);
}

static void no_spurious_event(void)
{
    reset(waits_often);
    b.body = waits_often;
    start_ready(&a);
    start_ready(&b);
    for (int i = 0; i < SWITCHES; i++) {
        RUN("WAIT and nothing else", &a, UMCG_WE_WAIT);
        RUN("WAIT and nothing else", &b, UMCG_WE_WAIT);
        if (check_failures)
            break;
    }
    finish(&a);
    finish(&b);
}

int main(void)
{
    check_start(60);
    MUST(pipe(ends) == 0);
    server_tid = (pid_t)syscall(SYS_gettid);
    MUST(umcg_set_preemption(0) == 0);
    MUST(umcg_ctl(0, UMCG_REGISTER_SERVER, 0, 0, NULL, 0) == 0);
    /* The first worker to register begins it, where it is possible. */
    reset(sleeps);
    start_ready(&a);
    if (umcg_notice_blocking(1) != 0) {
        CHECK("it is impossible here", check_errno() == EOPNOTSUPP);
        finish(&a);
        end_server();
        return check_done();
    }
    RUN("BLOCK", &a, UMCG_WE_BLOCK);
    EXPECT("WAKE", EV(&a, UMCG_WE_WAKE));
    finish(&a);
    FAILS("it cannot be ended", EBUSY, umcg_notice_blocking(0));

    blocks_once("a sleep", sleeps, nothing);
    blocks_once("a pipe", reads, write_byte);
    blocks_once("parts for a pipe", writes_parts, read_parts);
    blocks_once("select", polls, write_byte);
    blocks_once("a child", waits_for_child, write_byte);
    MUST(pthread_mutex_lock(&mutex) == 0);
    blocks_once("a mutex", locks, unlock);
    if (slow_page())
        blocks_once("a page fault", faults, fill_page);
    no_spurious_event();
    end_server();
    return check_done();
}
