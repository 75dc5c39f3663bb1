/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Stacks that overflow, by C that has no stack probes: it ends in a guard, and the message names
 * worker and function. */
#include "runtime.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-stack-clash-protection")
#endif

#define STACK (64 << 10)
#define WORKERS 40

static int words_were_changed;
static char text[32768];
static int frame; /* how large a frame the one that overflows has */

/* Touches the low end of its frame only, as code without probes does. */
#define CALLEE(bytes)                                          \
    __attribute__((noinline)) static int callee_##bytes(int n) \
    {                                                          \
        volatile char room[bytes];                             \
        for (int i = 0; i < 3000; i++) room[i] = 0x41;         \
        return room[n];                                        \
    }

CALLEE(66000)
CALLEE(73000)
CALLEE(90000)
CALLEE(105000)
CALLEE(224000) /* over the guard, and the next stack, into the guard below that */

static int (*const callees[])(int) = {callee_66000, callee_73000, callee_90000, callee_105000,
                                      callee_224000};

static void *victim(void *arg)
{
    volatile uint64_t words[512];
    int i;

    (void)arg;
    for (i = 0; i < 512; i++)
        words[i] = 0x1122334455667788;
    umcg_sleep_ns(100000000);
    for (i = 0; i < 512; i++)
        if (words[i] != 0x1122334455667788)
            add(&words_were_changed);
    return NULL;
}

static void *overflows(void *arg)
{
    (void)arg;
    umcg_sleep_ns(10000000);
    return (void *)(intptr_t)callees[frame](5);
}

static umcg_worker_t *spawn_one(umcg_rt_t *rt, function *fn, const char *name)
{
    umcg_spawn_attr_t attr = UMCG_SPAWN_ATTR_INIT;
    umcg_worker_t *worker;
    attr.own_tls = !is_light();
    attr.stack_size = STACK;
    attr.name = name;
    MUST((worker = umcg_spawn_attr(rt, &attr, fn, NULL)) != NULL);
    return worker;
}

static void among_others(void)
{
    umcg_rt_options_t own = options();
    umcg_rt_t *rt;
    umcg_worker_t *workers[WORKERS];
    int i;

    MUST((rt = umcg_rt_start(&own)) != NULL);
    for (i = 0; i < WORKERS; i++)
        workers[i] = i == WORKERS / 2 ? spawn_one(rt, overflows, "ophelia")
                                      : spawn_one(rt, victim, "victim");
    for (i = 0; i < WORKERS; i++)
        MUST(umcg_join(workers[i], NULL) == 0);
    CHECK("nobody's words were changed", words_were_changed == 0);
}

static void a_large_frame_ends_in_the_guard(void)
{
    for (frame = 0; frame < (int)(sizeof callees / sizeof *callees); frame++) {
        int status = check_child(among_others, text, sizeof text);
        int told = strstr(text, "worker `ophelia` overflowed its 64 KiB stack") != NULL;
        CHECK("the process dies by the fault", WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
        CHECK("the message names the worker", told);
        CHECK("and the way to larger stacks", strstr(text, "`stack_size`"));
        CHECK("and the function", strstr(text, "callee_"));
        if (!told)
            fprintf(stderr, "frame %d, status %#x: %s\n", frame, status, text);
    }
}

int main(void)
{
    check_start(60);
    a_large_frame_ends_in_the_guard();
    return check_done();
}
