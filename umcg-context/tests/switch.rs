//! A switch goes to another stack and comes back, with everything that the compiler holds intact.

mod common;

use common::Coroutine;
use std::cell::{Cell, RefCell};
use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

#[test]
fn ping_pong_alternates() {
    let log = Rc::new(RefCell::new(Vec::new()));
    let inner = Rc::clone(&log);
    let coroutine = Coroutine::new(move |me| {
        for i in 0..1_000 {
            inner.borrow_mut().push(2 * i + 1);
            me.suspend();
        }
    });
    for i in 0..1_000 {
        log.borrow_mut().push(2 * i);
        coroutine.resume();
    }
    coroutine.resume();
    assert!(coroutine.finished());
    assert!(log.borrow().iter().copied().eq(0..2_000));
}

#[test]
fn a_flow_runs_on_its_own_stack() {
    let seen = Rc::new(Cell::new(0));
    let inner = Rc::clone(&seen);
    let coroutine = Coroutine::new(move |_| {
        let local = 0u8;
        inner.set(black_box(&raw const local) as usize);
    });
    coroutine.resume();
    // Under AddressSanitizer the local may live in a fake stack instead.
    assert!(coroutine.stack.contains(seen.get()) || cfg!(umcg_asan));
}

#[test]
fn the_stack_is_aligned_as_the_abi_says() {
    #[repr(align(16))]
    struct Aligned([u8; 16]);
    for spoil in 0..16 {
        let coroutine = Coroutine::with_stack((64 << 10) + spoil * 16, |_| {
            let value = Aligned([0; 16]);
            assert_eq!(black_box(&value).0.as_ptr() as usize % 16, 0);
        });
        coroutine.resume();
        assert!(coroutine.finished());
    }
}

#[test]
fn a_thousand_contexts_take_turns() {
    let log = Rc::new(RefCell::new(Vec::new()));
    let coroutines: Vec<_> = (0..1_000)
        .map(|number| {
            let log = Rc::clone(&log);
            Coroutine::with_stack(32 << 10, move |me| {
                for round in 0..20 {
                    log.borrow_mut().push(round * 1_000 + number);
                    me.suspend();
                }
            })
        })
        .collect();
    for _ in 0..21 {
        coroutines.iter().for_each(|coroutine| coroutine.resume());
    }
    assert!(coroutines.iter().all(|coroutine| coroutine.finished()));
    assert!(log.borrow().iter().copied().eq(0..20_000));
}

#[test]
fn deep_recursion_survives() {
    #[inline(never)]
    fn sum(me: &Coroutine, depth: u64) -> u64 {
        let frame = black_box([depth; 8]);
        if depth == 0 {
            me.suspend();
            return 0;
        }
        let below = sum(me, depth - 1);
        if depth % 512 == 0 {
            me.suspend();
        }
        below + black_box(frame)[3]
    }
    let result = Rc::new(Cell::new(0));
    let inner = Rc::clone(&result);
    let coroutine = Coroutine::with_stack(16 << 20, move |me| inner.set(sum(me, 10_000)));
    coroutine.resume_to_the_end();
    assert_eq!(result.get(), 10_000 * 10_001 / 2);
}

#[test]
fn floating_point_values_survive() {
    fn series(me: &Coroutine, x: f64) -> f64 {
        let (mut a, mut b, mut c, mut d) = (x, x * 2.0, x * 3.0, x * 5.0);
        let (mut e, mut f, mut g, mut h) = (x + 1.0, x + 2.0, x + 3.0, x + 4.0);
        for _ in 0..100 {
            a += 0.5;
            b += a * 0.25;
            c -= b * 0.125;
            d += c * 0.5;
            me.suspend();
            e += d * 0.25;
            f -= e * 0.125;
            g += f * 0.0625;
            h += g * 0.5;
        }
        a + b + c + d + e + f + g + h
    }
    let run = |x: f64| {
        let result = Rc::new(Cell::new(0.0));
        let inner = Rc::clone(&result);
        (Coroutine::new(move |me| inner.set(series(me, x))), result)
    };
    let (alone, expected) = run(1.25);
    alone.resume_to_the_end();
    let (first, first_result) = run(1.25);
    let (second, _) = run(-77.0);
    while !first.finished() {
        first.resume();
        second.resume();
    }
    second.resume_to_the_end();
    assert_eq!(first_result.get().to_bits(), expected.get().to_bits());
}

struct Callback<'a> {
    coroutine: &'a Coroutine,
    local: usize,
    resumer_saved: bool,
    calls: u32,
}

unsafe extern "C" fn note(arg: *mut ()) {
    // SAFETY: the test passes its Callback, and waits.
    let callback = unsafe { &mut *arg.cast::<Callback>() };
    let local = 0u8;
    callback.local = black_box(&raw const local) as usize;
    // SAFETY: the resumer is suspended, so its context is not written.
    let resumer = unsafe { &*callback.coroutine.resumer.get() };
    callback.resumer_saved =
        resumer.stack_pointer() != 0 && !callback.coroutine.stack.contains(resumer.stack_pointer());
    callback.calls += 1;
}

#[test]
fn the_callback_runs_on_the_new_stack_with_the_old_flow_saved() {
    let rounds = Rc::new(Cell::new(0));
    let inner = Rc::clone(&rounds);
    let coroutine = Coroutine::new(move |me| {
        while inner.get() < 3 {
            inner.set(inner.get() + 1);
            me.suspend();
        }
    });
    for round in 1..=3 {
        let mut callback = Callback {
            coroutine: &coroutine,
            local: 0,
            resumer_saved: false,
            calls: 0,
        };
        coroutine.resume_with(note, (&raw mut callback).cast());
        assert_eq!((callback.calls, rounds.get()), (1, round));
        assert!(callback.resumer_saved);
        assert!(coroutine.stack.contains(callback.local) || cfg!(umcg_asan));
    }
    coroutine.resume_to_the_end();
}

#[test]
fn a_callback_may_come_before_the_first_instruction() {
    unsafe extern "C" fn nothing(_: *mut ()) {}
    for injected in [false, true] {
        let coroutine = Coroutine::new(|_| {});
        if injected {
            coroutine.resume_inside(nothing, null_mut());
        } else {
            coroutine.resume_with(nothing, null_mut());
        }
        assert!(coroutine.finished());
    }
}

#[test]
fn a_panic_is_caught_inside_its_flow() {
    let message = Rc::new(RefCell::new(String::new()));
    let inner = Rc::clone(&message);
    let coroutine = Coroutine::new(move |me| {
        struct SuspendsInDrop<'a>(&'a Coroutine);
        impl Drop for SuspendsInDrop<'_> {
            fn drop(&mut self) {
                self.0.suspend();
            }
        }
        let caught = catch_unwind(AssertUnwindSafe(|| {
            let _guard = SuspendsInDrop(me);
            me.suspend();
            std::panic::resume_unwind(Box::new("from the flow"));
        }));
        let payload = caught.expect_err("a panic");
        inner
            .borrow_mut()
            .push_str(payload.downcast_ref::<&str>().expect("a message"));
    });
    coroutine.resume();
    coroutine.resume();
    // Suspended in the middle of unwinding.
    assert!(!coroutine.finished());
    coroutine.resume();
    assert!(coroutine.finished());
    assert_eq!(*message.borrow(), "from the flow");
}

#[test]
fn a_stack_is_used_again_by_a_flow_after_another_was_given_up() {
    // Values that a flow's frames own are lost with it, so this flow owns nothing.
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let mut coroutine = Coroutine::new(|me| {
        COUNT.fetch_add(1, Relaxed);
        me.suspend();
        unreachable!("given up");
    });
    coroutine.resume();
    coroutine.restart(|_| {
        COUNT.fetch_add(10, Relaxed);
    });
    coroutine.resume();
    assert!(coroutine.finished());
    assert_eq!(COUNT.load(Relaxed), 11);
}
