/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * uth.h - underlying threads: contexts with an entry function and a stack, and no scheduler.
 *
 * The interface of UthLib (Underlying Threads Library). A virtual processor (VP) is a kernel thread
 * that called uth_vp_init. Uths are created and run on VPs, and may continue on any of them.
 * Nothing is preempted: a uth runs until it switches to another or its function returns. When the
 * function returns, its VP's own thread continues where it last switched away.
 *
 * Misuse is never undefined behaviour where it can be noticed. A function that returns a value
 * returns NULL or -1 and sets errno. A void function, and uth_get_vpid, aborts the process with a
 * message. Switching to a uth that was deleted cannot always be noticed.
 *
 * Beside a runtime (umcg/rt.h): each of its servers is a VP, and has a rank. The first server
 * initialises the library, as uth_vp_init does. So once there is a runtime uth_init aborts,
 * uth_init_options fails with EALREADY, and uth_vp_init of a certain rank may fail with EBUSY: call
 * them before, or pass -1 as the rank. A worker sees the VP of the server that runs it: uth_self is
 * not NULL there, and uth_vp_init fails with EALREADY. But a worker is no uth: uth_switchto from it
 * aborts.
 *
 * A uth uses the thread-local storage of the VP that runs it. So if it may continue on another VP,
 * it must not keep the address of a thread-local, errno included, across a switch.
 */
#ifndef UTH_H
#define UTH_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A uth, or the own thread of a VP. */
typedef struct uth *uth_t;

/* How contexts are made and switched. */
#define UTH_METHOD_ASM 0  /* assembly */
#define UTH_METHOD_SJLJ 1 /* setjmp and longjmp */
#define UTH_METHOD_MCSC 2 /* makecontext and swapcontext */

/* Where the stack and the descriptor of a deleted uth go. */
#define UTH_RECYCLE_PER_VP 0 /* kept for the VP that deleted it */
#define UTH_RECYCLE_GLOBAL 1 /* kept for any VP */
#define UTH_RECYCLE_OFF 2    /* given back to the system */

/* All zero bytes are valid and mean the defaults. */
typedef struct uth_options {
    size_t stack_size; /* in bytes, rounded up; 0: 64 KiB */
    int recycle;       /* UTH_RECYCLE_* */
    int method;        /* UTH_METHOD_* */
} uth_options_t;

/*
 * uth_init - initialises the library. stacksize 0 means 64 KiB. Aborts when called a second time or
 * with a negative size.
 *
 * Called once, from any thread, before the first uth_vp_init. Does not switch.
 */
void uth_init(int stacksize);

/*
 * uth_init_options - uth_init with every option. NULL means the defaults.
 *
 * Returns 0, or -1: EINVAL for an option out of range, EALREADY if the library is initialised.
 *
 * Called once, from any thread, before the first uth_vp_init. Does not switch.
 */
int uth_init_options(const uth_options_t *options);

/*
 * uth_vp_init - makes the calling thread the VP with rank vp; -1 takes the lowest free rank.
 *
 * If the library is not initialised, it is initialised with stacks of 128 KiB. The VP and its rank
 * end with the thread.
 *
 * Returns 0, or -1: EALREADY if the thread is a VP, EBUSY if the rank is taken, EINVAL if it is out
 * of range, ENOMEM.
 *
 * Called from a thread that is no VP. Does not switch.
 */
int uth_vp_init(int vp);

/*
 * uth_get_vpid - the rank of the calling VP. Aborts if the caller runs on none.
 *
 * Called on a VP. Does not switch.
 */
int uth_get_vpid(void);

/*
 * uth_create - makes a uth that will run fn(arg), reusing a deleted one where recycling is on.
 *
 * Returns NULL on error: EPERM if the caller runs on no VP, EINVAL if fn is NULL, ENOMEM. A C++
 * exception that leaves fn ends the process: the uth's name is printed, and std::terminate is
 * called.
 *
 * Called on a VP. Does not switch.
 */
uth_t uth_create(void (*fn)(void *arg), void *arg);

/*
 * uth_reinit - gives a uth that does not run a new function and argument. The old contents of its
 * stack are dropped without being unwound.
 *
 * Aborts if the uth runs, or is the own thread of a VP.
 *
 * Called on a VP. Does not switch.
 */
void uth_reinit(uth_t thread, void (*fn)(void *arg), void *arg);

/*
 * uth_delete - deletes or recycles a uth, finished or not. The contents of its stack are dropped
 * without being unwound.
 *
 * Aborts if the uth runs, or is the own thread of a VP.
 *
 * Called on a VP. Does not switch.
 */
void uth_delete(uth_t thread);

/*
 * uth_switchto - runs `to` on the calling VP, and saves the caller in `from`.
 *
 * If from is NULL, the caller is not saved and is finished. Otherwise from must be the caller
 * itself, and the call returns when something switches back to `from`. Aborts if from is anything
 * else, or if `to` is NULL, finished, running, or the own thread of another VP.
 *
 * Called on a VP. Switches.
 */
void uth_switchto(uth_t from, uth_t to);

/*
 * uth_self - the uth that runs on the calling VP, or the VP's own thread. NULL, with EPERM, if the
 * caller runs on no VP.
 *
 * Called from anywhere. Does not switch.
 */
uth_t uth_self(void);

/*
 * uth_getarg, uth_setarg - the argument of a uth's function. uth_setarg returns the previous
 * argument. For a VP's own thread it is NULL at first. A NULL thread gives NULL, with EINVAL.
 *
 * Called from anywhere. Does not switch.
 */
void *uth_getarg(uth_t thread);
void *uth_setarg(uth_t thread, void *arg);

/*
 * uth_self2 - the uth, or own thread, that runs on the VP with rank vp. It may have changed by the
 * time the call returns. NULL, with EINVAL, if there is no such VP.
 *
 * Called from anywhere. Does not switch.
 */
uth_t uth_self2(int vp);

/*
 * uth_switchto2 - uth_switchto for a caller that knows its VP's rank. Aborts if vp is not the
 * calling VP.
 *
 * Called on a VP. Switches.
 */
void uth_switchto2(int vp, uth_t from, uth_t to);

/*
 * uth_set_name - names a uth, for messages and traces. The name is copied.
 *
 * Returns 0, or -1: EINVAL if thread or name is NULL.
 *
 * Called from anywhere. Does not switch.
 */
int uth_set_name(uth_t thread, const char *name);

#if defined(__cplusplus) && __cplusplus >= 201103L
static_assert(sizeof(uth_options_t) == sizeof(size_t) + 2 * sizeof(int), "uth_options_t");
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
_Static_assert(sizeof(uth_options_t) == sizeof(size_t) + 2 * sizeof(int), "uth_options_t");
#endif

#ifdef __cplusplus
}
#endif

#endif /* UTH_H */
