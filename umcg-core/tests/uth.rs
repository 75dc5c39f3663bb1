//! Underlying threads as a user of the crate sees them.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use umcg_core::uth::{self, Method, Uth, UthError};

fn on_vp<R: Send>(method: Method, f: impl FnOnce() -> R + Send) -> R {
    std::thread::scope(|scope| {
        let run = || {
            uth::vp_init_with(None, method).unwrap();
            f()
        };
        scope.spawn(run).join().unwrap()
    })
}

fn methods() -> &'static [Method] {
    if cfg!(feature = "portable") {
        &[Method::Asm, Method::Sjlj, Method::Mcsc]
    } else {
        &[Method::Asm]
    }
}

fn me() -> Uth {
    uth::current().unwrap()
}

/// Continues `new`, from the caller's flow `old`. An `old` that is not the caller's is refused.
fn switch(old: Uth, new: Uth) -> Result<(), UthError> {
    // SAFETY: the tests take turns, and each uth belongs to one of them: no other thread switches
    // to it. No reference into thread-local storage is kept across this.
    unsafe { uth::switch_to(Some(old), new) }
}

/// Ends the uth, whatever it was doing: these uths own nothing.
fn delete(uth: Uth) -> Result<(), UthError> {
    // SAFETY: as for `switch`: it is not about to run elsewhere.
    unsafe { uth::delete(uth) }
}

fn begin_again(uth: Uth) -> Result<(), UthError> {
    // SAFETY: as for `delete`.
    unsafe { uth::reinit(uth, back_and_forth, null_mut()) }
}

fn inspect(uth: Uth, f: &mut dyn FnMut()) -> Result<(), UthError> {
    // SAFETY: as for `switch`. The called functions do not switch.
    unsafe { uth::inspect(uth, f) }
}

/// A uth that runs on one processor cannot be switched from on another.
#[test]
#[cfg(debug_assertions)]
fn another_processors_flow_is_not_the_caller() {
    struct Names(Uth, Uth);
    // SAFETY: names only.
    unsafe impl Send for Names {}
    extern "C-unwind" fn back(native: *mut c_void) {
        loop {
            // SAFETY: the argument came from `as_ptr`.
            switch(me(), unsafe { Uth::from_ptr(native) }.unwrap()).unwrap();
        }
    }
    on_vp(Method::Asm, || {
        let native = me();
        let uth = uth::create(back, native.as_ptr()).unwrap();
        // Both belong to this processor from here on.
        switch(native, uth).unwrap();
        let names = Names(native, uth);
        let other = std::thread::spawn(move || {
            let names = names;
            assert_eq!(switch(names.0, names.1), Err(UthError::NoVp));
            uth::vp_init(None).unwrap();
            switch(names.0, names.1)
        });
        assert_eq!(other.join().unwrap(), Err(UthError::NotCurrent));
        delete(uth).unwrap();
    });
}

fn number(uth: Uth) -> usize {
    uth.arg() as usize
}

static FINISHED: AtomicUsize = AtomicUsize::new(0);

/// Switches back to the native flow `arg` times, then returns.
extern "C-unwind" fn back_and_forth(arg: *mut c_void) {
    for _ in 0..arg as usize {
        // SAFETY: `with_native` has put it there.
        let native = unsafe { Uth::from_ptr(NATIVE.load(Relaxed) as *mut c_void) };
        switch(me(), native.unwrap()).unwrap();
    }
    FINISHED.fetch_add(1, Relaxed);
}

static NATIVE: AtomicUsize = AtomicUsize::new(0);
/// These tests share NATIVE.
static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn with_native<R: Send>(method: Method, f: impl FnOnce(Uth) -> R + Send) -> R {
    let _turn = ONE_AT_A_TIME
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    on_vp(method, || {
        NATIVE.store(me().as_ptr() as usize, Relaxed);
        f(me())
    })
}

#[test]
fn a_uth_runs_waits_and_finishes() {
    for &method in methods() {
        with_native(method, |native| {
            let u = uth::create(back_and_forth, 3 as *mut c_void).unwrap();
            assert_eq!(number(u), 3);
            let before = FINISHED.load(Relaxed);
            for _ in 0..3 {
                switch(native, u).unwrap();
                assert_eq!(FINISHED.load(Relaxed), before);
            }
            switch(native, u).unwrap();
            assert_eq!(FINISHED.load(Relaxed), before + 1);
            assert_eq!(switch(native, u), Err(UthError::Finished));
            begin_again(u).unwrap();
            switch(native, u).unwrap();
            assert_eq!(FINISHED.load(Relaxed), before + 2);
            delete(u).unwrap();
            assert_eq!(delete(u), Err(UthError::Deleted));
            assert_eq!(switch(native, u), Err(UthError::Deleted));
        });
    }
}

#[test]
fn recycled_uths_run_afresh() {
    for &method in methods() {
        with_native(method, |native| {
            let before = FINISHED.load(Relaxed);
            for round in 0..100 {
                let u = uth::create(back_and_forth, null_mut()).unwrap();
                if round % 3 != 0 {
                    switch(native, u).unwrap();
                }
                delete(u).unwrap();
            }
            assert_eq!(FINISHED.load(Relaxed), before + 66);
        });
    }
}

#[test]
fn misuse_is_refused() {
    assert_eq!(uth::create(back_and_forth, null_mut()), Err(UthError::NoVp));
    assert_eq!(uth::vpid(), Err(UthError::NoVp));
    assert_eq!(uth::vp_exit(), Err(UthError::NoVp));
    assert_eq!(uth::current(), None);
    with_native(Method::Asm, |native| {
        assert_eq!(uth::vp_init(None), Err(UthError::AlreadyVp));
        let rank = uth::vpid().unwrap();
        assert_eq!(uth::current_on(rank), Some(native));
        std::thread::scope(|scope| {
            scope
                .spawn(|| assert_eq!(uth::vp_init(Some(rank)), Err(UthError::RankTaken)))
                .join()
                .unwrap()
        });
        assert_eq!(switch(native, native), Err(UthError::Running));
        assert_eq!(delete(native), Err(UthError::Native));
        assert_eq!(begin_again(native), Err(UthError::Native));
        let a = uth::create(back_and_forth, null_mut()).unwrap();
        let b = uth::create(back_and_forth, null_mut()).unwrap();
        switch(native, a).unwrap();
        assert_eq!(switch(a, b), Err(UthError::NotCurrent));
        assert_eq!(switch(b, a), Err(UthError::NotCurrent));
        delete(a).unwrap();
        delete(b).unwrap();
        let big = uth::UthAttr {
            stack_size: 1 << 40,
            name: "",
        };
        assert!(matches!(
            uth::create_with(&big, back_and_forth, null_mut()),
            Err(UthError::Stack(_))
        ));
    });
    if cfg!(feature = "portable") {
        let sjlj = on_vp(Method::Sjlj, || {
            uth::create(back_and_forth, null_mut()).unwrap()
        });
        with_native(Method::Asm, |native| {
            assert_eq!(switch(native, sjlj), Err(UthError::MethodMismatch));
        });
    }
}

#[test]
fn a_uth_goes_on_on_another_vp() {
    for &method in methods() {
        let u = with_native(method, |native| {
            let u = uth::create(back_and_forth, 2 as *mut c_void).unwrap();
            switch(native, u).unwrap();
            u
        });
        for finishes in [0, 1] {
            with_native(method, |native| {
                let before = FINISHED.load(Relaxed);
                switch(native, u).unwrap();
                assert_eq!(FINISHED.load(Relaxed), before + finishes);
            });
        }
        delete(u).unwrap();
    }
}

#[test]
fn names_and_high_water() {
    extern "C-unwind" fn deep(_: *mut c_void) {
        fn recurse(depth: usize) -> usize {
            let block = std::hint::black_box([depth; 128]);
            if depth == 0 {
                block[0]
            } else {
                recurse(depth - 1) + block[1]
            }
        }
        std::hint::black_box(recurse(20));
    }
    with_native(Method::Asm, |native| {
        let u = uth::create_with(
            &uth::UthAttr {
                stack_size: 256 << 10,
                name: "a rather long name, cut at 23 bytes",
            },
            deep,
            null_mut(),
        );
        let u = u.unwrap();
        assert_eq!(u.name(), "a rather long name, cut");
        let fresh = u.stack_high_water().unwrap();
        switch(native, u).unwrap();
        let used = u.stack_high_water().unwrap();
        assert!(
            fresh < used && (20 << 10..64 << 10).contains(&used),
            "{fresh} {used}"
        );
        assert_eq!(native.stack_high_water(), None);
        delete(u).unwrap();
    });
}

#[test]
fn a_suspended_uth_can_be_looked_at() {
    #[inline(never)]
    extern "C-unwind" fn a_function_to_be_found(arg: *mut c_void) {
        back_and_forth(arg);
        std::hint::black_box(()); // keeps the call above from becoming a jump
    }
    with_native(Method::Asm, |native| {
        let u = uth::create(
            a_function_to_be_found,
            null_mut::<c_void>().wrapping_byte_add(1),
        )
        .unwrap();
        switch(native, u).unwrap();
        let mut trace = String::new();
        inspect(u, &mut || {
            trace = std::backtrace::Backtrace::force_capture().to_string()
        })
        .unwrap();
        assert!(trace.contains("a_function_to_be_found"), "{trace}");
        switch(native, u).unwrap();
        assert_eq!(inspect(u, &mut || ()), Err(UthError::Finished));
        delete(u).unwrap();
    });
}
