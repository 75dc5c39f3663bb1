//! Cache lines: which cores have each, and what it costs to get one.
//!
//! Each line is modified by one core, or shared by several (MESI without its finer states). Which
//! line a word lies in:
//!
//! - A word has a line of its own, whatever its address: where an allocator puts a small object is
//!   chance, and a simulation is to repeat itself.
//! - The words within [`NEAR`] bytes of an *anchor* share its line: a simulation names as anchors
//!   words of types that have lines to themselves.
//! - The words of a worker's descriptor share one.
//!
//! A store that misses costs its core nothing, as the store buffer has it: the line is on its way
//! for as long as it takes, and the next core that wants it waits for that. So does the storing
//! core at its next fence or locked operation. Transfers of one modified line come one after the
//! other, while cores that only read a line do not wait for each other.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// More cores than there are: the servers', and those of some other threads.
pub(crate) const MOST_CORES: usize = 320;
/// How near to an anchor a word shares its line.
const NEAR: usize = 64;
const NOBODY: u16 = u16::MAX;

/// How a line is used.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Load,
    Store,
    Locked,
}

#[derive(Clone)]
struct Line {
    holders: [u64; MOST_CORES / 64],
    /// The core that wrote it last.
    writer: u16,
    is_modified: bool,
    /// When its last transfer is over.
    free_at: u64,
}

impl Line {
    fn has(&self, core: u16) -> bool {
        self.holders[usize::from(core) / 64] >> (core % 64) & 1 != 0
    }

    fn add(&mut self, core: u16) {
        self.holders[usize::from(core) / 64] |= 1 << (core % 64);
    }

    fn is_only(&self, core: u16) -> bool {
        let mut only = [0; MOST_CORES / 64];
        only[usize::from(core) / 64] = 1 << (core % 64);
        self.holders == only
    }
}

/// An access as it turns out.
pub(crate) struct Outcome {
    /// When the core goes on.
    pub(crate) goes_on: u64,
    /// When a store is done.
    pub(crate) stored: u64,
}

/// A multiplication spreads addresses well enough.
#[derive(Default)]
pub(crate) struct ByAddress(u64);

impl Hasher for ByAddress {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("addresses are numbers")
    }

    fn write_usize(&mut self, address: usize) {
        self.0 = (address as u64 >> 1)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(26);
    }
}

pub(crate) type Hashes = BuildHasherDefault<ByAddress>;

/// All lines that were touched.
#[derive(Default)]
pub(crate) struct Lines {
    places: HashMap<usize, u32, Hashes>,
    lines: Vec<Line>,
    /// Anchors in the order of their addresses, and their lines.
    anchors: Vec<(usize, u32)>,
}

impl Lines {
    /// The words near this one share its line from now on.
    pub(crate) fn anchor(&mut self, address: usize) {
        let line = self.new_line();
        self.anchors.push((address, line));
        self.anchors.sort_unstable();
        self.places.insert(address, line);
    }

    fn new_line(&mut self) -> u32 {
        self.lines.push(Line {
            holders: [0; MOST_CORES / 64],
            writer: NOBODY,
            is_modified: false,
            free_at: 0,
        });
        (self.lines.len() - 1) as u32
    }

    fn find(&mut self, address: usize) -> usize {
        if let Some(line) = self.places.get(&address) {
            return *line as usize;
        }
        let line = self.near(address).unwrap_or_else(|| self.new_line());
        self.places.insert(address, line);
        line as usize
    }

    fn near(&self, address: usize) -> Option<u32> {
        let after = self
            .anchors
            .partition_point(|(anchor, _)| *anchor < address);
        let beside = self.anchors[..after].last().into_iter();
        beside
            .chain(self.anchors.get(after))
            .filter(|(anchor, _)| anchor.abs_diff(address) < NEAR)
            .min_by_key(|(anchor, _)| anchor.abs_diff(address))
            .map(|(_, line)| *line)
    }

    /// A core uses a word at this time. `transfer` says what a line of that core's costs; `locked`
    /// what a locked operation does.
    pub(crate) fn access(
        &mut self,
        address: usize,
        access: Access,
        core: u16,
        now: u64,
        transfer: impl Fn(u16) -> u64,
    ) -> Outcome {
        let found = self.find(address);
        let line = &mut self.lines[found];
        let is_here = match access {
            Access::Load => line.has(core),
            Access::Store | Access::Locked => line.is_only(core),
        };
        // A fresh one comes with the object that it is a part of.
        if is_here || line.writer == NOBODY {
            line.add(core);
            if line.writer == NOBODY || access != Access::Load {
                line.writer = core;
                line.is_modified |= access != Access::Load;
            }
            let goes_on = now;
            let stored = now;
            return Outcome { goes_on, stored };
        }
        let cost = transfer(line.writer);
        let begins = match access {
            Access::Load if !line.is_modified => now,
            _ => now.max(line.free_at),
        };
        let ends = begins + cost;
        if access == Access::Load {
            if line.is_modified {
                line.free_at = ends;
            }
            line.is_modified = false;
            line.add(core);
        } else {
            line.free_at = ends;
            line.is_modified = true;
            line.holders = [0; MOST_CORES / 64];
            line.add(core);
            line.writer = core;
        }
        let goes_on = if access == Access::Store { now } else { ends };
        Outcome {
            goes_on,
            stored: ends,
        }
    }
}
