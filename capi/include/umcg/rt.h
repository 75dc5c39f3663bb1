/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * umcg/rt.h - the runtime: spawn workers, and let servers see to the rest.
 *
 * A runtime is a number of kernel threads, its servers, which run workers: functions on stacks of
 * their own. A worker runs until it waits for something (another worker, a time, a descriptor), and
 * then its server runs the next one. The global runtime, with a server for each CPU, starts when it
 * is first needed; umcg_rt_start makes others.
 *
 * A worker has thread-local storage of its own unless its attributes say otherwise: to what it
 * calls it is a thread, with its own errno and C++ exceptions. A *light* worker (own_tls 0) shares
 * that of whatever server runs it, which is faster; it keeps no address of a thread-local, errno
 * included, and no mutex that knows its owner, across a call that may switch.
 *
 * Cancellation is cooperative. umcg_abort asks a worker to end: from then on its calls that are
 * marked "cancellable" below do not wait, or wait no more, and return -1 with ECANCELED. The worker
 * is to clean up and return; nothing is unwound, and a worker that is aborted before it has begun
 * still begins. umcg_shield_begin keeps that off for a while.
 *
 * Every function says where it may be called from and whether it may switch, that is, let other
 * workers run in the caller's place before it returns. "Anywhere" means any thread or worker, but
 * no signal handler; a plain thread sleeps where a worker would switch. Functions that can fail
 * return -1, or NULL, and set errno.
 *
 * Times are nanoseconds of CLOCK_MONOTONIC. As a deadline UMCG_NO_TIMEOUT means never. With
 * UMCG_POLL, as with every time that has passed, a call does not wait, but may let others run once.
 * Waits with a deadline fail with ETIMEDOUT once it has passed.
 *
 * A call that starts threads waits until they have begun, and a thread that begins takes the lock
 * of the dynamic loader. dlopen holds that lock while it runs constructors, so in those such a call
 * never returns. These are umcg_rt_start; the first use of the global runtime, unless the program
 * has used that before it calls dlopen; and a wait for a timer of umcg/nt.h, or for a worker that
 * is a thread for want of storage, since that thread may begin only then. (The same holds for each
 * thread that a constructor waits for and that has a C++ thread_local with a destructor.) Make
 * these calls in a function that is called after dlopen has returned. Constructors of libraries
 * that the program is linked with may make them.
 *
 * Servers are threads of the process: a main that ends by pthread_exit(3) does not end it once a
 * runtime has servers, and those of the global runtime never end. Return from main, or call
 * exit(3).
 */
#ifndef UMCG_RT_H
#define UMCG_RT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "../umcg.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A runtime. */
typedef struct umcg_rt umcg_rt_t;

/* The right to a worker's end: whoever spawned it joins it or detaches it, once, and does not use
 * this again. */
typedef struct umcg_worker umcg_worker_t;

/*
 * A worker or thread, as somebody who may unpark it: a plain value of a pointer's size, which may
 * be copied and compared. It may outlive what it names, and then wakes, without a reason, whoever
 * has the place by then, or nobody.
 */
typedef struct umcg_flow *umcg_handle_t;

/* The key of a worker-local value. */
typedef struct umcg_local umcg_local_t;

/* ---- Runtimes ---- */

/* What decides which worker runs next. */
enum umcg_scheduler {
    /* a queue a server, the last woken first, idle servers steal; the default */
    UMCG_WORK_STEALING = 0,
    UMCG_FIFO = 1,             /* one queue */
    UMCG_PRIORITY = 2,         /* the most urgent first: see priority in umcg_spawn_attr */
    UMCG_EARLIEST_DEADLINE = 3 /* see deadline_ns there */
};

/* What waits for I/O. */
enum umcg_driver {
    UMCG_DRIVER_AUTO = 0, /* what the kernel has to offer */
    UMCG_DRIVER_IO_URING = 1,
    UMCG_DRIVER_EPOLL = 2
};

/* Begin with UMCG_RT_OPTIONS_INIT, which sets size and the defaults. */
typedef struct umcg_rt_options {
    size_t size;            /* of this structure, as the caller knows it */
    size_t stack_size;      /* of a worker, in bytes, rounded up; 0: 256 KiB */
    /* how long a worker may run while others wait; 0: as long as it likes */
    uint64_t preemption_ns;
    const char *name;       /* of the servers' threads; copied; NULL: umcg */
    int servers;            /* at most 1024; 0: one for each CPU */
    int pin;                /* whether each server stays on a CPU of its own */
    int scheduler;          /* an enum umcg_scheduler */
    int driver;             /* an enum umcg_driver */
    /* how many helper threads the process may have; 0: as UMCG_HELPERS says, or 512 */
    int helpers;
    int reserved;           /* 0 */
} umcg_rt_options_t;

/* clang-format off */
#define UMCG_RT_OPTIONS_INIT {sizeof(umcg_rt_options_t), 0, 0, NULL, 0, 0, UMCG_WORK_STEALING, \
                              UMCG_DRIVER_AUTO, 0, 0}
/* clang-format on */

/*
 * umcg_rt_start - starts a runtime. options may be NULL.
 *
 * Fails with EINVAL: an option has an impossible value, or UMCG_DRIVER in the environment has;
 * E2BIG: options has something set that this library does not know; EOPNOTSUPP, EPERM, ENOSYS:
 * UMCG_DRIVER_IO_URING is asked for, and the kernel does not know or not allow it; ENOMEM, EAGAIN,
 * EMFILE...: no memory, threads, timers or descriptors left.
 *
 * Called from anywhere. May switch.
 */
umcg_rt_t *umcg_rt_start(const umcg_rt_options_t *options);

/*
 * umcg_rt_stop - waits until the runtime has no workers, for timeout_ns at most (UMCG_NO_TIMEOUT:
 * for ever), and ends it.
 *
 * Fails with ETIMEDOUT: there were workers left, which have been given up with all that they own,
 * and run no more; EDEADLK: the caller is one of its workers; EINVAL: rt is NULL; EOPNOTSUPP, at
 * once: rt was started before a fork(2) whose child this process is. Unless it fails with the last
 * three, rt is not to be used any more.
 *
 * Called from anywhere. Switches when called in a worker (of another runtime). Not cancellable.
 */
int umcg_rt_stop(umcg_rt_t *rt, uint64_t timeout_ns);

/*
 * umcg_rt_dump - writes a text to fd: the runtime's workers, what each is doing, and where those
 * stand that wait.
 *
 * rt may be NULL: the caller's runtime, or the global one. Fails as write(2) does.
 *
 * Called from anywhere. Switches when called in a worker. Not cancellable.
 */
int umcg_rt_dump(umcg_rt_t *rt, int fd);

/*
 * umcg_rt_trim - gives the kernel back the memory of the stacks that no worker has, and returns how
 * many stacks that was.
 *
 * Servers of all runtimes hand over what they keep for themselves, unless they run one worker
 * without end just then. Without this call, runtimes give back, a second or so after they were of
 * use last, all but some hundred a server.
 *
 * Called from anywhere. Does not switch; waits for the servers, for some milliseconds.
 */
size_t umcg_rt_trim(void);

/* ---- Workers ---- */

/* Begin with UMCG_SPAWN_ATTR_INIT, which sets size and the defaults. */
typedef struct umcg_spawn_attr {
    size_t size;          /* of this structure, as the caller knows it */
    size_t stack_size;    /* in bytes, rounded up; 0: as the runtime's options say */
    const char *name;     /* for messages and dumps; copied, and cut to 23 bytes; NULL: none */
    /* when it should be done, for UMCG_EARLIEST_DEADLINE; nothing happens then; 0: whenever */
    uint64_t deadline_ns;
    int priority;         /* 0 to 255, the most urgent, for UMCG_PRIORITY; 128 unless set */
    /* the server that is to run it, from 0; -1, or one that the runtime does not have: any */
    int server;
    int own_tls;          /* 1: it has thread-local storage of its own; 0: it is light */
} umcg_spawn_attr_t;

/* clang-format off */
#define UMCG_SPAWN_ATTR_INIT {sizeof(umcg_spawn_attr_t), 0, NULL, 0, 128, -1, 1}
/* clang-format on */

/*
 * umcg_spawn - makes a worker that runs fn(arg), in the caller's runtime, or in the global one if
 * the caller has none.
 *
 * It ends when fn returns. A C++ exception that leaves fn ends the process: the worker's name is
 * said, and std::terminate called at the throw, whose handler says the type and what() unless it is
 * the program's. pthread_exit(3) must not be called.
 *
 * Fails with EINVAL: fn is NULL; ENOMEM: no memory for its stack or storage, or the global runtime
 * could not be started; EAGAIN: no thread, where a worker with storage of its own has to be one;
 * ESHUTDOWN: the runtime is being stopped, and the caller is not in it.
 *
 * Called from anywhere. Does not switch.
 */
umcg_worker_t *umcg_spawn(void *(*fn)(void *arg), void *arg);

/*
 * umcg_spawn_attr - as umcg_spawn, in the runtime rt and with these attributes, both of which may
 * be NULL.
 *
 * Fails also with EINVAL: an attribute has an impossible value; E2BIG: attr has something set that
 * this library does not know; EOPNOTSUPP: rt was started before a fork(2) whose child this process
 * is.
 *
 * Called from anywhere. Does not switch.
 */
umcg_worker_t *umcg_spawn_attr(umcg_rt_t *rt, const umcg_spawn_attr_t *attr, void *(*fn)(void *arg),
                               void *arg);

/*
 * umcg_join - waits for the worker's end; *result is what its function returned. result may be
 * NULL.
 *
 * It does not return before that, also when the caller is aborted meanwhile: the worker may be
 * using what is the caller's. Fails with EINVAL: worker is NULL; EDEADLK: it is the caller;
 * ESHUTDOWN: umcg_rt_stop has given it up, and it counts as joined.
 *
 * Called from anywhere. May switch. Not cancellable.
 */
int umcg_join(umcg_worker_t *worker, void **result);

/*
 * umcg_join_until - as umcg_join, until deadline_ns. After a failure other than ESHUTDOWN the
 * worker is still to be joined or detached.
 *
 * Called from anywhere. May switch. Cancellable.
 */
int umcg_join_until(umcg_worker_t *worker, void **result, uint64_t deadline_ns);

/*
 * umcg_detach - leaves the worker to itself: it is freed when it ends. Fails with EINVAL: worker is
 * NULL.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_detach(umcg_worker_t *worker);

/*
 * umcg_abort - asks the worker to end: its cancellable calls fail with ECANCELED from now on. It is
 * still to be joined or detached. Fails with EINVAL: worker is NULL.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_abort(umcg_worker_t *worker);

/*
 * umcg_cancelled - 1 if the calling worker was asked to end, 0 if not. For long computations, which
 * wait nowhere.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_cancelled(void);

/*
 * umcg_shield_begin, umcg_shield_end - a section in which cancellable calls wait as if nobody had
 * aborted the worker: for cleaning up. Sections nest. In a worker an end without a begin is EINVAL;
 * a plain thread needs none, and gets 0.
 *
 * Called from anywhere. Neither switches.
 */
int umcg_shield_begin(void);
int umcg_shield_end(void);

/* ---- Giving way and waiting ---- */

/*
 * umcg_yield - lets other workers run. If the caller was aborted it fails with ECANCELED
 * afterwards.
 *
 * Called from anywhere. May switch. Cancellable.
 */
int umcg_yield(void);

/*
 * umcg_sleep_ns, umcg_sleep_until_ns - waits so long, or until then (any time; one that has passed
 * is no error).
 *
 * Called from anywhere. May switch. Cancellable.
 */
int umcg_sleep_ns(uint64_t duration_ns);
int umcg_sleep_until_ns(uint64_t time_ns);

/*
 * umcg_after_ns - the time so many nanoseconds from now, as a deadline: umcg_sem_acquire_until(&s,
 * umcg_after_ns(1000000)). It is never UMCG_NO_TIMEOUT.
 *
 * Called from anywhere. Does not switch.
 */
uint64_t umcg_after_ns(uint64_t timeout_ns);

/*
 * umcg_at_realtime_ns - a time of CLOCK_REALTIME, in nanoseconds, as a deadline, never before it:
 * umcg_futex_wait(word, 0, 0, umcg_at_realtime_ns(midnight)). UMCG_NO_TIMEOUT stays what it is. It
 * is for the clock as it goes now: if somebody sets the clock before then, look at it when the wait
 * has ended, and wait again if it is too early.
 *
 * Called from anywhere. Does not switch.
 */
uint64_t umcg_at_realtime_ns(uint64_t time_ns);

/*
 * umcg_self - the caller's handle, for others to unpark it. Never fails.
 *
 * Called from anywhere. Does not switch.
 */
umcg_handle_t umcg_self(void);

/*
 * umcg_worker_handle - the handle of a worker that is not joined or detached yet. Fails with
 * EINVAL: worker is NULL.
 *
 * Called from anywhere. Does not switch.
 */
umcg_handle_t umcg_worker_handle(umcg_worker_t *worker);

/*
 * umcg_park, umcg_park_until - waits until somebody unparks the caller; at once if somebody has
 * since it was last parked.
 *
 * May return without a reason: look again at what was waited for.
 *
 * Called from anywhere. May switch. Cancellable.
 */
int umcg_park(void);
int umcg_park_until(uint64_t deadline_ns);

/*
 * umcg_unpark - makes a worker or thread go on. Fails with EINVAL: handle is NULL.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_unpark(umcg_handle_t handle);

/*
 * umcg_hand_over - unparks next and parks: with UMCG_WORK_STEALING next runs at once, in the
 * caller's place.
 *
 * Fails with EINVAL: next is NULL; with ECANCELED next was unparked all the same.
 *
 * Called from anywhere. May switch. Cancellable.
 */
int umcg_hand_over(umcg_handle_t next);

/*
 * umcg_blocking - calls fn(arg), which may block in the kernel, on a helper thread, and returns
 * what it returned; the caller's server runs others meanwhile. As umcg_blocking_begin and
 * umcg_blocking_end around it. A C++ exception may leave fn, unless the caller is a light worker.
 * Fails, with NULL and EINVAL, if fn is NULL.
 *
 * Called from anywhere. Switches when called in a worker. Not cancellable.
 */
void *umcg_blocking(void *(*fn)(void *arg), void *arg);

/* ---- Worker-locals ---- */

/*
 * umcg_local_create - makes a key under which each worker and thread has a value of its own, NULL
 * at first. Keys last for ever.
 *
 * destructor, unless NULL, is called at a worker's or thread's end with its value, if that is not
 * NULL; it may wait. Values that destructors set are destroyed in turn, without a bound: a worker
 * whose destructors always set one never ends. Fails with ENOMEM.
 *
 * Called from anywhere. Does not switch.
 */
umcg_local_t *umcg_local_create(void (*destructor)(void *value));

/*
 * umcg_local_get - the caller's value. NULL also, with EINVAL, if key is NULL; errno is left alone
 * otherwise.
 *
 * Called from anywhere. Does not switch.
 */
void *umcg_local_get(umcg_local_t *key);

/*
 * umcg_local_set - sets the caller's value; what it was before is not destroyed. Fails with EINVAL:
 * key is NULL; ENOMEM.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_local_set(umcg_local_t *key, void *value);

/* ---- Input and output ---- */

/*
 * These are the calls without umcg_ of POSIX, on plain descriptors, and fail as those do; but where
 * those would block in the kernel, only the calling worker waits. Two rules:
 *
 *   - A descriptor that was given to one of them is closed by umcg_close, not by close(2), and
 *     dup2(2) is not used onto it: the library remembers what it knows about it.
 *   - They make sockets, pipes and the like non-blocking for everybody who shares them. Descriptors
 *     0 to 2 that are no sockets, terminals, files and directories are left as they are: read and
 *     written by io_uring or on a helper thread; that is not cut short.
 *
 * Several workers may use one descriptor at once. In a child of fork(2) waits on the parent's fail
 * with EOPNOTSUPP.
 */

/*
 * umcg_accept - as accept4(2). The new descriptor is non-blocking already, whatever flags says. A
 * connection that broke before it was accepted is none: the next one is waited for. A loop that is
 * to live goes on after EMFILE, ENFILE, ENOBUFS and ENOMEM, too, after a short sleep (see
 * examples/c/echo_server.c): then descriptors or memory are short, and come back when other
 * connections end.
 *
 * Called from anywhere. May switch. Cancellable.
 */
int umcg_accept(int fd, struct sockaddr *address, socklen_t *length, int flags);

/*
 * umcg_connect - as connect(2). When it is cut short the connection may still come about: close the
 * socket.
 *
 * Called from anywhere. May switch. Cancellable.
 */
int umcg_connect(int fd, const struct sockaddr *address, socklen_t length);

/*
 * umcg_read, umcg_recv - as read(2) and recv(2): wait for the first byte, or the end. MSG_DONTWAIT
 * is heeded; MSG_WAITALL does not wait for more than there is. A size above SSIZE_MAX is EINVAL,
 * here and in those below.
 *
 * Called from anywhere. May switch. Cancellable.
 */
ssize_t umcg_read(int fd, void *buffer, size_t size);
ssize_t umcg_recv(int fd, void *buffer, size_t size, int flags);

/*
 * umcg_write, umcg_send - as write(2) and send(2): wait until all has been taken. When an error
 * comes, or the caller is aborted, after a part has been, they return the size of that part. A peer
 * that is gone is EPIPE, never SIGPIPE, on sockets.
 *
 * Called from anywhere. May switch. Cancellable.
 */
ssize_t umcg_write(int fd, const void *buffer, size_t size);
ssize_t umcg_send(int fd, const void *buffer, size_t size, int flags);

/*
 * umcg_poll_fd - waits until fd is ready, as poll(2) does for one descriptor: for what other calls
 * are to be made on.
 *
 * events is POLLIN, perhaps with POLLPRI and POLLRDHUP, or POLLOUT; both ways at once are EINVAL.
 * Returns poll's revents.
 *
 * Called from anywhere. May switch. Cancellable.
 */
int umcg_poll_fd(int fd, int events, uint64_t deadline_ns);

/*
 * umcg_close - forgets what is known about fd, and closes it. Any descriptor may be given to it.
 *
 * Fails with EBUSY, and closes nothing, while another worker is in one of these calls on fd: have
 * that end first, by shutdown(2) or umcg_abort.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_close(int fd);

#if defined(__cplusplus) && __cplusplus >= 201103L
static_assert(sizeof(umcg_rt_options_t) ==
                  2 * sizeof(size_t) + sizeof(uint64_t) + sizeof(void *) + 6 * sizeof(int),
              "umcg_rt_options_t");
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
_Static_assert(sizeof(umcg_rt_options_t) ==
                   2 * sizeof(size_t) + sizeof(uint64_t) + sizeof(void *) + 6 * sizeof(int),
               "umcg_rt_options_t");
#endif

#ifdef __cplusplus
}
#endif

#endif /* UMCG_RT_H */
