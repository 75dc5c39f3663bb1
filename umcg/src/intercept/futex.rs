//! futex(2) and futex_waitv(2) of guests: private words are served in user mode
//! ([`kernel`](crate::futex::kernel)).

use super::guest::Guest;
use super::stage::{CUT, HANDLED, REST, Stage, answered};
use super::stand::LeaveReason;
use super::stats::CountKind;
use super::suspend::{Beginning, Suspension, let_others_run};
use super::{outsider, run, state, untold};
use crate::futex::kernel::{self, Outcome, Rest, WordWait, WordWake};
use crate::rt::wait::cut;
use std::sync::atomic::Ordering::Relaxed;
use umcg_intercept::Call;

const EINTR: isize = -(libc::EINTR as isize);
/// How long a guest pauses that finds another value than it was to wait for, in turns of a loop:
/// about as long as the kernel's answer takes. Other threads are at work on that word, and have its
/// cache line to themselves meanwhile (Anderson, "The performance of spin lock alternatives for
/// shared-memory multiprocessors", 1990). Without the pause, a lock of the C library that threads
/// on two servers contend for takes more than twice as long.
const PAUSES_OF_LATE: u32 = 12;
/// In the operation of futex(2).
const COMMAND: usize = 127;

/// Whether this is futex(2) for a private word, by an operation that is served here.
#[inline(always)]
pub(super) fn is_served(call: &Call) -> bool {
    const SERVED: u32 = 1 << libc::FUTEX_WAIT
        | 1 << libc::FUTEX_WAKE
        | 1 << libc::FUTEX_REQUEUE
        | 1 << libc::FUTEX_CMP_REQUEUE
        | 1 << libc::FUTEX_WAKE_OP
        | 1 << libc::FUTEX_WAIT_BITSET
        | 1 << libc::FUTEX_WAKE_BITSET;
    const FLAGS: u32 = (libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME) as u32;
    let operation = call.arguments[1] as u32;
    let command = operation & !FLAGS;
    call.number as libc::c_long == libc::SYS_futex
        && operation & libc::FUTEX_PRIVATE_FLAG as u32 != 0
        && command < u32::BITS
        && SERVED >> command & 1 != 0
}

/// futex(2).
#[inline(always)]
pub(super) fn begin(guest: &'static Guest, call: &mut Call) -> Beginning {
    if waits(call.arguments[1]) {
        begin_wait(guest, call)
    } else {
        Beginning::Stage(wake(guest, call))
    }
}

/// futex_waitv(2).
pub(super) fn begin_waitv(guest: &'static Guest, call: &mut Call) -> Beginning {
    prepare_to_wait(guest, call, Suspension::List)
}

#[inline(never)]
#[allow(improper_ctypes_definitions, reason = "called by Rust; not to unwind")]
extern "C" fn begin_wait(guest: &'static Guest, call: &mut Call) -> Beginning {
    let Some(plain) = WordWait::of(&call.arguments) else {
        return prepare_to_wait(guest, call, Suspension::Futex);
    };
    // Looked at before the registers are saved that a switch does not keep.
    if let Some(result) = plain.look() {
        guest.counts.count(CountKind::Wait);
        (0..PAUSES_OF_LATE).for_each(|_| std::hint::spin_loop());
        return Beginning::Stage(answered(call, Some(result)));
    }
    prepare_to_wait(guest, call, Suspension::Word(plain))
}

#[inline(always)]
fn prepare_to_wait(guest: &'static Guest, call: &mut Call, how: Suspension) -> Beginning {
    guest.counts.count(CountKind::Wait);
    if !run::is_begun() {
        // The only guest waits for its own handlers alone.
        return Beginning::Stage(Stage::Home);
    }
    // A guest that cannot be adopted waits as a thread, in the same table.
    if !run::adopt(guest, call) {
        guest.wait_as_thread();
    }
    untold::note_pause(guest);
    guest.stand.note(LeaveReason::Word, call);
    call.notes[HANDLED] = guest.handled.load(Relaxed) as usize;
    call.notes[CUT] = guest.cut.load(Relaxed) as usize;
    Beginning::Suspend(how)
}

#[inline(never)]
extern "C" fn wake(guest: &'static Guest, call: &mut Call) -> Stage {
    guest.counts.count(CountKind::Wake);
    match WordWake::of(&call.arguments).map(|wake| wake.wake(outsider::wake)) {
        Some(Some(woken)) => woken_others(guest, call, woken as isize),
        Some(None) => Stage::Home,
        None => wake_otherwise(guest, call),
    }
}

/// Another operation that does not wait, or a wrong one.
#[inline(never)]
extern "C" fn wake_otherwise(guest: &'static Guest, call: &mut Call) -> Stage {
    // SAFETY: the arguments of a system call.
    match unsafe { kernel::futex_with(&call.arguments, outsider::wake) } {
        Outcome::Done(woken) => woken_others(guest, call, woken),
        outcome => settle(guest, call, &outcome),
    }
}

/// The call has woken so many, or failed with this error.
#[inline(always)]
fn woken_others(guest: &'static Guest, call: &mut Call, woken: isize) -> Stage {
    if woken > 0 && (guest.count_wake() || guest.was_preempted()) {
        // A guest that frees a lock, takes it again and gives way while it has it would keep all
        // others from it for ever: each of them runs only while the lock is taken. The same holds
        // for one that was preempted while it had the lock. The kernel's preemption by woken
        // threads prevents that; here one wake in some does, and the first one after a preemption.
        let_others_run(guest, call);
    }
    answered(call, Some(woken))
}

/// Whether this operation of futex(2) waits.
fn waits(operation: usize) -> bool {
    matches!(
        (operation & COMMAND) as i32,
        libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET
    )
}

/// The stage after an operation of the table.
#[inline(never)]
#[allow(improper_ctypes_definitions, reason = "called by Rust; not to unwind")]
pub(super) extern "C" fn settle(guest: &Guest, call: &mut Call, outcome: &Outcome) -> Stage {
    match *outcome {
        Outcome::Done(result) => answered(call, Some(result)),
        Outcome::Kernel => Stage::Home,
        // Once more, at home.
        Outcome::Home => {
            call.notes[REST] = 0;
            Stage::Wait
        }
        Outcome::Cut(rest) => {
            call.notes[REST] = 1;
            call.notes[REST + 1..REST + 4].copy_from_slice(&rest.into_words());
            if let Some(task) = guest.task() {
                cut::take_cut(task);
            }
            Stage::Wait
        }
    }
}

/// The guest is at home, and the handlers of the signal that cut its wait have run.
pub(super) fn go_on(guest: &'static Guest, call: &mut Call) -> Stage {
    let is_waitv = call.number as libc::c_long == libc::SYS_futex_waitv;
    let arguments = &call.arguments;
    if call.notes[REST] == 0 {
        // SAFETY: the arguments of a system call.
        let outcome =
            state::preserved(call.keeps_vectors(), || unsafe { kernel::waitv(arguments) });
        return settle(guest, call, &outcome);
    }
    let rest = Rest::from_words([
        call.notes[REST + 1],
        call.notes[REST + 2],
        call.notes[REST + 3],
    ]);
    let has_run = |count: u32, note: usize| count as usize != call.notes[note];
    let was_handled = has_run(guest.handled.load(Relaxed), HANDLED);
    if was_handled && (!rest.restarts || has_run(guest.cut.load(Relaxed), CUT)) {
        return answered(call, Some(EINTR));
    }
    call.notes[HANDLED] = guest.handled.load(Relaxed) as usize;
    // SAFETY: the arguments of the call that was cut.
    let outcome = state::preserved(call.keeps_vectors(), || unsafe {
        kernel::go_on(is_waitv, arguments, rest)
    });
    settle(guest, call, &outcome)
}
