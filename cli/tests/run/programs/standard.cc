// SPDX-License-Identifier: MIT OR Apache-2.0
// The threads of the C++ library: mutexes of all kinds, condition variables, futures, call_once,
// thread_local objects with destructors, static objects made by several threads at once.
#include "check.h"
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <numeric>
#include <shared_mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using namespace std::chrono_literals;

constexpr int threads = 8;

template <typename Body> static void in_team(Body body)
{
    std::vector<std::thread> team;

    for (int at = 0; at < threads; at++)
        team.emplace_back(body, at);
    for (auto &thread : team)
        thread.join();
}

template <typename Mutex> static void exclusion()
{
    Mutex mutex;
    int counter = 0;

    in_team([&](int) {
        for (int turn = 0; turn < 500; turn++) {
            std::lock_guard<Mutex> guard(mutex);
            counter++;
            if (turn % 50 == 0)
                std::this_thread::yield();
        }
    });
    MUST(counter == threads * 500);
}

static void timed_locks()
{
    std::timed_mutex mutex;
    std::shared_timed_mutex shared;
    std::lock_guard guard(mutex);
    std::shared_lock reading(shared);

    std::thread([&] {
        auto begin = std::chrono::steady_clock::now();
        MUST(!mutex.try_lock() && !mutex.try_lock_for(3ms));
        MUST(!shared.try_lock_until(begin + 6ms) && shared.try_lock_shared());
        MUST(std::chrono::steady_clock::now() - begin >= 6ms);
        shared.unlock_shared();
    }).join();
}

static void conditions()
{
    std::mutex mutex;
    std::condition_variable_any any;
    std::condition_variable changed;
    std::deque<int> queue;
    long sum = 0;
    bool closed = false;

    std::thread consumer([&] {
        std::unique_lock lock(mutex);
        for (;;) {
            changed.wait(lock, [&] { return !queue.empty() || closed; });
            if (queue.empty())
                return;
            sum += queue.front();
            queue.pop_front();
            any.notify_one();
        }
    });
    for (int item = 1; item <= 1000; item++) {
        std::unique_lock lock(mutex);
        any.wait(lock, [&] { return queue.size() < 5; });
        queue.push_back(item);
        changed.notify_one();
    }
    {
        std::lock_guard lock(mutex);
        closed = true;
    }
    changed.notify_all();
    consumer.join();
    MUST(sum == 500500);
    std::unique_lock lock(mutex);
    MUST(changed.wait_for(lock, 2ms, [] { return false; }) == false);
    MUST(changed.wait_until(lock, std::chrono::system_clock::now() + 2ms) ==
         std::cv_status::timeout);
}

static int sum_of(const std::vector<int> &values, std::size_t from, std::size_t to)
{
    if (to - from < 100)
        return std::accumulate(values.begin() + long(from), values.begin() + long(to), 0);
    std::size_t middle = (from + to) / 2;
    auto left = std::async(std::launch::async, sum_of, std::cref(values), from, middle);
    int right = sum_of(values, middle, to);
    return left.get() + right;
}

static void futures()
{
    std::vector<int> values(2000);
    std::promise<std::string> promise;
    std::shared_future<std::string> shared = promise.get_future().share();
    std::vector<std::future<std::size_t>> waiting;
    std::packaged_task<int(int)> task([](int value) { return value + 1; });
    auto result = task.get_future();

    std::iota(values.begin(), values.end(), 0);
    MUST(sum_of(values, 0, values.size()) == 1999000);
    for (int at = 0; at < threads; at++)
        waiting.push_back(std::async(std::launch::async, [=] { return shared.get().size(); }));
    MUST(shared.wait_for(1ms) == std::future_status::timeout);
    promise.set_value("seven");
    for (auto &one : waiting)
        MUST(one.get() == 5);
    auto failing = std::async(std::launch::async, []() -> int { throw std::range_error("far"); });
    try {
        failing.get();
        MUST(!"an exception");
    } catch (const std::range_error &error) {
        MUST(std::string(error.what()) == "far");
    }
    std::thread(std::move(task), 41).join();
    MUST(result.get() == 42);
}

static std::atomic<int> constructed, destroyed, initialised;

struct Counted {
    int value = 0;
    Counted() { constructed++; }
    ~Counted() { destroyed += value == 3; }
};

static thread_local Counted counted;
static thread_local std::string text = "initial";

static Counted &made_once()
{
    static Counted object = [] {
        std::this_thread::sleep_for(2ms);
        initialised++;
        return Counted();
    }();
    return object;
}

static void storage()
{
    std::once_flag flag, failing;
    std::atomic<int> calls = 0, attempts = 0;

    in_team([&](int own) {
        counted.value = 1;
        MUST(text == "initial");
        text += std::to_string(own);
        std::this_thread::sleep_for(100us);
        counted.value += 2;
        MUST(text == "initial" + std::to_string(own));
        MUST(&made_once() == &made_once());
        std::call_once(flag, [&] { calls++; });
        try {
            std::call_once(failing, [&] {
                if (attempts++ < 2)
                    throw 5;
            });
        } catch (int value) {
            MUST(value == 5);
        }
    });
    MUST(destroyed == threads && initialised == 1 && calls == 1 && attempts == 3);
}

int main()
{
    exclusion<std::mutex>();
    exclusion<std::recursive_mutex>();
    exclusion<std::timed_mutex>();
    exclusion<std::shared_mutex>();
    timed_locks();
    SHOWN("mutexes");
    conditions();
    SHOWN("condition variables");
    futures();
    SHOWN("futures");
    storage();
    SHOWN("storage");
    return 0;
}
