//! The frame where exceptions of other languages end, below the function that a flow runs.
//!
//! A language throws in two phases. First its unwinder searches each frame, from the throw
//! outwards, for a handler; nothing is unwound yet. Only if there is one does the second phase
//! unwind. In the first phase the frame of [`call`] reports that there is none. So the throw itself
//! returns to the language's runtime, which ends the process in its own way. C++ calls
//! `std::terminate`, whose handler is the program's or prints the exception's type and `what()`.
//! The stack is still whole then, for a debugger or a core file. Nothing here has to know that
//! runtime.
//!
//! Before that the caller's `report` is called, to say whose function it was.
//!
//! A Rust panic passes through the frame as through any other.

use crate::arch::BOUNDARY_KEEPS;
use std::ffi::{c_int, c_void};

/// The kind of unwinding that leaves a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Departure {
    /// An exception of another language.
    Exception,
    /// Unwinding without a search for handlers: `pthread_exit`, or the thread was cancelled.
    Forced,
}

/// The cause of [`Departure::Forced`], for messages.
pub const FORCED: &str = "pthread_exit, or its thread was cancelled";

/// Called with the kind of unwinding.
type Report<'a> = &'a dyn Fn(Departure);

// The table names the personality through a word of this object, as compilers do. So it can be
// anywhere, also in a shared library.
std::arch::global_asm!(
    ".pushsection .data.rel.ro.umcg_boundary_personality,\"aw\",@progbits",
    ".p2align 3",
    ".hidden umcg_boundary_personality",
    ".globl umcg_boundary_personality",
    ".type umcg_boundary_personality,@object",
    ".size umcg_boundary_personality, 8",
    "umcg_boundary_personality:",
    ".8byte {personality}",
    ".popsection",
    personality = sym personality,
);

unsafe extern "C-unwind" {
    /// Calls `f(argument)`.
    fn umcg_boundary(
        f: unsafe extern "C-unwind" fn(*mut c_void),
        argument: *mut c_void,
        report: *const c_void,
    );
}

unsafe extern "C" {
    /// A function of the unwinder: the value of a register in the frame that is examined.
    fn _Unwind_GetGR(context: *mut c_void, register: c_int) -> usize;
}

/// Defined by the ABI of exceptions. Called for the frame of `umcg_boundary` in either phase.
extern "C" fn personality(
    _: c_int,
    actions: c_int,
    class: u64,
    _: *mut c_void,
    context: *mut c_void,
) -> c_int {
    const SEARCH_PHASE: c_int = 1;
    const FORCE_UNWIND: c_int = 8;
    const FATAL_PHASE1_ERROR: c_int = 3;
    const CONTINUE_UNWIND: c_int = 8;
    // One or the other, depending on the version of Rust.
    const RUST: [u64; 2] = [
        u64::from_ne_bytes(*b"MOZ\0RUST"),
        u64::from_be_bytes(*b"MOZ\0RUST"),
    ];

    if RUST.contains(&class) && actions & FORCE_UNWIND == 0 {
        return CONTINUE_UNWIND;
    }
    // SAFETY: the unwinder's own context, of a frame that keeps `call`'s pointer in this register.
    let report = std::ptr::with_exposed_provenance::<Report<'_>>(unsafe {
        _Unwind_GetGR(context, BOUNDARY_KEEPS)
    });
    // SAFETY: `call` has not returned, as its frame is further out.
    let report = unsafe { *report };
    if actions & SEARCH_PHASE != 0 {
        report(Departure::Exception);
        return FATAL_PHASE1_ERROR;
    }
    report(Departure::Forced);
    std::process::abort()
}

/// # Safety
/// The argument is a `BoundaryCall<F>` that holds a function.
unsafe extern "C-unwind" fn run<F: FnOnce() -> R, R>(argument: *mut c_void) {
    // SAFETY: by the contract; `call` waits for the return.
    let call = unsafe { &mut *argument.cast::<BoundaryCall<F, R>>() };
    if let Some(f) = call.f.take() {
        call.result = Some(f());
    }
}

struct BoundaryCall<F, R> {
    f: Option<F>,
    result: Option<R>,
}

/// Calls `f`. If something other than a panic would leave it, calls `report`, and the process ends.
/// A panic continues out of this call.
pub fn call<F: FnOnce() -> R, R>(f: F, report: impl Fn(Departure)) -> R {
    let mut call = BoundaryCall {
        f: Some(f),
        result: None,
    };
    let report: Report<'_> = &report;
    let address = (&raw const report).expose_provenance();
    // SAFETY: `run` is for this type of call, and all its data lives until the return, when the
    // call has ended.
    unsafe {
        umcg_boundary(
            run::<F, R>,
            (&raw mut call).cast(),
            std::ptr::with_exposed_provenance(address),
        )
    };
    match call.result {
        Some(result) => result,
        None => unreachable!("a call that returned has a result"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_returns_has_its_result() {
        assert_eq!(call(|| 5, |_| unreachable!()), 5);
    }

    /// Defined by the ABI.
    #[repr(C, align(16))]
    struct Exception {
        class: u64,
        cleanup: usize,
        private: [usize; 2],
    }

    unsafe extern "C-unwind" {
        fn _Unwind_RaiseException(exception: *mut Exception) -> c_int;
    }

    /// Throws as a language does, and continues when there is no handler.
    fn throw() -> c_int {
        let mut exception = Exception {
            class: u64::from_be_bytes(*b"UMCGTEST"),
            cleanup: 0,
            private: [0; 2],
        };
        // SAFETY: an exception that is not caught.
        unsafe { _Unwind_RaiseException(&mut exception) }
    }

    #[test]
    fn an_exception_is_told_of_and_unwinds_nothing() {
        let (told, outer) = (std::cell::RefCell::new(Vec::new()), std::cell::Cell::new(0));
        let inner = || call(throw, |departure| told.borrow_mut().push(departure));
        let status = call(inner, |_| outer.set(1));
        assert_ne!(status, 0);
        assert_eq!(
            (told.into_inner(), outer.get()),
            (vec![Departure::Exception], 0)
        );
    }

    #[test]
    fn a_panic_passes_and_drops_what_it_leaves() {
        struct Counts<'a>(&'a std::cell::Cell<u32>);
        impl Drop for Counts<'_> {
            fn drop(&mut self) {
                self.0.set(self.0.get() + 1);
            }
        }
        let dropped = &std::cell::Cell::new(0);
        let outer = Counts(dropped);
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            call(
                move || {
                    let _outer = outer;
                    let _inner = Counts(dropped);
                    std::panic::resume_unwind(Box::new("thrown"))
                },
                |_| unreachable!(),
            )
        }));
        let payload = caught.map(|()| "nothing").unwrap_err();
        assert_eq!(
            (payload.downcast_ref::<&str>(), dropped.get()),
            (Some(&"thrown"), 2)
        );
    }
}
