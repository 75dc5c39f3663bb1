//! The window of a site: the instructions that a jump to its trampoline replaces.
//!
//! A window is a run of whole instructions of one function, at least five bytes, with the `syscall`
//! among them. Nothing enters it behind its first byte. The order of preference:
//!
//! 1. It ends in the `syscall`, which begins behind the jump. The bytes behind the jump become
//!    traps, so that code which computes the address of the old `syscall` is found out.
//! 2. It ends in the `syscall`.
//! 3. It goes on behind the `syscall`. The caller then goes on in the trampoline. Only while no
//!    other thread may be in the call.

use super::decode::{Decoded, end, is_movable, start};
use super::entries::Entries;
use core::ops::Range;
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

    /// Whether the kernel returns from the call into the midst of the jump: a thread that is in the
    /// call while the jump is written goes on there.
    pub(crate) fn returns_into_jump(&self) -> bool {
        end(&self.syscall) < self.start() + JUMP
    }

    pub(crate) fn end(&self) -> usize {
        end(self.after.last().unwrap_or(&self.syscall))
    }
}

/// The site and the instructions around it that a window may have.
pub(crate) struct Surroundings {
    /// By ascending address, without gaps.
    steps: Vec<Instruction>,
    /// The index of the site.
    at: usize,
}

impl Surroundings {
    /// Of the site at the address.
    pub(crate) fn new(decoded: &Decoded, site: usize) -> Option<Surroundings> {
        let syscall = decoded.around(site)?;
        let mut steps = Vec::new();
        let mut first = site;
        while site - first < JUMP {
            let Some(step) = decoded.before(first).filter(is_movable) else {
                break;
            };
            first = start(&step);
            steps.push(step);
        }
        steps.reverse();
        let at = steps.len();
        let mut last = end(&syscall);
        steps.push(syscall);
        while last - site < JUMP {
            let Some(step) = decoded.around(last).filter(is_movable) else {
                break;
            };
            last = end(&step);
            steps.push(step);
        }
        Some(Surroundings { steps, at })
    }

    /// All addresses of which [`choose`](Surroundings::choose) may have to know whether they are
    /// entered.
    pub(crate) fn asks(&self) -> Range<usize> {
        let last = self.steps.last().map_or(0, end);
        start(&self.steps[0]) + 1..last
    }

    /// The best window of the site.
    pub(crate) fn choose(&self, entries: &Entries) -> Option<Window> {
        let Surroundings { ref steps, at } = *self;
        let site = &steps[at];
        let entered = |step: &Instruction| (start(step) + 1..end(step)).any(|one| entries.has(one));
        if entered(site) {
            return None;
        }
        let mut behind = at;
        let mut ends_in_site = None;
        while behind > 0 && !entries.has(start(&steps[behind])) && !entered(&steps[behind - 1]) {
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
            if entries.has(start(step)) || entered(step) {
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
}
