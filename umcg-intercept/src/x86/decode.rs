//! Decoded code of one function.
//!
//! Decoding goes forward from the function's start, never back from a byte that looks like a
//! `syscall`: the last bytes of one instruction may look like another one.

use super::image::Image;
use super::unwind::Function;
use iced_x86::{
    Code, ConstantOffsets, Decoder, DecoderOptions, FlowControl, Instruction, OpKind, Register,
};

/// A function's instructions, without a gap from its start to its end.
pub(crate) struct Decoded {
    pub(crate) steps: Vec<Instruction>,
    /// Each byte belongs to a valid instruction, and none sticks out. Data between instructions
    /// mostly fails here.
    pub(crate) valid: bool,
}

pub(crate) fn decode(image: &Image, function: Function) -> Decoded {
    let range = function.start..function.end;
    let mut decoded = Decoded {
        steps: Vec::new(),
        valid: false,
    };
    let Some(bytes) = image.bytes(&range) else {
        return decoded;
    };
    let mut decoder = Decoder::with_ip(64, bytes, range.start as u64, DecoderOptions::NONE);
    decoded.steps.reserve(bytes.len() / 4);
    while decoder.can_decode() {
        let step = decoder.decode();
        if step.is_invalid() {
            return decoded;
        }
        decoded.steps.push(step);
    }
    decoded.valid = true;
    decoded
}

/// Where in the instruction its constants are.
pub(crate) fn constants(bytes: &[u8], step: &Instruction) -> ConstantOffsets {
    let mut decoder = Decoder::with_ip(64, bytes, step.ip(), DecoderOptions::NONE);
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

impl Decoded {
    /// Whether the code goes on behind its end, or jumps into the range there.
    pub(crate) fn leads_to(&self, behind: core::ops::Range<usize>) -> bool {
        let goes_on = self.steps.last().is_some_and(|step| {
            matches!(
                step.flow_control(),
                FlowControl::Next | FlowControl::ConditionalBranch
            )
        });
        let jump = |step: &Instruction| step.op0_kind() == OpKind::NearBranch64;
        let mut jumps = self
            .steps
            .iter()
            .filter(|&step| jump(step))
            .filter_map(named);
        goes_on || jumps.any(|target| behind.contains(&target))
    }

    /// The number of the call at this step, if the straight line before it says so. `entered` tells
    /// whether something jumps to an address.
    pub(crate) fn number(&self, at: usize, entered: impl Fn(usize) -> bool) -> Option<u32> {
        let mut factory = iced_x86::InstructionInfoFactory::new();
        let mut next = at;
        // No call is prepared over a longer line.
        for before in (at.saturating_sub(16)..at).rev() {
            let step = &self.steps[before];
            if entered(start(&self.steps[next])) {
                return None;
            }
            next = before;
            let passes = matches!(
                step.flow_control(),
                FlowControl::Next | FlowControl::ConditionalBranch
            );
            if !passes || is_syscall(step) {
                return None;
            }
            let writes = factory.info(step).used_registers().iter().any(|one| {
                use iced_x86::OpAccess::{CondRead, Read};
                one.register().full_register() == Register::RAX
                    && !matches!(one.access(), Read | CondRead)
            });
            if writes {
                return constant(step);
            }
        }
        None
    }
}

/// The value that the instruction gives to `eax`.
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
