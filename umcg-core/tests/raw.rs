//! Servers and workers by reference: switches from any kind of worker to any other.
//!
//! - R: a flow that makes a worker, gets an event for it, or takes it out of READY has the right to
//!   run it. It gives that right up by putting the worker there. No worker is in there twice.

use std::alloc::Layout;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::time::{Duration, Instant};
use umcg_core::raw::{self, Event, EventKind, Group, RunningWorker, Server, SizeClass, Worker};
use umcg_core::storage;

/// How often each worker hands its server to another one.
const TURNS: u32 = 2_000;
/// Set for a copy of this program, where threads stay.
const COPY: &str = "UMCG_TEST_COPY";

/// The workers that may run, first in, first out.
static READY: Mutex<Vec<Worker>> = Mutex::new(Vec::new());
static TURNED: AtomicUsize = AtomicUsize::new(0);

/// Called once the worker of this word is fully suspended: any flow may run it from here on.
unsafe extern "C" fn make_ready(worker: *mut ()) {
    // SAFETY: the word is that of the worker that has yielded. With this, READY has the right to
    // run it (R).
    READY
        .lock()
        .unwrap()
        .push(unsafe { Worker::from_ptr(worker) });
}

fn next() -> Option<Worker> {
    let mut ready = READY.lock().unwrap();
    (!ready.is_empty()).then(|| ready.remove(0))
}

/// The body of all workers: they yield to each other, with data of their own on their stacks.
fn body(me: Worker) {
    for turn in 0..TURNS {
        let mine = [turn; 16];
        let running = RunningWorker::here().unwrap();
        assert_eq!(running.worker().into_ptr(), me.into_ptr());
        match next() {
            // SAFETY: nothing has switched since `here`. `next` is ours to run (R), and
            // `make_ready` passes on the right to run us. All are run by reference only.
            Some(next) if turn % 8 != 0 => unsafe {
                running.switch_with(next, make_ready, me.into_ptr())
            },
            next => {
                READY.lock().unwrap().extend(next);
                // SAFETY: nothing has switched since `here`.
                assert!(unsafe { running.wait(None) });
            }
        }
        assert_eq!(mine, [turn; 16]);
        TURNED.fetch_add(1, Relaxed);
    }
}

unsafe extern "C" fn first_frame(argument: *mut ()) -> ! {
    // SAFETY: the first call of the entry function.
    let me = unsafe { Worker::begin(argument) };
    // SAFETY: once, by itself.
    unsafe { me.run(|| body(me)) };
    ENDED.lock().unwrap().push(me.into_ptr().addr());
    // SAFETY: nothing switches in between.
    unsafe { RunningWorker::here().unwrap().wait(None) };
    unreachable!("it was discarded");
}

/// Workers that have only to be discarded.
static ENDED: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// Runs workers until `left` of them have ended.
fn serve(group: Group, mut left: usize) {
    let server = Server::register(group, 0).unwrap();
    while left > 0 {
        // SAFETY: the server's own flow, and the worker is ours to run (R).
        let event = server
            .try_wait()
            .or_else(|| next().map(|worker| unsafe { server.run(worker) }));
        match event {
            Some(Event::Ready(_, worker))
                if ENDED.lock().unwrap().contains(&worker.into_ptr().addr()) =>
            {
                // SAFETY: the right to run it came with the event, and goes nowhere else.
                unsafe { worker.discard() };
                left -= 1;
            }
            Some(Event::Ready(_, worker)) => READY.lock().unwrap().push(worker),
            Some(Event::News(EventKind::Exit, _)) => left -= 1,
            Some(Event::News(..)) | None => {}
        }
    }
    // SAFETY: once, by its own flow.
    unsafe { server.unregister() };
}

#[test]
fn all_kinds_switch_to_each_other() {
    let copy = std::env::var_os(COPY).is_some();
    assert!(!copy || !raw::threads_move());
    let group = Group::make();
    let class = SizeClass::for_size(64 << 10).unwrap();
    let room = Layout::new::<()>();
    let threads: Vec<_> = (0..3)
        .map(|id| {
            std::thread::spawn(move || {
                let me = Worker::register(group, id, 0).unwrap();
                body(me);
                // SAFETY: it is a thread worker, in its own flow.
                unsafe { me.unregister() };
            })
        })
        .collect();
    let mut made = threads.len();
    for _ in 0..3 {
        let light = Worker::carve_sharing(group, class, "", room, first_frame).unwrap();
        READY.lock().unwrap().push(light);
        made += 1;
        if storage::available().is_ok() {
            let owning = Worker::carve_owning(group, class, "", room, first_frame).unwrap();
            READY.lock().unwrap().push(owning);
            made += 1;
        }
    }
    serve(group, made);
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    assert_eq!(TURNED.load(Relaxed), made * TURNS as usize);
    // SAFETY: made above, once; its server has unregistered, and all of its workers have ended.
    unsafe { group.unmake() };
    // A program under qemu cannot run itself.
    if cfg!(target_arch = "x86_64") && !copy && raw::threads_move() {
        // If threads stay, there are no blocks either, so the kinds are light workers and threads.
        let mut again = Command::new(std::env::current_exe().unwrap());
        let status = again
            .env(COPY, "1")
            .env("UMCG_NO_FSGSBASE", "1")
            .status()
            .unwrap();
        assert!(status.success(), "{status}");
    }
}

/// Blocks the tick's signal on the calling kernel thread, or lets it come. It uses a system call,
/// so the signal comes in the C library, where no worker is taken off.
fn set_ticks_blocked(blocked: bool) {
    let how = if blocked {
        libc::SIG_BLOCK
    } else {
        libc::SIG_UNBLOCK
    };
    let set = 1u64 << (libc::SIGURG - 1);
    // SAFETY: a set of 64 signals, and nowhere to write the one before.
    let status = unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            how,
            &raw const set,
            0usize,
            size_of::<u64>(),
        )
    };
    assert_eq!(status, 0);
}

/// Sends the calling kernel thread the timer's tick.
fn tick() {
    // A siginfo_t: signal, errno, code.
    let mut information = [0i32; 32];
    (information[0], information[2]) = (libc::SIGURG, libc::SI_TIMER);
    // SAFETY: no arguments.
    let thread = unsafe { libc::syscall(libc::SYS_gettid) };
    // SAFETY: the kernel reads a siginfo_t, of this size.
    let status = unsafe {
        libc::syscall(
            libc::SYS_rt_tgsigqueueinfo,
            std::process::id(),
            thread,
            libc::SIGURG,
            information.as_ptr(),
        )
    };
    assert_eq!(status, 0);
}

#[test]
fn a_request_to_preempt_that_the_kernel_merges_with_a_tick_is_not_the_last() {
    static BUSY: AtomicBool = AtomicBool::new(false);
    static OVER: AtomicBool = AtomicBool::new(false);
    const LONG: Duration = Duration::from_secs(300);
    let group = Group::make();
    let server = Server::register(group, 0).unwrap();
    let name = server.into_ptr().expose_provenance();
    let asked = move || {
        // SAFETY: the word of a server that has not unregistered.
        unsafe { Server::from_ptr(std::ptr::with_exposed_provenance_mut(name)) }.preempt();
    };
    let body = move || {
        set_ticks_blocked(true);
        tick();
        asked();
        set_ticks_blocked(false);
        BUSY.store(true, Relaxed);
        let began = Instant::now();
        while !OVER.load(Relaxed) && began.elapsed() < LONG {
            (0..100_000).for_each(|n| _ = std::hint::black_box(n));
        }
    };
    // SAFETY: there is one server, so the worker stays on one kernel thread. It keeps nothing of
    // the thread's.
    let worker = unsafe { Worker::sharing(group, 1, 64 << 10, "", body) }.unwrap();
    let asking = std::thread::spawn(move || {
        while !OVER.load(Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
            if BUSY.load(Relaxed) {
                asked();
            }
        }
    });
    // SAFETY: the server's own flow, which has just made the worker.
    let event = unsafe { server.run(worker) };
    OVER.store(true, Relaxed);
    asking.join().unwrap();
    let Event::Ready(EventKind::Preempt, worker) = event else {
        panic!("it was never taken off")
    };
    assert!(matches!(
        // SAFETY: as above; the event gave the right to run it.
        unsafe { server.run(worker) },
        Event::News(EventKind::Exit, 1)
    ));
    // SAFETY: once, by its own flow.
    unsafe { server.unregister() };
    // SAFETY: made above, once; its server has unregistered, and its worker has ended.
    unsafe { group.unmake() };
}

/// Sends `signal` to the calling kernel thread.
fn raise(signal: i32) {
    // SAFETY: no arguments.
    let thread = unsafe { libc::syscall(libc::SYS_gettid) };
    assert_eq!(
        // SAFETY: it has a handler.
        unsafe { libc::syscall(libc::SYS_tgkill, std::process::id(), thread, signal) },
        0
    );
}

/// Two nested handlers of the program's, and a tick in the inner one, all on the signal stack of
/// the kernel thread that the worker runs on. Rust's own signal stack has no room for that.
#[test]
fn a_tick_in_nested_handlers_has_room_on_the_signal_stack() {
    /// Nanoseconds. No tick comes except the one that is sent.
    const NEVER: u64 = 1 << 50;
    static HANDLED: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn outer(_: i32) {
        raise(libc::SIGUSR2);
        HANDLED.fetch_add(1, Relaxed);
    }
    extern "C" fn inner(_: i32) {
        tick();
        HANDLED.fetch_add(1, Relaxed);
    }
    for (signal, handler) in [
        (libc::SIGUSR1, outer as extern "C" fn(i32)),
        (libc::SIGUSR2, inner),
    ] {
        // SAFETY: zero is a valid sigaction.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_ONSTACK;
        assert_eq!(
            // SAFETY: the handlers are async-signal-safe while they do not fail.
            unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) },
            0
        );
    }
    let group = Group::make();
    let server = Server::register(group, NEVER).unwrap();
    let thread = std::thread::spawn(move || {
        let me = Worker::register(group, 1, NEVER).unwrap();
        raise(libc::SIGUSR1);
        // SAFETY: it is a thread worker, in its own flow.
        unsafe { me.unregister() };
    });
    let mut event = None;
    while !matches!(event, Some(Event::News(EventKind::Exit, _))) {
        event = match event {
            // SAFETY: the server's own flow; the event gave the right to run it.
            Some(Event::Ready(_, worker)) => Some(unsafe { server.run(worker) }),
            _ => server.try_wait(),
        };
    }
    thread.join().unwrap();
    assert_eq!(HANDLED.load(Relaxed), 2);
    // SAFETY: once, by its own flow.
    unsafe { server.unregister() };
    // SAFETY: made above, once; its server has unregistered, and its worker has ended.
    unsafe { group.unmake() };
}
