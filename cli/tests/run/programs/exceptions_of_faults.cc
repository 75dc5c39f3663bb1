// SPDX-License-Identifier: MIT OR Apache-2.0
// Exceptions that handlers of faults throw, from the instruction that the fault has interrupted.
// run: flags -fnon-call-exceptions
#include "check.h"
#include <initializer_list>
#include <sys/mman.h>

namespace {

constexpr int threads = 4, rounds = 20;

volatile int *bad_place(int signal)
{
    static char *page = [] {
        // A page behind the end of its file.
        FILE *file = tmpfile();
        void *at = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fileno(file), 0);

        MUST(at != MAP_FAILED);
        return static_cast<char *>(at);
    }();

    return reinterpret_cast<volatile int *>(signal == SIGBUS ? page : reinterpret_cast<char *>(8));
}

void throws(int signal)
{
    sigset_t set;

    OK(sigemptyset(&set));
    OK(sigaddset(&set, signal));
    OK(pthread_sigmask(SIG_UNBLOCK, &set, nullptr));
    throw signal;
}

__attribute__((noinline)) int read_at(const volatile int *place)
{
    return *place + 1;
}

void *faults(void *arg)
{
    for (int round = 0; round < rounds; round++) {
        for (int signal : {SIGSEGV, SIGBUS}) {
            int caught = 0;

            try {
                read_at(bad_place(signal));
            } catch (int thrown) {
                caught = thrown;
            }
            MUST(caught == signal);
        }
        usleep(20);
    }
    return arg;
}

} // namespace

int main()
{
    struct sigaction action = {};

    action.sa_handler = throws;
    OK(sigaction(SIGSEGV, &action, nullptr));
    OK(sigaction(SIGBUS, &action, nullptr));
    in_threads(threads, faults);
    SHOWN("threads");
    faults(nullptr);
    SHOWN("the first thread");
    return 0;
}
