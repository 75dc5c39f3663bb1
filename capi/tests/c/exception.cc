// SPDX-License-Identifier: MIT OR Apache-2.0 C++ exceptions: inside a worker or a uth they work as
// anywhere; what leaves an entry function ends the process by std::terminate, with its name.
#include <stdexcept>
#include <string>

#include "uth.h"
#include "worker.h"

static void thrower(int depth)
{
    if (depth == 0)
        throw std::runtime_error("from below");
    thrower(depth - 1);
}

// Thrown and caught inside; also with a switch between the throw and the end of the handler.
static void catches(struct worker *self)
{
    for (int i = 0; i < 3; i++) {
        try {
            thrower(5);
            self->error++;
        } catch (const std::runtime_error &error) {
            self->steps++;
            try {
                self->result |= WAIT_IN_WORKER(0);
                throw;
            } catch (const std::exception &again) {
                self->error += std::string(again.what()) != "from below" ||
                               std::string(error.what()) != again.what();
            }
        }
    }
}

static void inside(enum kind kind)
{
    struct worker a = {}, b = {};

    a.kind = b.kind = kind;
    a.index = 1, b.index = 2;
    a.body = b.body = catches;
    start_ready(&a);
    start_ready(&b);
    // each in its handler while the other throws: their exception state is their own
    if (kind == THREAD) {
        for (int i = 0; i < 3; i++) {
            RUN("WAIT in a handler", &a, UMCG_WE_WAIT);
            RUN("WAIT in a handler", &b, UMCG_WE_WAIT);
        }
        finish(&a);
        finish(&b);
    } else { // light workers share their server's, so one after the other
        for (struct worker *w : {&a, &b}) {
            for (int i = 0; i < 3; i++)
                RUN("WAIT in a handler", w, UMCG_WE_WAIT);
            finish(w);
        }
    }
    CHECK("each was caught", a.steps == 3 && b.steps == 3 && a.error == 0 && b.error == 0);
    CHECK("WAIT gave 0", a.result == 0 && b.result == 0);
}

// A destructor runs on the way to a handler, on a worker's stack.
struct Count {
    int *count;
    ~Count() { ++*count; }
};

static void unwinds(struct worker *self)
{
    try {
        Count one{&self->steps};
        Count two{&self->steps};
        thrower(1);
    } catch (...) {
        self->result = 1;
    }
}

static void destructors(enum kind kind)
{
    struct worker a = {};
    a.kind = kind, a.index = 1, a.body = unwinds;
    start_ready(&a);
    finish(&a);
    CHECK("destructors ran", a.steps == 2 && a.result == 1);
}

static void passes(void *)
{
    throw std::runtime_error("nobody catches this");
}

static void out_of_a_light_worker()
{
    umcg_light_attr_t attr = {0, "emma"};
    uint64_t events[2];

    begin_server();
    pid_t tid = umcg_light_create(ID(1), passes, nullptr, &attr);
    MUST(tid > 0);
    MUST(umcg_ctl(0, UMCG_WAIT, 0, 0, events, 2) == 0);
    umcg_ctl(0, UMCG_CTX_SWITCH, tid, 0, events, 2);
}

static void out_of_a_uth()
{
    uth_init(0);
    MUST(uth_vp_init(0) == 0);
    uth_t uth = uth_create(passes, nullptr);
    MUST(uth && uth_set_name(uth, "olive") == 0);
    uth_switchto(uth_self(), uth);
}

static void throws_out(struct worker *)
{
    umcg_set_name("wanda");
    throw std::runtime_error("nobody catches this");
}

// A thread worker is a pthread, and an exception that leaves a pthread's function ends in
// std::terminate.
static void out_of_a_thread_worker()
{
    static struct worker a = {};

    begin_server();
    a.index = 1, a.body = throws_out;
    start_ready(&a);
    run(&a);
}

static void inside_a_uth()
{
    uth_init(0);
    MUST(uth_vp_init(0) == 0);
    static int caught;
    uth_t uth = uth_create(
        [](void *) {
            try {
                thrower(3);
            } catch (const std::runtime_error &) {
                caught++;
            }
        },
        nullptr);
    uth_switchto(uth_self(), uth);
    CHECK("caught inside a uth", caught == 1);
    uth_delete(uth);
}

int main()
{
    check_start(60);
    for (const char *said :
         {"emma", "was left by an exception", "runtime_error", "nobody catches this"})
        check_aborts("an exception that leaves a light worker", out_of_a_light_worker, said);
    for (const char *said :
         {"olive", "was left by an exception", "runtime_error", "nobody catches this"})
        check_aborts("an exception that leaves a uth", out_of_a_uth, said);
    check_aborts("an exception that leaves a thread worker", out_of_a_thread_worker,
                 "nobody catches this");
    check_passes("an exception inside a uth", inside_a_uth);
    begin_server();
    inside(THREAD);
    inside(LIGHT);
    destructors(THREAD);
    destructors(LIGHT);
    end_server();
    return check_done();
}
