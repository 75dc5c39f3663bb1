//! Calls of which a part was done by a try, and the rest follows: by further tries, or by the
//! kernel in the end. The caller sees one call.
//!
//! The arguments name what is left of one buffer. A call with a vector becomes the one for a
//! buffer, and goes through the vector part by part. What is done counts in a note, and is the
//! result if the rest fails: the next call gets the error.

use super::super::memory;
use umcg_intercept::Call;

/// The notes: how many bytes are done, where the next part of the vector is described, and how many
/// parts follow.
const DONE: usize = 15;
const NEXT: usize = 14;
const PARTS: usize = 13;
const _: () = assert!(DONE >= Call::FRESH && PARTS >= Call::FRESH);

/// How many bytes are done.
pub(super) fn done(call: &Call) -> usize {
    call.notes[DONE]
}

/// Counts these bytes of a call with one buffer, and makes it the call that goes on behind them.
/// False if nothing follows.
pub(super) fn go_on(call: &mut Call, done: usize) -> bool {
    call.notes[DONE] += done;
    if call.number as libc::c_long == libc::SYS_pread64 {
        call.arguments[3] += done;
    }
    let mut passed = done;
    loop {
        let step = passed.min(call.arguments[2]);
        call.arguments[1] += step;
        call.arguments[2] -= step;
        passed -= step;
        if call.arguments[2] > 0 {
            return true;
        }
        if !take_part(call) {
            return false;
        }
    }
}

/// The next part becomes the buffer. False if there is none, or it cannot be read.
fn take_part(call: &mut Call) -> bool {
    if !has_parts(call) {
        return false; // and nothing is read at the note's address: it would fault
    }
    let next = call.notes[NEXT];
    let Some([at, bytes]) = memory::read::<[u64; 2]>(next) else {
        call.notes[PARTS] = 0;
        return false;
    };
    call.notes[NEXT] = next.wrapping_add(size_of::<libc::iovec>());
    call.notes[PARTS] -= 1;
    call.arguments[1] = at as usize;
    call.arguments[2] = bytes as usize;
    true
}

/// A call with this vector, of so many parts, has done so many bytes. Makes it the call `number`
/// that goes on behind them; `flags` is its fourth argument. False if nothing follows.
pub(super) fn begin(
    call: &mut Call,
    [vector, parts]: [usize; 2],
    done: usize,
    (number, flags): (libc::c_long, usize),
) -> bool {
    call.notes[NEXT] = vector;
    call.notes[PARTS] = parts;
    call.number = number as usize;
    call.arguments = [call.arguments[0], 0, 0, flags, 0, 0];
    go_on(call, done)
}

/// Whether this is the rest of a call with a vector, and parts follow the buffer.
pub(super) fn has_parts(call: &Call) -> bool {
    call.notes[PARTS] > 0
}

/// The kernel has made the call, for a rest. True if it is to make it again, for the next part.
/// Else the result is that of the whole.
pub(super) fn settle(call: &mut Call) -> bool {
    let is_whole = call.result > 0 && call.result as usize == call.arguments[2];
    if is_whole && has_parts(call) {
        if go_on(call, call.result as usize) {
            return true;
        }
        call.result = 0;
    }
    if done(call) > 0 {
        call.result = done(call) as isize + call.result.max(0);
    }
    false
}
