// C++: four std::thread producers and four consumers over a channel that has room for one, made of
// std::mutex and std::condition_variable, started anew through std::async for every batch. An
// operation is a message.
#include "common.h"
#include <condition_variable>
#include <future>
#include <mutex>
#include <numeric>
#include <optional>
#include <thread>
#include <vector>

namespace {

class Channel {
public:
    void put(std::uint64_t value)
    {
        std::unique_lock<std::mutex> guard(lock);
        has_room.wait(guard, [this] { return !slot; });
        slot = value;
        has_some.notify_one();
    }

    // Nothing once the channel is closed and empty.
    std::optional<std::uint64_t> take()
    {
        std::unique_lock<std::mutex> guard(lock);
        has_some.wait(guard, [this] { return slot || is_closed; });
        std::optional<std::uint64_t> value;
        value.swap(slot);
        has_room.notify_one();
        return value;
    }

    void close()
    {
        std::lock_guard<std::mutex> guard(lock);
        is_closed = true;
        has_some.notify_all();
    }

private:
    std::mutex lock;
    std::condition_variable has_room, has_some;
    std::optional<std::uint64_t> slot;
    bool is_closed = false;
};

constexpr unsigned PAIRS = 4;
constexpr std::uint64_t EACH = 64;

// Sends EACH messages from each producer; the sum of all that the consumers got.
std::uint64_t batch()
{
    Channel channel;
    std::vector<std::future<std::uint64_t>> consumers;
    std::vector<std::thread> producers;
    for (unsigned i = 0; i < PAIRS; i++) {
        consumers.push_back(std::async(std::launch::async, [&channel] {
            std::uint64_t sum = 0;
            while (auto value = channel.take())
                sum += *value;
            return sum;
        }));
        producers.emplace_back([&channel, i] {
            for (std::uint64_t n = 0; n < EACH; n++)
                channel.put(i * EACH + n);
        });
    }
    for (auto &producer : producers)
        producer.join();
    channel.close();
    return std::accumulate(consumers.begin(), consumers.end(), std::uint64_t{0},
                           [](std::uint64_t sum, auto &future) { return sum + future.get(); });
}

} // namespace

int main(int argc, char **argv)
{
    const std::uint64_t messages = PAIRS * EACH, expected = messages * (messages - 1) / 2;
    pace pace = pace_of(argument(argc, argv, 1, 1), 0);
    while (goes_on(&pace))
        CHECK(batch() == expected);
    std::printf("sum %llu\n", static_cast<unsigned long long>(expected));
    report_pace(&pace, messages);
}
