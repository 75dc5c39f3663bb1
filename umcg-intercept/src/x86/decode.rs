//! Decoded code of one function.
//!
//! Decoding goes forward from the function's start, never back from a byte that looks like a
//! `syscall`: the last bytes of one instruction may look like another one.

use super::length;
use iced_x86::{
    Code, ConstantOffsets, Decoder, DecoderOptions, FlowControl, Instruction, OpKind, Register,
};

/// A function's instructions, without a gap from its start to its end.
pub(crate) struct Decoded<'a> {
    start: usize,
    bytes: &'a [u8],
    /// A bit for each byte: whether an instruction begins there.
    starts: Vec<u64>,
    /// Each byte belongs to a valid instruction, and none sticks out. Data between instructions
    /// mostly fails here.
    pub(crate) valid: bool,
}

/// Decodes the code of a function, which begins at `start`.
pub(crate) fn decode(start: usize, bytes: &[u8]) -> Decoded<'_> {
    let mut starts = vec![0; bytes.len() / 64 + 1];
    let mut at = 0;
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        starts[at / 64] |= 1 << (at % 64);
        let Some(length) = length::plain(rest).or_else(|| length(rest)) else {
            break;
        };
        at += length;
    }
    Decoded {
        start,
        bytes,
        starts,
        valid: at == bytes.len() && at != 0,
    }
}

/// The length of a valid instruction.
fn length(bytes: &[u8]) -> Option<usize> {
    let step = decoder(bytes, 0).decode();
    (!step.is_invalid()).then(|| step.len())
}

fn decoder(bytes: &[u8], address: usize) -> Decoder<'_> {
    Decoder::with_ip(64, bytes, address as u64, DecoderOptions::NONE)
}

/// Where in the instruction its constants are.
pub(crate) fn constants(bytes: &[u8], step: &Instruction) -> ConstantOffsets {
    let mut decoder = decoder(bytes, start(step));
    let again = decoder.decode();
    decoder.get_constant_offsets(&again)
}

pub(crate) fn is_syscall(step: &Instruction) -> bool {
    step.code() == Code::Syscall
}

pub(crate) fn start(step: &Instruction) -> usize {
    step.ip() as usize
}

pub(crate) fn end(step: &Instruction) -> usize {
    step.next_ip() as usize
}

/// The code address that the instruction names: to jump to, or to keep for later.
pub(crate) fn named(step: &Instruction) -> Option<usize> {
    match step.op0_kind() {
        OpKind::NearBranch64 => Some(step.near_branch64() as usize),
        _ if step.is_ip_rel_memory_operand() => Some(step.ip_rel_memory_address() as usize),
        _ => None,
    }
}

/// Whether the instruction may run at another address: it neither jumps, nor traps by design.
pub(crate) fn is_movable(step: &Instruction) -> bool {
    step.flow_control() == FlowControl::Next
        && !matches!(
            step.code(),
            Code::Endbr64 | Code::Endbr32 | Code::Rdsspq_r64
        )
        && !is_syscall(step)
}

impl Decoded<'_> {
    /// Where the function ends.
    fn end(&self) -> usize {
        self.start + self.bytes.len()
    }

    /// The instruction with a byte at the address. `None` outside of the function, and for bytes
    /// that could not be decoded.
    pub(crate) fn around(&self, address: usize) -> Option<Instruction> {
        let offset = address.checked_sub(self.start)?;
        let (mut word, bit) = (offset / 64, offset % 64);
        let mut starts = self.starts.get(word)? & (u64::MAX >> (63 - bit));
        while starts == 0 {
            word = word.checked_sub(1)?;
            starts = self.starts[word];
        }
        let begin = 64 * word + starts.ilog2() as usize;
        let step = decoder(self.bytes.get(begin..)?, self.start + begin).decode();
        (!step.is_invalid() && address < end(&step)).then_some(step)
    }

    /// The instruction that ends at the address.
    pub(crate) fn before(&self, address: usize) -> Option<Instruction> {
        self.around(address.checked_sub(1)?)
    }

    /// Whether the code goes on behind its end, or jumps into the range there.
    pub(crate) fn leads_to(&self, behind: core::ops::Range<usize>) -> bool {
        let goes_on = self.before(self.end()).is_some_and(|last| {
            matches!(
                last.flow_control(),
                FlowControl::Next | FlowControl::ConditionalBranch
            )
        });
        let steps = core::iter::successors(self.around(self.start), |step| self.around(end(step)));
        let jump = |step: &Instruction| step.op0_kind() == OpKind::NearBranch64;
        let mut jumps = steps.filter(jump).filter_map(|step| named(&step));
        goes_on || jumps.any(|target| behind.contains(&target))
    }

    /// The number of the call at the address, if the straight line before it says so, and the
    /// instructions between: it holds if nothing enters one of these, or the call.
    pub(crate) fn number(&self, site: usize) -> Option<(u32, Vec<usize>)> {
        let mut line = vec![site];
        // No call is prepared over a longer line.
        while line.len() <= 16 {
            let step = self.before(*line.last()?)?;
            let passes = matches!(
                step.flow_control(),
                FlowControl::Next | FlowControl::ConditionalBranch
            );
            if !passes || is_syscall(&step) {
                return None;
            }
            if let Some(number) = constant(&step) {
                return Some((number, line));
            }
            if writes_number(&step) {
                return None;
            }
            line.push(start(&step));
        }
        None
    }
}

/// Whether the instruction changes a part of `rax`.
fn writes_number(step: &Instruction) -> bool {
    use iced_x86::OpAccess::{CondRead, Read};
    let mut factory = iced_x86::InstructionInfoFactory::new();
    let mut used = factory.info(step).used_registers().iter();
    used.any(|one| {
        one.register().full_register() == Register::RAX && !matches!(one.access(), Read | CondRead)
    })
}

/// The value that the instruction gives to `eax`, if that is all of it.
fn constant(step: &Instruction) -> Option<u32> {
    let full = |register: Register| matches!(register, Register::EAX | Register::RAX);
    if !full(step.op0_register()) {
        return None;
    }
    match step.code() {
        Code::Mov_r32_imm32 | Code::Mov_rm32_imm32 | Code::Mov_rm64_imm32 | Code::Mov_r64_imm64 => {
            Some(step.immediate(1) as u32)
        }
        Code::Xor_r32_rm32 | Code::Xor_rm32_r32 | Code::Xor_r64_rm64 | Code::Xor_rm64_r64
            if step.op1_register() == step.op0_register() =>
        {
            Some(0)
        }
        _ => None,
    }
}
