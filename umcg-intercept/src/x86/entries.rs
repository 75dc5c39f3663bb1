//! Which addresses near a site may be entered from elsewhere.
//!
//! A window must not be entered behind its first byte. Decoding all code of an object to know its
//! jumps costs 20 ms for a large one, so the sources are looked for the other way round. The bytes
//! around the sites are marked as the *zone*; then anything that may name an address in the zone is
//! an entry:
//!
//! - a field of 32 bits in code which, as the displacement of a jump, a call, `lea` or `xbegin`,
//!   leads into the zone. All positions of all code are tried, without decoding. As most hits are
//!   constants, the function around a hit is decoded, and confirms it or not. Outside of known
//!   functions a hit counts;
//! - a jump of 8 bits. Only functions within 130 bytes of the zone are decoded for these; bytes
//!   outside of functions count as they look;
//! - an entry of a jump table: wherever code anywhere computes an address outside of code, 32-bit
//!   differences from there on are read as long as they lead to code, up to the next such address;
//! - an absolute address in data, or in a relocation of the loader;
//! - a symbol of a function.
//!
//! Too many entries cost a window, too few break the program, so each rule errs to the safe side.
//!
//! Not looked at: landing pads of exceptions. The unwinder enters them with the exception in rax,
//! so code before them never falls through into them, and no window of straight code spans one.

use super::code::Code;
use super::decode::{end, named, start};
use super::image::{Image, read};
use core::ops::Range;
use std::collections::HashSet;

/// How far a jump of 8 bits reaches, with the instruction itself.
const SHORT: usize = 130;
/// How far around a `syscall` the zone goes: the longest straight line that is looked at.
const BEFORE: usize = 128;
const AFTER: usize = 32;

/// The bytes that may stand before the displacement of a jump or of `lea`.
const MAY_PRECEDE: [bool; 256] = {
    let mut may = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        may[byte] = byte & 0xc7 == 5 || byte & 0xf0 == 0x80 || matches!(byte, 0xe8 | 0xe9 | 0xf8);
        byte += 1;
    }
    may
};

/// A set of addresses in the code of one object.
struct Marks {
    start: usize,
    bits: Vec<u64>,
}

impl Marks {
    fn new(range: Range<usize>) -> Marks {
        Marks {
            start: range.start,
            bits: vec![0; range.len() / 64 + 1],
        }
    }

    fn has(&self, address: usize) -> bool {
        let at = address.wrapping_sub(self.start);
        self.bits
            .get(at / 64)
            .is_some_and(|word| word >> (at % 64) & 1 != 0)
    }

    fn add(&mut self, address: usize) {
        let at = address.wrapping_sub(self.start);
        if let Some(word) = self.bits.get_mut(at / 64) {
            *word |= 1 << (at % 64);
        }
    }
}

/// What may be a jump table: an address outside of code, and the field in code that names it.
struct Table {
    start: usize,
    field: usize,
}

impl Table {
    fn is_real(&self, code: &Code) -> bool {
        confirms(code, self.field, self.start)
    }
}

/// The addresses in the zone that may be entered.
pub(crate) struct Entries {
    zone: Marks,
    entered: Marks,
}

impl Entries {
    /// Whether something may jump to the address. Outside the zone nothing is known, so it may.
    pub(crate) fn has(&self, address: usize) -> bool {
        !self.zone.has(address) || self.entered.has(address)
    }

    fn add(&mut self, address: usize) {
        if self.zone.has(address) {
            self.entered.add(address);
        }
    }

    /// Looks for all entries near the `syscall` instructions at `sites`.
    pub(crate) fn find(code: &Code, sites: &[usize]) -> Entries {
        let image = code.image;
        let range = image.object.range.clone();
        let mut entries = Entries {
            zone: Marks::new(range.clone()),
            entered: Marks::new(range),
        };
        for &site in sites {
            let function = code.around(site).map_or(0..0, |one| one.start..one.end);
            for at in function.start.max(site - BEFORE)..function.end.min(site + AFTER) {
                entries.zone.add(at);
            }
        }
        let mut tables = Vec::new();
        for range in image.text() {
            entries.fields(code, range, &mut tables);
        }
        entries.short(code, sites);
        entries.tables(code, tables);
        entries.data(image);
        for (address, _) in &code.symbols {
            entries.add(*address);
        }
        entries
    }

    /// Displacements of 32 bits in all code. Those that lead out of code go to `tables`.
    fn fields(&mut self, code: &Code, range: Range<usize>, tables: &mut Vec<Table>) {
        let bytes = code.image.bytes(&range).unwrap_or_default();
        for (at, window) in bytes.windows(6).enumerate() {
            // Most positions end here.
            if !MAY_PRECEDE[usize::from(window[1])] && !code.image.fixed {
                continue;
            }
            let &[first, second, a, b, c, d] = window else {
                break;
            };
            let loads = first == 0x8d && second & 0xc7 == 5;
            let jumps = matches!(second, 0xe8 | 0xe9)
                || (first == 0x0f && second & 0xf0 == 0x80)
                || (first == 0xc7 && second == 0xf8);
            let value = i32::from_le_bytes([a, b, c, d]);
            let field = range.start + at + 2;
            if code.image.fixed {
                self.add(value as u32 as usize);
            }
            if !(loads || jumps) {
                continue;
            }
            let target = (field + 4).wrapping_add(value as usize);
            if loads && !code.image.is_text(target) {
                tables.push(Table {
                    start: target,
                    field,
                });
            }
            if self.zone.has(target) && confirms(code, field, target) {
                self.add(target);
            }
        }
    }

    /// Jumps of 8 bits, and all others of the functions near the sites.
    fn short(&mut self, code: &Code, sites: &[usize]) {
        let mut known = HashSet::new();
        for &site in sites {
            let mut at = site.saturating_sub(BEFORE + SHORT);
            while at < site + AFTER + SHORT {
                let Some(function) = code.around(at) else {
                    self.short_outside(code, at);
                    at += 1;
                    continue;
                };
                at = function.end;
                if known.insert(function.start) {
                    let decoded = code.decoded(function);
                    decoded
                        .steps
                        .iter()
                        .filter_map(named)
                        .for_each(|target| self.add(target));
                }
            }
        }
    }

    fn short_outside(&mut self, code: &Code, at: usize) {
        if let Some(&[0x70..=0x7f | 0xeb | 0xe0..=0xe3, distance]) = code
            .image
            .bytes(&(at..at + 2))
            .map(|bytes| bytes.first_chunk().unwrap_or(&[0, 0]))
        {
            self.add((at + 2).wrapping_add(distance as i8 as usize));
        }
    }

    /// Tables of differences of 32 bits from their own address.
    fn tables(&mut self, code: &Code, mut tables: Vec<Table>) {
        let image = code.image;
        tables.sort_unstable_by_key(|one| one.start);
        for (at, table) in tables.iter().enumerate() {
            let bytes = image.from(table.start).unwrap_or_default();
            for (index, entry) in bytes.chunks_exact(4).filter_map(read::<i32>).enumerate() {
                let target = table.start.wrapping_add(entry as usize);
                if !image.is_text(target) {
                    break;
                }
                // Most hits are entries of the table behind this one.
                let place = table.start + 4 * index;
                let between = || tables[at..].iter().filter(|one| one.start > table.start);
                if self.zone.has(target)
                    && table.is_real(code)
                    && !between()
                        .take_while(|one| one.start <= place)
                        .any(|one| one.is_real(code))
                {
                    self.add(target);
                }
            }
        }
    }

    /// Addresses in data, and those that the loader will put there.
    fn data(&mut self, image: &Image) {
        for segment in image.segments.iter().filter(|one| !one.executable) {
            if !segment.writable && !image.fixed {
                continue; // without relocation only fixed objects have addresses in data
            }
            let aligned = segment.range.start.next_multiple_of(8);
            let words = image.from(aligned).unwrap_or_default().chunks_exact(8);
            for word in words.filter_map(read::<usize>) {
                self.add(word);
                self.add(word.wrapping_add(image.bias));
            }
        }
        image.addends().for_each(|address| self.add(address));
    }
}

/// Whether the field of an instruction lies there, and names that address.
fn confirms(code: &Code, field: usize, target: usize) -> bool {
    let Some(function) = code.around(field) else {
        return true;
    };
    let decoded = code.decoded(function);
    if !decoded.valid {
        return true;
    }
    let after = decoded.steps.partition_point(|step| start(step) < field);
    after.checked_sub(1).is_some_and(|at| {
        let step = &decoded.steps[at];
        end(step) >= field + 4 && named(step) == Some(target)
    })
}
