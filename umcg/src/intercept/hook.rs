//! The hook: decides on each system call of a guest.
//!
//! The engine calls [`hook`] where a guest is about to make a system call. The hook brings the call
//! to a *stage*, and the stage is carried out once the guest is where it has to be, and open:
//!
//! ```text
//!    begin --> Return | Native | Tail | Fork | Exec | Wait ...
//!                 ^
//!                 |   a signal came, or the call has to be made at home:
//!                 '-- go home; the stub gives the kernel the guest's mask, and handlers run there
//! ```
//!
//! Handlers, cancellation among them, run at two kinds of places only: in the program's own code,
//! and at the `syscall` of the engine's stub. No frame of ours is on the stack there, so a handler
//! may unwind it, or never return. (But that of [`hook`] itself, in its first and last
//! instructions.)
//!
//! The notes of a call hold the stage and the call's own number and arguments while the stub makes
//! another call in between.

use super::class::{self, Class, Made, User};
use super::guest::{self, Guest};
use super::stage::{DONE, IS_OWN, MASK, REPLACED, Stage, answered, keep, restore};
use super::stand::LeaveReason;
use super::stats::CountKind;
use super::suspend::{self, Beginning, Suspension};
use super::{
    attributes, code, cpu_time, file_write, freed, futex, outsider, partial, run, signal, sleep,
    state, thread, trace, trial, untold, words,
};
use crate::rt::engine::guest as engine;
use std::ptr::from_ref;
use std::sync::atomic::Ordering::Relaxed;
use umcg_intercept::{Call, Next};

const NO_MEMORY: isize = -(libc::ENOMEM as isize);
const ENOSYS: isize = -(libc::ENOSYS as isize);

/// How the guest leaves the hook.
#[derive(Clone, Copy)]
#[repr(C)]
enum Leaving {
    /// Unless a signal has come, to which it has to see first.
    Open(Next),
    /// Closed, as the stub's next call opens.
    Closed,
    /// Not: it stays inside.
    Inside(Next),
}

/// The guest is about to leave with this stage.
#[derive(Clone, Copy)]
#[repr(C)]
struct WayOut {
    how: Leaving,
    stage: Stage,
}

impl WayOut {
    const fn of(how: Leaving, stage: Stage) -> WayOut {
        WayOut { how, stage }
    }
}

/// A handler that interrupts this function before the guest is inside, or when it has left, may
/// unwind it. A function of Rust's that has landing pads ends the process then, as the place is
/// none from which it calls. So this has none: whatever it calls is compiled into it and does not
/// panic, or is `extern "C"` and does not unwind.
///
/// # Safety
/// The engine calls it, at a site.
pub(super) unsafe extern "C" fn hook(call: &mut Call) -> Next {
    let Some(guest) = Guest::current() else {
        return pass(call);
    };
    let stage = if call.step > 0 && call.notes[IS_OWN] != 0 {
        guest.enter();
        take_answer(guest, call)
    } else if guest.is_child() {
        return pass_in_child(call);
    } else if guest.is_inside() || guest.is_home_handler() {
        return pass(call);
    } else {
        guest.enter();
        call.notes[IS_OWN] = 1;
        match &begin(guest, call) {
            Beginning::Stage(stage) => *stage,
            Beginning::Suspend(how) => suspend::suspend(guest, call, how),
        }
    };
    let mut way_out = match stage {
        // The usual ones.
        Stage::Return => WayOut::of(Leaving::Open(Next::Return), stage),
        Stage::Native => WayOut::of(Leaving::Open(Next::Native), stage),
        stage => carry_out(guest, call, stage),
    };
    loop {
        match way_out.how {
            Leaving::Open(next) if guest.leave() => return next,
            Leaving::Open(_) => way_out = see_to_signal(guest, call, way_out.stage),
            Leaving::Closed => {
                guest.leave_closed();
                return Next::Again;
            }
            Leaving::Inside(next) => return next,
        }
    }
}

fn is_exec(number: usize) -> bool {
    matches!(
        number as libc::c_long,
        libc::SYS_execve | libc::SYS_execveat
    )
}

/// A call that is none of a guest's: the kernel makes it.
#[inline(never)]
extern "C" fn pass(call: &mut Call) -> Next {
    let outsiders = (!guest::is_aside()).then(|| outsider::pass(call)).flatten();
    if let Some(next) = outsiders {
        next
    } else if thread::returns_elsewhere(call) {
        Next::Tail
    } else {
        Next::Native
    }
}

/// The same in a child that shares the guest's state.
#[cold]
extern "C" fn pass_in_child(call: &mut Call) -> Next {
    if is_exec(call.number) {
        signal::free_go();
    }
    pass(call)
}

#[inline(always)]
fn begin(guest: &'static Guest, call: &mut Call) -> Beginning {
    if code::needs_attention() && code::attend(call) {
        return Beginning::Stage(Stage::Home);
    }
    if guest.home.is_untold.load(Relaxed) && !is_of_threads(call.number) {
        freed::tell(guest);
    }
    // Nearly all calls that are worth a word.
    if futex::is_served(call) {
        futex::begin(guest, call)
    } else {
        begin_by_class(guest, call)
    }
}

#[inline(never)]
#[allow(improper_ctypes_definitions, reason = "called by Rust; not to unwind")]
extern "C" fn begin_by_class(guest: &'static Guest, call: &mut Call) -> Beginning {
    let stage = match class::of(call.number, &call.arguments) {
        Class::User(answer) => return answer_call(guest, call, answer),
        Class::Pass if code::is_for_stack(call) => code::map_stack(guest, call),
        Class::Pass => Stage::Native,
        Class::Watch(watched) => code::begin(call, watched),
        Class::Try(which) => {
            guest.note_no_pause();
            trial::begin(guest, call, which)
        }
        Class::Home | Class::Change(_) => {
            guest.note_no_pause();
            guest.note_tid();
            signal::keep_go_out(call);
            answered_or_home(guest, call)
        }
        Class::Thread(made) => {
            if made == Made::ExitThread {
                guest.stand.note(LeaveReason::Home, call);
                trace::note_end(guest);
            }
            thread::begin(guest, call)
        }
        Class::Bare => Stage::Tail,
    };
    Beginning::Stage(stage)
}

/// Calls that the C library makes while it blocks all signals for a moment, to make and to end
/// threads.
fn is_of_threads(number: usize) -> bool {
    matches!(
        number as libc::c_long,
        libc::SYS_exit | libc::SYS_madvise | libc::SYS_rt_sigprocmask | libc::SYS_clone3
    )
}

fn answer_call(guest: &'static Guest, call: &mut Call, answer: User) -> Beginning {
    let stage = match answer {
        User::Futex => return futex::begin(guest, call),
        User::FutexWaitv => return futex::begin_waitv(guest, call),
        User::SharedWait => return wait_shared(guest, call),
        User::Yield => return give_way(guest, call),
        User::Sleep => sleep::begin(guest, call),
        User::Tid => tell_tid(call),
        User::Mask => set_mask(guest, call),
        User::Action if signal::takes_handler_away(call.arguments) => Stage::Action,
        User::Action => answered(call, signal::set_action(call.arguments)),
        User::ThreadClock => {
            let is_time = call.number as libc::c_long == libc::SYS_clock_gettime;
            answered(call, cpu_time::read(call, is_time))
        }
        User::ThreadUsage => Stage::Usage,
        User::Futex2 => answered(call, Some(ENOSYS)),
        // An area of a guest is unregistered when it is adopted.
        User::Refused => answered_or_home(guest, call),
        User::Base => answered_or_home(guest, call),
    };
    Beginning::Stage(stage)
}

fn answered_or_home(guest: &Guest, call: &mut Call) -> Stage {
    match attributes::note(guest, call) {
        None if attributes::has_effect(call) => Stage::Effect,
        answer => answered(call, answer),
    }
}

/// A wait for a word that is not private. Threads wait so for the end of another one.
fn wait_shared(guest: &'static Guest, call: &mut Call) -> Beginning {
    if words::begin_wait(call.arguments[0]) {
        call.arguments[1] |= libc::FUTEX_PRIVATE_FLAG as usize;
        return futex::begin(guest, call);
    }
    Beginning::Stage(Stage::Home)
}

fn go_home(guest: &Guest, call: &Call) {
    guest.home.was_home.store(true, Relaxed);
    guest.counts.count(CountKind::Home);
    guest.stand.note(LeaveReason::Home, call);
    state::preserved(call.keeps_vectors(), engine::go_home);
}

/// A guest gives way to guests. If none is ready, and now and then in any case, it gives way to the
/// kernel's other threads as well, for one of which it may wait.
fn give_way(guest: &'static Guest, call: &Call) -> Beginning {
    const TURN: u64 = 128;
    if !guest::is_away() {
        return give_way_at_home(guest, call);
    }
    untold::note_pause(guest);
    guest.stand.note(LeaveReason::Yield, call);
    Beginning::Suspend(Suspension::Yield {
        is_for_all: guest.counts.count(CountKind::Pause) % TURN == 0,
    })
}

/// A guest at home gives way in the kernel. One that does nothing else for a while would stay there
/// for as long: it goes to a server, unless it is one for the kernel.
#[inline(never)]
#[allow(improper_ctypes_definitions, reason = "called by Rust; not to unwind")]
extern "C" fn give_way_at_home(guest: &'static Guest, call: &Call) -> Beginning {
    let goes = guest.only_pauses()
        && run::is_begun()
        && run::adopt(guest, call)
        && guest::adopted().is_some_and(|adopted| !adopted.stays());
    if !goes {
        return Beginning::Stage(Stage::Native);
    }
    guest.stand.note(LeaveReason::Yield, call);
    Beginning::Suspend(Suspension::Away)
}

fn set_mask(guest: &Guest, call: &mut Call) -> Stage {
    if guest.has_signal() {
        // It came before the call, which may block it.
        return Stage::Mask;
    }
    if let Some(mask) = signal::mask_at_end(call.arguments) {
        guest.mask_before.store(mask, Relaxed);
    }
    let mut frees = false;
    let result = signal::set_mask(call.arguments, &mut frees);
    match answered(call, result) {
        Stage::Return if frees => Stage::ReturnAtHome,
        Stage::Home => Stage::MaskInKernel,
        stage => stage,
    }
}

fn tell_tid(call: &mut Call) -> Stage {
    let adopted = guest::adopted().filter(|_| guest::is_away());
    answered(call, adopted.map(|adopted| adopted.tid() as isize))
}

/// The stage after a call that the stub has made. The answer is taken before anything else: the
/// stub may have to make another call first.
#[inline(never)]
extern "C" fn take_answer(guest: &Guest, call: &mut Call) -> Stage {
    let answer = call.result;
    match restore(call) {
        Stage::Forked => {
            thread::after_fork(answer == 0);
            answered(call, Some(answer))
        }
        Stage::NoExec => {
            signal::keep_go();
            answered(call, Some(answer))
        }
        Stage::Mapped => {
            code::mapped();
            answered(call, Some(answer))
        }
        Stage::Rested => {
            let before = call.notes[DONE] as isize;
            answered(call, Some(before + answer.max(0)))
        }
        Stage::Roomed => partial::go_on(call, answer),
        Stage::Effected => {
            attributes::note_effect(guest, call, answer);
            answered(call, Some(answer))
        }
        stage => {
            guest.forget_kept();
            stage
        }
    }
}

/// Carries the stage out, or gives the stub a call to make first.
#[inline(never)]
extern "C" fn carry_out(guest: &'static Guest, call: &mut Call, mut stage: Stage) -> WayOut {
    loop {
        if stage.is_at_home() {
            guest.note_tid();
            if guest::is_away() {
                go_home(guest, call);
            }
            if guest.has_signal() {
                return open(guest, call, stage);
            }
        }
        match stage {
            Stage::Wait => stage = futex::go_on(guest, call),
            Stage::Sleep => stage = sleep::go_on(guest, call),
            Stage::Write => {
                file_write::find_out(call.arguments[0]);
                stage = Stage::Home;
            }
            Stage::Mask => stage = set_mask(guest, call),
            Stage::Action => stage = answered(call, signal::set_action(call.arguments)),
            Stage::Usage => stage = answered(call, cpu_time::read_usage(call)),
            Stage::Fork => {
                // Inside until both sides are back: the library's locks are held.
                thread::before_fork();
                keep(call, Stage::Forked);
                return WayOut::of(Leaving::Inside(Next::Again), stage);
            }
            Stage::Exit => {
                thread::exit(guest, call);
                return WayOut::of(Leaving::Inside(Next::Native), stage);
            }
            _ => {
                let next = prepare_to_leave(guest, call, stage);
                return WayOut::of(Leaving::Open(next), stage);
            }
        }
    }
}

/// The guest is about to leave the hook with this stage.
fn prepare_to_leave(guest: &'static Guest, call: &mut Call, stage: Stage) -> Next {
    match stage {
        Stage::Return | Stage::ReturnAtHome => Next::Return,
        Stage::Exec => {
            state::preserved(call.keeps_vectors(), trace::flush);
            signal::yield_go();
            keep(call, Stage::NoExec);
            Next::Again
        }
        Stage::Rest => {
            keep(call, Stage::Rested);
            Next::Again
        }
        Stage::Room => {
            keep(call, Stage::Roomed);
            partial::wait_for_room(call);
            Next::Again
        }
        Stage::Map => {
            keep(call, Stage::Mapped);
            Next::Again
        }
        Stage::Effect => {
            keep(call, Stage::Effected);
            Next::Again
        }
        Stage::Tail if thread::before_tail(guest, call) => Next::Tail,
        Stage::Tail => {
            call.result = NO_MEMORY;
            Next::Return
        }
        Stage::Home => {
            guest.permit();
            Next::Native
        }
        Stage::MaskInKernel => {
            signal::note_next_mask(guest, call.arguments);
            Next::Native
        }
        _ => Next::Native,
    }
}

/// A signal came as the guest was about to leave with this stage: it is inside again.
#[cold]
extern "C" fn see_to_signal(guest: &'static Guest, call: &mut Call, stage: Stage) -> WayOut {
    if stage == Stage::Room {
        // The call itself, in place of the wait for room.
        restore(call);
    }
    if guest::is_away() {
        go_home(guest, call);
    }
    open(guest, call, stage)
}

/// Makes the stub give the kernel the guest's own mask, and come back to the stage.
fn open(guest: &'static Guest, call: &mut Call, stage: Stage) -> WayOut {
    keep(call, stage);
    // From here on the guest counts as open, and handlers as the program's code. Until the kernel
    // has the mask no signal comes.
    call.notes[MASK] = guest.open() as usize;
    let mask = from_ref(&call.notes[MASK]).expose_provenance();
    call.number = libc::SYS_rt_sigprocmask as usize;
    call.arguments[..REPLACED].copy_from_slice(&[
        libc::SIG_SETMASK as usize,
        mask,
        0,
        size_of::<u64>(),
    ]);
    WayOut::of(Leaving::Closed, stage)
}
