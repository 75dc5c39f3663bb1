//! A tick before each instruction of a bounded sequence in turn. Wherever the worker may be taken
//! off, it is, and others run; everything else has to go on as if nothing had come.
//!
//! `UMCG_STEP_STRIDE`: a tick comes before every this many instructions, 1 where not given;
//! `UMCG_STEP_FIRST`: the first one that has one.

mod flag;
mod handlers;
mod own;
mod scene;

use scene::{Kind, steps};
use std::hint::black_box;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};

const KINDS: [Kind; 2] = [Kind::Full, Kind::Light];

/// General registers, flags, vectors, and the stack of the old floating point unit.
fn compute() {
    let (mut words, mut wide, mut real, mut red_zone) = (1u64, 1u128, 0.5f64, [7u32; 8]);
    for n in 0..4u64 {
        words = black_box(words)
            .wrapping_mul(6364136223846793005)
            .wrapping_add(n);
        wide = black_box(wide)
            .wrapping_mul(0x1_0000_0000_0000_0001)
            .wrapping_add(u128::from(words));
        real = black_box(real) * 1.5 + n as f64;
        red_zone
            .iter_mut()
            .for_each(|word| *word = word.rotate_left(3) ^ n as u32);
    }
    let mut old = 0f64;
    // SAFETY: loads one, adds it to itself, and stores it: the stack of the unit is as before.
    unsafe {
        std::arch::asm!("fld1", "fadd st(0), st(0)", "fstp qword ptr [{}]", in(reg) &raw mut old)
    };
    assert_eq!(old, 2.0);
    // Its result unstepped.
    static RESULT: OnceLock<(u64, u128, f64, [u32; 8])> = OnceLock::new();
    assert_eq!(
        *RESULT.get_or_init(|| (words, wide, real, red_zone)),
        (words, wide, real, red_zone)
    );
}

#[test]
fn computing() {
    KINDS
        .into_iter()
        .for_each(|kind| steps("stepped::computing", kind, compute));
}

/// The errno of a failed call is a worker's own, though a light one shares the place.
#[test]
fn an_error_number() {
    let errors = || {
        // SAFETY: no precondition.
        let place = || unsafe { libc::__errno_location() };
        // SAFETY: errno of the storage that this runs with.
        unsafe { *place() = 77 };
        (0..4).for_each(|n| _ = black_box(n));
        // SAFETY: as above.
        assert_eq!(unsafe { *place() }, 77);
    };
    KINDS
        .into_iter()
        .for_each(|kind| steps("stepped::an_error_number", kind, errors));
}

#[test]
fn yielding() {
    let yields = || {
        for turn in 0..3u32 {
            let mine = black_box([turn; 16]);
            umcg::yield_now();
            assert_eq!(mine, [turn; 16]);
        }
    };
    KINDS
        .into_iter()
        .for_each(|kind| steps("stepped::yielding", kind, yields));
}

/// One hands over to the other by parking, and back.
#[test]
fn parking_and_unparking() {
    let parks = || {
        let (me, asked, answered) = (
            umcg::Handle::current(),
            AtomicBool::new(false),
            AtomicU32::new(0),
        );
        umcg::scope(|scope| {
            let other = scope.spawn(|| {
                while !asked.load(Relaxed) {
                    umcg::park();
                }
                answered.store(42, Relaxed);
                me.unpark();
            });
            umcg::yield_now();
            asked.store(true, Relaxed);
            other.handle().unpark();
            while answered.load(Relaxed) == 0 {
                umcg::park();
            }
        });
    };
    steps("stepped::parking_and_unparking", Kind::Full, parks);
}

/// Beginnings and ends of workers.
#[test]
fn spawning_and_joining() {
    let spawns = || {
        let full = umcg::spawn(|| black_box(6) * 7);
        // SAFETY: it keeps nothing of the thread's.
        let light = unsafe { umcg::spawn_light(|| black_box(6) * 7) };
        assert_eq!(full.join().unwrap() + light.join().unwrap(), 84);
    };
    steps("stepped::spawning_and_joining", Kind::Full, spawns);
}

#[test]
fn allocating() {
    let allocates = || {
        for size in [24, 1040, 70_000, 200_000] {
            let mut chunk: Vec<u8> = Vec::with_capacity(size);
            chunk.push(black_box(7));
            chunk.shrink_to(size / 2);
            assert_eq!(chunk, [7]);
        }
    };
    steps("stepped::allocating", Kind::Full, allocates);
}

/// A function of the program's that the loader calls with its lock.
#[test]
fn beneath_the_loaders_lock() {
    steps(
        "stepped::beneath_the_loaders_lock",
        Kind::Full,
        scene::each_object,
    );
}

/// The way to a helper, the way back, and on the helper itself.
#[test]
fn blocking() {
    let blocks = || {
        let mine = black_box([7u32; 16]);
        let process = umcg::blocking(|| {
            flag::resume();
            std::process::id()
        });
        assert_eq!(process, std::process::id());
        assert_eq!(mine, [7; 16]);
    };
    KINDS
        .into_iter()
        .for_each(|kind| steps("stepped::blocking", kind, blocks));
}

#[test]
fn critical_sections() {
    let sections = || {
        let sum = umcg::critical(|| {
            (0..4u64).map(black_box).sum::<u64>() + umcg::critical(|| black_box(1))
        });
        assert_eq!(sum, 7);
    };
    KINDS
        .into_iter()
        .for_each(|kind| steps("stepped::critical_sections", kind, sections));
}

/// Messages between two workers, a lock, and a semaphore.
#[test]
fn synchronising() {
    let synchronises = || {
        let (sender, receiver) = umcg::tube::tube(0);
        let lock = umcg::sync::Mutex::new(0u64);
        let semaphore = umcg::sync::Semaphore::new(0);
        umcg::scope(|scope| {
            scope.spawn(|| {
                *lock.lock() += 1;
                assert_eq!(receiver.recv().unwrap(), 42);
                semaphore.release(1).unwrap();
            });
            *lock.lock() += 1;
            sender.send(42).unwrap();
            semaphore.acquire().unwrap();
        });
        assert_eq!(lock.into_inner(), 2);
    };
    steps("stepped::synchronising", Kind::Full, synchronises);
}
