/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Sequences of calls of every header but umcg_ctl's, with good and bad arguments, by a worker of
 * either kind or a plain thread. No call may end the process or go on for ever, except where its
 * header says so. Those calls are made by a child of a fork, which has to give the reason for its
 * abort. A worker that waits for long is aborted.
 *
 * An object that was given back is not used any more, objects are not initialised anew while a set
 * may know them, and memory is as large as the call needs: everything else is undefined in C.
 */
#include "arguments.h"

struct call {
    const char *name;
    void (*make)(struct input *in);
    int may_be_for_ever;
};

/* ---- Calls that may end the process ---- */

struct forked {
    pid_t pid;
    int said; /* the pipe that is the child's standard error */
};

static inline struct forked forked_begin(void)
{
    struct forked child;
    int ends[2];
    __atomic_store_n(&began, 0, __ATOMIC_RELEASE);
    PROMISED(pipe2(ends, O_CLOEXEC) == 0);
    PROMISED((child.pid = fork()) >= 0);
    if (child.pid == 0)
        dup2(ends[1], 2);
    close(ends[1]);
    child.said = ends[0];
    return child;
}

/* Whether the child has returned. If not, it must have aborted with the reason; or it may wait. */
static int forked_returned(struct forked child, const char *name, int may_wait)
{
    char text[512], expected[64];
    size_t length = 0;
    int status, is_over = 0;
    uint64_t until = fuzz_now(CLOCK_MONOTONIC) + (may_wait ? 20000000u : 10000000000u);
    while (!is_over && fuzz_now(CLOCK_MONOTONIC) < until) {
        struct pollfd ready = {child.said, POLLIN, 0};
        ssize_t size;
        if (poll(&ready, 1, 1) <= 0)
            continue;
        size = read(child.said, text + length, sizeof text - 1 - length);
        is_over = size == 0;
        length += size > 0 ? (size_t)size : 0;
    }
    text[length] = 0;
    close(child.said);
    if (!is_over)
        kill(child.pid, SIGKILL);
    while (waitpid(child.pid, &status, 0) < 0)
        PROMISED(errno == EINTR);
    trace("  in a child: status %#x, \"%s\"", (unsigned)status, text);
    PROMISED(is_over || may_wait);
    if (!is_over || (WIFEXITED(status) && WEXITSTATUS(status) == 0))
        return is_over;
    snprintf(expected, sizeof expected, "umcg: %s: ", name);
    PROMISED(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    PROMISED(strncmp(text, expected, strlen(expected)) == 0 &&
             strchr(text, '\n') == text + length - 1);
    return 0;
}

#define RETURNS(name, may_wait, call)           \
    ({                                          \
        struct forked child = forked_begin();   \
        if (child.pid == 0) {                   \
            call;                               \
            _exit(0);                           \
        }                                       \
        forked_returned(child, name, may_wait); \
    })

#include "calls.inc"

enum { CALLS = sizeof calls / sizeof *calls };

/* The corpus knows calls by their names: their numbers change with the headers. */
const char *fuzz_name(const uint8_t *step)
{
    return calls[(step[0] << 8 | step[1]) % CALLS].name;
}

int fuzz_named(const char *name, uint8_t *step)
{
    for (unsigned i = 0; i < CALLS; i++)
        if (strcmp(calls[i].name, name) == 0)
            return step[0] = (uint8_t)(i >> 8), step[1] = (uint8_t)i, 1;
    return 0;
}

/* ---- The sequence ---- */

static void open_what_is_closed(void)
{
    if (sockets[0] < 0)
        PROMISED(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets) == 0);
    for (int i = 0; i < 2; i++)
        if (pipes[i] < 0)
            PROMISED((pipes[i] = open("/dev/null", O_RDWR | O_CLOEXEC)) >= 0);
}

static void one(struct input *in)
{
    unsigned high = byte(in), which = (high << 8 | byte(in)) % CALLS;
    const struct call *call = &calls[which];
    if (call->may_be_for_ever && !may_be_for_ever())
        return;
    /* Everything that is opened is closed in the end; and a plain thread in a section of these has
     * no effect. */
    if (strcmp(call->name, "umcg_shield_begin") == 0)
        shields += is_worker;
    if (strcmp(call->name, "umcg_shield_end") == 0 && shields)
        shields--;
    __atomic_store_n(&began, fuzz_now(CLOCK_MONOTONIC), __ATOMIC_RELEASE);
    call->make(in);
    __atomic_store_n(&began, 0, __ATOMIC_RELEASE);
    open_what_is_closed();
}

static void *sequence(void *arg)
{
    tubes[0] = umcg_tube_create(8, 2);
    tubes[1] = umcg_tube_create(LARGEST, 1);
    objects[0] = umcg_nt_event_create(0, 1);
    objects[1] = umcg_nt_sem_create(1, 2);
    for (int i = 0; i < LASTING; i++)
        PROMISED(tubes[i] && objects[i]);
    open_what_is_closed();
    for (int i = 0; i < steps; i++) {
        struct input in = {kept[i], kept[i] + STEP};
        one(&in);
    }
    for (int i = 0; i < MOST_STEPS && umcg_critical_end() == 0; i++)
        ;
    for (int i = 0; i < MOST_STEPS && umcg_blocking_end() == 0; i++)
        ;
    for (int i = 0; i < MOST_STEPS && umcg_shield_end() == 0; i++)
        ;
    for (int i = 0; i < ROOM; i++) {
        umcg_select_set_destroy(sets[i]);
        umcg_waitset_destroy(waitsets[i]);
    }
    return arg;
}

void fuzz_begin(struct input *in)
{
    unsigned kind = pick(in, 4);
    none = (uint32_t *)mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    only_read = (uint32_t *)mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    PROMISED(none != MAP_FAILED && only_read != MAP_FAILED);
    signal(SIGPIPE, SIG_IGN);
    is_worker = kind != 0;
    blocks = kind == 2;
}

void fuzz_step(struct input *in)
{
    memcpy(kept[steps++], in->at, STEP);
}

void fuzz_end(void)
{
    umcg_rt_options_t options = UMCG_RT_OPTIONS_INIT;
    umcg_spawn_attr_t attribute = UMCG_SPAWN_ATTR_INIT;
    umcg_rt_t *rt;
    if (!is_worker) {
        sequence(NULL);
        return;
    }
    options.servers = 2;
    attribute.own_tls = !blocks;
    PROMISED((rt = umcg_rt_start(&options)) != NULL);
    PROMISED((self = umcg_spawn_attr(rt, &attribute, sequence, NULL)) != NULL);
    while (umcg_join_until(self, NULL, umcg_after_ns(5000000)) != 0) {
        uint64_t since = __atomic_load_n(&began, __ATOMIC_ACQUIRE);
        PROMISED(errno == ETIMEDOUT);
        if (since && fuzz_now(CLOCK_MONOTONIC) - since > 20000000)
            umcg_abort(self);
    }
}
