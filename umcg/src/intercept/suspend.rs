//! The usual ways in which a call of a guest leaves its server, and comes back to it.
//!
//! The hook does that at one place, and all that is called from there down to the switch is
//! compiled into one function. The reason: a processor predicts where a function returns to by a
//! stack of addresses of its own, which a switch does not exchange. If each guest left its server
//! by the same calls, the addresses on that stack are right for the next one too. With a chain of
//! functions for each kind of call, three or four returns after a switch are mispredicted, of 5 ns
//! each: mutexes that are held while their owners give way took 211 us for a thousand turns, and
//! take 155 us (sysbench threads, 16 threads, 4 locks; Zen 5).

use super::futex;
use super::guest::{self, Guest};
use super::stage::{Stage, answered};
use super::stand::LeaveReason;
use super::state;
use crate::futex::kernel::{self, Outcome, WordWait};
use crate::rt;
use crate::rt::wait::yielding::yield_to_another;
use umcg_intercept::Call;

/// How a call begins.
pub(super) enum Beginning {
    Stage(Stage),
    /// The guest is to leave its server.
    Suspend(Suspension),
}

/// Why the guest leaves its server. All that has to be noted before is noted.
pub(super) enum Suspension {
    /// The guest waits for a word, which has been looked at.
    Word(WordWait),
    /// It waits by futex(2) in another way.
    Futex,
    /// It waits by futex_waitv(2).
    List,
    /// The guest gives way to other guests.
    Yield {
        /// The kernel's other threads come next.
        is_for_all: bool,
    },
}

/// Leaves the server, and tells how the call goes on afterwards. Switches.
#[inline(always)]
pub(super) fn suspend(guest: &'static Guest, call: &mut Call, how: Suspension) -> Stage {
    let is_wait = !matches!(how, Suspension::Yield { .. });
    let arguments = &call.arguments;
    let outcome = state::preserved(call.keeps_vectors(), || match how {
        Suspension::Word(wait) => wait.wait(),
        // SAFETY: the arguments of a system call.
        Suspension::Futex => unsafe { kernel::futex(arguments) },
        // SAFETY: likewise.
        Suspension::List => unsafe { kernel::waitv(arguments) },
        Suspension::Yield { is_for_all } if yield_to_another() && !is_for_all => Outcome::Done(0),
        Suspension::Yield { .. } => Outcome::Kernel,
    });
    if outcome == Outcome::Done(0) {
        answered(call, Some(0))
    } else if is_wait {
        futex::settle(guest, call, outcome)
    } else {
        Stage::Native
    }
}

/// Lets other guests run in the midst of a call, if a server runs this one. Switches.
#[cold]
pub(super) fn let_others_run(guest: &Guest, call: &Call) {
    if guest::is_away() {
        guest.stand.note(LeaveReason::Yield, call);
        state::preserved(call.keeps_vectors(), rt::yield_now);
    }
}
