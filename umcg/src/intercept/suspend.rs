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
use crate::futex::kernel::{self, Outcome, WordEnd, WordWait};
use crate::rt;
use crate::rt::time as clock;
use crate::rt::wait::cut;
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
    /// It is at home, and goes to a server.
    Away,
}

/// A call that leaves its server.
///
/// It is handed on by reference, and its outcome read where it was written: a processor waits some
/// 5 ns with a copy by one load of words that several stores have just written, or of a word whose
/// lowest byte alone they have.
struct SuspendedCall<'a> {
    how: &'a Suspension,
    arguments: &'a [usize; 6],
    /// Meaningless after a wake-up, and after giving way.
    outcome: Outcome,
}

impl SuspendedCall<'_> {
    /// Whether the call is done with result 0. Switches.
    #[inline(always)]
    fn leave(&mut self) -> bool {
        match self.how {
            Suspension::Word(wait) => match wait.wait() {
                WordEnd::Woken => return true,
                end => self.outcome = WordWait::outcome(end),
            },
            // SAFETY: the arguments of a system call.
            Suspension::Futex => self.outcome = unsafe { kernel::futex(self.arguments) },
            // SAFETY: likewise.
            Suspension::List => self.outcome = unsafe { kernel::waitv(self.arguments) },
            Suspension::Yield { is_for_all } => return yield_to_another() && !is_for_all,
            Suspension::Away => return go_to_server(),
        }
        false
    }
}

/// Leaves the server, and tells how the call goes on afterwards. Switches.
#[inline(always)]
pub(super) fn suspend(guest: &'static Guest, call: &mut Call, how: &Suspension) -> Stage {
    let mut suspended = SuspendedCall {
        how,
        arguments: &call.arguments,
        outcome: Outcome::Kernel,
    };
    if state::preserved(call.keeps_vectors(), || suspended.leave()) {
        answered(call, Some(0))
    } else if matches!(how, Suspension::Yield { .. }) {
        Stage::Native
    } else if matches!(how, Suspension::Away) {
        guest.task().map(cut::take_cut);
        answered(call, Some(0));
        Stage::ReturnAtHome
    } else {
        let outcome = suspended.outcome;
        futex::settle(guest, call, &outcome)
    }
}

/// A guest leaves its home by waiting only: another party has to make it ready. So it sleeps for as
/// long as it takes to leave. False if a signal has cut that.
#[cold]
#[inline(never)]
fn go_to_server() -> bool {
    const NANOSECONDS: u64 = 50_000;
    cut::sleep_cuttable(&"yield", clock::now() + NANOSECONDS)
}

/// Lets other guests run in the midst of a call, if a server runs this one. Switches.
#[cold]
pub(super) fn let_others_run(guest: &Guest, call: &Call) {
    if guest::is_away() {
        guest.stand.note(LeaveReason::Yield, call);
        state::preserved(call.keeps_vectors(), rt::yield_now);
    }
}
