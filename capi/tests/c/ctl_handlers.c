/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The program's own signal handlers, in workers that are preempted: a running handler is left
 * alone, however it was installed. */
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "worker.h"

enum { PAGE = 4096, PAGES = 6, WORKERS = 2, WORDS = 256 };

static char *lazy;
static int flags, nested, handled, damaged, unlike, active, most_active;

static int is_blocked(int sig)
{
    sigset_t mask;

    MUST(pthread_sigmask(SIG_BLOCK, NULL, &mask) == 0);
    return sigismember(&mask, sig);
}

/* Commits memory on its first use. Runs for longer than the interval, with data on its stack. */
static void commits(int sig, siginfo_t *info, void *context)
{
    volatile uint64_t mine[WORDS];
    uint64_t tag = (uint64_t)(uintptr_t)info->si_addr;
    char *page = (char *)((uintptr_t)info->si_addr & ~(uintptr_t)(PAGE - 1));
    int now = ++active;

    (void)context;
    if (page < lazy || page >= lazy + 2 * WORKERS * PAGES * PAGE)
        _exit(3);
    if (now > most_active)
        most_active = now;
    unlike += is_blocked(SIGUSR2) != 1 || is_blocked(sig) != !(flags & SA_NODEFER);
    for (int i = 0; i < WORDS; i++)
        mine[i] = tag ^ (uint64_t)i;
    /* The pages of the second half are for this. */
    if (nested && page < lazy + WORKERS * PAGES * PAGE)
        page[WORKERS * PAGES * PAGE] = 1;
    check_spin_ms(20);
    for (int i = 0; i < WORDS; i++)
        damaged += mine[i] != (tag ^ (uint64_t)i);
    MUST(mprotect(page, PAGE, PROT_READ | PROT_WRITE) == 0);
    handled++;
    active--;
}

static void touches(struct worker *self)
{
    char *mine = lazy + self->index * PAGES * PAGE;

    for (int i = 0; i < PAGES; i++) {
        mine[i * PAGE] = 1;
        self->error += is_blocked(SIGUSR2) || is_blocked(SIGSEGV);
    }
    self->steps++;
}

static int commits_lazily(void)
{
    struct sigaction action;
    struct worker w[WORKERS];
    int left = WORKERS, is_over[WORKERS] = {0};

    lazy = (char *)mmap(NULL, 2 * WORKERS * PAGES * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS,
                        -1, 0);
    MUST(lazy != MAP_FAILED);
    memset(&action, 0, sizeof action);
    action.sa_sigaction = commits;
    action.sa_flags = SA_SIGINFO | flags;
    sigaddset(&action.sa_mask, SIGUSR2);
    MUST(sigaction(SIGSEGV, &action, NULL) == 0);
    MUST(umcg_set_preemption(1000000) == 0);
    MUST(umcg_ctl(0, UMCG_REGISTER_SERVER, 0, 0, NULL, 0) == 0);
    memset(w, 0, sizeof w);
    for (int i = 0; i < WORKERS; i++) {
        w[i].kind = LIGHT, w[i].index = (uint64_t)i, w[i].body = touches;
        start_ready(&w[i]);
    }
    for (int i = 0; left; i = (i + 1) % WORKERS) {
        uint64_t event;
        if (is_over[i])
            continue;
        event = run(&w[i]);
        MUST(event == EV(&w[i], UMCG_WE_EXIT) || event == EV(&w[i], UMCG_WE_PREEMPT));
        CHECK("nobody is taken off in a handler", active == 0);
        is_over[i] = event == EV(&w[i], UMCG_WE_EXIT);
        left -= is_over[i];
    }
    CHECK("each page was committed by the handler, once",
          handled == WORKERS * PAGES * (nested ? 2 : 1));
    CHECK("no handler's frames were overwritten", damaged == 0);
    CHECK("one handler at a time", most_active == (nested ? 2 : 1));
    CHECK("it blocks what it was installed with", unlike == 0);
    for (int i = 0; i < WORKERS; i++)
        CHECK("and no more afterwards", w[i].error == 0 && w[i].steps == 1);
    end_server();
    return check_done();
}

static void counts(int sig)
{
    (void)sig;
    handled++;
}

/* Called once, and then no more: the default action ends the process. */
static int called_once(void)
{
    struct sigaction action;

    memset(&action, 0, sizeof action);
    action.sa_handler = counts;
    action.sa_flags = (int)SA_RESETHAND;
    MUST(sigaction(SIGSEGV, &action, NULL) == 0);
    MUST(umcg_ctl(0, UMCG_REGISTER_SERVER, 0, 0, NULL, 0) == 0);
    raise(SIGSEGV);
    if (handled != 1)
        return 1;
    raise(SIGSEGV);
    return 2;
}

/* A signal that was sent ends the process as a fault does. */
static int sent(void)
{
    MUST(umcg_ctl(0, UMCG_REGISTER_SERVER, 0, 0, NULL, 0) == 0);
    raise(SIGSEGV);
    return 1;
}

/* Unless it is ignored. */
static int ignored(void)
{
    char *page;

    signal(SIGSEGV, SIG_IGN);
    MUST(umcg_ctl(0, UMCG_REGISTER_SERVER, 0, 0, NULL, 0) == 0);
    raise(SIGSEGV);
    raise(SIGSEGV);
    page = (char *)mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return 2;
    *(volatile char *)page = 1;
    return 1;
}

/* In a process of its own, where the library is not in use yet. */
static int in_child(int (*body)(void))
{
    int status;
    pid_t child = fork();

    MUST(child >= 0);
    if (child == 0) {
        alarm(300);
        exit(body());
    }
    MUST(waitpid(child, &status, 0) == child);
    return status;
}

static size_t signal_stack;

/* A server whose signal stack is overwritten completely, as handlers may do. */
static void *writes_signal_stack(void *arg)
{
    stack_t own;

    (void)arg;
    MUST(umcg_ctl(0, UMCG_REGISTER_SERVER, 0, 0, NULL, 0) == 0);
    MUST(sigaltstack(NULL, &own) == 0 && !(own.ss_flags & SS_DISABLE));
    memset(own.ss_sp, 0x42, own.ss_size);
    signal_stack = own.ss_size;
    end_server();
    return NULL;
}

static void names_itself(struct worker *self)
{
    umcg_set_name("a name");
    self->result = WAIT_IN_WORKER(0);
    self->steps++;
}

static void run_named(void *arg)
{
    names_itself((struct worker *)arg);
}

/* Workers get such a stack when its thread has ended, and find nothing of that in their
 * descriptors. */
static int stacks_of_handlers(void)
{
    enum { COUNT = 8 };
    struct worker w[COUNT];
    umcg_light_attr_t attr = {8 << 10, NULL};
    pthread_t server;

    /* First, with a signal stack of its own. */
    MUST(umcg_ctl(0, UMCG_REGISTER_SERVER, 0, 0, NULL, 0) == 0);
    MUST(pthread_create(&server, NULL, writes_signal_stack, NULL) == 0);
    MUST(pthread_join(server, NULL) == 0);
    while (attr.stack_size < signal_stack)
        attr.stack_size *= 2;
    memset(w, 0, sizeof w);
    for (int i = 0; i < COUNT; i++) {
        w[i].kind = LIGHT, w[i].index = (uint64_t)i;
        w[i].tid = umcg_light_create(ID(i), run_named, &w[i], &attr);
        MUST(w[i].tid > 0);
    }
    for (int i = 0; i < COUNT; i++)
        EXPECT("each gives WAKE", EV(&w[i], UMCG_WE_WAKE));
    for (int i = 0; i < COUNT; i++) {
        RUN("it runs", &w[i], UMCG_WE_WAIT);
        finish(&w[i]);
        CHECK("to its end", w[i].steps == 1 && w[i].result == 0);
    }
    end_server();
    return check_done();
}

int main(void)
{
    int status;

    check_start(120);
    CHECK("stacks that were signal stacks", in_child(stacks_of_handlers) == 0);
    for (int i = 0; i < 3; i++) {
        flags = i == 0 ? SA_ONSTACK : i == 1 ? SA_ONSTACK | SA_NODEFER : 0;
        CHECK("a handler that commits memory", in_child(commits_lazily) == 0);
    }
    flags = SA_ONSTACK | SA_NODEFER, nested = 1;
    CHECK("one in which that happens again", in_child(commits_lazily) == 0);
    status = in_child(called_once);
    CHECK("SA_RESETHAND", WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    status = in_child(sent);
    CHECK("SIGSEGV, sent", WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    status = in_child(ignored);
    CHECK("SIGSEGV, ignored", WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    return check_done();
}
