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
#define _GNU_SOURCE
#define FUZZ_HAS_NAMES
#include "fuzz.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <umcg.h>
#include <umcg/futex.h>
#include <umcg/nt.h>
#include <umcg/rt.h>
#include <umcg/segment.h>
#include <umcg/select.h>
#include <umcg/sem.h>
#include <umcg/sync.h>
#include <umcg/tube.h>

struct call {
    const char *name;
    void (*make)(struct input *in);
    int may_be_for_ever;
};

enum { ROOM = 6, LASTING = 2, LARGEST = 4096, MESSAGES = 8, OPS = 8 };

/* ---- Where the sequence runs ---- */

static int is_worker, shields, blocks;
static uint64_t began; /* when the call began; 0 between calls */
static umcg_worker_t *self;
static uint8_t kept[MOST_STEPS][STEP];
static int steps;

/* ---- The objects of calls ---- */

static char buffer[LARGEST * MESSAGES];
static Sem sems[ROOM];
static umcg_mutex_t mutexes[ROOM];
static umcg_rwlock_t rwlocks[ROOM];
static umcg_cond_t conds[ROOM];
static umcg_once_t onces[ROOM];
static umcg_barrier_t barriers[ROOM];
static umcg_wait_group_t groups[ROOM];
static umcg_event_t events[ROOM];
static uint32_t words[ROOM];
static uint32_t *only_read, *none;
static void *place;
static int pipes[2] = {-1, -1}, sockets[2] = {-1, -1};

/* One of ROOM objects, or none. */
#define OBJECT(array) ({ unsigned at = pick(in, ROOM + 1); at < ROOM ? &(array)[at] : NULL; })

/* Objects that calls make and give back. The first LASTING stay: those that a set may know. */
#define POOL(type, name, plural)                                                      \
    static type *plural[ROOM];                                                        \
    static inline type *a_##name(struct input *in) { return plural[pick(in, ROOM)]; } \
    static inline type *gone_##name(struct input *in)                                 \
    {                                                                                 \
        unsigned at = LASTING + pick(in, ROOM - LASTING);                             \
        type *gone = plural[at];                                                      \
        plural[at] = NULL;                                                            \
        return gone;                                                                  \
    }                                                                                 \
    static inline int keep_in_##name(type *made)                                      \
    {                                                                                 \
        for (int i = 0; made && i < ROOM; i++)                                        \
            if (!plural[i])                                                           \
                return plural[i] = made, 1;                                           \
        return made == NULL;                                                          \
    }
/* Objects for which there is no room are given back at once. */
#define KEPT(type, name, plural, gone)         \
    POOL(type, name, plural)                   \
    static inline void keep_##name(type *made) \
    {                                          \
        if (!keep_in_##name(made))             \
            gone(made);                        \
    }

POOL(Tube, tube, tubes)
POOL(umcg_local_t, local, locals)
POOL(umcg_segment_tube_t, segment_tube, segment_tubes)
KEPT(umcg_worker_t, worker, workers, (void)umcg_detach)
KEPT(umcg_nt_t, object, objects, umcg_nt_close)
KEPT(umcg_waitset_t, waitset, waitsets, umcg_waitset_destroy)
KEPT(umcg_select_set_t, set, sets, umcg_select_set_destroy)
KEPT(umcg_segment_t, segment, segments, umcg_segment_close)
KEPT(umcg_segment_sem_t, segment_sem, segment_sems, umcg_segment_sem_free)
KEPT(umcg_segment_event_t, segment_event, segment_events, umcg_segment_event_free)

static inline void keep_local(umcg_local_t *made)
{
    keep_in_local(made);
}

/* A tube whose messages are larger than the buffer cannot be used here. */
static inline void keep_tube(Tube *made, size_t size)
{
    if (size > LARGEST || !keep_in_tube(made))
        umcg_tube_destroy(made);
}

static size_t segment_tube_size;

static inline void keep_segment_tube(umcg_segment_tube_t *made)
{
    if (segment_tube_size > LARGEST || !keep_in_segment_tube(made))
        umcg_segment_tube_free(made);
}

static inline void keep_runtime(umcg_rt_t *made)
{
    if (made)
        PROMISED(umcg_rt_stop(made, UMCG_NO_TIMEOUT) == 0);
}

static inline void keep_place(void *made)
{
    if (made)
        place = made;
}

static inline void joined(umcg_worker_t *worker, int result)
{
    for (int i = 0; result == 0 && i < ROOM; i++)
        if (workers[i] == worker)
            workers[i] = NULL;
}

/* ---- Arguments ---- */

static inline uint64_t a_number(struct input *in)
{
    static const uint64_t odd[] = {
        0, 1, 2, 3, 7, 64, 255, INT_MAX, (uint64_t)INT_MIN, UINT32_MAX, UINT64_MAX, UINT64_MAX - 1};
    unsigned which = pick(in, 24);
    return which < 12 ? odd[which] : which < 20 ? byte(in) : (uint64_t)byte(in) << pick(in, 57);
}

static inline int may_be_for_ever(void)
{
    return is_worker && shields == 0;
}

static inline uint64_t a_deadline(struct input *in)
{
    switch (pick(in, 5)) {
    case 0: return may_be_for_ever() ? UMCG_NO_TIMEOUT : UMCG_POLL;
    case 1: return UMCG_POLL;
    case 2: return umcg_after_ns(0) - 1000000;
    default: return umcg_after_ns(1000u * byte(in));
    }
}

static inline size_t a_count(struct input *in)
{
    return pick(in, MESSAGES + 1);
}

static inline int a_count_of(struct input *in)
{
    static const int odd[] = {-1, INT_MIN, 0};
    unsigned which = pick(in, OPS + 4);
    return which <= OPS ? (int)which : odd[which - OPS - 1];
}

static inline size_t a_size(struct input *in)
{
    static const size_t sizes[] = {
        0, 1, 4, 8, 24, 1024, 1025, LARGEST, SIZE_MAX, SIZE_MAX / 2, (size_t)1 << 40};
    size_t size = sizes[pick(in, 11)];
    segment_tube_size = size;
    return size;
}

static inline uint32_t a_capacity(struct input *in)
{
    static const uint32_t capacities[] = {0, 1, 2, 3, 16, UINT32_MAX, 1u << 28, 5};
    return capacities[pick(in, 8)];
}

static inline char *a_buffer(struct input *in)
{
    return pick(in, 8) ? buffer : NULL;
}

static inline void *a_place(struct input *in)
{
    return pick(in, 2) ? place : pick(in, 4) ? buffer : NULL;
}

static inline int *an_int(struct input *in)
{
    static int result;
    return pick(in, 4) ? &result : NULL;
}

static inline uint64_t *a_long(struct input *in)
{
    static uint64_t result;
    return pick(in, 4) ? &result : NULL;
}

static inline const uint32_t *a_lasting_word(struct input *in)
{
    switch (pick(in, 12)) {
    case 0: return NULL;
    case 1: return (const uint32_t *)(const void *)((const char *)words + 1);
    case 2: return none;
    case 3: return only_read;
    case 4: return (const uint32_t *)(uintptr_t)8;
    case 5: return (const uint32_t *)(UINTPTR_MAX - 3);
    default: return &words[pick(in, ROOM)];
    }
}

static inline const uint32_t *a_word(struct input *in)
{
    if (!pick(in, 8))
        words[pick(in, ROOM)] = pick(in, 3);
    return a_lasting_word(in);
}

static inline umcg_futex_word_t *some_words(struct input *in)
{
    static umcg_futex_word_t list[OPS];
    for (int i = 0; i < OPS; i++) {
        umcg_futex_word_t made = {&words[pick(in, ROOM)], pick(in, 8) ? 0 : 1, (int)pick(in, 2)};
        list[i] = made;
    }
    if (!pick(in, 3)) {
        unsigned at = pick(in, OPS);
        list[at].word = a_lasting_word(in);
        list[at].flags = (int)pick(in, 4);
    }
    return pick(in, 10) ? list : pick(in, 2) ? NULL : (umcg_futex_word_t *)(void *)none;
}

static inline Sem *a_sem(struct input *in)
{
    return OBJECT(sems);
}

static inline Sem **some_sems(struct input *in)
{
    static Sem *list[OPS];
    for (int i = 0; i < OPS; i++)
        list[i] = pick(in, 10) ? &sems[pick(in, ROOM)] : NULL;
    return pick(in, 10) ? list : NULL;
}

static inline umcg_segment_sem_t **some_segment_sems(struct input *in)
{
    static umcg_segment_sem_t *list[OPS];
    for (int i = 0; i < OPS; i++)
        list[i] = segment_sems[pick(in, ROOM)];
    return pick(in, 10) ? list : NULL;
}

static inline umcg_nt_t **some_objects(struct input *in)
{
    static umcg_nt_t *list[OPS];
    for (int i = 0; i < OPS; i++)
        list[i] = objects[pick(in, pick(in, 3) ? LASTING : ROOM)];
    return pick(in, 10) ? list : NULL;
}

static inline Talt *some_talts(struct input *in)
{
    static Talt list[OPS];
    for (int i = 0; i < OPS; i++) {
        list[i].t = tubes[pick(in, LASTING)];
        list[i].m = pick(in, 10) ? buffer : NULL;
        list[i].op = (int)pick(in, 6);
    }
    return pick(in, 10) ? list : NULL;
}

/* An operation with an object that stays, or with none. */
static umcg_op_t lasting_op(struct input *in)
{
    umcg_op_t op = UMCG_NEVER;
    op.kind = (int)pick(in, 11) - (pick(in, 20) ? 0 : 3);
    if (!pick(in, 10))
        return op;
    switch (op.kind) {
    case UMCG_OP_ACQUIRE: op.object = &sems[pick(in, ROOM)]; break;
    case UMCG_OP_TIME: op.value = a_deadline(in); break;
    case UMCG_OP_END: op.kind = UMCG_OP_NONE; break;
    case UMCG_OP_SEND:
    case UMCG_OP_RECEIVE: op.object = tubes[pick(in, LASTING)], op.value = (uintptr_t)buffer; break;
    case UMCG_OP_LOCK: op.object = &mutexes[pick(in, ROOM)]; break;
    case UMCG_OP_EVENT: op.object = &events[pick(in, ROOM)]; break;
    case UMCG_OP_READ:
    case UMCG_OP_WRITE:
        op.value = (uint64_t)(int64_t)(pick(in, 3)   ? sockets[pick(in, 2)]
                                       : pick(in, 2) ? -1
                                                     : 999999);
        break;
    default: break;
    }
    return op;
}

static inline umcg_op_t *some_lasting_ops(struct input *in)
{
    static umcg_op_t list[OPS];
    for (int i = 0; i < OPS; i++)
        list[i] = lasting_op(in);
    return pick(in, 10) ? list : NULL;
}

static inline umcg_op_t *some_ops(struct input *in)
{
    umcg_op_t *list = some_lasting_ops(in);
    umcg_worker_t *worker = workers[pick(in, ROOM)];
    if (list && worker && pick(in, 2)) {
        umcg_op_t end = UMCG_ENDED(worker);
        list[pick(in, OPS)] = end;
    }
    return list;
}

static int a_socket(struct input *in)
{
    static const int wrong[] = {-1, INT_MIN, 999999, INT_MAX};
    unsigned which = pick(in, 8);
    return which < 2 ? pipes[which] : which < 4 ? sockets[which - 2] : wrong[which - 4];
}

static inline int a_descriptor(struct input *in)
{
    return a_socket(in);
}

/* The numbers of pipes that are closed are used for new ones at once. */
static inline int a_descriptor_to_close(struct input *in)
{
    int fd = a_socket(in);
    if (fd == sockets[0] || fd == sockets[1])
        return -1;
    for (int i = 0; i < 2; i++)
        if (fd == pipes[i])
            pipes[i] = -1;
    return fd;
}

static inline const char *a_path(struct input *in)
{
    static const char *const paths[] = {NULL, "", "/no/such/file", "/dev/null", "/proc/self/exe",
                                        "/"};
    return paths[pick(in, 6)];
}

static inline const char *a_name(struct input *in)
{
    static const char long_name[] =
        "0123456789012345678901234567890123456789012345678901234567890123456789";
    static const char *const names[] = {NULL, "",         "a",       "b",
                                        "c",  "\xff\xfe", long_name, long_name + 6};
    return names[pick(in, 8)];
}

static inline struct sockaddr *an_address(struct input *in)
{
    static struct sockaddr_storage address;
    address.ss_family = (sa_family_t)pick(in, 3);
    return pick(in, 3) ? (struct sockaddr *)&address : NULL;
}

static inline socklen_t *a_length(struct input *in)
{
    static socklen_t length;
    length = sizeof(struct sockaddr_storage);
    (void)in;
    return &length;
}

static inline umcg_worker_t *a_worker_or_self(struct input *in)
{
    return pick(in, 8) || !is_worker ? a_worker(in) : self;
}

static inline umcg_handle_t a_handle(struct input *in)
{
    return pick(in, 8) ? umcg_self() : NULL;
}

static inline void *scratch(struct input *in)
{
    static uint64_t memory[64];
    return pick(in, 4) ? memory : NULL;
}

static inline umcg_rt_options_t *an_rt_option(struct input *in)
{
    static umcg_rt_options_t options;
    umcg_rt_options_t first = UMCG_RT_OPTIONS_INIT;
    options = first;
    options.servers = 1;
    switch (pick(in, 8)) {
    case 0: options.size = a_number(in) % (sizeof options + 1); break;
    case 1: options.stack_size = a_number(in); break;
    case 2: options.servers = pick(in, 2) ? -1 : 1025; break;
    case 3: options.scheduler = (int)a_number(in); break;
    case 4: options.driver = (int)a_number(in); break;
    case 5: options.pin = (int)a_number(in); break;
    case 6: options.name = a_name(in); break;
    default: options.reserved = 1; break;
    }
    return &options;
}

static inline umcg_spawn_attr_t *an_attribute(struct input *in)
{
    static umcg_spawn_attr_t attribute;
    umcg_spawn_attr_t first = UMCG_SPAWN_ATTR_INIT;
    attribute = first;
    switch (pick(in, 8)) {
    case 0: attribute.size = a_number(in) % (sizeof attribute + 1); break;
    case 1: attribute.stack_size = a_number(in); break;
    case 2: attribute.priority = (int)a_number(in); break;
    case 3: attribute.server = (int)a_number(in); break;
    case 4: attribute.own_tls = (int)a_number(in); break;
    case 5: attribute.deadline_ns = a_number(in); break;
    case 6: attribute.name = a_name(in); break;
    default: return NULL;
    }
    return &attribute;
}

static inline umcg_segment_options_t *an_option(struct input *in)
{
    static umcg_segment_options_t options;
    umcg_segment_options_t first = UMCG_SEGMENT_OPTIONS_INIT;
    options = first;
    options.objects = 8, options.waiters = 16, options.processes = 4, options.bytes = 4096;
    switch (pick(in, 6)) {
    case 0: options.objects = (uint32_t)a_number(in); break;
    case 1: options.waiters = (uint32_t)a_number(in); break;
    case 2: options.processes = (uint32_t)a_number(in); break;
    case 3: options.bytes = a_number(in); break;
    default: break;
    }
    return pick(in, 8) ? &options : NULL;
}

static void *returns(void *arg)
{
    return arg;
}

static void initializes(void)
{
    umcg_yield();
}

static inline void *(*a_function(struct input *in))(void *)
{
    return pick(in, 6) ? returns : NULL;
}

static inline void (*an_initializer(struct input *in))(void)
{
    return pick(in, 6) ? initializes : NULL;
}

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
