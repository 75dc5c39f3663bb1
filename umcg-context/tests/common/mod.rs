//! A coroutine made of one context and a plain mapped stack. The tests switch to it and from it.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "every test program has its own copy and uses a part of it"
)]

use std::cell::{Cell, UnsafeCell};
use std::ptr::null_mut;
use umcg_context::annotate::{self, Flow, StackId};
use umcg_context::{Context, inject, resume, switch, switch_with};

/// A mapping with an inaccessible page below it.
#[derive(Debug)]
pub struct Mapped {
    start: *mut u8,
    size: usize,
    id: StackId,
}

const GUARD: usize = 1 << 16;

impl Mapped {
    pub fn new(size: usize) -> Mapped {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping.
        let start = unsafe { libc::mmap(null_mut(), GUARD + size, access, kind, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED);
        // SAFETY: the lowest pages of our mapping.
        assert_eq!(unsafe { libc::mprotect(start, GUARD, libc::PROT_NONE) }, 0);
        let base = start as usize + GUARD;
        Mapped {
            start: start.cast(),
            size,
            id: annotate::stack_allocated(base, base + size),
        }
    }

    pub fn base(&self) -> *mut u8 {
        self.start.wrapping_add(GUARD)
    }

    pub fn size(&self) -> usize {
        self.size
    }

    pub fn top(&self) -> *mut u8 {
        self.base().wrapping_add(self.size)
    }

    pub fn contains(&self, address: usize) -> bool {
        (self.base() as usize..self.top() as usize).contains(&address)
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        annotate::stack_freed(self.id, self.base() as usize, self.top() as usize);
        // SAFETY: ours, and the flows on it have ended or are given up.
        unsafe { libc::munmap(self.start.cast(), GUARD + self.size) };
    }
}

/// Lets a value go to another thread; the test vouches for it.
pub struct Sendable<T>(pub T);

// SAFETY: the tests hand the value over with a join or a channel, and do not use it on two threads
// at a time.
unsafe impl<T> Send for Sendable<T> {}

impl<T> Sendable<T> {
    pub fn into_inner(self) -> T {
        self.0
    }
}

type Body = Box<dyn FnOnce(&Coroutine)>;

/// Runs a closure on its own stack, from one `resume` to the next `suspend`. Resumed by threads,
/// not by other coroutines.
pub struct Coroutine {
    pub context: UnsafeCell<Context>,
    pub resumer: UnsafeCell<Context>,
    flow: UnsafeCell<Flow>,
    resumer_flow: Cell<*mut Flow>,
    body: Cell<Option<Body>>,
    finished: Cell<bool>,
    pub stack: Mapped,
}

impl Coroutine {
    pub fn new(body: impl FnOnce(&Coroutine) + 'static) -> Box<Coroutine> {
        Self::with_stack(256 << 10, body)
    }

    pub fn with_stack(size: usize, body: impl FnOnce(&Coroutine) + 'static) -> Box<Coroutine> {
        let mut new = Box::new(Coroutine {
            context: UnsafeCell::new(Context::empty()),
            resumer: UnsafeCell::new(Context::empty()),
            flow: UnsafeCell::new(Flow::new()),
            resumer_flow: Cell::new(null_mut()),
            body: Cell::new(None),
            finished: Cell::new(false),
            stack: Mapped::new(size),
        });
        new.restart(body);
        new
    }

    /// Gives up the flow on the stack, and makes `body` run next.
    pub fn restart(&mut self, body: impl FnOnce(&Coroutine) + 'static) {
        self.body.set(Some(Box::new(body)));
        self.finished.set(false);
        self.flow
            .get_mut()
            .start(self.stack.base() as usize, self.stack.top() as usize);
        let this = &raw mut *self;
        // SAFETY: the stack is its own, and the box keeps `this` in place.
        unsafe {
            self.context
                .get_mut()
                .prepare(self.stack.top(), entry, this.cast())
        };
    }

    pub fn finished(&self) -> bool {
        self.finished.get()
    }

    /// Runs the coroutine until it suspends itself or ends.
    pub fn resume(&self) {
        let flow = self.about_to_resume();
        // SAFETY: both flows are valid.
        unsafe { Flow::leave(flow.get(), self.flow.get()) };
        // SAFETY: it is suspended, and no other thread resumes it.
        unsafe { switch(self.resumer.get(), self.context.get()) };
        // SAFETY: back on this thread's stack.
        unsafe { Flow::arrive(flow.get()) };
    }

    pub fn resume_to_the_end(&self) {
        while !self.finished() {
            self.resume();
        }
    }

    /// As `resume`, with `f(arg)` called on the coroutine's stack first.
    pub fn resume_with(&self, f: unsafe extern "C" fn(*mut ()), arg: *mut ()) {
        let flow = self.about_to_resume();
        // SAFETY: as `resume`.
        unsafe { Flow::leave(flow.get(), self.flow.get()) };
        // SAFETY: as `resume`.
        unsafe { switch_with(self.resumer.get(), self.context.get(), f, arg) };
        // SAFETY: as `resume`.
        unsafe { Flow::arrive(flow.get()) };
    }

    /// As `resume_with`, with `f` called from where the coroutine is suspended.
    pub fn resume_inside(&self, f: unsafe extern "C" fn(*mut ()), arg: *mut ()) {
        let flow = self.about_to_resume();
        // SAFETY: as `resume`.
        unsafe { Flow::leave(flow.get(), self.flow.get()) };
        // SAFETY: as `resume`.
        unsafe { inject(self.resumer.get(), self.context.get(), f, arg) };
        // SAFETY: as `resume`.
        unsafe { Flow::arrive(flow.get()) };
    }

    /// The flow of this thread, which waits on its stack until the coroutine comes back.
    fn about_to_resume(&self) -> Box<UnsafeCell<Flow>> {
        assert!(!self.finished(), "resumed a coroutine that has finished");
        about_to_switch();
        let here = Box::new(UnsafeCell::new(Flow::new()));
        self.resumer_flow.set(here.get());
        here
    }

    /// Called first in a function that was injected and suspends the coroutine itself.
    pub fn injected(&self) {
        // SAFETY: on the coroutine's stack.
        unsafe { Flow::arrive(self.flow.get()) };
    }

    /// Goes back to the thread that resumed the coroutine. Called on the coroutine.
    #[inline(never)]
    pub fn suspend(&self) {
        // SAFETY: both flows are valid.
        unsafe { Flow::leave(self.flow.get(), self.resumer_flow.get()) };
        // SAFETY: the resumer is suspended in `resume`.
        unsafe { switch(self.context.get(), self.resumer.get()) };
        // SAFETY: back on the coroutine's stack.
        unsafe { Flow::arrive(self.flow.get()) };
    }
}

impl Drop for Coroutine {
    fn drop(&mut self) {
        self.flow.get_mut().end();
    }
}

struct OwnStack(Option<StackId>);

impl Drop for OwnStack {
    fn drop(&mut self) {
        annotate::thread_ended(self.0);
    }
}

thread_local! {
    static OWN_STACK: OwnStack = OwnStack(annotate::thread_started());
}

/// Tells Valgrind about the stack of the calling kernel thread, once.
pub fn about_to_switch() {
    OWN_STACK.with(|_| ());
}

unsafe extern "C" fn entry(arg: *mut ()) -> ! {
    // SAFETY: `restart` passed the coroutine.
    let me = unsafe { &*arg.cast_const().cast::<Coroutine>() };
    // SAFETY: first thing on the new stack.
    unsafe { Flow::arrive(me.flow.get()) };
    let body = me.body.take().expect("a body");
    body(me);
    me.finished.set(true);
    // SAFETY: both flows are valid.
    unsafe { Flow::leave_for_good(me.flow.get(), me.resumer_flow.get()) };
    // SAFETY: the resumer is suspended in `resume`; nothing is left to drop here.
    unsafe { resume(me.resumer.get()) }
}

/// The kernel's name of the kernel thread that runs this, asked for anew.
pub fn kernel_thread() -> i64 {
    // SAFETY: no arguments.
    unsafe { libc::syscall(libc::SYS_gettid) }
}

/// Blocks or unblocks a signal for the calling kernel thread.
pub fn block_signal(signal: i32, block: bool) {
    let how = if block {
        libc::SIG_BLOCK
    } else {
        libc::SIG_UNBLOCK
    };
    // SAFETY: an all-zero set is the empty set.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: our own set.
    unsafe { libc::sigaddset(&mut set, signal) };
    // SAFETY: a valid set, and the old one is not wanted.
    assert_eq!(unsafe { libc::pthread_sigmask(how, &set, null_mut()) }, 0);
}

/// Whether the calling kernel thread blocks a signal.
pub fn signal_blocked(signal: i32) -> bool {
    // SAFETY: an all-zero set is the empty set.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    assert_eq!(
        // SAFETY: only reads the mask.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &mut set) },
        0
    );
    // SAFETY: filled by the call above.
    unsafe { libc::sigismember(&set, signal) == 1 }
}

/// The CPUs that the calling kernel thread may run on.
pub fn affinity() -> libc::cpu_set_t {
    // SAFETY: all-zero is the empty set.
    let mut set = unsafe { std::mem::zeroed() };
    assert_eq!(
        // SAFETY: room for a set.
        unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) },
        0
    );
    set
}

/// Sets the CPUs on which the calling kernel thread may run.
pub fn set_affinity(set: &libc::cpu_set_t) {
    assert_eq!(
        // SAFETY: a valid set.
        unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), set) },
        0
    );
}

/// The set of one CPU.
pub fn only(cpu: usize) -> libc::cpu_set_t {
    // SAFETY: all-zero is the empty set.
    let mut set = unsafe { std::mem::zeroed() };
    // SAFETY: from a set of the same size.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    set
}

/// The CPUs in a set.
pub fn cpus(set: &libc::cpu_set_t) -> Vec<usize> {
    // SAFETY: below the size of a set.
    (0..libc::CPU_SETSIZE as usize)
        .filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, set) })
        .collect()
}
