/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Every method with every way to recycle, each in a child of its own: create, switch,
 * re-initialise, delete. */
#include <stdint.h>

#include "check.h"
#include "uth.h"

#define COUNT 100
#define ROUNDS 20

static uth_options_t chosen;
static uth_t self, uths[COUNT];
static int steps[COUNT], ended[COUNT];

/* Keeps values of every kind over the switches. */
static void body(void *arg)
{
    int mine = (int)(intptr_t)arg;
    double half = mine + 0.5;
    uint64_t bits = (uint64_t)mine * 0x9e3779b97f4a7c15u;
    char text[32];

    snprintf(text, sizeof text, "uth %d", mine);
    for (;;) {
        steps[mine]++;
        uth_switchto(uth_self(), self);
        MUST(half == mine + 0.5 && bits == (uint64_t)mine * 0x9e3779b97f4a7c15u);
        MUST(atoi(text + 4) == mine && uth_getarg(uth_self()) == (void *)(intptr_t)mine);
    }
}

static void ends(void *arg)
{
    ended[(intptr_t)arg]++;
}

/* From one uth to the next, round the ring, and back to the VP's own thread. */
static void ring(void *arg)
{
    int mine = (int)(intptr_t)arg;
    for (int round = 0; round < ROUNDS; round++) {
        steps[mine]++;
        uth_switchto(uth_self(), mine == COUNT - 1 ? self : uths[mine + 1]);
    }
}

static void all(void)
{
    if (uth_init_options(&chosen) < 0) {
        fprintf(stderr, "not in this build: %s\n", strerror(errno));
        exit(errno == ENOSYS ? 77 : 1);
    }
    MUST(uth_vp_init(0) == 0);
    self = uth_self();
    for (int round = 0; round < ROUNDS; round++) {
        memset(steps, 0, sizeof steps);
        memset(ended, 0, sizeof ended);
        for (int i = 0; i < COUNT; i++)
            MUST((uths[i] = uth_create(body, (void *)(intptr_t)i)) != NULL);
        for (int turn = 0; turn < 3; turn++)
            for (int i = 0; i < COUNT; i++)
                uth_switchto(self, uths[i]);
        for (int i = 0; i < COUNT; i++) {
            MUST(steps[i] == 3);
            uth_reinit(uths[i], ends, (void *)(intptr_t)i); /* in the middle */
            uth_switchto(self, uths[i]);
            MUST(ended[i] == 1);
            uth_reinit(uths[i], ends, (void *)(intptr_t)i); /* finished */
            uth_switchto(self, uths[i]);
            MUST(ended[i] == 2);
            uth_reinit(uths[i], ring, (void *)(intptr_t)i);
        }
        memset(steps, 0, sizeof steps);
        for (int turn = 0; turn < ROUNDS; turn++)
            uth_switchto(self, uths[0]);
        for (int i = 0; i < COUNT; i++)
            MUST(steps[i] == ROUNDS);
        for (int i = 0; i < COUNT; i++)
            uth_delete(uths[i]);
    }
}

int main(void)
{
    static const char *const methods[] = {"asm", "sjlj", "mcsc"}, *const recycles[] = {
                                                                      "per VP", "global", "off"};
    static char text[8192];
    int skipped = 0;

    check_start(120);
    for (int method = UTH_METHOD_ASM; method <= UTH_METHOD_MCSC; method++) {
        for (int recycle = UTH_RECYCLE_PER_VP; recycle <= UTH_RECYCLE_OFF; recycle++) {
            int status;
            chosen.method = method;
            chosen.recycle = recycle;
            chosen.stack_size = recycle == UTH_RECYCLE_GLOBAL ? 32768 : 0;
            status = check_child(all, text, sizeof text);
            skipped += WIFEXITED(status) && WEXITSTATUS(status) == 77;
            if (WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 77))
                continue;
            fprintf(stderr, "FAILED: method %s, recycling %s: status %#x, said:\n%s\n",
                    methods[method], recycles[recycle], status, text);
            check_failures++;
        }
    }
    CHECK("assembly is in every build", skipped <= 6);
    return check_done();
}
