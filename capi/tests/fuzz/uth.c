/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * uth.h: the flows of two virtual processors make uths and delete them, switch to each other and
 * end, one step after the other, as a small model of them decides. A call that the header forbids
 * is made in the child of a fork, which has to abort; or it returns an error, which is compared.
 *
 * A flow may continue on the other processor after a switch: so no function that switches also
 * looks at errno here. Mistakes that the header does not promise to notice are left out: uths that
 * were deleted.
 */
#define _GNU_SOURCE
#include "fuzz.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <uth.h>

enum { VPS = 2, ROOM = 6, FLOWS = VPS + ROOM, MARKS = 16 };
enum state { GONE, READY, RUNS, ENDED };

/* The processors' own flows come first. */
static struct {
    uth_t handle;
    enum state state;
    int vp; /* where it runs */
    void *arg;
} flows[FLOWS];
static int current[VPS];

static uint8_t kept[MOST_STEPS][STEP];
static int steps, at, over;
/* The flow whose turn it is, and the one whose turn it is after this step. */
static int turn, next_turn;
static int ranks[VPS];

#define CHECKS __attribute__((noinline)) static void

/* ---- What must abort ---- */

struct misuse {
    void (*call)(const struct misuse *);
    uth_t from, to;
    void (*function)(void *);
    int number;
};

static void runs(void *arg);

/* The child is a copy of this flow alone. */
CHECKS aborts(struct misuse misuse)
{
    int status;
    pid_t child = fork();
    PROMISED(child >= 0);
    if (child == 0) {
        int nowhere = open("/dev/null", O_WRONLY);
        if (!fuzz_traces && nowhere >= 0)
            dup2(nowhere, 2);
        misuse.call(&misuse);
        _exit(0);
    }
    while (waitpid(child, &status, 0) < 0)
        PROMISED(errno == EINTR);
    PROMISED(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

static void does_init(const struct misuse *m)
{
    uth_init(m->number);
}

static void does_get_vpid(const struct misuse *m)
{
    (void)m;
    uth_get_vpid();
}

static void does_reinit(const struct misuse *m)
{
    uth_reinit(m->to, m->function, NULL);
}

static void does_delete(const struct misuse *m)
{
    uth_delete(m->to);
}

static void does_switch(const struct misuse *m)
{
    uth_switchto(m->from, m->to);
}

static void does_switch2(const struct misuse *m)
{
    uth_switchto2(m->number, m->from, m->to);
}

/* ---- Steps ---- */

/* A flow, or FLOWS for none. */
static int a_flow(struct input *in)
{
    return (int)pick(in, FLOWS + 1);
}

/* One that can be run, rather; else any. */
static int a_target(struct input *in)
{
    int first = a_flow(in);
    if (!pick(in, 4))
        return first;
    for (int i = 0; i < FLOWS; i++)
        if (flows[(first + i) % FLOWS].state == READY)
            return (first + i) % FLOWS;
    return first;
}

static uth_t handle_of(int flow)
{
    return flow < FLOWS ? flows[flow].handle : NULL;
}

/* It may be deleted, or begin anew. */
static int is_idle(int flow)
{
    return flow >= VPS && flow < FLOWS &&
           (flows[flow].state == READY || flows[flow].state == ENDED);
}

static void *an_argument(struct input *in)
{
    return (void *)(uintptr_t)byte(in);
}

CHECKS creates(struct input *in)
{
    int flow = VPS + (int)pick(in, ROOM);
    void *arg = an_argument(in);
    if (!pick(in, 8)) {
        errno = 0;
        PROMISED(uth_create(NULL, arg) == NULL && errno == EINVAL);
        return;
    }
    if (flows[flow].state != GONE)
        return;
    trace("%d = uth_create()", flow);
    PROMISED((flows[flow].handle = uth_create(runs, arg)) != NULL);
    flows[flow].state = READY;
    flows[flow].arg = arg;
}

CHECKS reinits(struct input *in)
{
    int flow = a_flow(in);
    void *arg = an_argument(in);
    void (*function)(void *) = pick(in, 8) ? runs : NULL;
    trace("uth_reinit(%d, %s)", flow, function ? "a function" : "NULL");
    if (is_idle(flow) && function) {
        uth_reinit(flows[flow].handle, function, arg);
        flows[flow].state = READY;
        flows[flow].arg = arg;
    } else {
        aborts((struct misuse){.call = does_reinit, .to = handle_of(flow), .function = function});
    }
}

CHECKS deletes(struct input *in)
{
    int flow = a_flow(in);
    trace("uth_delete(%d)", flow);
    if (is_idle(flow)) {
        uth_delete(flows[flow].handle);
        flows[flow].handle = NULL;
        flows[flow].state = GONE;
    } else {
        aborts((struct misuse){.call = does_delete, .to = handle_of(flow)});
    }
}

/* Switches, and looks at nothing afterwards that could be another thread's. */
__attribute__((noinline)) static void switches(struct input *in, int vp, int self)
{
    int from = pick(in, 4) ? self : pick(in, 2) ? a_flow(in) : FLOWS, to = a_target(in);
    int two = (int)pick(in, 2), number = pick(in, 6) ? ranks[vp] : (int)pick(in, 5) - 2;
    int is_good = to < FLOWS && flows[to].state == READY && (to >= VPS || to == vp);
    /* A processor's own flow that is not saved would leave the process with nothing to run in the
     * end. */
    if (from == FLOWS && self < VPS)
        from = self;
    /* A uth that is not there is NULL, and then the caller is not saved. */
    if (from < FLOWS && flows[from].state == GONE)
        from = self < VPS ? self : FLOWS;
    is_good &= (from == self || from == FLOWS) && (!two || number == ranks[vp]);
    trace("%d on %d: uth_switchto%s(%d, %d)", self, vp, two ? "2" : "", from, to);
    if (!is_good) {
        aborts((struct misuse){.call = two ? does_switch2 : does_switch,
                               .from = handle_of(from),
                               .to = handle_of(to),
                               .number = number});
        return;
    }
    flows[self].state = from == FLOWS ? ENDED : READY;
    flows[to].state = RUNS;
    flows[to].vp = vp;
    current[vp] = to;
    if (two)
        uth_switchto2(number, handle_of(from), handle_of(to));
    else
        uth_switchto(handle_of(from), handle_of(to));
    PROMISED(from == self);
}

CHECKS looks(struct input *in, int vp)
{
    static const int odd[] = {-1, INT_MIN, INT_MAX, 1000};
    int rank = odd[pick(in, 4)];
    PROMISED(uth_get_vpid() == ranks[vp]);
    PROMISED(uth_self() == flows[current[vp]].handle);
    for (int other = 0; other < VPS; other++)
        PROMISED(uth_self2(ranks[other]) == flows[current[other]].handle);
    errno = 0;
    PROMISED(uth_self2(rank) == NULL && errno == EINVAL);
}

CHECKS arguments(struct input *in)
{
    int flow = a_flow(in);
    void *arg = an_argument(in);
    if (!handle_of(flow)) {
        errno = 0;
        PROMISED(uth_getarg(NULL) == NULL && errno == EINVAL);
        errno = 0;
        PROMISED(uth_setarg(NULL, arg) == NULL && errno == EINVAL);
        return;
    }
    PROMISED(uth_getarg(flows[flow].handle) == flows[flow].arg);
    PROMISED(uth_setarg(flows[flow].handle, arg) == flows[flow].arg);
    flows[flow].arg = arg;
}

CHECKS names(struct input *in)
{
    static const char *const texts[] = {
        NULL, "", "a", "\xff\xfe\xc3",
        "a name that is far too long to be kept as it is \xc3\xa4\xc3\xa4"};
    uth_t handle = handle_of(a_flow(in));
    const char *name = texts[pick(in, 5)];
    int expected = handle && name ? 0 : -1;
    errno = 0;
    PROMISED(uth_set_name(handle, name) == expected);
    PROMISED(expected == 0 || errno == EINVAL);
}

CHECKS initialises_again(struct input *in)
{
    uth_options_t options = {0, 0, 0};
    switch (pick(in, 6)) {
    case 0:
        aborts((struct misuse){.call = does_init, .number = pick(in, 2) ? 0 : -(int)byte(in)});
        break;
    case 1:
        errno = 0;
        PROMISED(uth_init_options(pick(in, 2) ? &options : NULL) == -1 && errno == EALREADY);
        break;
    case 2: options.recycle = pick(in, 2) ? 3 : -1; goto wrong;
    case 3: options.method = pick(in, 2) ? 3 : -1; goto wrong;
    case 4: options.stack_size = SIZE_MAX >> pick(in, 8); goto wrong;
    wrong:
        errno = 0;
        PROMISED(uth_init_options(&options) == -1 && errno == EINVAL);
        break;
    default:
        errno = 0;
        PROMISED(uth_vp_init((int)pick(in, 4) - 1) == -1 && errno == EALREADY);
        errno = 0;
        PROMISED(uth_vp_init(INT_MIN + (int)pick(in, 2)) == -1 && errno == EINVAL);
    }
}

/* A thread that is no processor, becomes one, and ends. */
static void *outside(void *arg)
{
    uth_t made;
    int rank = *(int *)arg;
    errno = 0;
    PROMISED(uth_self() == NULL && errno == EPERM);
    errno = 0;
    PROMISED(uth_create(runs, NULL) == NULL && errno == EPERM);
    errno = 0;
    PROMISED(uth_vp_init(ranks[rank % VPS]) == -1 && errno == EBUSY);
    if (rank == 0)
        aborts((struct misuse){.call = does_get_vpid});
    if (rank == 1)
        aborts((struct misuse){.call = does_switch, .to = flows[0].handle});
    if (rank == ranks[0] || rank == ranks[1])
        rank = 0;
    PROMISED(uth_vp_init(rank > 3 ? rank : -1) == 0);
    PROMISED(rank > 3 ? uth_get_vpid() == rank : uth_get_vpid() >= 0);
    PROMISED((made = uth_create(runs, NULL)) != NULL);
    uth_delete(made);
    return NULL;
}

CHECKS has_a_thread(struct input *in)
{
    pthread_t thread;
    int rank = (int)pick(in, 200);
    PROMISED(pthread_create(&thread, NULL, outside, &rank) == 0);
    PROMISED(pthread_join(thread, NULL) == 0);
}

/* ---- Turns ---- */

/* One step of the flow that runs on the processor. True if the flow is to end. */
static int step(int vp)
{
    struct input in = {kept[at], kept[at] + STEP};
    int self = current[vp];
    unsigned what = pick(&in, 20);
    at++;
    next_turn = (int)pick(&in, VPS);
    switch (what) {
    case 0:
    case 1:
    case 2:
    case 3: creates(&in); break;
    case 4: reinits(&in); break;
    case 5: deletes(&in); break;
    case 6: arguments(&in); break;
    case 7: names(&in); break;
    case 8: initialises_again(&in); break;
    case 9: has_a_thread(&in); break;
    case 10: looks(&in, vp); break;
    case 11: return self >= VPS && pick(&in, 2);
    default: switches(&in, vp, self); break;
    }
    return 0;
}

static void hand_on(void)
{
    __atomic_store_n(&turn, next_turn, __ATOMIC_RELEASE);
}

/* Which processor the caller is on: in each turn it may be another. */
__attribute__((noinline)) static int here(void)
{
    int rank = uth_get_vpid();
    return rank == ranks[0] ? 0 : 1;
}

/* The body of each flow, until it is to end or all is over. */
static void turns(int mark)
{
    volatile int marks[MARKS];
    for (int i = 0; i < MARKS; i++)
        marks[i] = mark + i;
    for (;;) {
        int vp = here(), ends;
        while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE) &&
               __atomic_load_n(&turn, __ATOMIC_ACQUIRE) != vp)
            sched_yield();
        if (__atomic_load_n(&over, __ATOMIC_ACQUIRE))
            return;
        if (at == steps) {
            __atomic_store_n(&over, 1, __ATOMIC_RELEASE);
            return;
        }
        ends = step(vp);
        for (int i = 0; i < MARKS; i++)
            PROMISED(marks[i] == mark + i);
        if (ends)
            return;
        hand_on();
    }
}

static void is_here(int flow)
{
    int vp = here();
    PROMISED(current[vp] == flow && flows[flow].state == RUNS && flows[flow].vp == vp &&
             uth_self() == flows[flow].handle);
}

/* The function of all uths. */
static void runs(void *arg)
{
    int vp = here(), self = current[vp];
    PROMISED(arg == flows[self].arg && self >= VPS);
    is_here(self);
    hand_on();
    turns(self * 1000);
    /* The processor's own flow goes on where it switched away, here or on another one since. */
    vp = here();
    is_here(self);
    flows[self].state = ENDED;
    PROMISED(flows[vp].state == READY);
    flows[vp].state = RUNS;
    flows[vp].vp = vp;
    current[vp] = vp;
}

static void begin_vp(int vp)
{
    PROMISED(uth_vp_init(vp == 0 ? -1 : (int)(intptr_t)flows[vp].arg) == 0);
    ranks[vp] = uth_get_vpid();
    flows[vp].handle = uth_self();
    flows[vp].state = RUNS;
    flows[vp].vp = vp;
    flows[vp].arg = NULL;
    current[vp] = vp;
}

static void *second(void *arg)
{
    begin_vp(1);
    __atomic_store_n(&turn, 0, __ATOMIC_RELEASE);
    turns(-1000);
    is_here(1);
    return arg;
}

void fuzz_begin(struct input *in)
{
    static const int sizes[] = {0, 32768, 65536, 100000, 1 << 20};
    uth_options_t options = {(size_t)sizes[pick(in, 5)], (int)pick(in, 3), (int)pick(in, 3)};
    turn = -1;
    flows[1].arg = (void *)(intptr_t)(pick(in, 2) ? -1 : 1 + (int)byte(in));
    switch (pick(in, 6)) {
    case 0: return; /* by the first processor */
    case 1: uth_init(sizes[pick(in, 5)]); return;
    case 2: PROMISED(uth_init_options(NULL) == 0); return;
    default:
        if (uth_init_options(&options) != 0) {
            PROMISED(errno == ENOSYS && options.method != UTH_METHOD_ASM);
            options.method = UTH_METHOD_ASM;
            PROMISED(uth_init_options(&options) == 0);
        }
    }
}

void fuzz_step(struct input *in)
{
    memcpy(kept[steps++], in->at, STEP);
}

void fuzz_end(void)
{
    pthread_t thread;
    begin_vp(0);
    PROMISED(pthread_create(&thread, NULL, second, NULL) == 0);
    turns(-2000);
    is_here(0);
    PROMISED(pthread_join(thread, NULL) == 0);
    for (int flow = VPS; flow < FLOWS; flow++)
        if (flows[flow].state != GONE)
            uth_delete(flows[flow].handle);
}
