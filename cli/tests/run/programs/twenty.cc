// SPDX-License-Identifier: MIT OR Apache-2.0
// Additions of C++20: waits for atomics, semaphores, latches, barriers, threads that are asked to
// stop.
#include "check.h"
#include <atomic>
#include <barrier>
#include <chrono>
#include <condition_variable>
#include <latch>
#include <mutex>
#include <semaphore>
#include <stop_token>
#include <thread>
#include <vector>

using namespace std::chrono_literals;

constexpr int threads = 6, turns = 200;

template <typename Body> static void in_team(Body body)
{
    std::vector<std::jthread> team;

    for (int at = 0; at < threads; at++)
        team.emplace_back(body, at);
}

// The token is an int, on which the library waits by a futex, or a long, on which it waits by a
// word of its own.
template <typename Token> static void atomics()
{
    std::atomic<Token> token = 0;

    in_team([&](int own) {
        for (int turn = 0; turn < turns; turn++) {
            Token seen;

            while ((seen = token.load()) % threads != own)
                token.wait(seen);
            token.store(seen + 1);
            token.notify_all();
        }
    });
    MUST(token == threads * turns);
}

static void flags()
{
    std::atomic_flag flag;
    std::atomic<int> seen = 0;

    std::jthread setter([&] {
        std::this_thread::sleep_for(2ms);
        flag.test_and_set();
        flag.notify_all();
    });
    in_team([&](int) {
        flag.wait(false);
        MUST(flag.test());
        seen++;
    });
    MUST(seen == threads);
}

static void semaphores()
{
    std::counting_semaphore<3> room(3);
    std::binary_semaphore mutex(1), never(0);
    std::atomic<int> inside = 0;
    int counter = 0;

    in_team([&](int) {
        for (int turn = 0; turn < turns; turn++) {
            room.acquire();
            MUST(++inside <= 3);
            mutex.acquire();
            counter++;
            mutex.release();
            if (turn % 20 == 0)
                std::this_thread::yield();
            inside--;
            room.release();
        }
    });
    MUST(counter == threads * turns);
    auto begin = std::chrono::steady_clock::now();
    MUST(!never.try_acquire() && !never.try_acquire_for(3ms));
    MUST(std::chrono::steady_clock::now() - begin >= 3ms);
}

static void meetings()
{
    std::latch started(threads), done(threads);
    int completions = 0;
    std::atomic<int> arrived = 0;
    std::barrier barrier(threads, [&]() noexcept { completions++; });

    in_team([&](int own) {
        started.arrive_and_wait();
        for (int turn = 0; turn < 50; turn++) {
            arrived++;
            barrier.arrive_and_wait();
            MUST(arrived >= threads * (turn + 1) && completions >= turn + 1);
            barrier.arrive_and_wait();
        }
        if (own == 0)
            barrier.arrive_and_drop();
        else
            barrier.arrive_and_wait();
        done.count_down();
    });
    done.wait();
    MUST(completions == 101);
}

static void stops()
{
    std::mutex mutex;
    std::condition_variable_any changed;
    bool ended = false;
    std::atomic<int> called = 0;

    {
        std::jthread waiting([&](std::stop_token token) {
            std::stop_callback callback(token, [&] { called++; });
            std::unique_lock lock(mutex);
            MUST(!changed.wait(lock, token, [] { return false; }));
            ended = true;
        });
        std::this_thread::sleep_for(1ms);
    }
    MUST(ended && called == 1);
}

int main()
{
    atomics<int>();
    atomics<long>();
    flags();
    SHOWN("atomics");
    semaphores();
    SHOWN("semaphores");
    meetings();
    SHOWN("latches and barriers");
    stops();
    SHOWN("stops");
    return 0;
}
