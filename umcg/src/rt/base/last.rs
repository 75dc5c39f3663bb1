//! The program's code that runs inside an operation of ours: wakers, destructors, clones, the
//! program's own objects.
//!
//! Such code may panic, wait, switch, abort the worker, use the same objects again, or drop the
//! last reference to the object it was reached by. So there is one rule for all of `sync`, `tube`,
//! `select`:
//!
//! - U1: *the state is committed first, the program's code runs last.* When it runs, no lock is
//!   held, no frame of this call stands in a queue, and each thing has one owner: a thing that was
//!   taken belongs to a value whose destructor gives it up; a thing that was given away is not
//!   touched here any more.
//! - U2: *between `begin` and `go_on` of a wait, and wherever preemption is off, nothing can
//!   unwind*: no code of the program's runs there, and nothing is asserted. Conditions are checked
//!   before. A panic there would leave locks taken and frames in queues, so it ends the process
//!   ([`Firm`](super::sync::Firm)).
//! - U3: *each piece runs, whatever the others do.* Panics are caught. The first one goes on when
//!   all pieces have run ([`Last`]). If the caller is unwinding already, its own panic is the one
//!   that goes on.
//! - U4: *nothing of ours waits while it unwinds.* A kernel thread counts its panics. A sharing
//!   worker that waited while unwinding would leave its panic in the count of the thread it left,
//!   and would end it on a thread that counts none. So an operation that has to wait at the end of
//!   an unwinding catches the panic first ([`after_unwinding`]).
//!
//! If you add an operation, add a row to the table of `umcg/tests/callbacks`, which tries it with
//! every bad callback.

use std::any::Any;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Pieces of the program's code, run one after the other at the end of an operation.
pub(crate) struct Last {
    panic: Option<Box<dyn Any + Send>>,
}

impl Last {
    pub(crate) const fn new() -> Last {
        Last { panic: None }
    }

    /// Runs `code` now. If it panics, the panic is kept for the end.
    #[cold]
    pub(crate) fn run(&mut self, code: impl FnOnce()) {
        match catch_unwind(AssertUnwindSafe(code)) {
            Ok(()) => {}
            Err(panic) if self.panic.is_none() => self.panic = Some(panic),
            Err(panic) => discard(panic),
        }
    }

    /// Returns the result of the operation. If a piece panicked and nothing is unwinding already,
    /// drops the result and goes on with the first panic.
    pub(crate) fn end<R>(mut self, result: R) -> R {
        let Some(panic) = self.panic.take() else {
            return result;
        };
        if std::thread::panicking() {
            discard(panic);
            return result;
        }
        self.run(|| drop(result));
        self.panic.into_iter().for_each(discard);
        resume_unwind(panic)
    }
}

/// Calls `f`. If it unwinds, catches that, calls `undo`, and then goes on unwinding. Use it for an
/// `undo` that waits. The caller may be asked to end, so `undo` shields its waits.
pub(crate) fn after_unwinding<S: ?Sized, R>(
    state: &mut S,
    f: impl FnOnce(&mut S) -> R,
    undo: impl FnOnce(&mut S),
) -> R {
    catch_unwind(AssertUnwindSafe(|| f(state))).unwrap_or_else(|panic| {
        undo(state);
        resume_unwind(panic)
    })
}

/// Drops `others` last, after the result of the operation has an owner.
#[inline]
pub(crate) fn drop_last<R, T>(result: R, others: impl IntoIterator<Item = Option<T>>) -> R {
    let mut last = Last::new();
    others
        .into_iter()
        .flatten()
        .for_each(|other| last.run(|| drop(other)));
    last.end(result)
}

/// Runs the program's code on a thread of ours that must not end by it: a panic is dropped. The
/// code is a notification; no result is expected.
#[cold]
pub(crate) fn contained(code: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(code)) {
        discard(panic);
    }
}

/// Drops a panic's payload. Its destructor is the program's code, too.
fn discard(panic: Box<dyn Any + Send>) {
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        mem::forget(again);
    }
}
