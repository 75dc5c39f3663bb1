// SPDX-License-Identifier: MIT OR Apache-2.0 What is a thread's own stays a thread worker's own
// while it moves between servers: thread_local objects, errno, an exception that is being handled,
// malloc, stdio and locale state, pthread_self.
#include <atomic>
#include <semaphore.h>
#include <stdexcept>
#include <string>
#include <vector>

#include "worker.h"

namespace {

constexpr int SERVERS = 3, WORKERS = 4, TURNS = 50;

std::atomic<int> constructed, destroyed;

struct Counted {
    std::vector<int> values;
    Counted() { constructed++; }
    ~Counted() { destroyed++; }
};

thread_local Counted counted;
thread_local int number = 42;

struct worker workers[WORKERS];
sem_t turns[SERVERS];
int ended, moved;

void in_handler(struct worker *self, int i)
{
    try {
        throw std::runtime_error(std::to_string(self->index * 1000 + static_cast<uint64_t>(i)));
    } catch (const std::runtime_error &) {
        self->result |= WAIT_IN_WORKER(0);
        try {
            throw; // the exception that this worker is handling, and not that of another
        } catch (const std::runtime_error &error) {
            CHECK("its own exception",
                  std::stoull(error.what()) == self->index * 1000 + static_cast<uint64_t>(i));
        }
    }
}

void body(struct worker *self)
{
    const int *address = &number;
    const pthread_t me = pthread_self();
    pid_t last = static_cast<pid_t>(syscall(SYS_gettid));

    number = static_cast<int>(self->index);
    for (int i = 0; i < TURNS; i++) {
        counted.values.push_back(i);
        char *text = static_cast<char *>(malloc(100 + static_cast<size_t>(i)));
        memset(text, 'x', 100);
        errno = static_cast<int>(self->index) + i;
        self->result |= WAIT_IN_WORKER(0);
        CHECK("errno", errno == static_cast<int>(self->index) + i);
        CHECK("the address of a thread_local", &number == address);
        CHECK("its value", number == static_cast<int>(self->index));
        CHECK("an object with a constructor",
              counted.values.size() == static_cast<size_t>(i) + 1 && counted.values.back() == i);
        CHECK("pthread_self", pthread_equal(pthread_self(), me));
        free(text);
        in_handler(self, i);
        pid_t now = static_cast<pid_t>(syscall(SYS_gettid));
        __atomic_add_fetch(&moved, now != last, __ATOMIC_RELAXED);
        last = now;
    }
    self->steps++;
}

// The servers take turns; in each turn a server runs every worker once.
void *server(void *arg)
{
    int me = static_cast<int>(reinterpret_cast<intptr_t>(arg));
    uint64_t event;

    MUST(umcg_ctl(0, UMCG_REGISTER_SERVER, 0, 0, nullptr, 0) == 0);
    number = -1 - me;
    for (bool over = false; !over;) {
        MUST(sem_wait(&turns[me]) == 0);
        for (auto &w : workers) {
            if (w.keeps)
                continue;
            errno = 1000 + me;
            MUST(SWITCH(&w, &event, 1) == 0);
            CHECK("the server's own errno", errno == 1000 + me);
            CHECK("the server's own thread_local", number == -1 - me);
            w.keeps = event == EV(&w, UMCG_WE_EXIT);
            ended += w.keeps;
            if (!w.keeps)
                check_event(__FILE__, __LINE__, "WAIT", EV(&w, UMCG_WE_WAIT), event);
        }
        over = ended == WORKERS;
        sem_post(&turns[(me + 1) % SERVERS]);
    }
    MUST(umcg_ctl(0, UMCG_UNREGISTER, 0, 0, nullptr, 0) == 0);
    return nullptr;
}

} // namespace

int main()
{
    pthread_t threads[SERVERS];

    check_start(60);
    begin_server();
    for (int i = 0; i < WORKERS; i++) {
        workers[i].index = static_cast<uint64_t>(i) + 1;
        workers[i].body = body;
        start_ready(&workers[i]);
    }
    end_server();
    for (auto &turn : turns)
        MUST(sem_init(&turn, 0, 0) == 0);
    for (int i = 0; i < SERVERS; i++)
        MUST(pthread_create(&threads[i], nullptr, server,
                            reinterpret_cast<void *>(static_cast<intptr_t>(i))) == 0);
    sem_post(&turns[0]);
    for (auto thread : threads)
        MUST(pthread_join(thread, nullptr) == 0);
    for (auto &w : workers) {
        join(&w);
        CHECK("each came to its end", w.steps == 1 && w.result == 0);
    }
    CHECK("each thread's object was made once and destroyed once",
          constructed == WORKERS && destroyed == WORKERS);
    if (!getenv("UMCG_NO_FSGSBASE"))
        CHECK("the workers did move", moved > TURNS);
    return check_done();
}
