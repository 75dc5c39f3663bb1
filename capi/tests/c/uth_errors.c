/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Misuse of uths that can be noticed, and is: each abort in a child of its own, with the name of
 * the call. */
#include <pthread.h>

#include "check.h"
#include "uth.h"

static uth_t self, other;
static int ran;

static void nothing(void *arg)
{
    (void)arg;
    ran++;
}

static void come_back(void *arg)
{
    (void)arg;
    for (;;) {
        ran++;
        uth_switchto(uth_self(), self);
    }
}

static void set_up(void)
{
    uth_init(0);
    MUST(uth_vp_init(0) == 0);
    self = uth_self();
    other = uth_create(come_back, NULL);
    MUST(self && other);
}

/* ---- Without a VP ---- */

static void get_vpid_without_vp(void) { uth_get_vpid(); }
static void switch_without_vp(void) { uth_switchto(NULL, NULL); }
static void delete_nothing(void) { set_up(), uth_delete(NULL); }
static void reinit_nothing(void) { set_up(), uth_reinit(NULL, nothing, NULL); }
static void init_twice(void) { uth_init(0), uth_init(0); }
static void init_late(void) { uth_vp_init(0), uth_init(0); }
static void init_negative(void) { uth_init(-1); }

static void values_without_vp(void)
{
    errno = 0;
    CHECK("uth_create without a VP", uth_create(nothing, NULL) == NULL && errno == EPERM);
    errno = 0;
    CHECK("uth_self without a VP", uth_self() == NULL && errno == EPERM);
    errno = 0;
    CHECK("uth_self2 of no VP", uth_self2(0) == NULL && errno == EINVAL);
    errno = 0;
    CHECK("uth_self2 of a negative rank", uth_self2(-1) == NULL && errno == EINVAL);
    errno = 0;
    CHECK("uth_getarg of nothing", uth_getarg(NULL) == NULL && errno == EINVAL);
    errno = 0;
    CHECK("uth_setarg of nothing", uth_setarg(NULL, &ran) == NULL && errno == EINVAL);
    FAILS("uth_set_name of nothing", EINVAL, uth_set_name(NULL, "name"));
}

/* ---- The running uth, and the VP's own thread ---- */

static void delete_itself(void *arg)
{
    (void)arg;
    uth_delete(uth_self());
}

static void reinit_itself(void *arg)
{
    (void)arg;
    uth_reinit(uth_self(), nothing, NULL);
}

static void switch_to_itself(void *arg)
{
    (void)arg;
    uth_switchto(uth_self(), uth_self());
}

static void delete_running(void) { set_up(), uth_switchto(self, uth_create(delete_itself, NULL)); }
static void reinit_running(void) { set_up(), uth_switchto(self, uth_create(reinit_itself, NULL)); }
static void switch_to_running(void)
{ set_up(), uth_switchto(self, uth_create(switch_to_itself, NULL)); }
static void delete_own_thread(void) { set_up(), uth_delete(self); }
static void reinit_own_thread(void) { set_up(), uth_reinit(self, nothing, NULL); }
static void switch_to_nothing(void) { set_up(), uth_switchto(self, NULL); }
static void save_another(void) { set_up(), uth_switchto(uth_create(nothing, NULL), other); }
static void switch_on_no_vp(void) { set_up(), uth_switchto2(7, self, other); }
static void switch_on_negative_vp(void) { set_up(), uth_switchto2(-1, self, other); }

/* ---- Finished, deleted, or left behind ---- */

static void switch_to_finished(void)
{
    uth_t uth;
    set_up();
    uth = uth_create(nothing, NULL);
    uth_switchto(self, uth);
    MUST(ran == 1);
    uth_switchto(self, uth);
}

static void leave_unsaved(void *arg)
{
    (void)arg;
    uth_switchto(NULL, self);
}

static void switch_to_unsaved(void)
{
    uth_t uth;
    set_up();
    uth = uth_create(leave_unsaved, NULL);
    uth_switchto(self, uth);
    uth_switchto(self, uth);
}

/* ---- On another VP ---- */

static pthread_barrier_t barrier;
static uth_t native_of_other;

static void hold(void *arg)
{
    (void)arg;
    pthread_barrier_wait(&barrier);
    pause();
}

static void *other_vp(void *arg)
{
    MUST(uth_vp_init(1) == 0);
    native_of_other = uth_self();
    uth_switchto(native_of_other, (uth_t)arg);
    return NULL;
}

static void *switches_for_another(void *arg)
{
    uth_switchto(self, (uth_t)arg); /* self runs, but not here */
    return NULL;
}

static void switch_from_a_plain_thread(void)
{
    pthread_t thread;
    set_up();
    MUST(pthread_create(&thread, NULL, switches_for_another, other) == 0 &&
         pthread_join(thread, NULL) == 0);
}

static uth_t running_elsewhere(void)
{
    pthread_t thread;
    uth_t uth;

    set_up();
    MUST(pthread_barrier_init(&barrier, NULL, 2) == 0);
    uth = uth_create(hold, NULL);
    MUST(pthread_create(&thread, NULL, other_vp, uth) == 0);
    pthread_barrier_wait(&barrier);
    CHECK("uth_self2 names it", uth_self2(1) == uth);
    return uth;
}

static void switch_to_running_elsewhere(void) { uth_switchto(self, running_elsewhere()); }
static void delete_running_elsewhere(void) { uth_delete(running_elsewhere()); }
static void reinit_running_elsewhere(void) { uth_reinit(running_elsewhere(), nothing, NULL); }
static void switch_on_other_vp(void) { running_elsewhere(), uth_switchto2(1, self, other); }

/* The other processor's own thread has switched away, but it can go on on its own kernel thread
 * only. */
static void switch_to_own_thread_elsewhere(void)
{
    running_elsewhere();
    uth_switchto(self, native_of_other);
}

static void switch_to_the_caller(void) { set_up(), uth_switchto(NULL, self); }

/* ---- Errors with a value ---- */

static void *rank_taken(void *arg)
{
    (void)arg;
    FAILS("a rank that is taken", EBUSY, uth_vp_init(0));
    FAILS("a negative rank", EINVAL, uth_vp_init(-2));
    CHECK("a rank that is free", uth_vp_init(3) == 0 && uth_get_vpid() == 3);
    FAILS("a second rank", EALREADY, uth_vp_init(4));
    CHECK("nothing has changed", uth_get_vpid() == 3);
    return NULL;
}

static void ranks(void)
{
    pthread_t thread;

    set_up();
    CHECK("the rank", uth_get_vpid() == 0);
    FAILS("a VP already", EALREADY, uth_vp_init(0));
    FAILS("a VP already, another rank", EALREADY, uth_vp_init(1));
    MUST(pthread_create(&thread, NULL, rank_taken, NULL) == 0 && pthread_join(thread, NULL) == 0);
    /* 3 is free again */
    MUST(pthread_create(&thread, NULL, rank_taken, NULL) == 0 && pthread_join(thread, NULL) == 0);
}

static void options(void)
{
    uth_options_t bad = {0, 7, 0}, worse = {0, 0, 7}, huge = {(size_t)-1, 0, 0}, zero = {0, 0, 0};

    FAILS("an unknown way to recycle", EINVAL, uth_init_options(&bad));
    FAILS("an unknown method", EINVAL, uth_init_options(&worse));
    bad.recycle = -1;
    FAILS("a negative way to recycle", EINVAL, uth_init_options(&bad));
    FAILS("an impossible stack size", EINVAL, uth_init_options(&huge));
    CHECK("none of them has initialised the library", uth_init_options(&zero) == 0);
    FAILS("a second time", EALREADY, uth_init_options(NULL));
    MUST(uth_vp_init(-1) == 0);
    CHECK("the first free rank", uth_get_vpid() == 0);
    errno = 0;
    CHECK("no function", uth_create(NULL, NULL) == NULL && errno == EINVAL);
}

static void arguments(void)
{
    uth_t uth;
    int value;

    set_up();
    uth = uth_create(nothing, &value);
    CHECK("the argument", uth_getarg(uth) == &value);
    CHECK("setarg gives the one before",
          uth_setarg(uth, &ran) == &value && uth_getarg(uth) == &ran);
    CHECK("of the VP's own thread", uth_getarg(self) == NULL && uth_setarg(self, &value) == NULL &&
                                        uth_getarg(self) == &value);
    CHECK("what runs", uth_self2(0) == self && uth_self() == self);
    FAILS("no name", EINVAL, uth_set_name(uth, NULL));
    CHECK("a name", uth_set_name(uth, "name") == 0 && uth_set_name(self, "main") == 0);
    uth_delete(uth);
    uth_delete(other); /* neither has run */
}

/* More stacks than memory: NULL and ENOMEM, and the uths made before go on. */
static void out_of_memory(void)
{
    struct rlimit limit;
    uth_t uth, last = NULL;
    int made = 0;

    set_up();
    MUST(getrlimit(RLIMIT_AS, &limit) == 0);
    limit.rlim_cur = (rlim_t)1 << 30;
    MUST(setrlimit(RLIMIT_AS, &limit) == 0);
    errno = 0;
    while ((uth = uth_create(nothing, NULL)) != NULL && made++ < 1000000)
        last = uth;
    CHECK("ENOMEM", uth == NULL && errno == ENOMEM);
    CHECK("some could be made", made > 100);
    uth_switchto(self, last);
    CHECK("the last one runs", ran == 1);
    uth_delete(last);
    CHECK("its place can be used again", uth_create(nothing, NULL) != NULL);
}

/* A stack overflow ends the process, and the message names the uth. */
static int recurse(volatile char *above)
{
    volatile char frame[512];
    frame[0] = above[0];
    return frame[0] ? 0 : recurse(frame) + frame[0];
}

static void overflow_in_uth(void *arg)
{
    ran = recurse((volatile char *)arg);
}

static void overflow(void)
{
    static char start;
    uth_t uth;
    set_up();
    uth = uth_create(overflow_in_uth, &start);
    MUST(uth_set_name(uth, "ophelia") == 0);
    uth_switchto(self, uth);
}

static void overflow_is_named(void)
{
    static char text[8192];
    int status = check_child(overflow, text, sizeof text);
    CHECK("a stack overflow ends the process by SIGSEGV or SIGABRT",
          WIFSIGNALED(status) && (WTERMSIG(status) == SIGSEGV || WTERMSIG(status) == SIGABRT));
    CHECK("and the message names the uth", strstr(text, "ophelia") && strstr(text, "overflow"));
}

int main(void)
{
    check_start(120);
    overflow_is_named();
    check_passes("without a VP", values_without_vp);
    check_passes("ranks", ranks);
    check_passes("options", options);
    check_passes("arguments", arguments);
    if (!getenv("UMCG_TEST_SLOW"))
        check_passes("out of memory", out_of_memory);
    check_aborts("uth_get_vpid without a VP", get_vpid_without_vp, "umcg: uth_get_vpid: ");
    check_aborts("uth_switchto without a VP", switch_without_vp, "umcg: uth_switchto: ");
    check_aborts("uth_delete of nothing", delete_nothing, "umcg: uth_delete: ");
    check_aborts("uth_reinit of nothing", reinit_nothing, "umcg: uth_reinit: ");
    check_aborts("uth_init twice", init_twice, "umcg: uth_init: ");
    check_aborts("uth_init after uth_vp_init", init_late, "umcg: uth_init: ");
    check_aborts("uth_init with a negative size", init_negative, "umcg: uth_init: ");
    check_aborts("uth_delete of itself", delete_running, "umcg: uth_delete: ");
    check_aborts("uth_reinit of itself", reinit_running, "umcg: uth_reinit: ");
    check_aborts("uth_switchto itself", switch_to_running, "umcg: uth_switchto: ");
    check_aborts("uth_delete of the VP's own thread", delete_own_thread, "umcg: uth_delete: ");
    check_aborts("uth_reinit of the VP's own thread", reinit_own_thread, "umcg: uth_reinit: ");
    check_aborts("uth_switchto nothing", switch_to_nothing, "umcg: uth_switchto: ");
    check_aborts("uth_switchto that saves another", save_another, "umcg: uth_switchto: ");
    check_aborts("uth_switchto2 on no VP", switch_on_no_vp, "umcg: uth_switchto2: ");
    check_aborts("uth_switchto2 on a negative VP", switch_on_negative_vp, "umcg: uth_switchto2: ");
    check_aborts("uth_switchto2 on another VP", switch_on_other_vp, "umcg: uth_switchto2: ");
    check_aborts("uth_switchto a finished uth", switch_to_finished, "umcg: uth_switchto: ");
    check_aborts("uth_switchto a uth that was not saved", switch_to_unsaved,
                 "umcg: uth_switchto: ");
    check_aborts("uth_switchto a uth that runs elsewhere", switch_to_running_elsewhere,
                 "umcg: uth_switchto: ");
    check_aborts("uth_delete of a uth that runs elsewhere", delete_running_elsewhere,
                 "umcg: uth_delete: ");
    check_aborts("uth_reinit of a uth that runs elsewhere", reinit_running_elsewhere,
                 "umcg: uth_reinit: ");
    check_aborts("uth_switchto that saves what runs elsewhere", switch_from_a_plain_thread,
                 "umcg: uth_switchto: ");
    check_aborts("uth_switchto the own thread of another VP", switch_to_own_thread_elsewhere,
                 "umcg: uth_switchto: ");
    check_aborts("uth_switchto the thread that calls", switch_to_the_caller,
                 "umcg: uth_switchto: ");
    return check_done();
}
