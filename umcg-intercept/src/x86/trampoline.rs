//! Code of trampolines.
//!
//! ```text
//!   descriptor    next, resume, tail, keeps_vectors, mark
//!   code          instructions of the window before the syscall
//!                 lea next(%rip), %rcx
//!                 lea descriptor(%rip), %r11
//!                 jmp *entry(%rip)
//!   tail          syscall
//!   (resume)      lea next(%rip), %rcx           as the kernel leaves it
//!                 instructions of the window behind the syscall
//!                 jmp to the end of the window
//! ```
//!
//! `resume` is here only if instructions follow; else it is the end of the window itself, `next`.
//! The address of the entry stub lies at the start of the arena: the stub may be out of reach.

use super::decode::{constants, end, named, start};
use super::stub;
use super::window::Window;
use crate::call::Site;
use core::mem::offset_of;
use iced_x86::Instruction;

/// Between trampolines.
pub(crate) const TRAP: u8 = 0xcc;

/// The longest code around the displaced instructions, with the descriptor.
const FIXED: usize = size_of::<Site>() + Site::WAY + Site::CALL + Site::LOAD + 5;

/// How much room the window's trampoline needs at most.
pub(crate) fn room(window: &Window) -> usize {
    (FIXED + (window.end() - window.start())).next_multiple_of(8)
}

/// Where an original instruction continues in the trampoline.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moved {
    pub(crate) from: usize,
    pub(crate) to: usize,
}

/// A finished trampoline.
pub(crate) struct Trampoline {
    /// The descriptor's address.
    pub(crate) site: usize,
    pub(crate) code: usize,
}

/// Writes trampolines, one behind the other.
pub(crate) struct Writer {
    /// Where the bytes will lie.
    address: usize,
    /// As [`Site::keeps_vectors`], of all sites.
    keeps_vectors: bool,
    pub(crate) bytes: Vec<u8>,
    /// All instructions of the windows: an old address, and the same place here.
    pub(crate) moved: Vec<Moved>,
}

impl Writer {
    /// For code at `address`, where the address of the stub will be.
    pub(crate) fn new(address: usize, room: usize, keeps_vectors: bool) -> Writer {
        let mut bytes = Vec::with_capacity(room);
        bytes.extend(stub::entry().to_le_bytes());
        Writer {
            address,
            keeps_vectors,
            bytes,
            moved: Vec::new(),
        }
    }

    fn here(&self) -> usize {
        self.address + self.bytes.len()
    }

    /// Code that ends in a displacement to the target.
    fn relative(&mut self, code: &[u8], target: usize) -> Option<()> {
        self.bytes.extend(code);
        let distance = target.wrapping_sub(self.here() + 4) as isize;
        self.bytes
            .extend(i32::try_from(distance).ok()?.to_le_bytes());
        Some(())
    }

    /// The instruction, such that it does the same here.
    fn displaced(&mut self, step: &Instruction, original: &[u8]) -> Option<()> {
        self.moved.push(Moved {
            from: start(step),
            to: self.here(),
        });
        let here = self.bytes.len();
        self.bytes.extend(original);
        if step.is_ip_rel_memory_operand() {
            let distance = named(step)?.wrapping_sub(self.here()) as isize;
            let field = here + constants(original, step).displacement_offset();
            let distance = i32::try_from(distance).ok()?.to_le_bytes();
            let place = self.bytes.get_mut(field..field + 4)?;
            place.copy_from_slice(&distance);
        }
        Some(())
    }

    /// The trampoline of a window. `None` if something is out of reach, or looks like a mark: then
    /// nothing was written.
    pub(crate) fn add<'a>(
        &mut self,
        window: &Window,
        original: impl Fn(&Instruction) -> &'a [u8],
    ) -> Option<Trampoline> {
        let (bytes, moved) = (self.bytes.len(), self.moved.len());
        let made = self.try_add(window, original);
        if made.is_none() {
            self.bytes.truncate(bytes);
            self.moved.truncate(moved);
        }
        made
    }

    fn try_add<'a>(
        &mut self,
        window: &Window,
        original: impl Fn(&Instruction) -> &'a [u8],
    ) -> Option<Trampoline> {
        let begin = self.bytes.len().next_multiple_of(8);
        self.bytes.resize(begin + size_of::<Site>(), TRAP);
        let site = self.address + begin;
        let code = self.here();
        for step in &window.before {
            self.displaced(step, original(step))?;
        }
        let (call, next) = (start(&window.syscall), end(&window.syscall));
        self.moved.push(Moved {
            from: call,
            to: self.here(),
        });
        self.relative(&[0x48, 0x8d, 0x0d], next)?;
        self.relative(&[0x4c, 0x8d, 0x1d], site)?;
        self.relative(&[0xff, 0x25], self.address)?;
        let tail = self.here();
        self.bytes.extend([0x0f, 0x05]);
        let mut resume = next;
        if !window.after.is_empty() {
            resume = self.here();
            self.relative(&[0x48, 0x8d, 0x0d], next)?;
            for step in &window.after {
                self.displaced(step, original(step))?;
            }
        }
        self.relative(&[0xe9], window.end())?;
        let (descriptor, code_bytes) = self.bytes[begin..].split_at_mut(size_of::<Site>());
        let has_mark = |word: &[u8]| word[1..].starts_with(&Site::MARK);
        if code_bytes.chunks(8).any(has_mark) {
            return None;
        }
        let keeps_vectors = usize::from(self.keeps_vectors);
        for (field, value) in [next, resume, tail, keeps_vectors].into_iter().enumerate() {
            descriptor[8 * field..][..8].copy_from_slice(&value.to_le_bytes());
        }
        descriptor[offset_of!(Site, mark)..].copy_from_slice(&Site::MARK);
        Some(Trampoline { site, code })
    }
}
