/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * umcg/rt.h - the runtime: spawn workers, and let servers run them.
 *
 * A runtime is a number of kernel threads, its servers, which run workers: functions on stacks of
 * their own. A worker runs until it waits for something (another worker, a time, a descriptor);
 * then its server runs the next one. The global runtime, with a server for each CPU, starts when it
 * is first needed; umcg_rt_start makes others.
 *
 * A worker has thread-local storage of its own unless its attributes say otherwise. To the
 * functions it calls it is a thread, with its own errno and C++ exceptions. A *light* worker
 * (own_tls 0) shares the storage of the server that runs it, which is faster. Across a call that
 * may switch it must not keep the address of a thread-local, errno included, nor a mutex that knows
 * its owner.
 *
 * Cancellation is cooperative. umcg_abort asks a worker to end. From then on its calls that are
 * marked "cancellable" below do not wait, or stop waiting, and return -1 with ECANCELED. The worker
 * is to clean up and return. Nothing is unwound, and a worker that is aborted before it has begun
 * still begins. umcg_shield_begin keeps the abort off for a while.
 *
 * Every function says where it may be called from and whether it may switch, that is, let other
 * workers run in the caller's place before it returns. "Anywhere" means any thread or worker, but
 * no signal handler. A plain thread sleeps where a worker would switch. Functions that can fail
 * return -1, or NULL, and set errno.
 *
 * Times are nanoseconds of CLOCK_MONOTONIC. As a deadline UMCG_NO_TIMEOUT means never. With
 * UMCG_POLL, as with every time that has passed, a call does not wait, but may let others run once.
 * Waits with a deadline fail with ETIMEDOUT once it has passed.
 *
 * Do not make a call that starts threads in a constructor of a library that is loaded by dlopen: it
 * never returns. Make it in a function that is called after dlopen has returned. Such a call waits
 * until its threads have begun, and a thread that begins takes the lock of the dynamic loader,
 * which dlopen holds while it runs constructors. The calls are: umcg_rt_start; the first use of the
 * global runtime, unless the program has used that before it calls dlopen; and a wait for a timer
 * of umcg/nt.h, or for a worker that is a thread for want of storage, since that thread may begin
 * only then. (The same holds for each thread that a constructor waits for and that has a C++
 * thread_local with a destructor.) Constructors of libraries that the program is linked with may
 * make these calls.
 *
 * Servers are threads of the process, and those of the global runtime never end. So once a runtime
 * has servers, a main that ends by pthread_exit(3) does not end the process. Return from main, or
 * call exit(3).
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

/* The right to join a worker. The caller that spawned the worker joins or detaches it, once, and
 * does not use this pointer again. */
typedef struct umcg_worker umcg_worker_t;

/*
 * A handle to unpark a worker or thread: a plain value of a pointer's size, which may be copied and
 * compared. It may outlive its worker or thread. It then wakes nothing, or gives whichever worker
 * or thread has the place by then a wakeup without a reason.
 */
typedef struct umcg_flow *umcg_handle_t;

/* The key of a worker-local value. */
typedef struct umcg_local umcg_local_t;

/* ---- Runtimes ---- */

/* The rule by which the next worker to run is chosen. */
enum umcg_scheduler {
    /* one queue for each server, the last woken first; idle servers steal; the default */
    UMCG_WORK_STEALING = 0,
    UMCG_FIFO = 1,             /* one queue */
    UMCG_PRIORITY = 2,         /* the most urgent first: see priority in umcg_spawn_attr */
    UMCG_EARLIEST_DEADLINE = 3 /* see deadline_ns there */
};

/* The kernel interface that waits for I/O. */
enum umcg_driver {
    UMCG_DRIVER_AUTO = 0, /* the best that the kernel offers */
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
    int pin;                /* 1: each server stays on a CPU of its own */
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
 * Fails with EINVAL: an option, or UMCG_DRIVER in the environment, has an impossible value; E2BIG:
 * an option is set that this library does not know; EOPNOTSUPP, EPERM, ENOSYS: UMCG_DRIVER_IO_URING
 * is asked for, and the kernel does not know it or does not allow it; ENOMEM, EAGAIN, EMFILE...: no
 * memory, threads, timers or descriptors left.
 *
 * Called from anywhere. May switch.
 */
umcg_rt_t *umcg_rt_start(const umcg_rt_options_t *options);

/*
 * umcg_rt_stop - waits until the runtime has no workers, for timeout_ns at most (UMCG_NO_TIMEOUT:
 * for ever), and ends it.
 *
 * Fails with ETIMEDOUT: there were workers left, which have been given up with everything they own,
 * and run no more; EDEADLK: the caller is one of its workers; EINVAL: rt is NULL; EOPNOTSUPP, at
 * once: rt was started before a fork(2) whose child this process is. After success or ETIMEDOUT rt
 * must not be used any more.
 *
 * Called from anywhere. Switches when called in a worker (of another runtime). Not cancellable.
 */
int umcg_rt_stop(umcg_rt_t *rt, uint64_t timeout_ns);

/*
 * umcg_rt_dump - writes a text to fd: the runtime's workers, the state of each, and the stacks of
 * those that wait.
 *
 * rt may be NULL: the caller's runtime, or else the global one. Fails as write(2) does.
 *
 * Called from anywhere. Switches when called in a worker. Not cancellable.
 */
int umcg_rt_dump(umcg_rt_t *rt, int fd);

/*
 * umcg_rt_trim - gives the memory of the stacks that no worker has back to the kernel, and returns
 * how many stacks that was.
 *
 * Servers of all runtimes hand over the stacks that they keep for themselves, except a server that
 * is running one worker without end. Without this call a runtime gives back all but some hundred
 * stacks for each server, about a second after they were last used.
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
    /* when it should be done, for UMCG_EARLIEST_DEADLINE; nothing happens at that time; 0: never */
    uint64_t deadline_ns;
    int priority;         /* 0 to 255, the most urgent, for UMCG_PRIORITY; 128 unless set */
    /* the server that is to run it, from 0; -1, or a number that the runtime does not have: any */
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
 * printed, and std::terminate is called at the throw. Its handler prints the type and what(),
 * unless it is the program's own. pthread_exit(3) must not be called.
 *
 * Fails with EINVAL: fn is NULL; ENOMEM: no memory for its stack or storage, or the global runtime
 * could not be started; EAGAIN: a worker with storage of its own has to be a thread here, and there
 * is no thread for it; ESHUTDOWN: the runtime is being stopped, and the caller is not in it.
 *
 * Called from anywhere. Does not switch.
 */
umcg_worker_t *umcg_spawn(void *(*fn)(void *arg), void *arg);

/*
 * umcg_spawn_attr - as umcg_spawn, in the runtime rt and with these attributes. Both may be NULL.
 *
 * Fails also with EINVAL: an attribute has an impossible value; E2BIG: an attribute is set that
 * this library does not know; EOPNOTSUPP: rt was started before a fork(2) whose child this process
 * is.
 *
 * Called from anywhere. Does not switch.
 */
umcg_worker_t *umcg_spawn_attr(umcg_rt_t *rt, const umcg_spawn_attr_t *attr, void *(*fn)(void *arg),
                               void *arg);

/*
 * umcg_join - waits for the worker's end, and stores what its function returned to *result. result
 * may be NULL.
 *
 * It does not return earlier, even when the caller is aborted meanwhile: the worker may be using
 * the caller's data. Fails with EINVAL: worker is NULL; EDEADLK: it is the caller; ESHUTDOWN:
 * umcg_rt_stop has given it up, and it counts as joined.
 *
 * Called from anywhere. May switch. Not cancellable.
 */
int umcg_join(umcg_worker_t *worker, void **result);

/*
 * umcg_join_until - as umcg_join, until deadline_ns. After a failure other than ESHUTDOWN the
 * worker must still be joined or detached.
 *
 * Called from anywhere. May switch. Cancellable.
 */
int umcg_join_until(umcg_worker_t *worker, void **result, uint64_t deadline_ns);

/*
 * umcg_detach - gives up the right to join the worker: it is freed when it ends. Fails with EINVAL:
 * worker is NULL.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_detach(umcg_worker_t *worker);

/*
 * umcg_abort - asks the worker to end: its cancellable calls fail with ECANCELED from now on. It
 * must still be joined or detached. Fails with EINVAL: worker is NULL.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_abort(umcg_worker_t *worker);

/*
 * umcg_cancelled - 1 if the calling worker was asked to end, 0 if not. For long computations that
 * wait nowhere.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_cancelled(void);

/*
 * umcg_shield_begin, umcg_shield_end - begins or ends a section in which cancellable calls wait as
 * if the worker had not been aborted: for cleaning up. Sections nest. In a worker an end without a
 * begin fails with EINVAL. A plain thread needs no section; there both return 0.
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
 * umcg_sleep_ns, umcg_sleep_until_ns - waits for this long, or until this time. Any time may be
 * given; one that has passed is no error.
 *
 * Called from anywhere. May switch. Cancellable.
 */
int umcg_sleep_ns(uint64_t duration_ns);
int umcg_sleep_until_ns(uint64_t time_ns);

/*
 * umcg_after_ns - the time this many nanoseconds from now, as a deadline:
 * umcg_sem_acquire_until(&s, umcg_after_ns(1000000)). It is never UMCG_NO_TIMEOUT.
 *
 * Called from anywhere. Does not switch.
 */
uint64_t umcg_after_ns(uint64_t timeout_ns);

/*
 * umcg_at_realtime_ns - a time of CLOCK_REALTIME, in nanoseconds, as a deadline, never earlier than
 * that time: umcg_futex_wait(word, 0, 0, umcg_at_realtime_ns(midnight)). UMCG_NO_TIMEOUT is
 * returned unchanged. The deadline follows the clock as it stands now. If the clock may be set
 * before then, look at it when the wait has ended, and wait again if it is too early.
 *
 * Called from anywhere. Does not switch.
 */
uint64_t umcg_at_realtime_ns(uint64_t time_ns);

/*
 * umcg_self - the caller's handle, with which others can unpark it. Never fails.
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
 * umcg_park, umcg_park_until - waits until the caller is unparked. Returns at once if it was
 * unparked since it last parked.
 *
 * May return without a reason: check again what you wait for.
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
 * umcg_hand_over - unparks next and parks the caller. With UMCG_WORK_STEALING next runs at once, in
 * the caller's place.
 *
 * Fails with EINVAL: next is NULL; ECANCELED: the caller was aborted, but next was unparked all the
 * same.
 *
 * Called from anywhere. May switch. Cancellable.
 */
int umcg_hand_over(umcg_handle_t next);

/*
 * umcg_blocking - calls fn(arg), which may block in the kernel, on a helper thread, and returns its
 * result. The caller's server runs other workers meanwhile. It is umcg_blocking_begin and
 * umcg_blocking_end around fn. A C++ exception may leave fn, unless the caller is a light worker.
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
 * If destructor is not NULL, it is called at a worker's or thread's end with its value, if that is
 * not NULL; it may wait. Values that destructors set are destroyed in turn, without a bound: a
 * worker whose destructors always set one never ends. Fails with ENOMEM.
 *
 * Called from anywhere. Does not switch.
 */
umcg_local_t *umcg_local_create(void (*destructor)(void *value));

/*
 * umcg_local_get - the caller's value. Returns NULL, with EINVAL, if key is NULL; otherwise errno
 * is left alone.
 *
 * Called from anywhere. Does not switch.
 */
void *umcg_local_get(umcg_local_t *key);

/*
 * umcg_local_set - sets the caller's value. The previous value is not destroyed. Fails with EINVAL:
 * key is NULL; ENOMEM.
 *
 * Called from anywhere. Does not switch.
 */
int umcg_local_set(umcg_local_t *key, void *value);

/* ---- Input and output ---- */

/*
 * These are the POSIX calls of the same name without umcg_, on plain descriptors, and fail as those
 * do. But where a POSIX call would block in the kernel, only the calling worker waits. Two rules:
 *
 *   - Close a descriptor that was given to one of them by umcg_close, not by close(2), and do not
 *     use dup2(2) onto it: the library keeps state about it.
 *   - They make sockets, pipes and the like non-blocking for every process that shares them. They
 *     leave as they are: descriptors 0 to 2 that are no sockets, terminals, files and directories.
 *     Those are read and written by io_uring or on a helper thread, which is not cut short.
 *
 * Several workers may use one descriptor at once. In a child of fork(2), waits on a descriptor of
 * the parent fail with EOPNOTSUPP.
 */

/*
 * umcg_accept - as accept4(2). The new descriptor is always non-blocking, whatever flags says. A
 * connection that broke before it was accepted does not count: the call waits for the next one. A
 * server loop should go on after EMFILE, ENFILE, ENOBUFS and ENOMEM, after a short sleep (see
 * examples/c/echo_server.c): descriptors or memory are short then, and come back when other
 * connections end.
 *
 * Called from anywhere. May switch. Cancellable.
 */
int umcg_accept(int fd, struct sockaddr *address, socklen_t *length, int flags);

/*
 * umcg_connect - as connect(2). If it is cut short the connection may still come about: close the
 * socket.
 *
 * Called from anywhere. May switch. Cancellable.
 */
int umcg_connect(int fd, const struct sockaddr *address, socklen_t length);

/*
 * umcg_read, umcg_recv - as read(2) and recv(2): wait for the first byte, or the end. MSG_DONTWAIT
 * is heeded. MSG_WAITALL does not wait for more than the first bytes. A size above SSIZE_MAX fails
 * with EINVAL, here and in the calls below.
 *
 * Called from anywhere. May switch. Cancellable.
 */
ssize_t umcg_read(int fd, void *buffer, size_t size);
ssize_t umcg_recv(int fd, void *buffer, size_t size, int flags);

/*
 * umcg_write, umcg_send - as write(2) and send(2): wait until everything has been taken. If an
 * error comes, or the caller is aborted, after a part has been taken, they return the size of that
 * part. On sockets, a peer that is gone gives EPIPE, never SIGPIPE.
 *
 * Called from anywhere. May switch. Cancellable.
 */
ssize_t umcg_write(int fd, const void *buffer, size_t size);
ssize_t umcg_send(int fd, const void *buffer, size_t size, int flags);

/*
 * umcg_poll_fd - waits until fd is ready, as poll(2) does for one descriptor. For descriptors on
 * which other calls are to be made.
 *
 * events is POLLIN, perhaps with POLLPRI and POLLRDHUP, or POLLOUT. Both directions at once fail
 * with EINVAL. Returns poll's revents.
 *
 * Called from anywhere. May switch. Cancellable.
 */
int umcg_poll_fd(int fd, int events, uint64_t deadline_ns);

/*
 * umcg_close - forgets the state kept for fd, and closes it. Any descriptor may be given to it.
 *
 * Fails with EBUSY, and closes nothing, while another worker is in one of these calls on fd: end
 * that call first, by shutdown(2) or umcg_abort.
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
