//! Calls that bring a set of signals of their own: a mask for a wait, or signals to wait for.
//!
//! [`GO`] stays blocked at home, and one may be pending there at any time: the party that lets a
//! worker go home sends it last, and the home may have seen before that it is to go. In a wait with
//! the program's mask it would end the process. So the kernel gets a copy of the set, in the notes
//! of the call, that blocks GO, or does not wait for it.
//!
//! Not chosen: to take GO off before the call, since one may come within it.

use super::super::memory;
use super::super::stage::{RECORD, SET};
use super::mask::{GO, only};
use std::ptr::from_ref;
use umcg_intercept::Call;

/// Numbers of calls.
const EPOLL_PWAIT2: libc::c_long = 441;
const IO_PGETEVENTS: libc::c_long = 333;

/// The flag of io_uring_enter(2) by which it has a record of arguments.
const EXTENDED: usize = 8;

/// The most words of a record.
const MOST: usize = 3;

/// Where a call has the address of the set and its size.
#[derive(Clone, Copy)]
enum SetAddress {
    /// These arguments.
    Arguments(usize, usize),
    /// The first words of a record, which this argument points to, and which has so many words.
    Record(usize, usize),
}

/// The use of the set.
enum Purpose {
    /// The mask of the wait.
    Mask,
    /// The signals that are waited for.
    Waited,
}

/// If the call brings a set of signals, the kernel gets one of ours in its place. Of sets that
/// cannot be read, or have another size, the kernel says what is wrong.
pub(in crate::intercept) fn keep_go_out(call: &mut Call) {
    let Some((address, purpose)) = set_of(call) else {
        return;
    };
    let mut record = [0; MOST];
    let Some(set) = read(address, &call.arguments, &mut record) else {
        return;
    };
    call.notes[SET] = match purpose {
        Purpose::Mask => set | only(GO),
        Purpose::Waited => set & !only(GO),
    } as usize;
    let ours = from_ref(&call.notes[SET]).expose_provenance();
    match address {
        SetAddress::Arguments(at, _) => call.arguments[at] = ours,
        SetAddress::Record(at, _) => {
            record[0] = ours;
            call.notes[RECORD..RECORD + MOST].copy_from_slice(&record);
            call.arguments[at] = from_ref(&call.notes[RECORD]).expose_provenance();
        }
    }
}

fn set_of(call: &Call) -> Option<(SetAddress, Purpose)> {
    use Purpose::*;
    use SetAddress::*;
    Some(match call.number as libc::c_long {
        libc::SYS_rt_sigsuspend => (Arguments(0, 1), Mask),
        libc::SYS_ppoll => (Arguments(3, 4), Mask),
        libc::SYS_epoll_pwait | EPOLL_PWAIT2 => (Arguments(4, 5), Mask),
        libc::SYS_pselect6 | IO_PGETEVENTS => (Record(5, 2), Mask),
        libc::SYS_io_uring_enter if call.arguments[3] & EXTENDED != 0 => (Record(4, 3), Mask),
        libc::SYS_io_uring_enter => (Arguments(4, 5), Mask),
        libc::SYS_rt_sigtimedwait => (Arguments(0, 3), Waited),
        libc::SYS_signalfd | libc::SYS_signalfd4 => (Arguments(1, 2), Waited),
        _ => return None,
    })
}

/// The set, and the record that names it, if there is one.
fn read(address: SetAddress, arguments: &[usize; 6], record: &mut [usize; MOST]) -> Option<u64> {
    let [at, bytes] = match address {
        SetAddress::Arguments(at, bytes) => [arguments[at], arguments[bytes]],
        SetAddress::Record(at, _) if arguments[at] == 0 => return None,
        SetAddress::Record(at, words) => {
            for (index, word) in record[..words].iter_mut().enumerate() {
                let from = arguments[at].wrapping_add(index * size_of::<u64>());
                *word = memory::read::<u64>(from)? as usize;
            }
            // The other half of a record's word is something else.
            [record[0], record[1] as u32 as usize]
        }
    };
    if at == 0 || bytes != size_of::<u64>() {
        return None;
    }
    memory::read(at)
}
