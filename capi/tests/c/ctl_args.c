/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Every wrong way to call umcg_ctl, one row each; and after each table, that nothing has changed.
 */
#include <limits.h>
#include <semaphore.h>

#include "worker.h"

/* Workers and threads in every state that a call may name. */
static struct worker runnable, idle, blocked, elsewhere;
static pid_t server_tid, other_server_tid, plain_tid, ended_tid, no_tid;
static sem_t end_blocked, end_elsewhere, end_plain, plain_ready, other_ready;
static uint64_t events[8];

static void flag_rows(void)
{
    FAILS("REGISTER_WORKER: flag", EINVAL, umcg_ctl(1, UMCG_REGISTER_WORKER, 0, ID(9), NULL, 0));
    FAILS("REGISTER_SERVER: flag", EINVAL, umcg_ctl(1, UMCG_REGISTER_SERVER, 0, 0, NULL, 0));
    FAILS("UNREGISTER: flag", EINVAL, umcg_ctl(1, UMCG_UNREGISTER, 0, 0, NULL, 0));
    FAILS("WAKE: flag", EINVAL, umcg_ctl(1, UMCG_WAKE, 0, 0, NULL, 0));
    FAILS("CTX_SWITCH: flag", EINVAL, umcg_ctl(1, UMCG_CTX_SWITCH, runnable.tid, 0, NULL, 0));
    FAILS("CTX_SWITCH with events: flag", EINVAL,
          umcg_ctl(1, UMCG_CTX_SWITCH, runnable.tid, 0, events, 8));
    FAILS("WAIT: flag 2", EINVAL, umcg_ctl(2, UMCG_WAIT, 0, UMCG_POLL, events, 8));
    FAILS("WAIT: flag 3", EINVAL, umcg_ctl(3, UMCG_WAIT, 0, UMCG_POLL, events, 8));
    FAILS("WAIT: flag 1 << 31", EINVAL, umcg_ctl(1u << 31, UMCG_WAIT, 0, UMCG_POLL, events, 8));
    FAILS("WAIT of a worker: flag 2", EINVAL, umcg_ctl(2, UMCG_WAIT, 0, 0, NULL, 0));
}

static void command_rows(void)
{
    FAILS("command 0", EINVAL, umcg_ctl(0, 0, 0, 0, NULL, 0));
    FAILS("command 7", EINVAL, umcg_ctl(0, 7, 0, 0, NULL, 0));
    FAILS("command 256 + WAKE", EINVAL, umcg_ctl(0, 256 + UMCG_WAKE, 0, 0, NULL, 0));
    FAILS("command UINT32_MAX", EINVAL, umcg_ctl(0, UINT32_MAX, 0, 0, NULL, 0));
}

static void unused_rows(void)
{
    FAILS("REGISTER_SERVER: next_tid", EINVAL, umcg_ctl(0, UMCG_REGISTER_SERVER, 1, 0, NULL, 0));
    FAILS("REGISTER_SERVER: abs_timeout", EINVAL, umcg_ctl(0, UMCG_REGISTER_SERVER, 0, 1, NULL, 0));
    FAILS("REGISTER_SERVER: events", EINVAL, umcg_ctl(0, UMCG_REGISTER_SERVER, 0, 0, events, 0));
    FAILS("REGISTER_SERVER: event_sz", EINVAL, umcg_ctl(0, UMCG_REGISTER_SERVER, 0, 0, NULL, 8));
    FAILS("REGISTER_WORKER: next_tid", EINVAL,
          umcg_ctl(0, UMCG_REGISTER_WORKER, 1, ID(9), NULL, 0));
    FAILS("REGISTER_WORKER: events", EINVAL,
          umcg_ctl(0, UMCG_REGISTER_WORKER, 0, ID(9), events, 0));
    FAILS("REGISTER_WORKER: event_sz", EINVAL,
          umcg_ctl(0, UMCG_REGISTER_WORKER, 0, ID(9), NULL, 8));
    FAILS("UNREGISTER: next_tid", EINVAL, umcg_ctl(0, UMCG_UNREGISTER, 1, 0, NULL, 0));
    FAILS("UNREGISTER: abs_timeout", EINVAL, umcg_ctl(0, UMCG_UNREGISTER, 0, 1, NULL, 0));
    FAILS("UNREGISTER: events", EINVAL, umcg_ctl(0, UMCG_UNREGISTER, 0, 0, events, 0));
    FAILS("UNREGISTER: event_sz", EINVAL, umcg_ctl(0, UMCG_UNREGISTER, 0, 0, NULL, 8));
    FAILS("WAKE: next_tid", EINVAL, umcg_ctl(0, UMCG_WAKE, server_tid, 0, NULL, 0));
    FAILS("WAKE: abs_timeout", EINVAL, umcg_ctl(0, UMCG_WAKE, 0, 1, NULL, 0));
    FAILS("WAKE: events", EINVAL, umcg_ctl(0, UMCG_WAKE, 0, 0, events, 0));
    FAILS("WAKE: event_sz", EINVAL, umcg_ctl(0, UMCG_WAKE, 0, 0, NULL, 8));
}

static void worker_id_rows(void)
{
    for (uint64_t low = 1; low < 32; low++) {
        FAILS("REGISTER_WORKER: low bits of the worker id", EINVAL,
              umcg_ctl(0, UMCG_REGISTER_WORKER, 0, ID(9) | low, NULL, 0));
        FAILS("umcg_light_create: low bits of the worker id", EINVAL,
              umcg_light_create(ID(9) | low, worker_light, NULL, NULL));
    }
    FAILS("umcg_light_create: no function", EINVAL, umcg_light_create(ID(9), NULL, NULL, NULL));
}

/* Threads that CTX_SWITCH and WAIT cannot name, from any caller. */
static void tid_rows(void)
{
    FAILS("CTX_SWITCH: tid 0", ESRCH, umcg_ctl(0, UMCG_CTX_SWITCH, 0, 0, NULL, 0));
    FAILS("CTX_SWITCH: negative tid", ESRCH, umcg_ctl(0, UMCG_CTX_SWITCH, -1, 0, NULL, 0));
    FAILS("CTX_SWITCH: INT_MIN", ESRCH, umcg_ctl(0, UMCG_CTX_SWITCH, INT_MIN, 0, NULL, 0));
    FAILS("CTX_SWITCH: INT_MAX", ESRCH, umcg_ctl(0, UMCG_CTX_SWITCH, INT_MAX, 0, NULL, 0));
    FAILS("CTX_SWITCH: no such thread", ESRCH, umcg_ctl(0, UMCG_CTX_SWITCH, no_tid, 0, NULL, 0));
    FAILS("CTX_SWITCH: a thread that has ended and was joined", ESRCH,
          umcg_ctl(0, UMCG_CTX_SWITCH, ended_tid, 0, NULL, 0));
    FAILS("CTX_SWITCH: a thread of another process", ESRCH,
          umcg_ctl(0, UMCG_CTX_SWITCH, getppid(), 0, NULL, 0));
}

static void state_rows(uint64_t *list, int size)
{
    FAILS("CTX_SWITCH: a plain thread", EINVAL,
          umcg_ctl(0, UMCG_CTX_SWITCH, plain_tid, 0, list, size));
    FAILS("CTX_SWITCH: another server", EINVAL,
          umcg_ctl(0, UMCG_CTX_SWITCH, other_server_tid, 0, list, size));
    FAILS("CTX_SWITCH: the caller itself", EINVAL,
          umcg_ctl(0, UMCG_CTX_SWITCH, umcg_gettid(), 0, list, size));
    FAILS("CTX_SWITCH: a worker whose WAKE nobody took", EINVAL,
          umcg_ctl(0, UMCG_CTX_SWITCH, idle.tid, 0, list, size));
    FAILS("CTX_SWITCH: a BLOCKED worker", EINVAL,
          umcg_ctl(0, UMCG_CTX_SWITCH, blocked.tid, 0, list, size));
    FAILS("CTX_SWITCH: a worker that runs elsewhere", EINVAL,
          umcg_ctl(0, UMCG_CTX_SWITCH, elsewhere.tid, 0, list, size));
}

static void server_wait_rows(void)
{
    FAILS("WAIT: event_sz 1", EINVAL, umcg_ctl(0, UMCG_WAIT, 0, UMCG_POLL, events, 1));
    FAILS("WAIT: event_sz 0", EINVAL, umcg_ctl(0, UMCG_WAIT, 0, UMCG_POLL, events, 0));
    FAILS("WAIT: event_sz -1", EINVAL, umcg_ctl(0, UMCG_WAIT, 0, UMCG_POLL, events, -1));
    FAILS("WAIT: event_sz INT_MIN", EINVAL, umcg_ctl(0, UMCG_WAIT, 0, UMCG_POLL, events, INT_MIN));
    FAILS("WAIT: as a worker would call it", EINVAL, umcg_ctl(0, UMCG_WAIT, 0, 0, NULL, 0));
    FAILS("WAIT for a worker: abs_timeout", EINVAL,
          umcg_ctl(0, UMCG_WAIT, runnable.tid, 1, NULL, 0));
    FAILS("WAIT for a worker: events", EINVAL, umcg_ctl(0, UMCG_WAIT, runnable.tid, 0, events, 0));
    FAILS("WAIT for a worker: event_sz", EINVAL, umcg_ctl(0, UMCG_WAIT, runnable.tid, 0, NULL, 8));
    FAILS("WAIT for no such thread: abs_timeout is looked at first", EINVAL,
          umcg_ctl(0, UMCG_WAIT, no_tid, 1, NULL, 0));
    FAILS("WAIT for no such thread: events are looked at first", EINVAL,
          umcg_ctl(0, UMCG_WAIT, no_tid, 0, events, 0));
    FAILS("WAIT for no such thread: event_sz is looked at first", EINVAL,
          umcg_ctl(0, UMCG_WAIT, no_tid, 0, NULL, 8));
    FAILS("WAIT for no such thread", ESRCH, umcg_ctl(0, UMCG_WAIT, no_tid, 0, NULL, 0));
    FAILS("WAIT for a negative tid", ESRCH, umcg_ctl(0, UMCG_WAIT, -1, 0, NULL, 0));
    FAILS("WAIT for a thread that has ended and was joined", ESRCH,
          umcg_ctl(0, UMCG_WAIT, ended_tid, 0, NULL, 0));
    FAILS("WAIT for a thread of another process", ESRCH,
          umcg_ctl(0, UMCG_WAIT, getppid(), 0, NULL, 0));
}

static void server_switch_rows(void)
{
    tid_rows();
    state_rows(events, 8);
    FAILS("CTX_SWITCH: the thread is looked at before event_sz", ESRCH,
          umcg_ctl(0, UMCG_CTX_SWITCH, no_tid, 0, events, -1));
    FAILS("CTX_SWITCH: the thread is looked at before abs_timeout", ESRCH,
          umcg_ctl(0, UMCG_CTX_SWITCH, no_tid, 5, events, 8));
    FAILS("CTX_SWITCH: event_sz 0", EINVAL, SWITCH(&runnable, events, 0));
    FAILS("CTX_SWITCH: event_sz 0 and events NULL", EINVAL, SWITCH(&runnable, NULL, 0));
    FAILS("CTX_SWITCH: event_sz -1", EINVAL, SWITCH(&runnable, events, -1));
    FAILS("CTX_SWITCH: abs_timeout 1", EINVAL,
          umcg_ctl(0, UMCG_CTX_SWITCH, runnable.tid, 1, events, 8));
    FAILS("CTX_SWITCH: abs_timeout", EINVAL,
          umcg_ctl(0, UMCG_CTX_SWITCH, runnable.tid, after_ms(9999), events, 8));
}

static void worker_rows(struct worker *self)
{
    flag_rows();
    command_rows();
    unused_rows();
    worker_id_rows();
    FAILS("REGISTER_WORKER by a worker", EINVAL,
          umcg_ctl(0, UMCG_REGISTER_WORKER, 0, ID(9), NULL, 0));
    FAILS("REGISTER_SERVER by a worker", EINVAL, umcg_ctl(0, UMCG_REGISTER_SERVER, 0, 0, NULL, 0));
    FAILS("WAKE with no idle server", EAGAIN, umcg_ctl(0, UMCG_WAKE, 0, 0, NULL, 0));
    FAILS("WAIT by a worker: next_tid", EINVAL, umcg_ctl(0, UMCG_WAIT, runnable.tid, 0, NULL, 0));
    FAILS("WAIT by a worker: its own tid", EINVAL, umcg_ctl(0, UMCG_WAIT, self->tid, 0, NULL, 0));
    FAILS("WAIT by a worker: next_tid of no thread", EINVAL,
          umcg_ctl(0, UMCG_WAIT, no_tid, 0, NULL, 0));
    FAILS("WAIT by a worker: events", EINVAL, umcg_ctl(0, UMCG_WAIT, 0, 0, events, 0));
    FAILS("WAIT by a worker: event_sz", EINVAL, umcg_ctl(0, UMCG_WAIT, 0, 0, NULL, 8));
    FAILS("WAIT by a worker: both", EINVAL, umcg_ctl(0, UMCG_WAIT, 0, 0, events, 8));
    tid_rows();
    state_rows(NULL, 0);
    FAILS("CTX_SWITCH by a worker: its server", EINVAL,
          umcg_ctl(0, UMCG_CTX_SWITCH, server_tid, 0, NULL, 0));
    FAILS("CTX_SWITCH by a worker: events", EINVAL, SWITCH(&runnable, events, 0));
    FAILS("CTX_SWITCH by a worker: event_sz", EINVAL, SWITCH(&runnable, NULL, 8));
    FAILS("CTX_SWITCH by a worker: both", EINVAL, SWITCH(&runnable, events, 8));
    FAILS("CTX_SWITCH by a worker, to itself, with a deadline", EINVAL,
          umcg_ctl(0, UMCG_CTX_SWITCH, self->tid, after_ms(9999), NULL, 0));
    self->steps = 1;
    self->result = WAIT_IN_WORKER(0);
    self->steps = 2;
}

static void plain_rows(void)
{
    flag_rows();
    command_rows();
    unused_rows();
    worker_id_rows();
    FAILS("WAIT by a plain thread", EINVAL, umcg_ctl(0, UMCG_WAIT, 0, 0, NULL, 0));
    FAILS("WAIT for events by a plain thread", EINVAL,
          umcg_ctl(0, UMCG_WAIT, 0, UMCG_POLL, events, 8));
    FAILS("WAIT for a worker by a plain thread", EINVAL,
          umcg_ctl(0, UMCG_WAIT, runnable.tid, 0, NULL, 0));
    FAILS("CTX_SWITCH by a plain thread", EINVAL, SWITCH(&runnable, events, 8));
    FAILS("CTX_SWITCH by a plain thread, without events", EINVAL, SWITCH(&runnable, NULL, 0));
    FAILS("WAKE with no idle server", EAGAIN, umcg_ctl(0, UMCG_WAKE, 0, 0, NULL, 0));
    CHECK("UNREGISTER by a plain thread gives 0", umcg_ctl(0, UMCG_UNREGISTER, 0, 0, NULL, 0) == 0);
}

static void server_rows(void)
{
    flag_rows();
    command_rows();
    unused_rows();
    worker_id_rows();
    FAILS("REGISTER_SERVER by a server", EINVAL, umcg_ctl(0, UMCG_REGISTER_SERVER, 0, 0, NULL, 0));
    FAILS("REGISTER_WORKER by a server", EINVAL,
          umcg_ctl(0, UMCG_REGISTER_WORKER, 0, ID(9), NULL, 0));
    FAILS("WAKE with no idle server", EAGAIN, umcg_ctl(0, UMCG_WAKE, 0, 0, NULL, 0));
    server_wait_rows();
    server_switch_rows();
}

static void block_body(struct worker *self)
{
    MUST(umcg_blocking_begin() == 0);
    sem_wait(&end_blocked);
    MUST(umcg_blocking_end() == 0);
    self->steps++;
}

static void elsewhere_body(struct worker *self)
{
    sem_post(&other_ready);
    sem_wait(&end_elsewhere);
    self->steps++;
}

static void *other_server(void *arg)
{
    (void)arg;
    other_server_tid = (pid_t)syscall(SYS_gettid);
    MUST(umcg_ctl(0, UMCG_REGISTER_SERVER, 0, 0, NULL, 0) == 0);
    start_ready(&elsewhere);
    finish(&elsewhere);
    end_server();
    return NULL;
}

static void *plain_thread(void *arg)
{
    (void)arg;
    plain_tid = (pid_t)syscall(SYS_gettid);
    plain_rows();
    sem_post(&plain_ready);
    sem_wait(&end_plain);
    return NULL;
}

static void *ending_thread(void *arg)
{
    (void)arg;
    ended_tid = (pid_t)syscall(SYS_gettid);
    return NULL;
}

static void no_body(struct worker *self)
{
    self->steps++;
}

static void set_up(enum kind kind, pthread_t *other, pthread_t *plain)
{
    pthread_t ending;

    runnable.kind = idle.kind = blocked.kind = elsewhere.kind = kind;
    runnable.index = 1, idle.index = 2, blocked.index = 3, elsewhere.index = 4;
    runnable.body = idle.body = no_body, blocked.body = block_body, elsewhere.body = elsewhere_body;
    MUST(pthread_create(&ending, NULL, ending_thread, NULL) == 0 &&
         pthread_join(ending, NULL) == 0);
    no_tid = 4194303; /* the highest tid that a 64-bit kernel can give */
    MUST(syscall(SYS_tkill, no_tid, 0) < 0);

    MUST(pthread_create(other, NULL, other_server, NULL) == 0);
    sem_wait(&other_ready);
    start_ready(&runnable);
    start_ready(&blocked);
    RUN("a worker that is about to block gives BLOCK", &blocked, UMCG_WE_BLOCK);
    start(&idle);
    while (umcg_ctl(0, UMCG_WAIT, idle.tid, 0, NULL, 0) < 0) /* until it has registered */
        check_sleep_ms(1);
    MUST(pthread_create(plain, NULL, plain_thread, NULL) == 0);
    sem_wait(&plain_ready);
}

static void round_of(enum kind kind)
{
    struct worker caller = {.kind = kind, .index = 5, .body = worker_rows};
    pthread_t other, plain;

    begin_server();
    set_up(kind, &other, &plain);
    server_rows();
    EXPECT("the idle worker's WAKE is still there", EV(&idle, UMCG_WE_WAKE));
    NO_EVENT("and nothing else");
    RUN("it can run", &idle, UMCG_WE_EXIT);
    join(&idle);

    /* A second idle worker for the worker's rows: its WAKE must stay while the caller's is taken.
     */
    start_ready(&caller);
    memset(&idle, 0, sizeof idle);
    idle.kind = kind, idle.index = 2, idle.body = no_body;
    start(&idle);
    while (umcg_ctl(0, UMCG_WAIT, idle.tid, 0, NULL, 0) < 0)
        check_sleep_ms(1);
    RUN("a worker's bad calls do not end its turn", &caller, UMCG_WE_WAIT);
    CHECK("the rows came to their end", caller.steps == 1);
    EXPECT("the idle worker's WAKE is still there", EV(&idle, UMCG_WE_WAKE));
    NO_EVENT("and nothing else");
    finish(&caller);
    CHECK("its WAIT gave 0", caller.result == 0 && caller.steps == 2);
    finish(&idle);
    finish(&runnable);
    CHECK("the RUNNABLE worker ran once", runnable.steps == 1);

    sem_post(&end_blocked);
    EXPECT("the BLOCKED worker can go on", EV(&blocked, UMCG_WE_WAKE));
    finish(&blocked);
    sem_post(&end_plain);
    MUST(pthread_join(plain, NULL) == 0);
    sem_post(&end_elsewhere);
    MUST(pthread_join(other, NULL) == 0);
    CHECK("the worker elsewhere came to its end", elsewhere.steps == 1);
    end_server();
    memset(&runnable, 0, sizeof runnable);
    memset(&idle, 0, sizeof idle);
    memset(&blocked, 0, sizeof blocked);
    memset(&elsewhere, 0, sizeof elsewhere);
}

int main(void)
{
    check_start(30);
    sem_init(&end_blocked, 0, 0);
    sem_init(&end_elsewhere, 0, 0);
    sem_init(&end_plain, 0, 0);
    sem_init(&plain_ready, 0, 0);
    sem_init(&other_ready, 0, 0);
    server_tid = (pid_t)syscall(SYS_gettid);
    round_of(THREAD);
    round_of(LIGHT);
    return check_done();
}
