/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Asking workers to end: each cancellable call fails with ECANCELED, before it waits and out of its
 * wait; others do not. */
#include <arpa/inet.h>
#include <netinet/in.h>

#include "runtime.h"

/* One worker in one call. */
struct call {
    int which;
    int begun;
    int fd, listener;
    umcg_worker_t *child;
};

enum {
    SLEEP,
    SLEEP_UNTIL,
    PARK,
    PARK_UNTIL,
    HAND_OVER,
    YIELD,
    JOIN_UNTIL,
    READ,
    RECV,
    WRITE,
    SEND,
    ACCEPT,
    POLL_EVER,
    POLL_TIMED,
    CALLS
};

static char large[1 << 20];

static long makes(struct call *call)
{
    switch (call->which) {
    case SLEEP: return umcg_sleep_ns(UINT64_MAX);
    case SLEEP_UNTIL: return umcg_sleep_until_ns(UINT64_MAX);
    case PARK: return umcg_park();
    case PARK_UNTIL: return umcg_park_until(in_ms(60000));
    case HAND_OVER: return umcg_hand_over(umcg_worker_handle(call->child));
    case YIELD: return umcg_yield();
    case JOIN_UNTIL: return umcg_join_until(call->child, NULL, UMCG_NO_TIMEOUT);
    case READ: return umcg_read(call->fd, large, 1);
    case RECV: return umcg_recv(call->fd, large, 1, MSG_PEEK);
    case WRITE: return umcg_write(call->fd, large, sizeof large);
    case SEND: return umcg_send(call->fd, large, sizeof large, 0);
    case ACCEPT: return umcg_accept(call->listener, NULL, NULL, 0);
    case POLL_EVER: return umcg_poll_fd(call->fd, POLLIN, UMCG_NO_TIMEOUT);
    case POLL_TIMED: return umcg_poll_fd(call->fd, POLLIN, in_ms(60000));
    }
    return 0;
}

static void *is_cut_short(void *arg)
{
    struct call *call = (struct call *)arg;
    char what[32];
    long result;

    snprintf(what, sizeof what, "call %d", call->which);
    add(&call->begun);
    do { /* parking may return without a reason, and a write may take a part */
        check_set_errno(0);
        result = makes(call);
    } while (result != -1);
    CHECK(what, check_errno() == ECANCELED);
    CHECK("it says so", umcg_cancelled() == 1);
    FAILS(what, ECANCELED, makes(call)); /* and from now on at once */
    return call;
}

static void *waits_long(void *arg)
{
    (void)arg;
    while (umcg_sleep_ns(UINT64_MAX) == 0)
        ;
    return NULL;
}

static int listening(void)
{
    struct sockaddr_in address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    memset(&address, 0, sizeof address);
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    MUST(fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
         listen(fd, 8) == 0);
    return fd;
}

static void *each_call(void *arg)
{
    (void)arg;
    for (int which = 0; which < CALLS; which++) {
        for (int waits = 0; waits < 2; waits++) {
            struct call call = {which, 0, -1, listening(), spawn(waits_long, NULL)};
            umcg_worker_t *worker;
            int ends[2];

            MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
            call.fd = ends[0];
            worker = spawn(is_cut_short, &call);
            if (waits) { /* it has begun, and most probably waits */
                await(&call.begun, 1);
                umcg_sleep_ns(200000);
            }
            CHECK("abort", umcg_abort(worker) == 0);
            CHECK("it ends", joined(worker) == &call);
            CHECK("abort", umcg_abort(call.child) == 0 && joined(call.child) == NULL);
            CHECK("close", umcg_close(ends[0]) == 0 && umcg_close(ends[1]) == 0 &&
                               umcg_close(call.listener) == 0);
        }
    }
    return NULL;
}

static void *computes(void *arg)
{
    add((int *)arg);
    while (!umcg_cancelled())
        umcg_critical_begin(), umcg_critical_end();
    return NULL;
}

static void *begins_anyhow(void *arg)
{
    add((int *)arg);
    return umcg_cancelled() ? arg : NULL;
}

/* A call that is not cancellable waits on, and so does every call in a shield. */
static void *stays(void *arg)
{
    int *words = (int *)arg;
    umcg_worker_t *child = spawn(waits_long, NULL);

    FAILS("no shield", EINVAL, umcg_shield_end());
    CHECK("shield", umcg_shield_begin() == 0 && umcg_shield_begin() == 0);
    add(&words[0]);
    while (!umcg_cancelled())
        CHECK("sleeps on", umcg_sleep_ns(100000) == 0);
    CHECK("in a shield", umcg_sleep_ns(100000) == 0 && umcg_yield() == 0 && umcg_shield_end() == 0);
    FAILS("in the outer one", ETIMEDOUT, umcg_join_until(child, NULL, in_ms(1)));
    FAILS("in the outer one", ETIMEDOUT, (umcg_park_until(UMCG_POLL), umcg_park_until(UMCG_POLL)));
    CHECK("end", umcg_shield_end() == 0);
    FAILS("no shield any more", EINVAL, umcg_shield_end());
    FAILS("cancelled now", ECANCELED, umcg_sleep_ns(1));
    add(&words[1]);
    CHECK("join is not cut short", umcg_abort(child) == 0 && joined(child) == NULL);
    return NULL;
}

static void *not_at_all(void *arg)
{
    (void)arg;
    FAILS("no shield", EINVAL, umcg_shield_end());
    CHECK("shield", umcg_shield_begin() == 0 && umcg_sleep_ns(1) == 0 && umcg_shield_end() == 0);
    return NULL;
}

static void *others(void *arg)
{
    int words[2] = {0, 0}, count = 0;
    umcg_worker_t *worker = spawn(computes, &words[0]), *many[50];

    (void)arg;
    if (check_count("UMCG_TEST_SERVERS", 2) > 1) /* it does not give way */
        await(&words[0], 1);
    umcg_abort(worker);
    joined(worker);
    words[0] = 0;
    worker = spawn(stays, words);
    await(&words[0], 1);
    umcg_abort(worker);
    joined(worker);
    CHECK("came to its end", words[1] == 1);
    for (int i = 0; i < 50; i++) {
        many[i] = spawn(begins_anyhow, &count);
        umcg_abort(many[i]);
        umcg_abort(many[i]);
    }
    for (int i = 0; i < 50; i++)
        joined(many[i]);
    CHECK("who is aborted first begins all the same", count == 50);
    worker = spawn(begins_anyhow, &count);
    while (umcg_join_until(worker, NULL, UMCG_POLL) != 0)
        umcg_yield();
    worker = spawn(begins_anyhow, &count);
    await(&count, 52);
    CHECK("abort of one that may have ended", umcg_abort(worker) == 0 && umcg_detach(worker) == 0);
    joined(spawn(not_at_all, NULL));
    return NULL;
}

/* Sections that a plain thread does not need: each begin and each end succeeds, in any order and
 * number. */
static void *plainly(void *arg)
{
    static const struct section {
        const char *begins, *ends;
        int (*begin)(void), (*end)(void);
    } sections[] = {
        {"umcg_shield_begin", "umcg_shield_end", umcg_shield_begin, umcg_shield_end},
        {"umcg_critical_begin", "umcg_critical_end", umcg_critical_begin, umcg_critical_end},
        {"umcg_blocking_begin", "umcg_blocking_end", umcg_blocking_begin, umcg_blocking_end},
    };
    for (unsigned i = 0; i < sizeof sections / sizeof *sections; i++) {
        const struct section *s = &sections[i];
        check_set_errno(EXDEV);
        CHECK(s->ends, s->end() == 0);
        CHECK(s->begins, s->begin() == 0 && s->begin() == 0);
        CHECK("may wait", umcg_sleep_ns(1) == 0 && umcg_yield() == 0);
        /* A wait that succeeds may change errno, for example where the kernel lacks a call. */
        check_set_errno(EXDEV);
        CHECK(s->ends, s->end() == 0 && s->end() == 0 && s->end() == 0);
        CHECK("errno is kept", check_errno() == EXDEV);
    }
    CHECK("umcg_cancelled", umcg_cancelled() == 0);
    FAILS("umcg_set_name", EINVAL, umcg_set_name("a name"));
    return arg;
}

static void in_thread(void)
{
    pthread_t thread;
    MUST(pthread_create(&thread, NULL, plainly, NULL) == 0);
    thread_joined(thread);
}

static void *thread_beside(void *arg)
{
    in_thread();
    return arg;
}

/* A section that a blocking scope began, too: its worker is not one of the thread's. */
static void *thread_in_blocking(void *arg)
{
    CHECK("a scope", umcg_blocking_begin() == 0);
    in_thread();
    CHECK("a scope", umcg_blocking_end() == 0);
    FAILS("no scope", EINVAL, umcg_blocking_end());
    FAILS("no section", EINVAL, umcg_critical_end());
    return arg;
}

int main(void)
{
    check_start(60);
    plainly(NULL);
    in_thread();
    in_runtime(thread_beside, NULL);
    in_runtime(thread_in_blocking, NULL);
    plainly(NULL);
    in_runtime(each_call, NULL);
    in_runtime(others, NULL);
    return check_done();
}
