/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The arguments of the calls that `calls` makes, from the bytes of an input. */
#ifndef ARGUMENTS_H
#define ARGUMENTS_H

#include "objects.h"

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

#endif /* ARGUMENTS_H */
