/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Events that cannot be written: EFAULT and never a SIGSEGV; a switch has been made all the same.
 */
#include <sys/mman.h>

#include "worker.h"

static struct worker a;
static long page_size;

static void wait_twice(struct worker *self)
{
    self->steps++;
    self->result |= WAIT_IN_WORKER(0);
    self->steps++;
    self->result |= WAIT_IN_WORKER(0);
    self->steps++;
}

/* The event that could not be stored may be lost; the worker is not. */
static void goes_on(const char *what)
{
    uint64_t event = poll_event();
    CHECK(what, event == 0 || event == EV(&a, UMCG_WE_WAIT));
    NO_EVENT("no event is doubled");
    CHECK("the worker has run", a.steps == 1);
    RUN("and can go on", &a, UMCG_WE_WAIT);
    finish(&a);
    CHECK("to its end", a.steps == 3 && a.result == 0);
}

static void switch_to(enum kind kind, uint64_t *events, int size, const char *what)
{
    memset(&a, 0, sizeof a);
    a.kind = kind, a.index = 1, a.body = wait_twice;
    start_ready(&a);
    FAILS(what, EFAULT, SWITCH(&a, events, size));
    goes_on(what);
}

/* A server's WAIT that cannot store: the event is not lost. */
static void wait_for(enum kind kind, uint64_t *events, const char *what)
{
    memset(&a, 0, sizeof a);
    a.kind = kind, a.index = 1, a.body = wait_twice;
    start(&a);
    while (umcg_ctl(0, UMCG_WAIT, a.tid, 0, NULL, 0) < 0)
        check_sleep_ms(1);
    FAILS(what, EFAULT, umcg_ctl(0, UMCG_WAIT, 0, UMCG_POLL, events, 2));
    EXPECT("the event is still there", EV(&a, UMCG_WE_WAKE));
    NO_EVENT("once");
    RUN("the worker can run", &a, UMCG_WE_WAIT);
    RUN("and go on", &a, UMCG_WE_WAIT);
    finish(&a);
}

int main(void)
{
    char *pages;
    uint64_t *read_only, *none, *last;

    check_start(30);
    page_size = sysconf(_SC_PAGESIZE);
    pages = (char *)mmap(NULL, (size_t)page_size * 3, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(pages != MAP_FAILED);
    MUST(mprotect(pages + page_size, (size_t)page_size, PROT_READ) == 0);
    MUST(mprotect(pages + 2 * page_size, (size_t)page_size, PROT_NONE) == 0);
    last = (uint64_t *)(void *)(pages + page_size) - 1;
    read_only = (uint64_t *)(void *)(pages + page_size);
    none = (uint64_t *)(void *)(pages + 2 * page_size);

    begin_server();
    for (int i = THREAD; i <= LIGHT; i++) {
        enum kind kind = (enum kind)i;
        switch_to(kind, NULL, 1, "CTX_SWITCH: events NULL, one slot");
        switch_to(kind, NULL, 8, "CTX_SWITCH: events NULL, eight slots");
        switch_to(kind, read_only, 1, "CTX_SWITCH: read-only events, one slot");
        switch_to(kind, read_only, 8, "CTX_SWITCH: read-only events, eight slots");
        switch_to(kind, none, 1, "CTX_SWITCH: inaccessible events");
        switch_to(kind, (uint64_t *)UINTPTR_MAX - 1, 1,
                  "CTX_SWITCH: events at the end of the address space");
        switch_to(kind, (uint64_t *)(UINTPTR_MAX / 2 - 1023), 4,
                  "CTX_SWITCH: events outside of user memory");
        wait_for(kind, NULL, "WAIT: events NULL");
        wait_for(kind, read_only, "WAIT: read-only events");
        wait_for(kind, none, "WAIT: inaccessible events");
    }

    /* Room for just one at the end of writable memory. */
    memset(&a, 0, sizeof a);
    a.index = 1, a.body = wait_twice;
    start_ready(&a);
    CHECK("one slot at the end of a page", SWITCH(&a, last, 1) == 0);
    check_event(__FILE__, __LINE__, "one slot at the end of a page", EV(&a, UMCG_WE_WAIT), *last);
    RUN("and go on", &a, UMCG_WE_WAIT);
    finish(&a);
    end_server();
    return check_done();
}
