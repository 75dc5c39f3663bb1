/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* umcg_blocking_begin and umcg_blocking_end: BLOCK at once, WAKE when it is over, the worker's own
 * kernel identity between. */
#include <fcntl.h>

#include "worker.h"

static struct worker a, b;
static int ends[2];
static pid_t server_tid;

static void reset(enum kind kind, void (*body)(struct worker *))
{
    reset_pair(&a, &b, kind, body);
}

static void read_byte(struct worker *self)
{
    char byte = 0;
    pid_t kernel_tid;

    self->steps = 1;
    MUST(umcg_blocking_begin() == 0);
    kernel_tid = (pid_t)syscall(SYS_gettid);
    CHECK("a thread worker blocks on its home thread",
          self->kind == LIGHT || kernel_tid == self->tid);
    CHECK("nothing blocks on the server", kernel_tid != server_tid);
    CHECK("gettid is the worker's own", umcg_gettid() == self->tid);
    self->steps = 2;
    MUST(read(ends[0], &byte, 1) == 1);
    self->steps = 3;
    MUST(umcg_blocking_end() == 0);
    CHECK("gettid is still the worker's own", umcg_gettid() == self->tid);
    CHECK("what was read is there", byte == 'x');
    self->steps = 4;
}

/* Its helper or home thread may take long, on a busy machine. */
static void await_read(void)
{
    while (__atomic_load_n(&a.steps, __ATOMIC_ACQUIRE) < 2)
        check_sleep_ms(1);
}

static void one_block(enum kind kind)
{
    uint64_t list[2];

    reset(kind, read_byte);
    start_ready(&a);
    RUN("BLOCK is the result of the switch", &a, UMCG_WE_BLOCK);
    await_read();
    CHECK("the worker is in its read", a.steps == 2);
    FAILS("no event while it blocks", ETIMEDOUT, umcg_ctl(0, UMCG_WAIT, 0, UMCG_POLL, list, 2));
    FAILS("a BLOCKED worker cannot be switched to", EINVAL, SWITCH(&a, list, 2));
    MUST(write(ends[1], "x", 1) == 1);
    EXPECT("WAKE when it is over", EV(&a, UMCG_WE_WAKE));
    NO_EVENT("once");
    check_sleep_ms(10);
    CHECK("it does not go on by itself", a.steps == 3);
    finish(&a);
    CHECK("it came to its end", a.steps == 4);
}

static void *write_later(void *arg)
{
    await_read();
    check_sleep_ms(10);
    *(int *)arg = a.steps;
    MUST(write(ends[1], "x", 1) == 1);
    return NULL;
}

/* A server's WAIT for a worker: until it is not BLOCKED, and the WAKE comes all the same. */
static void wait_for_worker(enum kind kind)
{
    pthread_t writer;
    int steps_then = 0;

    reset(kind, read_byte);
    start_ready(&a);
    CHECK("WAIT for a RUNNABLE worker returns at once",
          umcg_ctl(0, UMCG_WAIT, a.tid, 0, NULL, 0) == 0);
    RUN("BLOCK", &a, UMCG_WE_BLOCK);
    MUST(pthread_create(&writer, NULL, write_later, &steps_then) == 0);
    CHECK("WAIT for a BLOCKED worker", umcg_ctl(0, UMCG_WAIT, a.tid, 0, NULL, 0) == 0);
    CHECK("returned when it was not BLOCKED any more", a.steps == 3);
    CHECK("WAIT again returns at once", umcg_ctl(0, UMCG_WAIT, a.tid, 0, NULL, 0) == 0);
    MUST(pthread_join(writer, NULL) == 0);
    CHECK("and waited until then", steps_then == 2);
    EXPECT("the WAKE still comes", EV(&a, UMCG_WE_WAKE));
    NO_EVENT("once");
    finish(&a);
}

static void run_b_meanwhile_body(struct worker *self)
{
    self->steps++;
    self->result |= WAIT_IN_WORKER(0);
    MUST(write(ends[1], "x", 1) == 1);
    self->steps++;
}

/* The server runs on: another worker, on the same server, ends the block. */
static void server_runs_on(enum kind kind, enum kind other)
{
    reset(kind, read_byte);
    b.kind = other;
    b.body = run_b_meanwhile_body;
    start_ready(&a);
    start_ready(&b);
    RUN("BLOCK", &a, UMCG_WE_BLOCK);
    RUN("b runs while a blocks", &b, UMCG_WE_WAIT);
    check_event(__FILE__, __LINE__, "b to its end", EV(&b, UMCG_WE_EXIT), run(&b));
    join(&b);
    EXPECT("a's WAKE", EV(&a, UMCG_WE_WAKE));
    finish(&a);
    CHECK("a came to its end", a.steps == 4);
}

static void keep_errno(struct worker *self)
{
    MUST(umcg_blocking_begin() == 0);
    self->result = (int)read(-1, self, 1);
    MUST(umcg_blocking_end() == 0);
    self->error = check_errno();
    MUST(umcg_blocking_begin() == 0);
    check_set_errno(EXDEV);
    MUST(umcg_blocking_end() == 0);
    self->steps = check_errno();
}

static void error_of_the_call(enum kind kind)
{
    reset(kind, keep_errno);
    start_ready(&a);
    for (int i = 0; i < 2; i++) {
        RUN("BLOCK", &a, UMCG_WE_BLOCK);
        EXPECT("WAKE", EV(&a, UMCG_WE_WAKE));
    }
    finish(&a);
    CHECK("errno of the call can be read after the scope",
          a.result == -1 && a.error == EBADF && a.steps == EXDEV);
}

static void nests(struct worker *self)
{
    FAILS("an end without a scope", EINVAL, umcg_blocking_end());
    MUST(umcg_blocking_begin() == 0);
    MUST(umcg_blocking_begin() == 0);
    FAILS("WAIT inside a scope", EINVAL, WAIT_IN_WORKER(0));
    FAILS("CTX_SWITCH inside a scope", EINVAL, SWITCH(&b, NULL, 0));
    self->steps++;
    MUST(umcg_blocking_end() == 0);
    CHECK("the inner end does not end the scope", (pid_t)syscall(SYS_gettid) != server_tid);
    self->steps++;
    MUST(umcg_blocking_end() == 0);
    FAILS("an end too many", EINVAL, umcg_blocking_end());
    self->steps++;
}

static void nested(enum kind kind)
{
    reset(kind, nests);
    b.body = keep_errno;
    b.kind = LIGHT;
    start_ready(&b);
    start_ready(&a);
    RUN("BLOCK", &a, UMCG_WE_BLOCK);
    EXPECT("one WAKE", EV(&a, UMCG_WE_WAKE));
    NO_EVENT("and no other");
    CHECK("when the outermost scope ended", a.steps == 2);
    finish(&a);
    CHECK("it came to its end", a.steps == 3);
    for (int i = 0; i < 2; i++) {
        RUN("b is as it was", &b, UMCG_WE_BLOCK);
        EXPECT("WAKE", EV(&b, UMCG_WE_WAKE));
    }
    finish(&b);
}

static void block_often(struct worker *self)
{
    for (int i = 0; i < 200; i++) {
        MUST(umcg_blocking_begin() == 0);
        self->steps++;
        MUST(umcg_blocking_end() == 0);
    }
}

static void often(enum kind kind)
{
    enum { COUNT = 6 };
    struct worker w[COUNT];
    int blocks[COUNT] = {0}, wakes[COUNT] = {0}, ended = 0, running = 0;

    memset(w, 0, sizeof w);
    for (int i = 0; i < COUNT; i++) {
        w[i].kind = kind, w[i].index = (uint64_t)i, w[i].body = block_often;
        start(&w[i]);
    }
    while (ended < COUNT) {
        uint64_t event = next_event();
        struct worker *next = &w[UMCG_EVENT_WORKER(event) >> UMCG_WORKER_ID_SHIFT];
        MUST(UMCG_EVENT_TYPE(event) == UMCG_WE_WAKE);
        running = (int)(next - w);
        wakes[running]++;
        event = run(next);
        if (event == EV(next, UMCG_WE_EXIT))
            ended++;
        else if (event == EV(next, UMCG_WE_BLOCK))
            blocks[running]++;
        else
            check_event(__FILE__, __LINE__, "BLOCK or EXIT", EV(next, UMCG_WE_BLOCK), event);
    }
    for (int i = 0; i < COUNT; i++) {
        join(&w[i]);
        CHECK("a BLOCK for each scope", blocks[i] == 200);
        CHECK("a WAKE for each, and one for the start", wakes[i] == 201);
        CHECK("each came to its end", w[i].steps == 200);
    }
    NO_EVENT("and nothing else");
}

/* Outside a worker the scope means nothing, so that code for workers can be used anywhere. */
static void outside_a_worker(void)
{
    char byte = 0;
    CHECK("begin on a server", umcg_blocking_begin() == 0);
    MUST(write(ends[1], "y", 1) == 1);
    CHECK("blocking on a server", read(ends[0], &byte, 1) == 1 && byte == 'y');
    CHECK("end on a server", umcg_blocking_end() == 0);
    NO_EVENT("no events of it");
}

int main(void)
{
    check_start(60);
    MUST(pipe(ends) == 0);
    server_tid = (pid_t)syscall(SYS_gettid);
    CHECK("begin on a plain thread", umcg_blocking_begin() == 0);
    CHECK("end on a plain thread", umcg_blocking_end() == 0);
    begin_server();
    for (int i = THREAD; i <= LIGHT; i++) {
        enum kind kind = (enum kind)i;
        one_block(kind);
        wait_for_worker(kind);
        server_runs_on(kind, THREAD);
        server_runs_on(kind, LIGHT);
        often(kind);
        nested(kind);
        error_of_the_call(kind);
    }
    outside_a_worker();
    end_server();
    return check_done();
}
