// SPDX-License-Identifier: MIT OR Apache-2.0
// Cancellation and pthread_exit unwind a C++ stack: destructors run, catch (...) sees it pass, and
// thread_local objects are destroyed after that.
#include "check.h"
#include <cxxabi.h>
#include <vector>

static sem_t begun, never;
static std::vector<int> order;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;

struct Noted {
    int number;
    explicit Noted(int given) : number(given) {}
    ~Noted() { order.push_back(number); }
};

static thread_local Noted last(100);

struct Held {
    Held() { OK(pthread_mutex_lock(&mutex)); }
    ~Held() { OK(pthread_mutex_unlock(&mutex)); }
};

enum Where { SLEEPS, WAITS_FOR_SEM, WAITS_FOR_COND, READS, EXITS };

static void wait_there(Where where)
{
    int ends[2];
    char byte;

    Noted noted(0);
    switch (where) {
    case SLEEPS:
        sleep(1000);
        break;
    case WAITS_FOR_SEM:
        sem_wait(&never);
        break;
    case WAITS_FOR_COND: {
        Held held;
        OK(sem_post(&begun));
        for (;;)
            pthread_cond_wait(&cond, &mutex);
    }
    case READS:
        MUST(pipe(ends) == 0);
        MUST(read(ends[0], &byte, 1) && 0);
        break;
    case EXITS:
        pthread_exit(nullptr);
    }
}

__attribute__((noinline)) static void go_deeper(int depth, Where where)
{
    Noted noted(depth);

    if (depth == 1)
        wait_there(where);
    else
        go_deeper(depth - 1, where);
}

static void *unwound(void *arg)
{
    Where where = static_cast<Where>(reinterpret_cast<intptr_t>(arg));

    last.number = 100 + where;
    try {
        if (where != WAITS_FOR_COND)
            OK(sem_post(&begun));
        go_deeper(3, where);
    } catch (abi::__forced_unwind &) {
        order.push_back(4);
        throw;
    } catch (...) {
        order.push_back(-1);
    }
    return arg;
}

int main()
{
    static const char *const names[] = {"sleep", "sem_wait", "pthread_cond_wait", "read",
                                        "pthread_exit"};

    OK(sem_init(&begun, 0, 0));
    OK(sem_init(&never, 0, 0));
    for (int where = SLEEPS; where <= EXITS; where++)
        for (int round = 0; round < 4; round++) {
            pthread_t thread = spawn(unwound, reinterpret_cast<void *>(intptr_t{where}));

            down(&begun);
            if (round % 2)
                sleep_ms(1);
            if (where != EXITS)
                OK(pthread_cancel(thread));
            MUST(join(thread) == (where == EXITS ? nullptr : PTHREAD_CANCELED));
            MUST((order == std::vector<int>{0, 1, 2, 3, 4, 100 + where}));
            order.clear();
            if (round == 3)
                SHOWN(names[where]);
        }
    OK(pthread_mutex_lock(&mutex));
    OK(pthread_mutex_unlock(&mutex));
    return 0;
}
