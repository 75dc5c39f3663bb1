//! Lengths of instructions, without decoding them.
//!
//! Finding where the instructions of a function begin takes nearly all of the time of decoding it,
//! and the decoder needs some 40 ns for each. So the plain ones go by two tables: those of which
//! every form is valid. Everything else is the decoder's: other prefixes, vectors, the rare.
//!
//! Invariant: [`plain`] says what the decoder says, or nothing. The test compares all forms.

// How an instruction goes on behind its opcode. Zero: ask the decoder, or see `grouped`.
const ALONE: u8 = 1 << 3;
/// The low bits are the length of a constant.
const CONSTANT: u8 = 7;
const BYTE: u8 = ALONE | 1;
/// Two bytes with an operand size prefix.
const HALVES: u8 = 1 << 5;
const WORD: u8 = ALONE | HALVES | 4;
/// Eight bytes with REX.W.
const WIDENS: u8 = 1 << 4;
/// Valid without an operand size prefix, about which processors differ here. With `OPERAND`: valid
/// if that is in memory.
const STRICT: u8 = 1 << 6;
const FAR: u8 = ALONE | STRICT | 4;
/// An operand in memory or a register, before the constant.
const OPERAND: u8 = 1 << 7;

const fn all(mut table: [u8; 256], opcodes: &[u8], kind: u8) -> [u8; 256] {
    let mut at = 0;
    while at < opcodes.len() {
        table[opcodes[at] as usize] = kind;
        at += 1;
    }
    table
}

const fn span(mut table: [u8; 256], first: u8, last: u8, kind: u8) -> [u8; 256] {
    let mut at = first as usize;
    while at <= last as usize {
        table[at] = kind;
        at += 1;
    }
    table
}

/// Opcodes of one byte.
const SHORT: [u8; 256] = {
    let mut table = [0; 256];
    let mut group = 0;
    while group < 0x40 {
        table = span(table, group, group + 3, OPERAND | ALONE);
        table[group as usize + 4] = BYTE;
        table[group as usize + 5] = WORD;
        group += 8;
    }
    table = span(table, 0x50, 0x5f, ALONE);
    table = span(table, 0x70, 0x7f, BYTE);
    table = span(table, 0x84, 0x8b, OPERAND | ALONE);
    table = span(table, 0x90, 0x99, ALONE);
    table = span(table, 0xb0, 0xb7, BYTE);
    table = span(table, 0xb8, 0xbf, WORD | WIDENS);
    table = span(table, 0xd0, 0xd3, OPERAND | ALONE);
    table = all(
        table,
        &[0xa4, 0xa5, 0xaa, 0xab, 0xc3, 0xc9, 0xcc, 0xf4],
        ALONE,
    );
    table = all(table, &[0x6a, 0xa8, 0xeb], BYTE);
    table = all(table, &[0x68, 0xa9], WORD);
    table = all(table, &[0xe8, 0xe9], FAR);
    table = all(table, &[0x63], OPERAND | ALONE);
    table = all(table, &[0x6b, 0x80, 0x83, 0xc0, 0xc1], OPERAND | BYTE);
    table = all(table, &[0x69, 0x81], OPERAND | WORD);
    table[0x8d] = OPERAND | STRICT | ALONE;
    table
};

/// Opcodes behind the byte 0x0f.
const LONG: [u8; 256] = {
    let mut table = [0; 256];
    table = all(table, &[0x05, 0x0b, 0xa2], ALONE);
    table = all(
        table,
        &[0x10, 0x11, 0x14, 0x15, 0x1f, 0x28, 0x29],
        OPERAND | ALONE,
    );
    table = span(table, 0x40, 0x4f, OPERAND | ALONE);
    table = all(table, &[0x54, 0x55, 0x56, 0x57], OPERAND | ALONE);
    table = all(table, &[0x6e, 0x6f, 0x7e, 0x7f, 0xef], OPERAND | ALONE);
    table = span(table, 0x80, 0x8f, FAR);
    table = span(table, 0x90, 0x9f, OPERAND | ALONE);
    table = all(table, &[0xa3, 0xa5, 0xab, 0xad, 0xaf], OPERAND | ALONE);
    table = all(table, &[0xa4, 0xac], OPERAND | BYTE);
    table = all(table, &[0xb0, 0xb1, 0xb3, 0xb6, 0xb7], OPERAND | ALONE);
    table = all(table, &[0xbb, 0xbc, 0xbd, 0xbe, 0xbf], OPERAND | ALONE);
    all(table, &[0xc0, 0xc1], OPERAND | ALONE)
};

/// Both.
static TABLE: [u8; 512] = {
    let mut table = [0; 512];
    let mut at = 0;
    while at < 256 {
        table[at] = SHORT[at];
        table[at + 256] = LONG[at];
        at += 1;
    }
    table
};

/// How an opcode goes on of which not every form is valid, or whose forms differ. Zero: ask.
#[inline]
fn grouped(long: bool, opcode: u8, operand: u8) -> u8 {
    let kind = match (long, opcode, operand >> 3 & 7) {
        (false, 0xf6, 0 | 1) | (false, 0xc6, 0) | (true, 0xba, 4..) => BYTE,
        (false, 0xf7, 0 | 1) | (false, 0xc7, 0) => WORD,
        (false, 0xf6 | 0xf7, 2..) | (false, 0xfe, 0 | 1) => ALONE,
        // `inc`, `dec`, a call, a jump, `push`
        (false, 0xff, 0 | 1 | 2 | 4 | 6) => ALONE,
        _ => return 0,
    };
    OPERAND | kind
}

/// What an operand takes behind its first byte, but for a displacement that the second one says.
static TAILS: [u8; 256] = {
    let mut table = [0; 256];
    let mut operand = 0;
    while operand < 256 {
        let (mode, base) = (operand >> 6, operand & 7);
        let scaled = mode != 3 && base == 4;
        let displacement = match mode {
            0 if base == 5 => 4,
            1 => 1,
            2 => 4,
            _ => 0,
        };
        table[operand] = scaled as u8 + displacement;
        operand += 1;
    }
    table
};

/// The length of the instruction at the start of the bytes, if it is a plain one.
///
/// Instructions follow each other at random, so it has few branches: a wrong guess of one takes as
/// long as all the rest.
#[inline]
pub(crate) fn plain(bytes: &[u8]) -> Option<usize> {
    let mut word = match bytes.first_chunk() {
        Some(chunk) => u64::from_le_bytes(*chunk),
        None => (0..bytes.len()).fold(0, |word, at| word | u64::from(bytes[at]) << (8 * at)),
    };
    let mut length = 1;
    let mut skip = |word: &mut u64, is: bool| {
        let count = usize::from(is);
        length += count;
        *word >>= 8 * count;
    };
    if word as u8 == 0x64 {
        skip(&mut word, true); // the segment of thread-locals
    }
    let half = word as u8 == 0x66;
    if half {
        skip(&mut word, true);
    }
    let rex = word as u8;
    let is_rex = rex & 0xf0 == 0x40;
    skip(&mut word, is_rex);
    let wide = is_rex & (rex & 8 != 0);
    let long = word as u8 == 0x0f;
    skip(&mut word, long);
    let [opcode, operand, scale, ..] = word.to_le_bytes();
    let mut kind = TABLE[usize::from(opcode) | usize::from(long) << 8];
    if kind == 0 {
        kind = grouped(long, opcode, operand);
        if kind == 0 {
            return None;
        }
    }
    let mut constant = usize::from(kind & CONSTANT);
    if half {
        if wide || kind & (STRICT | OPERAND) == STRICT {
            return None;
        }
        if kind & HALVES != 0 {
            constant = 2;
        }
    }
    if wide && kind & WIDENS != 0 {
        constant = 8;
    }
    let has_operand = kind & OPERAND != 0;
    if has_operand & (kind & STRICT != 0) & (operand >= 0xc0) {
        return None;
    }
    // No base, but a displacement.
    let bare = (operand & 0xc7 == 4) & (scale & 7 == 5);
    let tail = 1 + usize::from(TAILS[usize::from(operand)]) + 4 * usize::from(bare);
    length += constant + tail * usize::from(has_operand);
    (length <= bytes.len()).then_some(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions};

    /// Compares, and returns whether the tables knew.
    fn compare(bytes: &[u8]) -> bool {
        let mut decoder = Decoder::with_ip(64, bytes, 0, DecoderOptions::NONE);
        let step = decoder.decode();
        let known = plain(bytes);
        if let Some(length) = known {
            assert!(!step.is_invalid(), "{bytes:02x?}");
            assert_eq!(length, step.len(), "{bytes:02x?}");
        }
        known.is_some()
    }

    /// All prefixes that are looked at, all opcodes, all operands.
    #[test]
    fn as_the_decoder_says() {
        let mut known = 0;
        let prefixes = (0..4).flat_map(|before| [0, 0x40, 0x48, 0x4f].map(|rex| (before, rex)));
        for (before, rex) in prefixes {
            let mut start = Vec::new();
            start.extend((before & 1 != 0).then_some(0x64));
            start.extend((before & 2 != 0).then_some(0x66));
            start.extend((rex != 0).then_some(rex));
            for opcode in 0..0x200 {
                for operand in 0..=0xff {
                    let mut bytes = start.clone();
                    bytes.extend((opcode >= 0x100).then_some(0x0f));
                    bytes.extend([opcode as u8, operand]);
                    let scale = bytes.len();
                    bytes.resize(16, 0);
                    known += usize::from(compare(&bytes));
                    if operand & 7 == 4 {
                        bytes[scale] = 0x25;
                        known += usize::from(compare(&bytes));
                    }
                }
            }
        }
        assert!(known > 200_000, "{known}");
    }

    /// Instructions that end too early, and bytes that are none.
    #[test]
    fn cut_off_and_random() {
        let mut state = 1_u64;
        for _ in 0..300_000 {
            let mut bytes = [0; 16];
            for half in bytes.chunks_exact_mut(8) {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                half.copy_from_slice(&(state ^ state >> 29).to_be_bytes());
            }
            compare(&bytes);
            compare(&bytes[..bytes[15] as usize % 12]);
        }
        assert_eq!(plain(&[]), None);
        assert_eq!(plain(&[0x0f, 0x05]), Some(2));
        assert_eq!(plain(&[0xb8, 1, 0, 0]), None);
    }
}
