//! Calls of outsiders: what the stub and the kernel do with them.

use super::{OUTSIDERS, SOON};
use crate::kernel;
use crate::rt::sync::{AtomicU32, Ordering::SeqCst};
use std::ptr::with_exposed_provenance;

/// For `umcg_intercept`.
pub struct Call {
    pub number: usize,
    pub arguments: [usize; 6],
    pub result: isize,
    pub step: usize,
}

/// For `umcg_intercept`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Next {
    Return,
    Again,
}

pub(super) const EAGAIN: isize = -(libc::EAGAIN as isize);
pub(super) const ETIMEDOUT: isize = -(libc::ETIMEDOUT as isize);

/// An outsider makes this call. With a timeout it is [`SOON`].
pub(super) fn make(number: libc::c_long, arguments: [usize; 6]) -> isize {
    let mut call = Call {
        number: number as usize,
        arguments,
        result: 0,
        step: 0,
    };
    loop {
        match OUTSIDERS.pass(&mut call) {
            None => return by_kernel(&call),
            Some(Next::Return) => return call.result,
            Some(Next::Again) => call.result = by_kernel(&call),
        }
        call.step += 1;
    }
}

fn word(address: usize) -> &'static AtomicU32 {
    let word: *const AtomicU32 = with_exposed_provenance(address);
    // SAFETY: the words of a model live as long as it runs.
    unsafe { &*word }
}

/// The list of a wait for several has one word, and is at that word's address.
fn by_kernel(call: &Call) -> isize {
    let [first, operation, count, second_count, second, last] = call.arguments;
    let is_list = call.number as libc::c_long == libc::SYS_futex_waitv;
    let command = operation as i32 & !libc::FUTEX_PRIVATE_FLAG;
    let wake = |address, count: usize, bits| {
        kernel::wake_for(word(address), (count as u32).max(1), bits) as isize
    };
    match command {
        _ if is_list => sleep(first, 0, u32::MAX, 0),
        libc::FUTEX_WAIT => sleep(first, count, u32::MAX, second_count),
        libc::FUTEX_WAIT_BITSET => sleep(first, count, last as u32, second_count),
        libc::FUTEX_WAKE => wake(first, count, u32::MAX),
        libc::FUTEX_WAKE_OP => {
            // As `SET` has it.
            assert_eq!(last, super::SET);
            let is_equal = word(second).swap(1, SeqCst) == 0;
            let woken = wake(first, count, u32::MAX);
            woken
                + if is_equal {
                    wake(second, second_count, u32::MAX)
                } else {
                    0
                }
        }
        libc::FUTEX_REQUEUE => {
            assert_eq!(second_count, 0, "an outsider would be moved");
            wake(first, count, u32::MAX)
        }
        other => unreachable!("operation {other}"),
    }
}

fn sleep(address: usize, expected: usize, bits: u32, timeout: usize) -> isize {
    let deadline = if timeout == 0 { u64::MAX } else { SOON };
    match kernel::sleep_for(word(address), expected as u32, bits, deadline) {
        Ok(()) => 0,
        Err(crate::io::Errno::AGAIN) => EAGAIN,
        Err(_) => ETIMEDOUT,
    }
}
