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
use super::decode::{end, start};
use super::entries::Entries;
use super::image::Image;
use super::maps::Mapping;
use super::trampoline::{self, Moved, TRAP, Trampoline, Writer};
use super::trap::{self, Table};
use super::window::{JUMP, Surroundings, Window};
use super::zone::Zone;
use super::{arena, raw, stub};
use crate::report::Counts;
use core::ops::Range;
use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

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
            arena::give_back(&self.arena);
        }
    }

    /// Whether the address lies in the trampolines.
    pub(crate) fn has(&self, address: usize) -> bool {
        self.arena.contains(&address)
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

/// Finds the object's sites, and patches those whose number is hooked or unknown. `has_threads`: as
/// [`Config::has_threads`](crate::Config::has_threads).
pub(crate) fn patch(
    image: &Image,
    mappings: &[Mapping],
    is_hooked: &[u8; 512],
    has_threads: bool,
) -> Patched {
    let mut counts = Counts::default();
    let Some(code) = Code::new(image) else {
        return Patched::none(counts);
    };
    let mut windows = windows(&code, is_hooked, &mut counts);
    if has_threads {
        let found = windows.len();
        windows.retain(|window| !window.returns_into_jump());
        counts.no_window += found - windows.len();
    }
    if windows.is_empty() {
        return Patched::none(counts);
    }
    let Some(Trampolines { arena, made, moved }) = trampolines(image, mappings, &windows) else {
        counts.no_memory += windows.len();
        return Patched::none(counts);
    };
    counts.no_memory += windows.len() - made.len();
    let sample = made.first().map(|one| (one.window.start(), one.jump()));
    // Before the first trap is written, since a thread may meet it at once.
    let table = Some(publish(&made, moved, arena.clone()));
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
fn publish(made: &[Made], moved: Vec<Moved>, arena: Range<usize>) -> &'static Table {
    let sites = made.iter().map(|one| one.trampoline.site).collect();
    trap::publish(moved, sites, arena)
}

/// A site that was found.
struct Site {
    address: usize,
    /// In a function that unwinders take for a restorer.
    restorer: bool,
    surroundings: Option<Surroundings>,
    /// As [`Decoded::number`](super::decode::Decoded::number) says.
    number: Option<(u32, Vec<usize>)>,
}

/// Windows of the sites to patch.
fn windows(code: &Code, is_hooked: &[u8; 512], counts: &mut Counts) -> Vec<Window> {
    let found = code.sites();
    counts.undecoded = found.undecoded;
    counts.outside = found.outside;
    counts.sites = found.known.len();
    if found.known.is_empty() {
        return Vec::new();
    }
    let sites = found.known.iter().map(|&(function, address)| {
        let decoded = code.decoded(function);
        Site {
            address,
            restorer: function.restorer,
            surroundings: Surroundings::new(&decoded, address),
            number: decoded.number(address),
        }
    });
    let sites: Vec<Site> = sites.collect();
    let hooked = |number: u32| is_hooked.get(number as usize).is_some_and(|&one| one != 0);
    let matters = |number: u32| number == RESTORER || !hooked(number);
    let entries = Entries::find(code, zone(code, &sites, matters));
    let mut windows: Vec<Window> = Vec::new();
    for site in &sites {
        let is_straight = |line: &[usize]| !line.iter().any(|&one| entries.has(one));
        let number = site.number.as_ref();
        let number = number.filter(|one| is_straight(&one.1)).map(|one| one.0);
        let surroundings = site.surroundings.as_ref();
        if stub::exempt().contains(&site.address) {
            counts.own += 1;
        } else if site.restorer || number == Some(RESTORER) {
            counts.restorers += 1;
        } else if number.is_some_and(|number| !hooked(number)) {
            counts.unhooked += 1;
        } else if let Some(window) = surroundings
            .and_then(|one| one.choose(&entries))
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

/// All addresses of which it has to be known whether something enters them.
fn zone(code: &Code, sites: &[Site], matters: impl Fn(u32) -> bool) -> Zone {
    let mut ranges = Vec::with_capacity(2 * sites.len());
    for site in sites {
        ranges.extend(site.surroundings.as_ref().map(Surroundings::asks));
        if let Some((_, line)) = site.number.as_ref().filter(|one| matters(one.0)) {
            ranges.extend(line.iter().map(|&one| one..one + 1));
        }
    }
    Zone::new(&code.image.object.range, ranges)
}

/// The trampolines of an object.
struct Trampolines<'a> {
    arena: Range<usize>,
    made: Vec<Made<'a>>,
    moved: Vec<Moved>,
}

/// Takes and fills an arena.
fn trampolines<'a>(
    image: &Image,
    mappings: &[Mapping],
    windows: &'a [Window],
) -> Option<Trampolines<'a>> {
    let length = 8 + windows.iter().map(trampoline::room).sum::<usize>();
    let length = length.next_multiple_of(raw::PAGE);
    let arena = arena::take(mappings, &image.object.range, length)?;
    let mut writer = Writer::new(arena.start, length, image.keeps_vectors);
    let mut made = Vec::with_capacity(windows.len());
    let original = |step: &iced_x86::Instruction| {
        let range = start(step)..end(step);
        image.bytes(&range).unwrap_or_default()
    };
    for window in windows {
        let trampoline = writer.add(window, original);
        made.extend(trampoline.map(|trampoline| Made { window, trampoline }));
    }
    let Writer {
        mut bytes, moved, ..
    } = writer;
    bytes.resize(length, TRAP);
    // SAFETY: the arena has this length, is writable, and belongs to nothing else yet.
    unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), arena.start as *mut u8, length) };
    if raw::protect(arena.clone(), READ_EXECUTE).is_err() {
        arena::give_back(&arena);
        return None;
    }
    Some(Trampolines { arena, made, moved })
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
