// SPDX-License-Identifier: MIT OR Apache-2.0
// Exceptions: through many frames in many threads at once, with waits in destructors and handlers,
// from one thread to another, from a frame above a signal handler; uncaught ones end the program.
#include "check.h"
#include <exception>
#include <execinfo.h>
#include <new>
#include <stdexcept>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <vector>

constexpr int threads = 8, depth = 60;

struct Waits {
    int *counter;
    ~Waits()
    {
        if (++*counter % 16 == 0)
            usleep(10);
    }
};

__attribute__((noinline)) static int throws(int left, int *counter)
{
    Waits waits{counter};

    if (left == 0)
        throw std::runtime_error(std::to_string(*counter));
    return throws(left - 1, counter) + 1;
}

static void *catches(void *arg)
{
    for (int turn = 0; turn < 30; turn++) {
        int counter = 0;

        try {
            throws(depth, &counter);
            MUST(!"an exception");
        } catch (const std::exception &error) {
            MUST(counter == depth + 1 && std::string(error.what()) == "0");
            sched_yield();
            MUST(std::uncaught_exceptions() == 0);
            /* One more, with this one still there. */
            try {
                usleep(10);
                throw 7;
            } catch (int value) {
                MUST(value == 7);
            }
            MUST(std::string(error.what()) == "0");
        }
    }
    return arg;
}

static void to_another_thread()
{
    std::exception_ptr passed;

    std::thread([&] {
        try {
            throw std::out_of_range("there");
        } catch (...) {
            passed = std::current_exception();
        }
    }).join();
    try {
        std::rethrow_exception(passed);
    } catch (const std::out_of_range &error) {
        MUST(std::string(error.what()) == "there");
    }
}

/* Frames of the thread down to its beginning: the unwinder gets through calls that wait. */
static int frames_in_handler;

static void handler(int)
{
    void *frames[64];

    frames_in_handler = backtrace(frames, 64);
}

static void *is_seen(void *arg)
{
    void *frames[8];

    backtrace(frames, 8);
    OK(pthread_kill(pthread_self(), SIGUSR1));
    MUST(frames_in_handler >= 4);
    return arg;
}

static void not_caught()
{
    pid_t child = fork();

    if (child == 0) {
        struct rlimit none = {0, 0};

        setrlimit(RLIMIT_CORE, &none);
        MUST(dup2(open("/dev/null", O_WRONLY), 2) == 2);
        std::thread([] { throw 1; }).join();
        _exit(0);
    }
    int status = status_of(child);
    MUST(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

static void bad_allocation()
{
    std::thread([] {
        try {
            volatile std::size_t size = ~std::size_t(0) / 4;
            void *volatile room = ::operator new(size);
            MUST(room == nullptr);
        } catch (const std::bad_alloc &) {
            SHOWN("no memory");
        }
    }).join();
}

int main()
{
    struct sigaction action = {};

    in_threads(threads, catches);
    SHOWN("in many threads");
    to_another_thread();
    SHOWN("to another thread");
    action.sa_handler = handler;
    OK(sigaction(SIGUSR1, &action, nullptr));
    join(spawn(is_seen, nullptr));
    SHOWN("backtraces");
    not_caught();
    SHOWN("not caught");
    bad_allocation();
    return 0;
}
