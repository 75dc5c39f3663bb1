//! The portable methods, alone and beside the assembly in one program.
#![cfg(feature = "portable")]

mod common;

use common::{Mapped, Sendable, kernel_thread};
use std::cell::{Cell, UnsafeCell};
use std::thread;
use umcg_context::portable::{Asm, Mcsc, Sjlj, SwitchMethod};

/// A flow of the method `M` that counts, and the context of its resumer.
struct Counter<M: SwitchMethod> {
    own: UnsafeCell<M::Context>,
    resumer: UnsafeCell<M::Context>,
    count: Cell<u64>,
    step: Cell<u64>,
    ran_on: Cell<i64>,
    stack: Mapped,
}

impl<M: SwitchMethod> Counter<M> {
    fn new(step: u64) -> Box<Self> {
        let new = Box::new(Self {
            own: UnsafeCell::new(M::empty()),
            resumer: UnsafeCell::new(M::empty()),
            count: Cell::new(0),
            step: Cell::new(step),
            ran_on: Cell::new(0),
            stack: Mapped::new(128 << 10),
        });
        // SAFETY: the stack is its own, and the box keeps everything in place.
        unsafe {
            M::prepare(
                new.own.get(),
                new.stack.base(),
                new.stack.size(),
                count::<M>,
                new.arg(),
            )
        };
        new
    }

    fn arg(&self) -> *mut () {
        (&raw const *self).cast_mut().cast()
    }

    fn restart(&self, entry: umcg_context::EntryFn) {
        // SAFETY: prepared with this stack in `new`. The flow that was suspended there is given up.
        unsafe {
            M::reprepare(
                self.own.get(),
                self.stack.base(),
                self.stack.size(),
                entry,
                self.arg(),
            )
        };
    }

    fn resume(&self) {
        common::about_to_switch();
        // SAFETY: the flow is suspended.
        unsafe { M::switch(self.resumer.get(), self.own.get()) };
    }

    fn suspend(&self) {
        // SAFETY: the resumer is suspended.
        unsafe { M::switch(self.own.get(), self.resumer.get()) };
    }
}

unsafe extern "C" fn count<M: SwitchMethod>(arg: *mut ()) -> ! {
    // SAFETY: `Counter` passes itself.
    let me = unsafe { &*arg.cast_const().cast::<Counter<M>>() };
    loop {
        let local = 0u8;
        assert!(me.stack.contains((&raw const local) as usize));
        me.count.set(me.count.get() + me.step.get());
        me.ran_on.set(kernel_thread());
        me.suspend();
    }
}

unsafe extern "C" fn count_down<M: SwitchMethod>(arg: *mut ()) -> ! {
    // SAFETY: `Counter` passes itself.
    let me = unsafe { &*arg.cast_const().cast::<Counter<M>>() };
    loop {
        me.count.set(me.count.get() - me.step.get());
        me.suspend();
    }
}

fn counts<M: SwitchMethod>() {
    let counter = Counter::<M>::new(3);
    for round in 1..=1_000 {
        counter.resume();
        assert_eq!(counter.count.get(), 3 * round, "{}", M::NAME);
    }
}

fn starts_anew<M: SwitchMethod>() {
    let counter = Counter::<M>::new(1);
    // Before the first run, from within, and again and again.
    counter.restart(count::<M>);
    for round in 1..=100 {
        counter.resume();
        counter.resume();
        assert_eq!(counter.count.get(), round + 1, "{}", M::NAME);
        counter.restart(count_down::<M>);
        counter.resume();
        counter.restart(count::<M>);
    }
}

fn starts_anew_after_trimming<M: SwitchMethod>() {
    let counter = Counter::<M>::new(1);
    counter.resume();
    assert_eq!(
        // SAFETY: the flow that was suspended there is given up.
        unsafe {
            libc::madvise(
                counter.stack.base().cast(),
                counter.stack.size(),
                libc::MADV_DONTNEED,
            )
        },
        0
    );
    counter.restart(count::<M>);
    counter.resume();
    counter.restart(count::<M>);
    counter.resume();
    assert_eq!(counter.count.get(), 3, "{}", M::NAME);
}

fn moves_between_threads<M: SwitchMethod + 'static>() {
    let counter = Counter::<M>::new(1);
    counter.resume();
    assert_eq!(counter.ran_on.get(), kernel_thread());
    let moved = Sendable(counter);
    let counter = thread::spawn(move || {
        let counter = moved.into_inner();
        counter.resume();
        assert_eq!(counter.ran_on.get(), kernel_thread(), "{}", M::NAME);
        Sendable(counter)
    })
    .join()
    .expect("the thread")
    .into_inner();
    counter.resume();
    assert_eq!(
        (counter.count.get(), counter.ran_on.get()),
        (3, kernel_thread()),
        "{}",
        M::NAME
    );
}

#[test]
fn every_method_counts() {
    counts::<Asm>();
    counts::<Sjlj>();
    counts::<Mcsc>();
}

#[test]
fn every_method_starts_anew() {
    starts_anew::<Asm>();
    starts_anew::<Sjlj>();
    starts_anew::<Mcsc>();
}

#[test]
fn every_method_starts_anew_after_trimming() {
    starts_anew_after_trimming::<Asm>();
    starts_anew_after_trimming::<Sjlj>();
    starts_anew_after_trimming::<Mcsc>();
}

#[test]
fn every_method_moves_between_threads() {
    moves_between_threads::<Asm>();
    moves_between_threads::<Sjlj>();
    moves_between_threads::<Mcsc>();
}

#[test]
fn the_methods_mix_in_one_program() {
    let (asm, sjlj, mcsc) = (
        Counter::<Asm>::new(1),
        Counter::<Sjlj>::new(10),
        Counter::<Mcsc>::new(100),
    );
    for round in 1..=500 {
        asm.resume();
        sjlj.resume();
        mcsc.resume();
        assert_eq!(
            [asm.count.get(), sjlj.count.get(), mcsc.count.get()],
            [round, 10 * round, 100 * round]
        );
    }
}

#[test]
fn a_flow_of_one_method_resumes_flows_of_the_others() {
    struct Outer {
        asm: Box<Counter<Asm>>,
        mcsc: Box<Counter<Mcsc>>,
        this: Box<Counter<Sjlj>>,
    }
    unsafe extern "C" fn entry(arg: *mut ()) -> ! {
        // SAFETY: the test passes its Outer, and waits.
        let outer = unsafe { &*arg.cast_const().cast::<Outer>() };
        loop {
            outer.asm.resume();
            outer.mcsc.resume();
            outer.this.suspend();
        }
    }
    let outer = Outer {
        asm: Counter::new(1),
        mcsc: Counter::new(2),
        this: Counter::new(0),
    };
    let arg = (&raw const outer).cast_mut().cast();
    let (own, stack) = (outer.this.own.get(), &outer.this.stack);
    // SAFETY: as `restart`, with another argument.
    unsafe { Sjlj::reprepare(own, stack.base(), stack.size(), entry, arg) };
    for round in 1..=100 {
        outer.this.resume();
        assert_eq!(
            [outer.asm.count.get(), outer.mcsc.count.get()],
            [round, 2 * round]
        );
    }
}

/// The signal mask is the calling thread's. Only `mcsc` keeps one for each flow.
#[test]
fn only_mcsc_keeps_the_signal_mask() {
    fn mask_after<M: SwitchMethod>() -> bool {
        unsafe extern "C" fn block<M: SwitchMethod>(arg: *mut ()) -> ! {
            // SAFETY: `Counter` passes itself.
            let me = unsafe { &*arg.cast_const().cast::<Counter<M>>() };
            common::block_signal(libc::SIGUSR2, true);
            loop {
                me.suspend();
            }
        }
        let counter = Counter::<M>::new(1);
        counter.restart(block::<M>);
        counter.resume();
        let blocked = common::signal_blocked(libc::SIGUSR2);
        common::block_signal(libc::SIGUSR2, false);
        blocked
    }
    assert!(mask_after::<Asm>());
    assert!(mask_after::<Sjlj>());
    assert!(!mask_after::<Mcsc>());
}
