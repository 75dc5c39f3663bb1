/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Light workers: attributes, many at once, deep stacks, creating from everywhere. */
#include "worker.h"

static void end_at_once(struct worker *self)
{
    self->steps++;
}

static void attributes(void)
{
    struct worker w = {.kind = LIGHT, .index = 1, .body = end_at_once};
    char name[16] = "copied";
    umcg_light_attr_t attr = {.stack_size = 0, .name = name};
    umcg_light_attr_t zero = {0, NULL};
    umcg_light_attr_t tiny = {1, NULL};
    umcg_light_attr_t huge = {SIZE_MAX, NULL};
    umcg_light_attr_t absurd = {SIZE_MAX / 2 + 1, NULL};
    const umcg_light_attr_t *const good[] = {NULL, &attr, &zero, &tiny};

    for (int i = 0; i < 4; i++) {
        w.steps = 0;
        w.tid = umcg_light_create(ID(1), worker_light, &w, good[i]);
        MUST(w.tid > 0);
        memset(name, 'x', sizeof name - 1); /* the name was copied */
        EXPECT("WAKE", EV(&w, UMCG_WE_WAKE));
        finish(&w);
        CHECK("it ran once", w.steps == 1);
    }
    errno = 0;
    CHECK("an impossible stack size", umcg_light_create(ID(1), worker_light, &w, &huge) == -1 &&
                                          (errno == EINVAL || errno == ENOMEM));
    errno = 0;
    CHECK("another", umcg_light_create(ID(1), worker_light, &w, &absurd) == -1 &&
                         (errno == EINVAL || errno == ENOMEM));
    FAILS("no function", EINVAL, umcg_light_create(ID(1), NULL, &w, NULL));
    FAILS("low bits in the id", EINVAL, umcg_light_create(ID(1) | 1, worker_light, &w, NULL));
    NO_EVENT("nothing of those that failed");
}

/* Uses a good part of the stack it asked for. */
static int deep(int levels)
{
    volatile char frame[1024];
    frame[0] = (char)levels;
    frame[1023] = 1;
    return levels == 0 ? 0 : deep(levels - 1) + frame[1023];
}

static void goes_deep(struct worker *self)
{
    self->result = deep(self->steps);
    WAIT_IN_WORKER(0);
    self->result += deep(self->steps);
}

static void stacks(void)
{
    for (size_t kib = 64; kib <= 8192; kib *= 4) {
        struct worker w = {.kind = LIGHT, .index = kib, .body = goes_deep};
        umcg_light_attr_t attr = {kib * 1024, "deep"};
        w.steps = (int)(kib / 2); /* a frame is a little more than a KiB */
        w.tid = umcg_light_create(ID(kib), worker_light, &w, &attr);
        MUST(w.tid > 0);
        EXPECT("WAKE", EV(&w, UMCG_WE_WAKE));
        RUN("WAIT", &w, UMCG_WE_WAIT);
        finish(&w);
        CHECK("the stack is as large as asked for", w.result == 2 * (int)(kib / 2));
    }
}

static int left;

static void waits_a_few_times(struct worker *self)
{
    for (int i = 0; i < 3; i++) {
        self->steps++;
        self->result |= WAIT_IN_WORKER(0);
    }
    left--;
}

static void many(int count)
{
    struct worker *w = (struct worker *)calloc((size_t)count, sizeof *w);

    MUST(w);
    left = count;
    for (int i = 0; i < count; i++) {
        w[i].kind = LIGHT, w[i].index = (uint64_t)i, w[i].body = waits_a_few_times;
        start(&w[i]);
        CHECK("tids differ", i == 0 || w[i].tid != w[i - 1].tid);
    }
    for (int i = 0; i < count; i++)
        EXPECT("WAKE in order", EV(&w[i], UMCG_WE_WAKE));
    for (int turn = 0; turn < 3; turn++)
        for (int i = 0; i < count; i++)
            RUN("WAIT", &w[i], UMCG_WE_WAIT);
    for (int i = 0; i < count; i++)
        RUN("EXIT", &w[i], UMCG_WE_EXIT);
    for (int i = 0; i < count; i++)
        MUST(w[i].steps == 3 && w[i].result == 0);
    CHECK("all came to their end", left == 0);
    free(w);
}

/* Made by a plain thread, by a light worker and by a thread worker. */
static struct worker child;

static void *makes_from_a_thread(void *arg)
{
    (void)arg;
    start(&child);
    return NULL;
}

static void makes(struct worker *self)
{
    start(&child);
    self->steps++;
}

static void from_everywhere(void)
{
    pthread_t thread;

    child.kind = LIGHT, child.index = 2, child.body = end_at_once;
    MUST(pthread_create(&thread, NULL, makes_from_a_thread, NULL) == 0 &&
         pthread_join(thread, NULL) == 0);
    EXPECT("WAKE", EV(&child, UMCG_WE_WAKE));
    finish(&child);
    for (int i = THREAD; i <= LIGHT; i++) {
        struct worker maker = {.kind = (enum kind)i, .index = 1, .body = makes};
        start_ready(&maker);
        finish(&maker);
        EXPECT("WAKE", EV(&child, UMCG_WE_WAKE));
        finish(&child);
        CHECK("made once", maker.steps == 1);
    }
    CHECK("it ran each time", child.steps == 3);
}

static void names(struct worker *self)
{
    self->result = umcg_set_name("a name of its own");
    FAILS("no name", EINVAL, umcg_set_name(NULL));
}

static void naming(void)
{
    for (int i = THREAD; i <= LIGHT; i++) {
        struct worker w = {.kind = (enum kind)i, .index = 1, .body = names};
        w.result = -1;
        start_ready(&w);
        finish(&w);
        CHECK("a worker can name itself", w.result == 0);
    }
    FAILS("a server is no worker", EINVAL, umcg_set_name("server"));
}

int main(void)
{
    check_start(60);
    begin_server();
    attributes();
    stacks();
    many(check_count("UMCG_TEST_UTHS", 20000) / 2);
    many(100); /* on stacks that were used before */
    from_everywhere();
    naming();
    end_server();
    return check_done();
}
