//! Descriptors of the library's own: the program neither closes nor replaces them.

use super::class::Watched;
use super::file_write;
use super::stage::{Stage, answered};
use crate::io::driver::place;
use umcg_core::call as make;
use umcg_intercept::Call;

const EBADF: isize = -(libc::EBADF as isize);
const EINVAL: isize = -(libc::EINVAL as isize);

/// close(2), dup2(2), dup3(2), close_range(2).
pub(super) fn begin(call: &mut Call, watched: Watched) -> Stage {
    let [first, second, flags, ..] = call.arguments;
    let is_refused = match watched {
        Watched::Replace => place::is_ours(first as i32) || place::is_ours(second as i32),
        Watched::Close => place::is_ours(first as i32),
        _ => return close_range(call, first as u32, second as u32, flags),
    };
    if is_refused {
        return answered(call, Some(EBADF));
    }
    let replaced = match watched {
        Watched::Replace => second,
        _ => first,
    };
    let replaced = replaced as u32 as usize;
    file_write::forget(replaced..=replaced);
    Stage::Home
}

/// The parts of a range between the library's descriptors: all but the last one at once, which is
/// the call that is left.
fn close_range(call: &mut Call, first: u32, last: u32, flags: usize) -> Stage {
    const KNOWN: u32 = libc::CLOSE_RANGE_UNSHARE | libc::CLOSE_RANGE_CLOEXEC;
    if first > last || flags as u32 & !KNOWN != 0 {
        // The kernel says so.
        return Stage::Home;
    }
    if flags as u32 & libc::CLOSE_RANGE_UNSHARE != 0 {
        // The table of one kernel thread, at home or of a server.
        return answered(call, Some(EINVAL));
    }
    file_write::forget(first as usize..=last as usize);
    let mut rest = None;
    for range in place::between(first, last) {
        if let Some((first, last)) = rest.replace(range) {
            let arguments = [first as usize, last as usize, flags, 0, 0, 0];
            // SAFETY: as the program asks.
            let result = unsafe { make(libc::SYS_close_range, arguments) };
            if result < 0 {
                return answered(call, Some(result));
            }
        }
    }
    let Some((first, last)) = rest else {
        return answered(call, Some(0));
    };
    call.arguments[0] = first as usize;
    call.arguments[1] = last as usize;
    Stage::Home
}
