//! nanosleep(2) and clock_nanosleep(2).
//!
//! A guest at home sleeps in the kernel, as before: it keeps no server from other work. A guest
//! that a server runs waits in user mode.

use super::guest::{self, Guest};
use super::memory::{self, FAULT};
use super::stage::{CUT, DEADLINE, HANDLED, Stage, answered};
use super::stand::LeaveReason;
use super::stats::CountKind;
use super::{state, untold};
use crate::rt::time as clock;
use crate::rt::wait::cut;
use std::sync::atomic::Ordering::Relaxed;
use umcg_intercept::Call;

const EINTR: isize = -(libc::EINTR as isize);
const EINVAL: isize = -(libc::EINVAL as isize);

/// The call's arguments, in one form for both calls.
struct Sleep {
    /// CLOCK_MONOTONIC, or CLOCK_REALTIME for a length of time.
    is_absolute: bool,
    time: usize,
    remaining: usize,
}

/// None if the call is one for the kernel.
fn arguments(call: &Call) -> Option<Sleep> {
    let [first, second, third, fourth, ..] = call.arguments;
    if call.number as libc::c_long == libc::SYS_nanosleep {
        return Some(Sleep {
            is_absolute: false,
            time: first,
            remaining: second,
        });
    }
    let is_absolute = second as i32 & libc::TIMER_ABSTIME != 0;
    let clock = first as libc::clockid_t;
    // A time of the other clock follows its settings, which the kernel sees to.
    let is_ours = clock == libc::CLOCK_MONOTONIC || (clock == libc::CLOCK_REALTIME && !is_absolute);
    is_ours.then_some(Sleep {
        is_absolute,
        time: third,
        remaining: fourth,
    })
}

/// A length or point of time in nanoseconds; the error if it is none.
fn nanoseconds(at: usize) -> Result<u64, isize> {
    const SECOND: u64 = 1_000_000_000;
    let [seconds, rest] = memory::read::<[u64; 2]>(at).ok_or(FAULT)?;
    if seconds as i64 >= 0 && rest < SECOND {
        Ok(seconds.saturating_mul(SECOND).saturating_add(rest))
    } else {
        Err(EINVAL)
    }
}

/// When the sleep ends, in nanoseconds of CLOCK_MONOTONIC, or the call's error. None if the call is
/// one for the kernel.
pub(super) fn deadline(call: &Call) -> Option<Result<u64, isize>> {
    let sleep = arguments(call)?;
    Some(nanoseconds(sleep.time).map(|time| {
        if sleep.is_absolute {
            time
        } else {
            clock::now().saturating_add(time)
        }
    }))
}

pub(super) fn begin(guest: &'static Guest, call: &mut Call) -> Stage {
    let deadline = match deadline(call).filter(|_| guest::is_away()) {
        None => return Stage::Home,
        Some(Ok(deadline)) => deadline,
        Some(Err(error)) => return answered(call, Some(error)),
    };
    guest.counts.count(CountKind::Pause);
    untold::note_pause(guest);
    guest.stand.note(LeaveReason::Sleep, call);
    call.notes[HANDLED] = guest.handled.load(Relaxed) as usize;
    call.notes[CUT] = guest.cut.load(Relaxed) as usize;
    call.notes[DEADLINE] = deadline as usize;
    wait(guest, call, deadline)
}

fn wait(guest: &'static Guest, call: &mut Call, deadline: u64) -> Stage {
    if deadline <= clock::now()
        || state::preserved(call.keeps_vectors(), || {
            cut::sleep_cuttable(&"sleep", deadline)
        })
    {
        answered(call, Some(0))
    } else {
        if let Some(task) = guest.task() {
            cut::take_cut(task);
        }
        Stage::Sleep
    }
}

/// A signal has cut the sleep, and its handlers have run.
pub(super) fn go_on(guest: &'static Guest, call: &mut Call) -> Stage {
    let deadline = call.notes[DEADLINE] as u64;
    if guest.handled.load(Relaxed) as usize == call.notes[HANDLED] {
        return wait(guest, call, deadline);
    }
    let remaining = arguments(call)
        .filter(|sleep| !sleep.is_absolute && sleep.remaining != 0)
        .map(|sleep| sleep.remaining);
    let left = deadline.saturating_sub(clock::now());
    let words = [left / 1_000_000_000, left % 1_000_000_000];
    let is_told = remaining.is_none_or(|at| memory::write(at, words));
    answered(call, Some(if is_told { EINTR } else { FAULT }))
}
