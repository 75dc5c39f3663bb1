// SPDX-License-Identifier: MIT OR Apache-2.0
// Threads are cancelled while a timer's signals interrupt them all the time: the cancellation comes
// on top of the first instruction of a handler, too. Each of them unwinds to its end.
#include "check.h"

#define ROUNDS 40
#define THREADS 4

static sem_t begun;
static int unwound[THREADS];

static void on_signal(int) {}

struct Noted {
    int at;
    explicit Noted(int given) : at(given) {}
    ~Noted() { __atomic_fetch_add(&unwound[at], 1, __ATOMIC_SEQ_CST); }
};

struct Pipe {
    int ends[2];
    Pipe() { MUST(pipe(ends) == 0); }
    ~Pipe() { MUST(close(ends[0]) == 0 && close(ends[1]) == 0); }
};

struct Timer {
    timer_t timer;

    Timer()
    {
        struct sigevent event = {};
        struct itimerspec time = {};

        event.sigev_notify = SIGEV_THREAD_ID;
        event.sigev_signo = SIGUSR1;
        event._sigev_un._tid = static_cast<int>(syscall(SYS_gettid));
        MUST(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
        time.it_value.tv_nsec = time.it_interval.tv_nsec = 50000;
        MUST(timer_settime(timer, 0, &time, nullptr) == 0);
    }
    ~Timer() { MUST(timer_delete(timer) == 0); }
};

static void *goes_on(void *arg)
{
    Noted noted(static_cast<int>(reinterpret_cast<intptr_t>(arg)));
    Pipe own;
    Timer timer;
    char byte = 0;

    OK(sem_post(&begun));
    for (;;) {
        MUST(write(own.ends[1], &byte, 1) == 1);
        MUST(read(own.ends[0], &byte, 1) == 1);
    }
}

int main()
{
    struct sigaction action = {};

    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    MUST(sigaction(SIGUSR1, &action, nullptr) == 0);
    OK(sem_init(&begun, 0, 0));
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t threads[THREADS];

        for (intptr_t at = 0; at < THREADS; at++)
            threads[at] = spawn(goes_on, reinterpret_cast<void *>(at));
        for (int at = 0; at < THREADS; at++)
            down(&begun);
        for (int at = 0; at < THREADS; at++)
            OK(pthread_cancel(threads[at]));
        for (int at = 0; at < THREADS; at++) {
            MUST(join(threads[at]) == PTHREAD_CANCELED);
            MUST(unwound[at] == round + 1);
        }
    }
    SHOWN("all unwound");
}
