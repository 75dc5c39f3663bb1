//! Which addresses near a site may be entered from elsewhere.
//!
//! A window must not be entered behind its first byte. Decoding all code of an object to know its
//! jumps costs 15 ms for a C library, so the sources are looked for the other way round. The bytes
//! that windows may be made of are the [`Zone`]; then anything that may name an address in the zone
//! is an entry:
//!
//! - a field of 32 bits in code which, as the displacement of a jump, a call, `lea` or `xbegin`,
//!   leads into the zone. All positions of all code are tried, without decoding. As most hits are
//!   constants, the function around a hit is decoded, and confirms it or not. Outside of known
//!   functions a hit counts;
//! - a jump of 8 bits, in the same way. All positions within its reach are tried;
//! - an entry of a jump table: wherever code anywhere computes an address outside of functions,
//!   32-bit differences from there on are read as long as they lead to code, up to the next such
//!   table;
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
use super::scan;
use super::zone::Zone;
use core::ops::Range;

/// How far a jump of 8 bits reaches from its start: backwards, and forwards.
const BACK: usize = 128 - 2;
const FORTH: usize = 127 + 2;

/// Whether the two bytes may stand before the displacement of a jump or of `lea`.
fn may_precede(first: u8, second: u8) -> bool {
    is_lea(first, second)
        | (second & 0xfe == 0xe8)
        | ((first == 0x0f) & (second & 0xf0 == 0x80))
        | ((first == 0xc7) & (second == 0xf8))
}

fn is_lea(first: u8, second: u8) -> bool {
    (first == 0x8d) & (second & 0xc7 == 5)
}

/// What may be a jump table: an address outside of functions, and the field in code that names it.
struct Table {
    start: usize,
    field: usize,
}

impl Table {
    fn is_real(&self, code: &Code) -> bool {
        confirms(code, self.field..self.field + 4, self.start)
    }
}

/// The addresses in the zone that may be entered.
pub(crate) struct Entries(Zone);

impl Entries {
    /// Whether something may jump to the address. Outside the zone nothing is known, so it may.
    pub(crate) fn has(&self, address: usize) -> bool {
        !self.0.is_untouched(address)
    }

    /// Looks for all entries of the zone.
    pub(crate) fn find(code: &Code, zone: Zone) -> Entries {
        let image = code.image;
        let mut entries = Entries(zone);
        for (address, _) in &code.symbols {
            entries.0.enter(*address);
        }
        entries.data(image);
        let mut tables = Vec::new();
        for range in image.text() {
            entries.fields(code, &range, &mut tables);
            entries.short(code, &range);
            if image.fixed {
                entries.absolute(image, &range);
            }
        }
        entries.tables(code, tables);
        entries
    }

    /// Displacements of 32 bits in all code. Those that may lead to a jump table go to `tables`.
    fn fields(&mut self, code: &Code, range: &Range<usize>, tables: &mut Vec<Table>) {
        let (image, hull) = (code.image, code.image.hull());
        let bytes = image.bytes(range).unwrap_or_default();
        scan::pairs(bytes, may_precede, |at| {
            let Some(&[first, second, a, b, c, d]) = bytes[at..].first_chunk() else {
                return;
            };
            let field = range.start + at + 2;
            let value = i32::from_le_bytes([a, b, c, d]);
            let target = (field + 4).wrapping_add(value as usize);
            // Nearly all end here.
            if self.0.is_untouched(target) {
                self.enter_if_real(code, field..field + 4, target);
            }
            if is_lea(first, second) && targets(image, &hull, target).next().is_some() {
                let start = target;
                tables.push(Table { start, field });
            }
        });
    }

    #[cold]
    #[inline(never)]
    fn enter_if_real(&mut self, code: &Code, field: Range<usize>, target: usize) {
        if confirms(code, field, target) {
            self.0.enter(target);
        }
    }

    /// Jumps of 8 bits.
    fn short(&mut self, code: &Code, text: &Range<usize>) {
        let is_jump = |first, _| (first & 0xf0 == 0x70) | (first == 0xeb) | (first & 0xfc == 0xe0);
        for range in self.0.around(FORTH, BACK) {
            let range = range.start.max(text.start)..range.end.min(text.end);
            let bytes = code.image.bytes(&range).unwrap_or_default();
            scan::pairs(bytes, is_jump, |at| {
                let field = range.start + at + 1;
                let target = (field + 1).wrapping_add(bytes[at + 1] as i8 as usize);
                if self.0.is_untouched(target) {
                    self.enter_if_real(code, field..field + 1, target);
                }
            });
        }
    }

    /// Code of a fixed object may hold absolute addresses, of 32 bits.
    fn absolute(&mut self, image: &Image, range: &Range<usize>) {
        let bytes = image.bytes(range).unwrap_or_default();
        for field in bytes.windows(4).filter_map(read::<u32>) {
            self.0.enter(field as usize);
        }
    }

    /// Tables of differences of 32 bits from their own address.
    fn tables(&mut self, code: &Code, mut tables: Vec<Table>) {
        let (image, hull) = (code.image, code.image.hull());
        tables.retain(|one| code.around(one.start).is_none());
        tables.sort_unstable_by_key(|one| one.start);
        for (at, table) in tables.iter().enumerate() {
            for (index, target) in targets(image, &hull, table.start).enumerate() {
                // Most hits are entries of the table behind this one.
                let place = table.start + 4 * index;
                let between = || tables[at..].iter().filter(|one| one.start > table.start);
                if self.0.is_untouched(target)
                    && table.is_real(code)
                    && !between()
                        .take_while(|one| one.start <= place)
                        .any(|one| one.is_real(code))
                {
                    self.0.enter(target);
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
                self.0.enter(word);
                self.0.enter(word.wrapping_add(image.bias));
            }
        }
        image.addends().for_each(|address| self.0.enter(address));
    }
}

/// Where the entries of a jump table lead, as long as that is code, which `hull` has.
fn targets<'a>(
    image: &'a Image,
    hull: &'a Range<usize>,
    table: usize,
) -> impl Iterator<Item = usize> + 'a {
    let entries = image.from(table).unwrap_or_default().chunks_exact(4);
    entries
        .filter_map(read::<i32>)
        .map(move |difference| table.wrapping_add(difference as usize))
        .take_while(|target| hull.contains(target))
}

/// Whether the field belongs to the end of an instruction that names the address, or to no function
/// that is known.
fn confirms(code: &Code, field: Range<usize>, target: usize) -> bool {
    let Some(function) = code.around(field.start) else {
        return true;
    };
    let decoded = code.decoded(function);
    if !decoded.valid {
        return true;
    }
    decoded.around(field.start).is_some_and(|step| {
        start(&step) < field.start && end(&step) >= field.end && named(&step) == Some(target)
    })
}
