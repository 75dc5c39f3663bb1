/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* fork: the child has one plain thread, no servers, no workers, and may have its own. */
#include "worker.h"

static struct worker idle, runnable, forker;

static void end_at_once(struct worker *self)
{
    self->steps++;
}

/* In the child; ends it. */
static void be_a_child(void)
{
    uint64_t list[2];
    struct worker own[2] = {{.kind = THREAD, .index = 7, .body = end_at_once},
                            {.kind = LIGHT, .index = 8, .body = end_at_once}};

    alarm(200);
    CHECK("gettid is the child's",
          umcg_gettid() == getpid() && (pid_t)syscall(SYS_gettid) == getpid());
    FAILS("the child is no server and no worker", EINVAL,
          umcg_ctl(0, UMCG_WAIT, 0, UMCG_POLL, list, 2));
    CHECK("UNREGISTER of a plain thread", umcg_ctl(0, UMCG_UNREGISTER, 0, 0, NULL, 0) == 0);
    FAILS("there are no servers", EAGAIN, umcg_ctl(0, UMCG_WAKE, 0, 0, NULL, 0));
    MUST(umcg_ctl(0, UMCG_REGISTER_SERVER, 0, 0, NULL, 0) == 0);
    FAILS("no event of the parent's", ETIMEDOUT, umcg_ctl(0, UMCG_WAIT, 0, after_ms(20), list, 2));
    FAILS("no worker of the parent's", ESRCH, SWITCH(&runnable, list, 2));
    FAILS("nor the one that forked", ESRCH, SWITCH(&forker, list, 2));
    for (int i = 0; i < 2; i++) {
        start_ready(&own[i]);
        finish(&own[i]);
        CHECK("the child's own worker ran", own[i].steps == 1);
    }
    end_server();
    _exit(check_done());
}

static void fork_here(void)
{
    int status = 0;
    pid_t child = fork();

    MUST(child >= 0);
    if (child == 0)
        be_a_child();
    MUST(waitpid(child, &status, 0) == child);
    CHECK("the child's checks passed", WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void forks(struct worker *self)
{
    fork_here();
    CHECK("gettid in the parent", umcg_gettid() == self->tid);
    self->result = WAIT_IN_WORKER(0);
    self->steps++;
}

static void round_of(enum kind kind, int from_worker)
{
    memset(&idle, 0, sizeof idle);
    memset(&runnable, 0, sizeof runnable);
    memset(&forker, 0, sizeof forker);
    idle.kind = runnable.kind = forker.kind = kind;
    idle.index = 1, runnable.index = 2, forker.index = 3;
    idle.body = runnable.body = end_at_once, forker.body = forks;
    start_ready(&forker);
    start_ready(&runnable);
    start(&idle);
    while (umcg_ctl(0, UMCG_WAIT, idle.tid, 0, NULL, 0) < 0)
        check_sleep_ms(1);
    if (!from_worker)
        fork_here();
    RUN("the parent's workers go on", &forker, UMCG_WE_WAIT);
    finish(&forker);
    CHECK("WAIT gave 0", forker.result == 0 && forker.steps == 1);
    EXPECT("an event that was there before the fork", EV(&idle, UMCG_WE_WAKE));
    NO_EVENT("once");
    finish(&idle);
    finish(&runnable);
}

int main(void)
{
    check_start(60);
    MUST(umcg_set_preemption(0) == 0);
    fork_here();
    begin_server();
    for (int i = THREAD; i <= LIGHT; i++) {
        round_of((enum kind)i, 0);
        round_of((enum kind)i, 1);
    }
    end_server();
    return check_done();
}
