// Exceptions, and destructors when a thread is cancelled in a blocking call. Exits with 0 if right.
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <mutex>
#include <pthread.h>
#include <stdexcept>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

static int destroyed;
static int ends[2];

struct Guard {
    ~Guard() { __atomic_fetch_add(&destroyed, 1, __ATOMIC_RELAXED); }
};

static void *reads(void *)
{
    Guard outer;
    try {
        Guard inner;
        char byte;
        if (read(ends[0], &byte, 1) >= 0)
            std::puts("read something");
    } catch (...) {
        Guard caught;
        throw; // a forced unwinding goes on
    }
    return nullptr;
}

static void *sleeps(void *)
{
    Guard guard;
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, nullptr);
    for (;;)
        usleep(100000);
}

static void cancels(void *(*function)(void *), int expected)
{
    for (int i = 0; i < 10; i++) {
        destroyed = 0;
        pthread_t thread;
        void *result;
        pthread_create(&thread, nullptr, function, nullptr);
        usleep(2000);
        pthread_cancel(thread);
        pthread_join(thread, &result);
        if (result != PTHREAD_CANCELED || destroyed != expected)
            throw std::runtime_error("destroyed " + std::to_string(destroyed));
    }
}

static int fails(int depth)
{
    Guard guard;
    if (depth == 0)
        throw std::runtime_error("thrown, pid " + std::to_string(getpid()));
    return fails(depth - 1) + 1;
}

int main()
{
    if (pipe(ends) != 0)
        return 1;
    try {
        cancels(reads, 3);
        cancels(sleeps, 1);
    } catch (const std::exception &error) {
        std::puts(error.what());
        return 1;
    }
    destroyed = 0;
    for (int i = 0; i < 100; i++) {
        try {
            fails(10);
            return 1;
        } catch (const std::runtime_error &) {
        }
    }
    if (destroyed != 1100)
        return 1;
    std::mutex mutex;
    std::vector<std::thread> threads;
    long sum = 0;
    for (int i = 0; i < 8; i++)
        threads.emplace_back([&] {
            for (int j = 0; j < 10000; j++) {
                std::lock_guard<std::mutex> lock(mutex);
                sum++;
            }
        });
    for (auto &thread : threads)
        thread.join();
    if (sum != 80000)
        return 1;
    std::puts("ok");
    return 0;
}
