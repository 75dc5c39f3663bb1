//! Bytes that the library writes to descriptors, by calls that are no guest's.

use umcg_core::call;

/// Writes all of it, at this place of the file, or as the file takes it. False if that is not
/// possible.
pub(super) fn write(fd: i32, bytes: &[u8], place: Option<usize>) -> bool {
    let mut done = 0;
    while let Some(rest) = bytes.get(done..).filter(|rest| !rest.is_empty()) {
        let at = rest.as_ptr().expose_provenance();
        let (number, place) = match place {
            Some(place) => (libc::SYS_pwrite64, place + done),
            None => (libc::SYS_write, 0),
        };
        // SAFETY: the bytes are the caller's.
        match unsafe { call(number, [fd as usize, at, rest.len(), place, 0, 0]) } {
            written @ 1.. => done += written as usize,
            error if error == -(libc::EINTR as isize) => {}
            _ => return false,
        }
    }
    true
}
