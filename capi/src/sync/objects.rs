//! Waiting for any, or for all, of many objects.

use crate::answer::{answer, errno_of, require};
use crate::array;
use crate::select::Op;
use crate::wait::wait;
use libc::{EINVAL, c_int};
use umcg::rt::ffi;
use umcg::sync::{self, Object, TryAcquireError};

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

/// # Safety
/// As `with_objects`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_wait_any(ops: *const Op, n: c_int, deadline_ns: u64) -> c_int {
    let any = |objects: &[&dyn Object]| {
        // A wait looks first, and an abort does not prevent that.
        let tried = if ffi::is_cancelled() {
            sync::try_wait_any(objects)
        } else {
            Err(TryAcquireError::Empty)
        };
        match tried {
            Err(TryAcquireError::Empty) => wait(deadline_ns, |deadline| match deadline {
                None => sync::wait_any(objects).map_err(errno_of),
                Some(at) => sync::wait_any_deadline(objects, at).map_err(errno_of),
            }),
            tried => tried.map_err(errno_of),
        }
    };
    // SAFETY: passed on.
    answer(unsafe { with_objects(ops, n, any) })
}

/// # Safety
/// As `with_objects`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_wait_all(ops: *const Op, n: c_int, deadline_ns: u64) -> c_int {
    let all = |objects: &[&dyn Object]| {
        require(!is_twice(objects), EINVAL)?;
        match sync::try_wait_all(objects) {
            Err(TryAcquireError::Empty) => wait(deadline_ns, |deadline| match deadline {
                None => sync::wait_all(objects).map_err(errno_of),
                Some(at) => sync::wait_all_deadline(objects, at).map_err(errno_of),
            }),
            tried => tried.map_err(errno_of),
        }
    };
    // SAFETY: passed on.
    answer(unsafe { with_objects(ops, n, all) })
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
