/* Two threads wake each other through a futex word each. An operation is there and back. */
#include "common.h"
#include <linux/futex.h>
#include <stdatomic.h>
#include <sys/syscall.h>

static _Atomic uint32_t ping, pong;
static atomic_int is_over;

static void raise_word(_Atomic uint32_t *word)
{
    atomic_store(word, 1);
    CHECK(syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0) >= 0);
}

static void take_word(_Atomic uint32_t *word)
{
    while (atomic_exchange(word, 0) == 0) {
        long rc = syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
        CHECK(rc == 0 || errno == EAGAIN || errno == EINTR);
    }
}

static void *answers(void *count)
{
    for (;;) {
        take_word(&ping);
        if (atomic_load(&is_over))
            return NULL;
        ++*(uint64_t *)count;
        raise_word(&pong);
    }
}

int main(int argc, char **argv)
{
    uint64_t answered = 0;
    pthread_t other = start_thread(answers, &answered);
    struct pace pace = pace_of(argument(argc, argv, 1, 1), 15);
    while (goes_on(&pace)) {
        raise_word(&ping);
        take_word(&pong);
    }
    report_pace(&pace, 1);
    atomic_store(&is_over, 1);
    raise_word(&ping);
    join_thread(other);
    CHECK(answered == pace.begun);
    return 0;
}
