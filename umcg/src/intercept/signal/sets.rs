//! Calls that bring a set of signals of their own: a mask for a wait, or signals to wait for.
//!
//! [`GO`] stays blocked at home, and one may be pending there at any time: the party that lets a
//! worker go home sends it last, and the home may have seen before that it is to go. In a wait with
//! the program's mask it would end the process. So the kernel gets a copy of the set, in the notes
//! of the call, that blocks GO, or does not wait for it.
//!
//! Not chosen: to take GO off before the call, since one may come within it.

use super::super::memory;
use super::super::stage::{PAIR, SET};
use super::mask::{GO, only};
use std::ptr::from_ref;
use umcg_intercept::Call;

/// Numbers of calls.
const EPOLL_PWAIT2: libc::c_long = 441;
const IO_PGETEVENTS: libc::c_long = 333;

/// Where a call has the address of the set and its size.
#[derive(Clone, Copy)]
enum SetAddress {
    /// These arguments.
    Arguments(usize, usize),
    /// Two words that this argument points to.
    Pair(usize),
}

/// What the set is for.
enum Purpose {
    /// The mask of the wait.
    Mask,
    /// The signals that are waited for.
    Waited,
}

/// If the call brings a set of signals, the kernel gets one of ours in its place. Of sets that
/// cannot be read, or have another size, the kernel says what is wrong.
pub(in crate::intercept) fn keep_go_out(call: &mut Call) {
    let Some((address, purpose)) = set_of(call.number as libc::c_long) else {
        return;
    };
    let Some(set) = read(address, &call.arguments) else {
        return;
    };
    call.notes[SET] = match purpose {
        Purpose::Mask => set | only(GO),
        Purpose::Waited => set & !only(GO),
    } as usize;
    let ours = from_ref(&call.notes[SET]).expose_provenance();
    match address {
        SetAddress::Arguments(at, _) => call.arguments[at] = ours,
        SetAddress::Pair(at) => {
            call.notes[PAIR..PAIR + 2].copy_from_slice(&[ours, size_of::<u64>()]);
            call.arguments[at] = from_ref(&call.notes[PAIR]).expose_provenance();
        }
    }
}

fn set_of(number: libc::c_long) -> Option<(SetAddress, Purpose)> {
    use Purpose::*;
    use SetAddress::*;
    Some(match number {
        libc::SYS_rt_sigsuspend => (Arguments(0, 1), Mask),
        libc::SYS_ppoll => (Arguments(3, 4), Mask),
        libc::SYS_epoll_pwait | EPOLL_PWAIT2 => (Arguments(4, 5), Mask),
        libc::SYS_pselect6 | IO_PGETEVENTS => (Pair(5), Mask),
        libc::SYS_rt_sigtimedwait => (Arguments(0, 3), Waited),
        libc::SYS_signalfd | libc::SYS_signalfd4 => (Arguments(1, 2), Waited),
        _ => return None,
    })
}

fn read(address: SetAddress, arguments: &[usize; 6]) -> Option<u64> {
    let [at, bytes] = match address {
        SetAddress::Arguments(at, bytes) => [arguments[at], arguments[bytes]],
        SetAddress::Pair(at) if arguments[at] == 0 => return None,
        SetAddress::Pair(at) => memory::read::<[u64; 2]>(arguments[at])?.map(|word| word as usize),
    };
    if at == 0 || bytes != size_of::<u64>() {
        return None;
    }
    memory::read(at)
}
