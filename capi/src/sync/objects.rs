//! Waiting for any, or for all, of many objects.

use crate::array;
use crate::rt::{NO_TIMEOUT, status, value};
use crate::select::Op;
use libc::{ECANCELED, EINVAL, ESHUTDOWN, ETIMEDOUT, c_int};
use umcg::rt::ffi::{self, Cancelled};
use umcg::sync::{self, AcquireError, Closed, Object, TryAcquireError};

/// Up to this many objects are listed on the stack.
const FEW: usize = 16;

/// Calls `f` with the objects that C named.
///
/// # Safety
/// `ops` is null, or points to `n` operations, each object of which is null or as its kind
/// requires.
unsafe fn with_objects<R>(
    ops: *const Op,
    n: c_int,
    f: impl FnOnce(&[&dyn Object]) -> Result<R, c_int>,
) -> Result<R, c_int> {
    // SAFETY: passed on.
    let ops = unsafe { array(ops, n) }?;
    let len = ops.len();
    // SAFETY: passed on.
    let mut objects = ops.iter().map(|op| unsafe { op.object() });
    if len > FEW {
        return f(&objects.collect::<Result<Vec<_>, _>>()?);
    }
    // SAFETY: passed on.
    let mut few = [unsafe { ops[0].object() }?; FEW];
    few.iter_mut()
        .zip(&mut objects)
        .try_for_each(|(place, object)| object.map(|object| *place = object))?;
    f(&few[..len])
}

/// The result that needs no waiting, or else that of a wait.
fn first<R>(
    tried: Result<R, TryAcquireError>,
    deadline_ns: u64,
    wait: impl FnOnce(u64) -> Result<R, AcquireError>,
) -> Result<R, c_int> {
    match tried {
        Err(TryAcquireError::Empty) => {}
        tried => return tried.map_err(|_| ESHUTDOWN),
    }
    let waited = ffi::interruptible(|| wait(deadline_ns)).map_err(|Cancelled| ECANCELED)?;
    waited.map_err(|error| match error {
        AcquireError::TimedOut => ETIMEDOUT,
        AcquireError::Closed => ESHUTDOWN,
    })
}

/// # Safety
/// As `with_objects`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_wait_any(ops: *const Op, n: c_int, deadline_ns: u64) -> c_int {
    // SAFETY: passed on.
    let index = unsafe {
        with_objects(ops, n, |objects| {
            // A wait looks first, and an abort does not prevent that.
            let tried = if ffi::is_cancelled() {
                sync::try_wait_any(objects)
            } else {
                Err(TryAcquireError::Empty)
            };
            first(tried, deadline_ns, |deadline_ns| match deadline_ns {
                NO_TIMEOUT => sync::wait_any(objects).map_err(|Closed| AcquireError::Closed),
                at => sync::wait_any_deadline(objects, ffi::instant(at)),
            })
        })
    };
    // The index is less than `n`.
    value(index.map(|index| index as c_int), -1)
}

/// # Safety
/// As `with_objects`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_wait_all(ops: *const Op, n: c_int, deadline_ns: u64) -> c_int {
    // SAFETY: passed on.
    status(unsafe {
        with_objects(ops, n, |objects| {
            if is_twice(objects) {
                return Err(EINVAL);
            }
            first(
                sync::try_wait_all(objects),
                deadline_ns,
                |deadline_ns| match deadline_ns {
                    NO_TIMEOUT => sync::wait_all(objects).map_err(|Closed| AcquireError::Closed),
                    at => sync::wait_all_deadline(objects, ffi::instant(at)),
                },
            )
        })
    })
}

/// Whether one of them is there twice.
fn is_twice(objects: &[&dyn Object]) -> bool {
    let mut addresses: Vec<_> = objects
        .iter()
        .map(|object| std::ptr::from_ref(*object).cast::<()>())
        .collect();
    addresses.sort_unstable();
    addresses.windows(2).any(|pair| pair[0] == pair[1])
}
