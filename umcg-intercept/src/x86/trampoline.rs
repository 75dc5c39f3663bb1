//! Code of trampolines.
//!
//! ```text
//!   descriptor    next, resume, tail
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
use super::window::Window;
use crate::call::Site;
use iced_x86::Instruction;

/// The longest code around the displaced instructions, with the descriptor.
const FIXED: usize = size_of::<Site>() + 7 + 7 + 6 + 2 + 7 + 5;

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

/// A finished trampoline, for the address that it was made for.
pub(crate) struct Trampoline {
    pub(crate) bytes: Vec<u8>,
    /// The descriptor's address.
    pub(crate) site: usize,
    pub(crate) code: usize,
    pub(crate) tail: usize,
    /// All instructions of the window: an old address, and the same place here.
    pub(crate) moved: Vec<Moved>,
}

struct Writer {
    address: usize,
    bytes: Vec<u8>,
    moved: Vec<Moved>,
}

impl Writer {
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
        let mut bytes = original.to_vec();
        if step.is_ip_rel_memory_operand() {
            let distance = named(step)?.wrapping_sub(self.here() + bytes.len()) as isize;
            let field = constants(original, step).displacement_offset();
            let distance = i32::try_from(distance).ok()?.to_le_bytes();
            bytes.get_mut(field..field + 4)?.copy_from_slice(&distance);
        }
        self.bytes.extend(bytes);
        Some(())
    }
}

/// The trampoline of a window, to lie at `address`. `None` if something is out of reach.
pub(crate) fn write(
    window: &Window,
    original: impl Fn(&Instruction) -> Vec<u8>,
    address: usize,
    entry_pointer: usize,
) -> Option<Trampoline> {
    let mut writer = Writer {
        address,
        bytes: vec![0; size_of::<Site>()],
        moved: Vec::new(),
    };
    let code = writer.here();
    for step in &window.before {
        writer.displaced(step, &original(step))?;
    }
    let next = end(&window.syscall);
    writer.moved.push(Moved {
        from: start(&window.syscall),
        to: writer.here(),
    });
    writer.relative(&[0x48, 0x8d, 0x0d], next)?;
    writer.relative(&[0x4c, 0x8d, 0x1d], address)?;
    writer.relative(&[0xff, 0x25], entry_pointer)?;
    let tail = writer.here();
    writer.bytes.extend([0x0f, 0x05]);
    let mut resume = next;
    if !window.after.is_empty() {
        resume = writer.here();
        writer.relative(&[0x48, 0x8d, 0x0d], next)?;
        for step in &window.after {
            writer.displaced(step, &original(step))?;
        }
    }
    writer.relative(&[0xe9], window.end())?;
    for (field, value) in [next, resume, tail].into_iter().enumerate() {
        writer.bytes[8 * field..8 * field + 8].copy_from_slice(&value.to_le_bytes());
    }
    Some(Trampoline {
        site: address,
        bytes: writer.bytes,
        code,
        tail,
        moved: writer.moved,
    })
}
