//! The window of a site: the instructions that a jump to its trampoline replaces.
//!
//! A window is a run of whole instructions of one function, at least five bytes, with the `syscall`
//! among them. Nothing enters it behind its first byte. The order of preference:
//!
//! 1. It ends in the `syscall`, which begins behind the jump. The bytes behind the jump become
//!    traps, so that code which computes the address of the old `syscall` is found out.
//! 2. It ends in the `syscall`.
//! 3. It goes on behind the `syscall`. The caller then goes on in the trampoline.

use super::decode::{Decoded, end, is_movable, start};
use super::entries::Entries;
use iced_x86::Instruction;

/// Length of the jump.
pub(crate) const JUMP: usize = 5;

/// Part of a function's instructions.
#[derive(Debug, Clone)]
pub(crate) struct Window {
    pub(crate) before: Vec<Instruction>,
    pub(crate) syscall: Instruction,
    pub(crate) after: Vec<Instruction>,
}

impl Window {
    pub(crate) fn start(&self) -> usize {
        start(self.before.first().unwrap_or(&self.syscall))
    }

    pub(crate) fn end(&self) -> usize {
        end(self.after.last().unwrap_or(&self.syscall))
    }
}

/// The best window of the site.
pub(crate) fn choose(decoded: &Decoded, at: usize, entries: &Entries) -> Option<Window> {
    let steps = &decoded.steps;
    let site = &steps[at];
    let entered = |step: &Instruction| (start(step) + 1..end(step)).any(|one| entries.has(one));
    if entered(site) {
        return None;
    }
    let mut behind = at;
    let mut ends_in_site = None;
    while behind > 0 && start(site) - start(&steps[behind]) < JUMP {
        let step = &steps[behind - 1];
        if entries.has(start(&steps[behind])) || !is_movable(step) || entered(step) {
            break;
        }
        behind -= 1;
        let length = end(site) - start(&steps[behind]);
        if length >= JUMP {
            ends_in_site = Some(behind);
        }
    }
    let first = ends_in_site.unwrap_or(behind);
    let mut last = at;
    while end(&steps[last]) - start(&steps[first]) < JUMP {
        let step = steps.get(last + 1)?;
        if entries.has(start(step)) || !is_movable(step) || entered(step) {
            return None;
        }
        last += 1;
    }
    Some(Window {
        before: steps[first..at].to_vec(),
        syscall: *site,
        after: steps[at + 1..=last].to_vec(),
    })
}
