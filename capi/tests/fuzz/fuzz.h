/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The driver of the fuzz targets. A target is a program with these two functions:
 *
 *   fuzz_begin   once in each process, with the first step's bytes, before the steps
 *   fuzz_step    does what the bytes of one step say
 *   fuzz_end     after the last one
 *
 * An input is a sequence of steps of STEP bytes. Each input has a process of its own, which has to
 * end with status 0 within a time. If it does not, the input is made smaller as long as it still
 * fails, and is printed, with a description of its steps.
 *
 *   TARGET [-s SECONDS] [-r SEED] [-l LIMIT] [-o FILE] [-k FILE] [-f] [CORPUS...]
 *
 * First come the inputs of the corpus, a line each: a step is a word of hexadecimal digits, and #
 * begins a comment. Then come random ones. A failing input goes to the file of -o as a line that a
 * corpus can have. With -f it is not made smaller, nor tried again.
 *
 * If the library counts where it goes (ci/fuzz.sh builds it so), an input that goes somewhere new
 * is kept, and half of the random ones are made of those by changes. With -k each of them is also
 * made smaller, as long as it goes there, and added to that file: so a corpus grows.
 *
 * Where steps have names (FUZZ_HAS_NAMES), a step of the corpus other than the first is
 * NAME:DIGITS; the name stands for the first two bytes. A target then has two more functions:
 *
 *   fuzz_name    the name of a step
 *   fuzz_named   sets the two bytes of a step; 0 if there is no such name
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
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define STEP 16
#define MOST_STEPS 96

/* The bytes of one step; bytes read behind its end are 0. */
struct input {
    const uint8_t *at, *end;
};

void fuzz_begin(struct input *in);
void fuzz_step(struct input *in);
void fuzz_end(void);
const char *fuzz_name(const uint8_t *step);
int fuzz_named(const char *name, uint8_t *step);

static int fuzz_traces, fuzz_is_fast;
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

/* Prints the next step, if that is asked for. */
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

/* A promise does not hold: the input fails. */
#define PROMISED(condition) ((condition) ? (void)0 : fuzz_broken(#condition, __FILE__, __LINE__))

static inline void fuzz_broken(const char *condition, const char *file, int line)
{
    fprintf(stderr, "%s:%d: does not hold: %s (errno: %s)\n", file, line, condition,
            strerror(errno));
    _exit(3);
}

/* ---- Where the library goes ---- */

/*
 * A counter of the library's for each edge between its blocks, in pages that are shared with the
 * process of an input. Counters in a page with other variables are left out.
 */
static uint8_t *fuzz_counters;
static size_t fuzz_edges, fuzz_seen_edges;
/* The edges an input has gone over so far, and those that the last input was the first to go over.
 */
static uint8_t *fuzz_seen, *fuzz_new;

/* The compiler has this called before main. */
void __sanitizer_cov_8bit_counters_init(uint8_t *start, uint8_t *stop);
void __sanitizer_cov_8bit_counters_init(uint8_t *start, uint8_t *stop)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t from = ((uintptr_t)start + page - 1) & ~(page - 1),
              to = (uintptr_t)stop & ~(page - 1);
    if (fuzz_counters || from >= to)
        return;
    if (mmap((void *)from, to - from, PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
        return;
    fuzz_counters = (uint8_t *)from;
    fuzz_edges = to - from;
}

/* Whether the input that has just run went anywhere new. */
static int fuzz_is_new(void)
{
    int count = 0;
    for (size_t i = 0; i < fuzz_edges; i++) {
        fuzz_new[i] = fuzz_counters[i] && !fuzz_seen[i];
        fuzz_seen[i] |= fuzz_new[i];
        count += fuzz_new[i];
    }
    fuzz_seen_edges += (size_t)count;
    return count;
}

/* Whether the input that has just run went over the edges that were new with another one. */
static int fuzz_is_as_new(void)
{
    for (size_t i = 0; i < fuzz_edges; i++)
        if (fuzz_new[i] && !fuzz_counters[i])
            return 0;
    return 1;
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
    pid_t child;
    memset(fuzz_counters ? fuzz_counters : (uint8_t *)&status, 0, fuzz_edges);
    child = fork();
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
    for (int step = 0; step < steps; step++) {
        int i = 0;
#ifdef FUZZ_HAS_NAMES
        if (step)
            fprintf(file, "%s:", fuzz_name(bytes + step * STEP)), i = 2;
#endif
        for (; i < STEP; i++)
            fprintf(file, "%02x", bytes[step * STEP + i]);
        fputc(step < steps - 1 ? ' ' : '\n', file);
    }
}

/* Leaves out steps as long as the rest still ends with this status, or still goes where the input
 * went. */
static int fuzz_shrink(uint8_t *bytes, int steps, int status, int seconds)
{
    uint64_t until = fuzz_now(CLOCK_MONOTONIC) + (uint64_t)seconds * 1000000000u;
    uint8_t fewer[MOST_STEPS * STEP];
    for (int size = steps / 2; size >= 1; size /= 2) {
        for (int at = 1; at + size <= steps;) {
            if (fuzz_now(CLOCK_MONOTONIC) > until)
                return steps;
            memcpy(fewer, bytes, (size_t)at * STEP);
            memcpy(fewer + at * STEP, bytes + (at + size) * STEP,
                   (size_t)(steps - at - size) * STEP);
            if (fuzz_try(fewer, steps - size) == status && (status != 0 || fuzz_is_as_new())) {
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
    if (!fuzz_is_fast)
        fprintf(stderr, "fuzz: an input of %d steps fails; it is made smaller\n", steps);
    if (status != -1 && !fuzz_is_fast)
        steps = fuzz_shrink(bytes, steps, status, 120);
    if (status == -1)
        fprintf(stderr, "fuzz: FAILED: %d steps do not come to an end:\n", steps);
    else if (WIFSIGNALED(status))
        fprintf(stderr, "fuzz: FAILED: %d steps end by signal %d (%s):\n", steps, WTERMSIG(status),
                strsignal(WTERMSIG(status)));
    else
        fprintf(stderr, "fuzz: FAILED: %d steps end with status %d:\n", steps, WEXITSTATUS(status));
    fuzz_print(stderr, bytes, steps);
    fuzz_traces = 1;
    if (!fuzz_is_fast)
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

/* ---- Inputs ---- */

/* Those that went somewhere new. */
enum { MOST_KEPT = 4096 };
static struct kept_input {
    uint8_t *bytes;
    int steps;
} fuzz_pool[MOST_KEPT];
static int fuzz_pooled;
static const char *fuzz_found_to, *fuzz_keep_to;

/* Runs an input; does not return if it fails. */
static void fuzz_one(uint8_t *bytes, int steps, int is_kept)
{
    int status = fuzz_try(bytes, steps);
    FILE *file;
    if (status != 0)
        fuzz_failed(bytes, steps, status, fuzz_found_to);
    if (!fuzz_is_new() || fuzz_pooled == MOST_KEPT)
        return;
    if (fuzz_keep_to && !is_kept) {
        steps = fuzz_shrink(bytes, steps, 0, 5);
        if ((file = fopen(fuzz_keep_to, "a")) != NULL) {
            fuzz_print(file, bytes, steps);
            fclose(file);
        }
    }
    if ((fuzz_pool[fuzz_pooled].bytes = (uint8_t *)malloc((size_t)steps * STEP)) == NULL)
        return;
    memcpy(fuzz_pool[fuzz_pooled].bytes, bytes, (size_t)steps * STEP);
    fuzz_pool[fuzz_pooled++].steps = steps;
}

static unsigned fuzz_below(uint64_t *state, unsigned n)
{
    return (unsigned)(fuzz_random(state) >> 32) % n;
}

static void fuzz_fill(uint8_t *bytes, int steps, uint64_t *state)
{
    for (int i = 0; i < steps * STEP; i++)
        bytes[i] = (uint8_t)(fuzz_random(state) >> 56);
}

/* Some steps of any input that was kept, at this place. */
static int fuzz_insert(uint8_t *bytes, int steps, int at, uint64_t *state)
{
    struct kept_input *from = &fuzz_pool[fuzz_below(state, (unsigned)fuzz_pooled)];
    int first, count;
    if (from->steps < 2)
        return steps;
    first = 1 + (int)fuzz_below(state, (unsigned)from->steps - 1);
    count = 1 + (int)fuzz_below(state, (unsigned)(from->steps - first));
    if (steps + count > MOST_STEPS)
        return steps;
    memmove(bytes + (at + count) * STEP, bytes + at * STEP, (size_t)(steps - at) * STEP);
    memcpy(bytes + at * STEP, from->bytes + first * STEP, (size_t)count * STEP);
    return steps + count;
}

/* One of those that were kept, changed in some places; returns how many steps it has. */
static int fuzz_change(uint8_t *bytes, uint64_t *state)
{
    struct kept_input *from = &fuzz_pool[fuzz_below(state, (unsigned)fuzz_pooled)];
    int steps = from->steps, changes = 1 + (int)fuzz_below(state, 6);
    memcpy(bytes, from->bytes, (size_t)steps * STEP);
    while (changes--) {
        int at = (int)fuzz_below(state, (unsigned)steps);
        switch (fuzz_below(state, 5)) {
        case 0: fuzz_fill(bytes + at * STEP, 1, state); break;
        case 1:
        case 2:
            bytes[at * STEP + (int)fuzz_below(state, STEP)] = (uint8_t)(fuzz_random(state) >> 56);
            break;
        case 3:
            if (at > 0 && steps > 2) {
                memmove(bytes + at * STEP, bytes + (at + 1) * STEP,
                        (size_t)(steps - at - 1) * STEP);
                steps--;
            }
            break;
        default: steps = fuzz_insert(bytes, steps, at + 1, state);
        }
    }
    return steps;
}

/* A step of a corpus; 0 if the word is no step. */
static int fuzz_word(const char *word, uint8_t *step)
{
    int i = 0;
#ifdef FUZZ_HAS_NAMES
    char name[64];
    int length = 0;
    if (sscanf(word, "%63[a-zA-Z0-9_]:%n", name, &length) == 1 && length) {
        if (!fuzz_named(name, step))
            return 0;
        word += length;
        i = 2;
    }
#endif
    for (; i < STEP; i++, word += 2) {
        unsigned value;
        if (sscanf(word, "%2x", &value) != 1)
            return 0;
        step[i] = (uint8_t)value;
    }
    return *word == 0;
}

/* Runs the inputs of a file; returns how many there were. */
static long fuzz_corpus(const char *name)
{
    FILE *file = fopen(name, "r");
    char *line = NULL;
    size_t size = 0;
    long count = 0;
    if (!file) {
        perror(name);
        exit(2);
    }
    while (getline(&line, &size, file) > 0) {
        uint8_t bytes[MOST_STEPS * STEP];
        int steps = 0;
        line[strcspn(line, "#\n")] = 0;
        for (char *word = strtok(line, " "); word && steps < MOST_STEPS; word = strtok(NULL, " "))
            if (!fuzz_word(word, bytes + steps++ * STEP)) {
                fprintf(stderr, "fuzz: FAILED: %s: there is no step %s\n", name, word);
                exit(2);
            }
        if (steps)
            fuzz_one(bytes, steps, 1), count++;
    }
    free(line);
    fclose(file);
    return count;
}

/* Reads the options; returns for how many seconds random inputs are to be made. */
static int fuzz_options(int argc, char **argv, uint64_t *seed)
{
    int option, seconds = 10;
    while ((option = getopt(argc, argv, "s:r:l:o:k:f")) != -1) {
        if (option == 's')
            seconds = atoi(optarg);
        else if (option == 'r')
            *seed = strtoull(optarg, NULL, 0) | 1;
        else if (option == 'l')
            fuzz_limit = (unsigned)atoi(optarg);
        else if (option == 'o')
            fuzz_found_to = optarg;
        else if (option == 'k')
            fuzz_keep_to = optarg;
        else if (option == 'f')
            fuzz_is_fast = 1;
        else
            exit(2);
    }
    return seconds;
}

int main(int argc, char **argv)
{
    uint64_t seed = fuzz_now(CLOCK_REALTIME) | 1, state, until;
    long count = 0, kept = 0;
    int seconds = fuzz_options(argc, argv, &seed);
    fuzz_seen = (uint8_t *)calloc(fuzz_edges + 1, 1);
    fuzz_new = (uint8_t *)calloc(fuzz_edges + 1, 1);
    if (!fuzz_seen || !fuzz_new)
        return 2;
    for (int i = optind; i < argc; i++)
        kept += fuzz_corpus(argv[i]);
    fprintf(stderr, "fuzz: seed %" PRIu64 "\n", seed);
    state = seed;
    until = fuzz_now(CLOCK_MONOTONIC) + (uint64_t)seconds * 1000000000ull;
    while (fuzz_now(CLOCK_MONOTONIC) < until) {
        uint8_t bytes[MOST_STEPS * STEP];
        int steps = 2 + (int)fuzz_below(&state, MOST_STEPS - 2);
        if (fuzz_pooled && fuzz_below(&state, 2))
            steps = fuzz_change(bytes, &state);
        else
            fuzz_fill(bytes, steps, &state);
        fuzz_one(bytes, steps, 0);
        count++;
    }
    fprintf(stderr, "fuzz: %ld inputs of the corpus and %ld random ones are in order", kept, count);
    if (fuzz_edges)
        fprintf(stderr, "; they went over %zu of %zu edges", fuzz_seen_edges, fuzz_edges);
    fprintf(stderr, "\n");
    return 0;
}

#endif /* FUZZ_H */
