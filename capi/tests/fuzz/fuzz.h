/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The driver of the fuzz targets. A target is a program with these two functions:
 *
 *   fuzz_begin   once in each process, with the first step's bytes, before the steps
 *   fuzz_step    does what the bytes of one step say
 *   fuzz_end     after the last one
 *
 * An input is a sequence of steps of STEP bytes. Each input has a process of its own, which has to
 * end with status 0 within a time. If it does not, the input is made smaller as long as it fails,
 * and is printed, with what it does.
 *
 *   TARGET [-s SECONDS] [-r SEED] [-l LIMIT] [-o FILE] [CORPUS...]
 *
 * First come the inputs of the corpus (a line of hexadecimal digits each, # begins a comment), then
 * random ones. A failing input goes to FILE as a line that a corpus can have.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define STEP 16
#define MOST_STEPS 96

/* The bytes of one step; what is read behind its end is 0. */
struct input {
    const uint8_t *at, *end;
};

void fuzz_begin(struct input *in);
void fuzz_step(struct input *in);
void fuzz_end(void);

static int fuzz_traces;
/* How long an input may take, in seconds. */
static unsigned fuzz_limit = 60;

static inline unsigned byte(struct input *in)
{
    return in->at < in->end ? *in->at++ : 0;
}

/* A number below n. */
static inline unsigned pick(struct input *in, unsigned n)
{
    return byte(in) % n;
}

static inline uint64_t fuzz_now(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Says what is about to be done, if somebody wants to know. */
static inline void trace(const char *format, ...) __attribute__((format(printf, 1, 2)));
static inline void trace(const char *format, ...)
{
    va_list list;
    char text[400];
    int length;
    if (!fuzz_traces)
        return;
    va_start(list, format);
    length = vsnprintf(text, sizeof text - 1, format, list);
    va_end(list);
    if (length > (int)sizeof text - 2)
        length = (int)sizeof text - 2;
    text[length] = '\n';
    if (write(2, text, (size_t)length + 1) < 0)
        fuzz_traces = 0;
}

/* What was promised does not hold: the input fails. */
#define PROMISED(condition) ((condition) ? (void)0 : fuzz_broken(#condition, __FILE__, __LINE__))

static inline void fuzz_broken(const char *condition, const char *file, int line)
{
    fprintf(stderr, "%s:%d: does not hold: %s (errno: %s)\n", file, line, condition, strerror(errno));
    _exit(3);
}

/* ---- The driver ---- */

static void fuzz_run(const uint8_t *bytes, int steps)
{
    struct input first = {bytes, bytes + (steps ? STEP : 0)};
    fuzz_begin(&first);
    for (int step = 1; step < steps; step++) {
        struct input in = {bytes + step * STEP, bytes + (step + 1) * STEP};
        fuzz_step(&in);
    }
    fuzz_end();
    _exit(0);
}

/* The status of a process that runs the input; -1 if it does not end. */
static int fuzz_try(const uint8_t *bytes, int steps)
{
    uint64_t until = fuzz_now(CLOCK_MONOTONIC) + fuzz_limit * 1000000000ull;
    struct timespec pause = {0, 200000};
    int status = 0;
    pid_t child = fork();
    if (child < 0) {
        perror("fork");
        exit(2);
    }
    if (child == 0)
        fuzz_run(bytes, steps);
    while (waitpid(child, &status, WNOHANG) == 0) {
        if (fuzz_now(CLOCK_MONOTONIC) > until) {
            kill(child, SIGKILL);
            waitpid(child, &status, 0);
            return -1;
        }
        nanosleep(&pause, NULL);
        if (pause.tv_nsec < 5000000)
            pause.tv_nsec += pause.tv_nsec / 4;
    }
    return status;
}

static void fuzz_print(FILE *file, const uint8_t *bytes, int steps)
{
    for (int i = 0; i < steps * STEP; i++)
        fprintf(file, "%02x", bytes[i]);
    fputc('\n', file);
}

/* Leaves out steps as long as it fails the same way. */
static int fuzz_shrink(uint8_t *bytes, int steps, int status)
{
    uint64_t until = fuzz_now(CLOCK_MONOTONIC) + 120 * 1000000000ull;
    uint8_t fewer[MOST_STEPS * STEP];
    for (int size = steps / 2; size >= 1; size /= 2) {
        for (int at = 1; at + size <= steps;) {
            if (fuzz_now(CLOCK_MONOTONIC) > until)
                return steps;
            memcpy(fewer, bytes, (size_t)at * STEP);
            memcpy(fewer + at * STEP, bytes + (at + size) * STEP, (size_t)(steps - at - size) * STEP);
            if (fuzz_try(fewer, steps - size) == status) {
                steps -= size;
                memcpy(bytes, fewer, (size_t)steps * STEP);
            } else {
                at += size;
            }
        }
    }
    return steps;
}

static void fuzz_failed(uint8_t *bytes, int steps, int status, const char *to)
{
    FILE *file;
    fprintf(stderr, "fuzz: an input of %d steps fails; it is made smaller\n", steps);
    if (status != -1)
        steps = fuzz_shrink(bytes, steps, status);
    if (status == -1)
        fprintf(stderr, "fuzz: FAILED: %d steps do not come to an end:\n", steps);
    else if (WIFSIGNALED(status))
        fprintf(stderr, "fuzz: FAILED: %d steps end by signal %d (%s):\n", steps, WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        fprintf(stderr, "fuzz: FAILED: %d steps end with status %d:\n", steps, WEXITSTATUS(status));
    fuzz_print(stderr, bytes, steps);
    fuzz_traces = 1;
    fuzz_try(bytes, steps);
    if (to && (file = fopen(to, "a")) != NULL) {
        fuzz_print(file, bytes, steps);
        fclose(file);
    }
    exit(1);
}

static uint64_t fuzz_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state * 0x2545f4914f6cdd1dull;
}

/* Runs the inputs of a file; returns how many there were. */
static long fuzz_corpus(const char *name, const char *to)
{
    FILE *file = fopen(name, "r");
    uint8_t bytes[MOST_STEPS * STEP];
    long count = 0;
    int length = 0, c, high = -1, comment = 0;
    if (!file) {
        perror(name);
        exit(2);
    }
    do {
        c = getc(file);
        if (c == '#')
            comment = 1;
        if (c == '\n' || c == EOF) {
            if (length >= STEP) {
                int status = fuzz_try(bytes, length / STEP);
                count++;
                if (status != 0)
                    fuzz_failed(bytes, length / STEP, status, to);
            }
            length = comment = 0;
            high = -1;
        } else if (!comment && strchr("0123456789abcdef", c) && length < (int)sizeof bytes) {
            int digit = c <= '9' ? c - '0' : c - 'a' + 10;
            if (high < 0)
                high = digit;
            else
                bytes[length++] = (uint8_t)(high * 16 + digit), high = -1;
        }
    } while (c != EOF);
    fclose(file);
    return count;
}

int main(int argc, char **argv)
{
    uint64_t seed = fuzz_now(CLOCK_REALTIME) | 1, state, until;
    const char *to = NULL;
    long count = 0, kept = 0;
    int option, seconds = 10;
    while ((option = getopt(argc, argv, "s:r:l:o:")) != -1) {
        if (option == 's')
            seconds = atoi(optarg);
        else if (option == 'r')
            seed = strtoull(optarg, NULL, 0) | 1;
        else if (option == 'l')
            fuzz_limit = (unsigned)atoi(optarg);
        else if (option == 'o')
            to = optarg;
        else
            return 2;
    }
    for (int i = optind; i < argc; i++)
        kept += fuzz_corpus(argv[i], to);
    fprintf(stderr, "fuzz: seed %" PRIu64 "\n", seed);
    state = seed;
    until = fuzz_now(CLOCK_MONOTONIC) + (uint64_t)seconds * 1000000000ull;
    while (fuzz_now(CLOCK_MONOTONIC) < until) {
        uint8_t bytes[MOST_STEPS * STEP];
        int steps = 2 + (int)(fuzz_random(&state) >> 32) % (MOST_STEPS - 2), status;
        if (steps < 2)
            steps = 2;
        for (int i = 0; i < steps * STEP; i++)
            bytes[i] = (uint8_t)(fuzz_random(&state) >> 56);
        status = fuzz_try(bytes, steps);
        count++;
        if (status != 0)
            fuzz_failed(bytes, steps, status, to);
    }
    fprintf(stderr, "fuzz: %ld inputs of the corpus and %ld random ones are in order\n", kept, count);
    return 0;
}

#endif /* FUZZ_H */
