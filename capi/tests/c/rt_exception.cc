// SPDX-License-Identifier: MIT OR Apache-2.0 C++ exceptions in workers of a runtime: inside they
// work as anywhere, also across calls that switch; what leaves a worker's function ends the process
// by std::terminate, with the worker's name.
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime.h"
#include "umcg/sync.h"

struct Count {
    int *count;
    ~Count() { add(count); }
};

static int unwound;

static void thrower(int depth)
{
    Count count{&unwound};
    umcg_yield();
    if (depth == 0)
        throw std::runtime_error("from below");
    thrower(depth - 1);
}

// Each worker switches between the throw and the end of its handler: their exception state is their
// own.
static void *catches(void *)
{
    int caught = 0;
    for (int i = 0; i < 10; i++) {
        try {
            thrower(3);
        } catch (const std::runtime_error &error) {
            umcg_yield();
            try {
                umcg_sleep_ns(1000);
                throw;
            } catch (const std::exception &again) {
                caught += std::string(again.what()) == "from below" &&
                          std::string(error.what()) == again.what();
            }
        }
    }
    return reinterpret_cast<void *>(static_cast<intptr_t>(caught));
}

static void *throws_in_blocking(void *)
{
    throw std::logic_error("while blocking");
}

static void *inside(void *)
{
    std::vector<umcg_worker_t *> workers;
    for (int i = 0; i < 8; i++)
        workers.push_back(umcg_spawn(catches, nullptr));
    for (umcg_worker_t *worker : workers)
        CHECK("all were caught", joined(worker) == reinterpret_cast<void *>(10));
    CHECK("all destructors ran", unwound == 8 * 10 * 4);
    std::string what;
    try {
        umcg_blocking(throws_in_blocking, nullptr);
    } catch (const std::logic_error &error) {
        what = error.what();
    }
    CHECK("out of umcg_blocking", what == "while blocking");
    CHECK("and the worker runs on", umcg_yield() == 0);
    return nullptr;
}

// A function that an exception left was not done: the next caller or waiter does it.
static umcg_once_t once = UMCG_ONCE_INIT;
static int tries;

static void throws_at_first()
{
    int now = __atomic_add_fetch(&tries, 1, __ATOMIC_RELAXED);
    umcg_sleep_ns(200000);
    if (now < 4)
        throw std::runtime_error("not yet");
}

static void *tries_once(void *)
{
    try {
        return reinterpret_cast<void *>(static_cast<intptr_t>(umcg_once(&once, throws_at_first)));
    } catch (const std::runtime_error &) {
        umcg_yield();
        return &tries;
    }
}

static void *at_the_fourth_try(void *)
{
    std::vector<umcg_worker_t *> workers;
    int failed = 0;
    for (int i = 0; i < 8; i++)
        workers.push_back(umcg_spawn(tries_once, nullptr));
    for (umcg_worker_t *worker : workers) {
        void *result = joined(worker);
        failed += result == &tries;
        CHECK("done, or left", result == nullptr || result == &tries);
    }
    CHECK("once", failed == 3 && tries == 4 && umcg_once_is_done(&once) == 1);
    return nullptr;
}

static void *throws(void *)
{
    Count count{&unwound};
    umcg_yield();
    throw std::runtime_error("nobody catches this");
}

static void *throws_a_number(void *)
{
    throw 5;
}

// As std::async and its like do: not the object that was thrown, but another that leads to it.
static void *throws_again(void *)
{
    std::exception_ptr pointer = std::make_exception_ptr(std::logic_error("once more"));
    umcg_yield();
    std::rethrow_exception(pointer);
}

static void *rethrows(void *)
{
    try {
        thrower(2);
    } catch (const std::exception &) {
        umcg_yield();
        throw;
    }
    return nullptr;
}

static void aborts_in(const char *name, function *fn, int own_tls)
{
    umcg_spawn_attr_t attr = UMCG_SPAWN_ATTR_INIT;
    attr.name = name;
    attr.own_tls = own_tls;
    joined(umcg_spawn_attr(nullptr, &attr, fn, nullptr));
}

static void own() { aborts_in("emma", throws, 1); }
static void light() { aborts_in("olive", throws, 0); }
static void number() { aborts_in("five", throws_a_number, 1); }
static void again() { aborts_in("anna", throws_again, 1); }
static void once_more() { aborts_in("otto", rethrows, 1); }

// The program's own end: it finds the exception, on a stack that is as it was.
static void says_so()
{
    const char *state = unwound == 0 ? "nothing was unwound" : "destructors ran";
    try {
        throw;
    } catch (const std::exception &error) {
        fprintf(stderr, "%s: %s\n", error.what(), state);
    }
    abort();
}

static void own_handler()
{
    std::set_terminate(says_so);
    aborts_in("hanna", throws, 1);
}

static void destructor(void *)
{
    throw std::runtime_error("nobody catches this");
}

static void *has_local(void *)
{
    umcg_local_set(umcg_local_create(destructor), &unwound);
    umcg_set_name("lotta");
    return nullptr;
}

static void local() { joined(umcg_spawn(has_local, nullptr)); }

// The worker's name is printed, the type of the exception, and its what().
static void check_says(const char *what, void (*body)(void), const char *name, const char *type,
                       const char *text)
{
    check_aborts(what, body, name);
    check_aborts(what, body, "was left by an exception");
    check_aborts(what, body, type);
    if (text)
        check_aborts(what, body, text);
}

int main()
{
    check_start(60);
    check_says("an exception that leaves a worker", own, "emma", "runtime_error",
               "nobody catches this");
    check_says("an exception that leaves a light worker", light, "olive", "runtime_error",
               "nobody catches this");
    check_says("a number that is thrown", number, "five", "int", nullptr);
    check_says("an exception_ptr's", again, "anna", "logic_error", "once more");
    check_says("an exception that is thrown again", once_more, "otto", "runtime_error",
               "from below");
    check_says("an exception that leaves a worker-local's destructor", local, "lotta",
               "runtime_error", "nobody catches this");
    check_aborts("the program's handler", own_handler, "nobody catches this: nothing was unwound");
    in_runtime(inside, nullptr);
    in_runtime(at_the_fourth_try, nullptr);
    return check_done();
}
