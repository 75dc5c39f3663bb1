//! Contexts and kernel threads: a flow continues elsewhere, alone or with its thread-local storage.

mod common;

use common::{Coroutine, Mapped, Sendable, affinity, cpus, kernel_thread, only, set_affinity};
use std::cell::{Cell, RefCell, UnsafeCell};
use std::ptr::null_mut;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering::*};
use std::thread;
use umcg_context::annotate::Flow;
use umcg_context::{
    Context, local, resume, set_thread_pointer, switch, switch_with, thread_pointer,
    thread_pointer_writable,
};

#[test]
fn a_flow_goes_on_on_another_kernel_thread() {
    let seen = Rc::new(RefCell::new(Vec::new()));
    let inner = Rc::clone(&seen);
    let coroutine = Coroutine::new(move |me| {
        for _ in 0..3 {
            inner.borrow_mut().push(kernel_thread());
            me.suspend();
        }
    });
    coroutine.resume();
    let (coroutine, other) = {
        let moved = Sendable((coroutine, Rc::clone(&seen)));
        let thread = thread::spawn(move || {
            let (coroutine, seen) = moved.into_inner();
            coroutine.resume();
            let me = kernel_thread();
            drop(seen);
            Sendable((coroutine, me))
        });
        thread.join().expect("the thread").into_inner()
    };
    coroutine.resume_to_the_end();
    let me = kernel_thread();
    assert_eq!(*seen.borrow(), [me, other, me]);
}

#[test]
fn the_local_words_are_those_of_the_kernel_thread_that_runs() {
    let word = |n: usize| std::ptr::without_provenance_mut::<()>(n);
    let seen = Rc::new(RefCell::new(Vec::new()));
    let inner = Rc::clone(&seen);
    let coroutine = Coroutine::new(move |me| {
        for _ in 0..3 {
            // All in one function around the switch: a cached address would show the first thread's
            // words.
            inner
                .borrow_mut()
                .push((local::vp().addr(), local::task().addr()));
            me.suspend();
        }
    });
    assert!(
        local::vp().is_null() && local::task().is_null(),
        "all zero on a new thread"
    );
    local::set_vp(word(1));
    local::set_task(word(2));
    coroutine.resume();
    let moved = Sendable(coroutine);
    let coroutine = thread::spawn(move || {
        let coroutine = moved.into_inner();
        assert!(local::vp().is_null() && local::task().is_null());
        local::set_vp(word(3));
        local::set_task(word(4));
        coroutine.resume();
        Sendable(coroutine)
    })
    .join()
    .expect("the thread")
    .into_inner();
    coroutine.resume_to_the_end();
    local::set_vp(word(0));
    local::set_task(word(0));
    assert_eq!(*seen.borrow(), [(1, 2), (3, 4), (1, 2)]);
}

/// A flow parks by handing itself to a kernel thread that continues it at once, while the callback
/// that handed it over still runs. If the flow were not fully saved by then, or its stack still in
/// use, this would not last a thousand rounds.
#[test]
fn the_callback_may_give_the_old_flow_to_another_thread() {
    const ROUNDS: u32 = 2_000;
    struct Shared {
        handed: AtomicPtr<(Context, Flow)>,
        rounds: AtomicU32,
        homes: [UnsafeCell<(Context, Flow)>; 2],
        flow: UnsafeCell<(Context, Flow)>,
    }
    // SAFETY: each home belongs to its thread, and the flow to the thread that runs it.
    unsafe impl Sync for Shared {}

    unsafe extern "C" fn publish(shared: *mut ()) {
        // SAFETY: the flow passes the shared state, which outlives both threads.
        let shared = unsafe { &*shared.cast_const().cast::<Shared>() };
        shared.handed.store(shared.flow.get(), Release);
        // The other thread may run the flow by now.
        for _ in 0..20 {
            std::hint::spin_loop();
        }
    }

    #[inline(never)]
    fn home_of_this_thread(shared: &Shared) -> (*mut Context, *mut Flow) {
        parts(shared.homes[local::vp().addr() - 1].get())
    }

    fn parts(pair: *mut (Context, Flow)) -> (*mut Context, *mut Flow) {
        // SAFETY: within the shared state.
        let context = unsafe { &raw mut (*pair).0 };
        // SAFETY: as above.
        (context, unsafe { &raw mut (*pair).1 })
    }

    unsafe extern "C" fn entry(arg: *mut ()) -> ! {
        // SAFETY: as above.
        let shared = unsafe { &*arg.cast_const().cast::<Shared>() };
        let (me, my_flow) = parts(shared.flow.get());
        // SAFETY: first thing on the new stack.
        unsafe { Flow::arrive(my_flow) };
        for round in 0..ROUNDS {
            assert_eq!(shared.rounds.fetch_add(1, Relaxed), round);
            let (home, home_flow) = home_of_this_thread(shared);
            // SAFETY: this thread is suspended in its home.
            unsafe { Flow::leave(my_flow, home_flow) };
            // SAFETY: as above.
            unsafe { switch_with(me, home, publish, arg) };
            // SAFETY: back on this stack.
            unsafe { Flow::arrive(my_flow) };
        }
        let (home, home_flow) = home_of_this_thread(shared);
        // SAFETY: as above.
        unsafe { Flow::leave_for_good(my_flow, home_flow) };
        // SAFETY: as above.
        unsafe { resume(home) }
    }

    fn run(shared: &Shared, number: usize) {
        local::set_vp(std::ptr::without_provenance_mut(number));
        let (home, home_flow) = home_of_this_thread(shared);
        while shared.rounds.load(Acquire) < ROUNDS {
            let taken = shared.handed.swap(null_mut(), Acquire);
            if taken.is_null() {
                thread::yield_now();
                continue;
            }
            let (flow, its_flow) = parts(taken);
            // SAFETY: taken by the swap, so no other thread resumes it.
            unsafe { Flow::leave(home_flow, its_flow) };
            // SAFETY: as above.
            unsafe { switch(home, flow) };
            // SAFETY: back on this stack.
            unsafe { Flow::arrive(home_flow) };
        }
        local::set_vp(null_mut());
    }

    let stack = Mapped::new(256 << 10);
    let shared = Arc::new(Shared {
        handed: AtomicPtr::default(),
        rounds: AtomicU32::new(0),
        homes: [const { UnsafeCell::new((Context::empty(), Flow::new())) }; 2],
        flow: UnsafeCell::new((Context::empty(), Flow::new())),
    });
    let arg = Arc::as_ptr(&shared).cast_mut().cast();
    // SAFETY: no other thread has it yet.
    let (flow, its_flow) = unsafe { &mut *shared.flow.get() };
    its_flow.start(stack.base() as usize, stack.top() as usize);
    // SAFETY: the stack is used by nothing else.
    unsafe { flow.prepare(stack.top(), entry, arg) };
    shared.handed.store(shared.flow.get(), Release);
    let threads = [1, 2].map(|number| {
        let shared = Arc::clone(&shared);
        thread::spawn(move || run(&shared, number))
    });
    for thread in threads {
        thread.join().expect("a thread");
    }
    assert_eq!(shared.rounds.load(Relaxed), ROUNDS);
    // SAFETY: both threads have ended, and the flow with them.
    unsafe { &mut *shared.flow.get() }.1.end();
}

thread_local! {
    static CANARY: Cell<u32> = const { Cell::new(0) };
}

#[inline(never)]
fn canary() -> u32 {
    CANARY.get()
}

#[inline(never)]
fn set_canary(value: u32) {
    CANARY.set(value);
}

const AWAY: u32 = 1;
const HOME: u32 = 2;

/// A pthread whose flow runs on the server's kernel thread, with its own thread-local storage,
/// while its own kernel thread waits.
struct Worker {
    flow: UnsafeCell<Context>,
    home: UnsafeCell<Context>,
    server: UnsafeCell<Context>,
    server_pointer: AtomicUsize,
    pointer: AtomicUsize,
    state: AtomicU32,
    seen: UnsafeCell<Vec<(i64, u32)>>,
    /// The kernel's and glibc's answer to which CPU this is.
    cpus: UnsafeCell<(u32, i32)>,
}

// SAFETY: the state says which thread's turn it is.
unsafe impl Sync for Worker {}

/// Run by the worker's kernel thread meanwhile. Its thread pointer is the worker's, which runs
/// elsewhere. So it must not touch thread-local storage, not even `errno`, and makes no call that
/// can fail.
unsafe extern "C" fn wait_at_home(arg: *mut ()) -> ! {
    // SAFETY: the worker passes itself, and outlives this.
    let worker = unsafe { &*arg.cast_const().cast::<Worker>() };
    worker.state.store(AWAY, Release);
    while worker.state.load(Acquire) != HOME {
        // SAFETY: always succeeds.
        unsafe { libc::sched_yield() };
    }
    // SAFETY: the server has suspended the flow for the last time.
    unsafe { resume(worker.flow.get()) }
}

#[inline(never)]
fn back_to_server(worker: &Worker) {
    let server_pointer = worker.server_pointer.load(Relaxed);
    // SAFETY: the server's kernel thread runs this, and its own flow is suspended. Nothing between
    // here and the switch is thread-local.
    unsafe { set_thread_pointer(server_pointer) };
    // SAFETY: the server is suspended there.
    unsafe { switch(worker.flow.get(), worker.server.get()) };
}

fn worker_thread(worker: &Worker, cpu: usize) {
    const ROUNDS: usize = 1_000;
    set_canary(42);
    set_affinity(&only(cpu));
    worker.pointer.store(thread_pointer(), Relaxed);
    let me = kernel_thread();
    let home_stack = Mapped::new(64 << 10);
    let arg = (&raw const *worker).cast_mut().cast();
    // SAFETY: no other thread touches it while the state is 0.
    let home = unsafe { &mut *worker.home.get() };
    // SAFETY: the stack is used by nothing else.
    unsafe { home.prepare(home_stack.top(), wait_at_home, arg) };
    // SAFETY: both are valid; the server resumes the flow, with the thread pointer set.
    unsafe { switch(worker.flow.get(), home) };
    for _ in 0..ROUNDS {
        // SAFETY: the server reads it only when this thread has ended.
        unsafe { &mut *worker.seen.get() }.push((kernel_thread(), canary()));
        set_canary(canary() + 1);
        assert_ne!(kernel_thread(), me);
        // SAFETY: no arguments.
        let glibcs = unsafe { libc::sched_getcpu() };
        // SAFETY: as above.
        unsafe { worker.cpus.get().write((kernels_cpu(), glibcs)) };
        back_to_server(worker);
    }
    // Back on its own kernel thread.
    assert_eq!((kernel_thread(), canary()), (me, 42 + ROUNDS as u32));
    assert_eq!(thread_pointer(), worker.pointer.load(Relaxed));
}

fn kernels_cpu() -> u32 {
    let mut cpu = 0u32;
    assert_eq!(
        // SAFETY: room for the answer.
        unsafe { libc::syscall(libc::SYS_getcpu, &raw mut cpu, 0, 0) },
        0
    );
    cpu
}

/// Whether glibc registered its threads for rseq, and answers from the area in thread-local
/// storage.
fn glibc_uses_rseq() -> bool {
    // SAFETY: a constant name.
    let size = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_size".as_ptr()) };
    // SAFETY: the symbol, where there is one, is a plain integer.
    unsafe { size.cast::<u32>().as_ref() }.is_some_and(|&size| size > 0)
}

#[test]
#[cfg_attr(
    umcg_tsan,
    ignore = "the thread that waits at home would share the state that TSan keeps a thread"
)]
fn a_pthread_runs_on_another_kernel_thread_with_its_storage() {
    if !thread_pointer_writable() {
        eprintln!("skipped: the thread pointer cannot be written here");
        return;
    }
    let worker = Arc::new(Worker {
        flow: UnsafeCell::new(Context::empty()),
        home: UnsafeCell::new(Context::empty()),
        server: UnsafeCell::new(Context::empty()),
        server_pointer: AtomicUsize::new(thread_pointer()),
        pointer: AtomicUsize::new(0),
        state: AtomicU32::new(0),
        seen: UnsafeCell::new(Vec::new()),
        cpus: UnsafeCell::new((0, 0)),
    });
    set_canary(7);
    let theirs = Arc::clone(&worker);
    let before = affinity();
    let (here, there) = (cpus(&before)[0], cpus(&before).pop().expect("a CPU"));
    set_affinity(&only(here));
    let thread = thread::spawn(move || worker_thread(&theirs, there));
    while worker.state.load(Acquire) != AWAY {
        thread::yield_now();
    }
    for round in 0..1_000 {
        run_worker(&worker);
        assert_eq!(canary(), 7, "round {round}");
    }
    worker.state.store(HOME, Release);
    thread.join().expect("the worker");
    // SAFETY: the worker has ended.
    let seen = unsafe { &*worker.seen.get() };
    let me = kernel_thread();
    assert!(
        seen.iter()
            .copied()
            .eq((42..1_042).map(|value| (me, value)))
    );
    // The area that the kernel keeps for rseq moved with the storage, so glibc names the CPU of the
    // worker's own kernel thread.
    // SAFETY: as above.
    let (kernels, glibcs) = unsafe { *worker.cpus.get() };
    assert_eq!(kernels as usize, here);
    assert_eq!(
        glibcs as usize,
        if glibc_uses_rseq() { there } else { here }
    );
    set_affinity(&before);
}

#[inline(never)]
fn run_worker(worker: &Worker) {
    let pointer = worker.pointer.load(Relaxed);
    // SAFETY: the worker's own kernel thread waits without it. Nothing between here and the switch
    // is thread-local.
    unsafe { set_thread_pointer(pointer) };
    // SAFETY: the worker's flow is suspended.
    unsafe { switch(worker.server.get(), worker.flow.get()) };
}
