/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Checks for the C tests, which exit 0 (passed), 1 (failed) or 77 (skipped). For C and C++. */
#ifndef CHECK_H
#define CHECK_H

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int check_failures;

/* Where the test was last seen, for the watchdog. */
static const char *volatile check_file = "";
static volatile int check_line;
#define CHECK_HERE() (check_file = __FILE__, (void)(check_line = __LINE__))

/* A row of a table of checks: its message, and whether it holds. The test goes on after a failure.
 */
#define CHECK(what, holds) (CHECK_HERE(), check_row(__FILE__, __LINE__, what, (holds) ? 1 : 0))

/* The call must return -1 with errno `expected`. */
#define FAILS(what, expected, call)                                                   \
    do {                                                                              \
        CHECK_HERE();                                                                 \
        check_set_errno(0);                                                           \
        long fails_result = (long)(call);                                             \
        check_fails(__FILE__, __LINE__, what, expected, fails_result, check_errno()); \
    } while (0)

/* Nothing after this makes sense unless it holds. */
#define MUST(holds)                                \
    do {                                           \
        CHECK_HERE();                              \
        if (!(holds))                              \
            check_die(__FILE__, __LINE__, #holds); \
    } while (0)

#define SKIP(why)                     \
    do {                              \
        printf("skipped: %s\n", why); \
        exit(77);                     \
    } while (0)

/* A light worker may have moved to another kernel thread: the compiler must not keep the address of
 * errno. */
__attribute__((noinline, unused)) static int check_errno(void)
{
    __asm__ volatile("");
    return errno;
}

__attribute__((noinline, unused)) static void check_set_errno(int error)
{
    __asm__ volatile("");
    errno = error;
}

static inline void check_row(const char *file, int line, const char *what, int holds)
{
    if (holds)
        return;
    fprintf(stderr, "%s:%d: FAILED: %s\n", file, line, what);
    __atomic_add_fetch(&check_failures, 1, __ATOMIC_RELAXED);
}

static inline void check_fails(const char *file, int line, const char *what, int expected,
                               long result, int error)
{
    if (result == -1 && error == expected)
        return;
    if (result == -1)
        fprintf(stderr, "%s:%d: FAILED: %s: expected %s, got %s\n", file, line, what,
                strerror(expected), strerror(error));
    else
        fprintf(stderr, "%s:%d: FAILED: %s: expected %s, got result %ld\n", file, line, what,
                strerror(expected), result);
    __atomic_add_fetch(&check_failures, 1, __ATOMIC_RELAXED);
}

static inline void check_die(const char *file, int line, const char *what)
{
    fprintf(stderr, "%s:%d: FAILED, giving up: %s (errno: %s)\n", file, line, what,
            strerror(errno));
    _exit(1);
}

static inline void check_on_alarm(int sig)
{
    char text[256];
    int size = snprintf(text, sizeof text,
                        "FAILED: the test hung, ended by its watchdog; last seen at %s:%d\n",
                        check_file, check_line);
    (void)sig;
    if (write(2, text, (size_t)size) < 0)
        _exit(2);
    _exit(1);
}

/*
 * Arms the watchdog, which ends a test that hangs: a machine may be several times slower than
 * expected. UMCG_TEST_SLOW in the environment multiplies its time (for Valgrind).
 */
static inline void check_start(unsigned seconds)
{
    const char *slow = getenv("UMCG_TEST_SLOW");
    struct rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGALRM, check_on_alarm);
    alarm(5 * seconds * (slow ? (unsigned)atoi(slow) : 1));
}

static inline int check_done(void)
{
    int failures = __atomic_load_n(&check_failures, __ATOMIC_RELAXED);
    if (failures)
        fprintf(stderr, "%d failed\n", failures);
    return failures ? 1 : 0;
}

/* A number that the environment may make smaller, for Valgrind and the sanitizers. */
static inline int check_count(const char *variable, int fallback)
{
    const char *text = getenv(variable);
    return text ? atoi(text) : fallback;
}

static inline unsigned long long check_now(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (unsigned long long)now.tv_sec * 1000000000ull + (unsigned long long)now.tv_nsec;
}

static inline void check_sleep_ms(long ms)
{
    struct timespec left = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&left, &left) < 0 && errno == EINTR)
        ;
}

/* Uses the processor for that long, by the wall clock. */
static inline void check_spin_ms(unsigned long long ms)
{
    unsigned long long end = check_now(CLOCK_MONOTONIC) + ms * 1000000ull;
    while (check_now(CLOCK_MONOTONIC) < end)
        ;
}

/* Runs `body` in a child whose standard error is kept in `text`; returns the child's wait status.
 */
static inline int check_child(void (*body)(void), char *text, size_t size)
{
    int ends[2], status = 0;
    size_t used = 0;
    ssize_t got;
    pid_t child;

    MUST(pipe(ends) == 0);
    fflush(NULL);
    child = fork();
    MUST(child >= 0);
    if (child == 0) {
        dup2(ends[1], 2);
        close(ends[0]);
        close(ends[1]);
        check_start(20);
        body();
        exit(check_done());
    }
    close(ends[1]);
    while ((got = read(ends[0], text + used, size - 1 - used)) > 0)
        used += (size_t)got;
    text[used] = 0;
    close(ends[0]);
    MUST(waitpid(child, &status, 0) == child);
    return status;
}

/* `body` must abort the process, with `expected` somewhere in the message. */
static inline void check_aborts(const char *what, void (*body)(void), const char *expected)
{
    static char text[8192];
    int status = check_child(body, text, sizeof text);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT && strstr(text, expected))
        return;
    fprintf(stderr, "FAILED: %s: expected SIGABRT and \"%s\", got status %#x and \"%s\"\n", what,
            expected, status, text);
    __atomic_add_fetch(&check_failures, 1, __ATOMIC_RELAXED);
}

/* `body` must run to its end with all its checks passed. */
static inline void check_passes(const char *what, void (*body)(void))
{
    static char text[8192];
    int status = check_child(body, text, sizeof text);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return;
    fprintf(stderr, "FAILED: %s: status %#x, said:\n%s\n", what, status, text);
    __atomic_add_fetch(&check_failures, 1, __ATOMIC_RELAXED);
}

#endif /* CHECK_H */
