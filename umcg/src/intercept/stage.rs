//! Stages of a call, and its notes, which the hook keeps with a call while the stub makes another
//! one in between, and while handlers run.

use umcg_intercept::Call;

/// How a call goes on once the guest is where it has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(super) enum Stage {
    /// The result is the call's.
    Return,
    /// The kernel makes it, wherever the guest is.
    Native,
    /// The kernel makes it, at home.
    Home,
    /// The same, by the site's own instruction: it returns twice, or on another stack.
    Tail,
    /// A fork that copies the memory, and its end.
    Fork,
    Forked,
    /// Another program takes the process, or could not.
    Exec,
    NoExec,
    /// The thread ends.
    Exit,
    /// A wait that a signal has cut: the handlers of the signal have run by now.
    Wait,
    /// The same for a sleep.
    Sleep,
    /// A write, maybe to a file that is to be found out about.
    Write,
    /// Code may be mapped, and was.
    Map,
    Mapped,
    /// A part is done, and the kernel does the rest, at home.
    Rest,
    Rested,
    /// The same for a socket, once there is room: a wait that has sent nothing would take the error
    /// that is for the next call.
    Room,
    Roomed,
    /// Something is done to a thread, maybe another one, and was.
    Effect,
    Effected,
    /// As `Return`, at home and open: signals that have waited are delivered first.
    ReturnAtHome,
    /// The mask is changed at home and open: signals that have come are delivered first.
    Mask,
    /// The kernel changes the mask of a plain guest.
    MaskInKernel,
    /// A handler is taken away at home and open: signals that have come are delivered first.
    Action,
    /// The guest asks what it has used: the kernel's part is that of the home.
    Usage,
}

const STAGES: [Stage; 25] = [
    Stage::Return,
    Stage::Native,
    Stage::Home,
    Stage::Tail,
    Stage::Fork,
    Stage::Forked,
    Stage::Exec,
    Stage::NoExec,
    Stage::Exit,
    Stage::Wait,
    Stage::Sleep,
    Stage::Write,
    Stage::Map,
    Stage::Mapped,
    Stage::Rest,
    Stage::Rested,
    Stage::Room,
    Stage::Roomed,
    Stage::Effect,
    Stage::Effected,
    Stage::ReturnAtHome,
    Stage::Mask,
    Stage::MaskInKernel,
    Stage::Action,
    Stage::Usage,
];

/// Indexes of notes.
const STAGE: usize = 0;
const NUMBER: usize = 1;
const ARGUMENTS: usize = 2;
pub(super) const MASK: usize = 6;
/// The result of [`Stage::Return`].
const RESULT: usize = 7;
/// For [`Stage::Wait`]: how many handlers had run before, and when the wait ends.
pub(super) const HANDLED: usize = 8;
pub(super) const CUT: usize = 9;
pub(super) const DEADLINE: usize = 10;
/// For a wait that was cut: whether it goes on with a rest, and the rest. (A sleep has no rest.)
pub(super) const REST: usize = 10;
/// For [`Stage::Room`]: an entry for poll(2), and the time limit.
pub(super) const POLLED: usize = 10;
pub(super) const LIMIT: usize = 11;
/// For a call that brings a set of signals: the kernel's, and the record that names it, which has
/// three words at most. Such a call is none of the waits above.
pub(super) const SET: usize = 10;
pub(super) const RECORD: usize = 11;
/// Not 0: the call is a guest's own.
pub(super) const IS_OWN: usize = 14;
/// How many bytes were done in place.
pub(super) const DONE: usize = 15;
const _: () = assert!(IS_OWN >= Call::FRESH && DONE >= Call::FRESH);

/// How many arguments a change of the mask replaces.
pub(super) const REPLACED: usize = 4;

impl Stage {
    /// Whether it is carried out at home.
    pub(super) fn is_at_home(self) -> bool {
        use Stage::*;
        matches!(
            self,
            ReturnAtHome
                | Home
                | Tail
                | Fork
                | Exec
                | Exit
                | Wait
                | Sleep
                | Write
                | Map
                | Rest
                | Room
                | Effect
                | Usage
                | Mask
                | MaskInKernel
                | Action
        )
    }
}

/// The stage of a call with this result; or of one that the kernel makes, if there is none.
pub(super) fn answered(call: &mut Call, result: Option<isize>) -> Stage {
    match result {
        Some(result) => {
            call.result = result;
            Stage::Return
        }
        None => Stage::Home,
    }
}

/// Notes stage and call, while the stub makes a call in between.
pub(super) fn keep(call: &mut Call, stage: Stage) {
    call.notes[STAGE] = stage as usize;
    call.notes[RESULT] = call.result as usize;
    call.notes[NUMBER] = call.number;
    call.notes[ARGUMENTS..ARGUMENTS + REPLACED].copy_from_slice(&call.arguments[..REPLACED]);
}

/// The stage and the call as they were noted.
pub(super) fn restore(call: &mut Call) -> Stage {
    call.result = call.notes[RESULT] as isize;
    call.number = call.notes[NUMBER];
    call.arguments[..REPLACED].copy_from_slice(&call.notes[ARGUMENTS..ARGUMENTS + REPLACED]);
    STAGES[call.notes[STAGE]]
}
