//! `talt`: the first of many operations.

use super::{errno_of, with_message};
use crate::answer::answer;
use crate::array;
use crate::wait::{NO_TIMEOUT, wait};
use libc::{EAGAIN, EINVAL, ETIMEDOUT, c_int};
use std::ffi::c_void;
use umcg::select::{Operation, Select};
use umcg::tube::ffi::{Selected, Tube};

/// Up to this many operations of `talt` need no memory but the stack.
const FEW: usize = 8;

/// `Talt`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Talt {
    tube: *const Tube,
    message: *mut c_void,
    op: c_int,
}

const _: () = assert!(size_of::<Talt>() == 3 * size_of::<usize>());

/// Which way, and whether to wait for it.
const SEND: c_int = 1;
const RECEIVE: c_int = 2;
const NBSEND: c_int = 3;
const NBRECEIVE: c_int = 4;

impl Talt {
    fn waits(&self) -> bool {
        matches!(self.op, SEND | RECEIVE)
    }

    /// # Safety
    /// As `named`; there is a message, or a place for one, as long as the operation is used.
    unsafe fn operation<'a>(&self) -> Result<Selected<'a>, c_int> {
        // SAFETY: passed on.
        let (tube, message) = unsafe { with_message(self.tube, self.message) }?;
        match self.op {
            // SAFETY: passed on.
            SEND | NBSEND => Ok(unsafe { tube.sending(message) }),
            // SAFETY: passed on.
            RECEIVE | NBRECEIVE => Ok(unsafe { tube.receiving(message) }),
            _ => Err(EINVAL),
        }
    }
}

/// The work of `talt`: operations that do not wait are tried first, and then the others are waited
/// for. Returns the index of the completed operation, and its result.
///
/// # Safety
/// As `Talt::operation`, for each.
unsafe fn any(talts: &[Talt], deadline_ns: u64) -> Result<usize, c_int> {
    if talts.len() <= FEW {
        // SAFETY: passed on.
        let made = std::array::from_fn::<_, FEW, _>(|index| unsafe {
            talts.get(index).unwrap_or(&talts[0]).operation()
        });
        if let Some(errno) = made.iter().find_map(|made| made.as_ref().err()) {
            return Err(*errno);
        }
        let mut operations =
            made.map(|made| made.unwrap_or_else(|_| unreachable!("there is no error")));
        first(talts, &mut operations[..talts.len()], deadline_ns)
    } else {
        // SAFETY: passed on.
        let operations: Result<Vec<_>, _> = talts
            .iter()
            .map(|talt| unsafe { talt.operation() })
            .collect();
        first(talts, &mut operations?, deadline_ns)
    }
}

fn first(
    talts: &[Talt],
    operations: &mut [Selected<'_>],
    deadline_ns: u64,
) -> Result<usize, c_int> {
    let mut done = None;
    if talts.iter().any(Talt::waits) {
        for waits in [false, true] {
            talts
                .iter()
                .zip(&*operations)
                .for_each(|(talt, operation)| operation.take_part(talt.waits() == waits));
            done = done.or_else(|| Select::new().try_each(operations));
        }
        if done.is_none() {
            done = Some(wait(deadline_ns, |deadline| match deadline {
                None => Ok(Select::new().wait(operations)),
                Some(at) => Select::new().wait_deadline(operations, at).ok_or(ETIMEDOUT),
            })?);
        }
    } else {
        done = Select::new().try_wait(operations);
    }
    let index = done.ok_or(EAGAIN)?;
    operations[index]
        .outcome()
        .map_err(errno_of)
        .map(|()| index)
}

/// # Safety
/// As `umcg_tube_any`.
#[unsafe(no_mangle)]
unsafe extern "C" fn talt(talts: *const Talt, n: c_int) -> c_int {
    // SAFETY: passed on.
    unsafe { umcg_tube_any(talts, n, NO_TIMEOUT) }
}

/// # Safety
/// `talts` is null, or points to `n` of them as for `Talt::operation`, until the call returns.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_tube_any(talts: *const Talt, n: c_int, deadline_ns: u64) -> c_int {
    // SAFETY: passed on.
    let talts = unsafe { array(talts, n) };
    // SAFETY: passed on.
    answer(talts.and_then(|talts| unsafe { any(talts, deadline_ns) }))
}
