//! Patches one object: trampolines first, then the jumps to them.
//!
//! Order of writing, for threads that run the code meanwhile: a trap over the first byte of each
//! window, the rest of the window, and at last the first byte of the jump, with a barrier in all
//! threads after each. A thread that meets the trap goes on by [`super::trap::on_trap`]. A thread
//! between two instructions of a window is not helped by that, so objects are best patched before
//! any thread runs them.
//!
//! Code is writable and executable at once while its jumps are written, since other threads run it.
//! Rejected: a patched copy moved over the original pages. It would lose the mapping's file, by
//! which debuggers and profilers find names.

use super::code::Code;
use super::decode::start;
use super::entries::Entries;
use super::image::Image;
use super::maps::Mapping;
use super::trampoline::{self, Moved, Trampoline};
use super::trap::{self, Table};
use super::window::{self, JUMP, Window};
use super::{arena, raw, stub};
use crate::report::Counts;
use core::ops::Range;
use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

const TRAP: u8 = 0xcc;
const RESTORER: u32 = libc::SYS_rt_sigreturn as u32;
const READ_EXECUTE: i32 = libc::PROT_READ | libc::PROT_EXEC;
const REGISTER_BARRIER: i32 = 1 << 6;
const BARRIER: i32 = 1 << 5;

/// An object that was looked at.
pub(crate) struct Patched {
    pub(crate) counts: Counts,
    /// The memory of its trampolines.
    arena: Range<usize>,
    /// What the handler of traps knows of it.
    table: Option<&'static Table>,
    /// One of the windows and the jump there, to tell whether the code is still ours.
    sample: Option<(usize, [u8; JUMP])>,
}

impl Patched {
    pub(crate) fn none(counts: Counts) -> Patched {
        Patched {
            counts,
            arena: 0..0,
            table: None,
            sample: None,
        }
    }

    /// Gives back what the object has: it is gone, or was never patched.
    pub(crate) fn retire(&self) {
        self.table.inspect(|table| table.retire());
        if !self.arena.is_empty() {
            raw::unmap(self.arena.start, self.arena.len());
        }
    }

    /// Whether the object's code surely has no jumps any more: it was unmapped, or loaded anew.
    /// While it may have, the trampolines stay.
    pub(crate) fn is_gone(&self, image: &Image, mappings: &[Mapping]) -> bool {
        let (at, jump) = self.sample.unwrap_or((image.object.range.start, [0; JUMP]));
        match mappings.iter().find(|one| one.range.contains(&at)) {
            Some(mapping) if mapping.file == image.file => {
                let mut found = [0; JUMP];
                self.sample.is_some()
                    && mapping.readable
                    && raw::read_memory(at, &mut found)
                    && found != jump
            }
            _ => true,
        }
    }
}

/// A window and its trampoline.
struct Made<'a> {
    window: &'a Window,
    trampoline: Trampoline,
}

impl Made<'_> {
    fn jump(&self) -> [u8; JUMP] {
        let distance = self
            .trampoline
            .code
            .wrapping_sub(self.window.start() + JUMP);
        let [a, b, c, d] = (distance as i32).to_le_bytes();
        [0xe9, a, b, c, d]
    }
}

/// Finds the object's sites, and patches those whose number is hooked or unknown.
pub(crate) fn patch(image: &Image, mappings: &[Mapping], is_hooked: &[u8; 512]) -> Patched {
    let mut counts = Counts::default();
    let Some(code) = Code::new(image) else {
        return Patched::none(counts);
    };
    let windows = windows(&code, is_hooked, &mut counts);
    if windows.is_empty() {
        return Patched::none(counts);
    }
    let Some((arena, made)) = trampolines(image, mappings, &windows) else {
        counts.no_memory += windows.len();
        return Patched::none(counts);
    };
    counts.no_memory += windows.len() - made.len();
    let sample = made.first().map(|one| (one.window.start(), one.jump()));
    // Before the first trap is written, since a thread may meet it at once.
    let table = Some(publish(&made, arena.clone()));
    let mut patched = Patched {
        counts,
        arena,
        table,
        sample,
    };
    if write(&made).is_ok() {
        patched.counts.patched = made.len();
        return patched;
    }
    patched.retire();
    counts.not_writable += made.len();
    Patched::none(counts)
}

/// Tells the handler of traps.
fn publish(made: &[Made], arena: Range<usize>) -> &'static Table {
    let moved = made
        .iter()
        .flat_map(|one| one.trampoline.moved.iter().copied());
    let mut moved: Vec<Moved> = moved.collect();
    moved.sort_unstable_by_key(|one| one.from);
    let tails = made
        .iter()
        .map(|one| (one.trampoline.site, one.trampoline.tail))
        .collect();
    trap::publish(moved, tails, arena)
}

/// Windows of the sites to patch.
fn windows(code: &Code, is_hooked: &[u8; 512], counts: &mut Counts) -> Vec<Window> {
    let sites = code.sites();
    counts.undecoded = sites.undecoded;
    counts.outside = sites.outside;
    counts.sites = sites.known.len();
    let addresses: Vec<usize> = sites
        .known
        .iter()
        .map(|&(function, at)| start(&code.decoded(function).steps[at]))
        .collect();
    let entries = Entries::find(code, &addresses);
    let mut windows: Vec<Window> = Vec::new();
    for (&(function, at), &address) in sites.known.iter().zip(&addresses) {
        let decoded = code.decoded(function);
        let number = decoded.number(at, |address| entries.has(address));
        let hooked = |number: u32| is_hooked.get(number as usize).is_some_and(|&one| one != 0);
        if stub::exempt().contains(&address) {
            counts.own += 1;
        } else if function.restorer || number == Some(RESTORER) {
            counts.restorers += 1;
        } else if number.is_some_and(|number| !hooked(number)) {
            counts.unhooked += 1;
        } else if let Some(window) = window::choose(&decoded, at, &entries)
            // Two sites close together: the later one is left.
            .filter(|one| windows.last().is_none_or(|last| last.end() <= one.start()))
        {
            windows.push(window);
        } else {
            counts.no_window += 1;
        }
    }
    windows
}

/// Maps and fills the arena. It begins with the address of the entry stub.
fn trampolines<'a>(
    image: &Image,
    mappings: &[Mapping],
    windows: &'a [Window],
) -> Option<(Range<usize>, Vec<Made<'a>>)> {
    let length = 8 + windows.iter().map(trampoline::room).sum::<usize>();
    let length = length.next_multiple_of(raw::PAGE);
    let arena = arena::map(mappings, &image.object.range, length)?;
    let mut bytes = stub::entry().to_le_bytes().to_vec();
    let mut made = Vec::new();
    for window in windows {
        let address = arena + bytes.len();
        let original = |step: &iced_x86::Instruction| {
            let range = start(step)..super::decode::end(step);
            image.bytes(&range).unwrap_or_default().to_vec()
        };
        if let Some(one) = trampoline::write(window, original, address, arena) {
            bytes.extend(&one.bytes);
            bytes.resize(bytes.len().next_multiple_of(8), TRAP);
            made.push(Made {
                window,
                trampoline: one,
            });
        }
    }
    bytes.resize(length, TRAP);
    // SAFETY: the arena has this length, is writable, and belongs to nothing else yet.
    unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), arena as *mut u8, length) };
    if raw::protect(arena..arena + length, READ_EXECUTE).is_err() {
        raw::unmap(arena, length);
        return None;
    }
    Some((arena..arena + length, made))
}

/// Writes the jumps. On an error nothing was written.
fn write(made: &[Made]) -> Result<(), raw::Errno> {
    let first = made.iter().map(|one| one.window.start()).min().unwrap_or(0);
    let last = made.iter().map(|one| one.window.end()).max().unwrap_or(0);
    raw::protect(first..last, READ_EXECUTE | libc::PROT_WRITE)?;
    // Fails on kernels without it; then there is the order of writing alone.
    let _ = raw::membarrier(REGISTER_BARRIER);
    let barrier = || {
        let _ = raw::membarrier(BARRIER);
    };
    for Made { window, .. } in made {
        store(window.start(), TRAP);
    }
    barrier();
    for one in made {
        let (window, jump) = (one.window, one.jump());
        for at in 1..window.end() - window.start() {
            store(window.start() + at, jump.get(at).copied().unwrap_or(TRAP));
        }
    }
    barrier();
    for Made { window, .. } in made {
        store(window.start(), 0xe9);
    }
    barrier();
    // Code that stays writable still works.
    let _ = raw::protect(first..last, READ_EXECUTE);
    Ok(())
}

fn store(at: usize, byte: u8) {
    // SAFETY: a byte of a window, made writable above.
    let place = unsafe { AtomicU8::from_ptr(at as *mut u8) };
    place.store(byte, Relaxed);
}
