//! Ranges of functions, from an object's unwind tables (`.eh_frame`).
//!
//! The tables say where each function starts, stripped or not: there decoding may begin. Only the
//! headers of their entries are read here, never the unwind programs.
//!
//! Invariant: malformed input ends the list early. It never panics, and never reads outside.

use super::image::read;

/// A function's code. Ranges of an object neither overlap nor are empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Function {
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// Of a signal's frame: the restorer, which unwinders know by its very bytes.
    pub(crate) restorer: bool,
}

// How an address is encoded.
const OMITTED: u8 = 0xff;
const INDIRECT: u8 = 0x80;
const RELATIVE: u8 = 0x70;
const TO_ITSELF: u8 = 0x10;
const TO_THE_TABLE: u8 = 0x30;

/// A position in the bytes that lie at an address.
#[derive(Clone)]
struct Reader<'a> {
    bytes: &'a [u8],
    address: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.bytes.split_at_checked(count)?;
        self.bytes = rest;
        self.address = self.address.wrapping_add(count);
        Some(head)
    }

    fn number<T: Copy>(&mut self) -> Option<T> {
        read(self.take(size_of::<T>())?)
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        let length = self.bytes.iter().position(|&byte| byte == 0)?;
        let text = self.take(length)?;
        self.take(1)?;
        Some(text)
    }

    /// A number in LEB128. Of a signed one the sign is lost.
    fn variable(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..70).step_by(7) {
            let byte: u8 = self.number()?;
            value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// A number as the low bits of an encoding say.
    fn plain(&mut self, encoding: u8) -> Option<usize> {
        Some(match encoding & 15 {
            0 | 4 | 12 => self.number::<u64>()? as usize,
            1 => self.variable()? as usize,
            2 => self.number::<u16>()?.into(),
            3 => self.number::<u32>()? as usize,
            10 => self.number::<i16>()? as usize,
            11 => self.number::<i32>()? as usize,
            _ => return None,
        })
    }

    /// An address. `table` is that of the table around.
    fn pointer(&mut self, encoding: u8, table: usize) -> Option<usize> {
        let here = self.address;
        let value = self.plain(encoding)?;
        match encoding & RELATIVE {
            _ if encoding & INDIRECT != 0 => None,
            0 => Some(value),
            TO_ITSELF => Some(here.wrapping_add(value)),
            TO_THE_TABLE => Some(table.wrapping_add(value)),
            _ => None,
        }
    }
}

/// The address of `.eh_frame`, from `.eh_frame_hdr`, which lies at `address`.
pub(crate) fn frames(bytes: &[u8], address: usize) -> Option<usize> {
    let mut reader = Reader { bytes, address };
    let [version, encoding, _, _]: [u8; 4] = reader.number()?;
    (version == 1 && encoding != OMITTED).then(|| reader.pointer(encoding, address))?
}

/// What the entries of functions take from their common entry.
#[derive(Debug, Clone, Copy)]
struct Common {
    at: usize,
    encoding: u8,
    restorer: bool,
}

/// All functions of `.eh_frame`, which lies at `address`, by ascending start.
pub(crate) fn functions(bytes: &[u8], address: usize) -> Vec<Function> {
    let mut found = Vec::new();
    let mut last = None;
    let mut reader = Reader { bytes, address };
    while let Some((start, body)) = entry(&mut reader) {
        let mut inner = body.clone();
        let Some(identity) = inner.number::<u32>() else {
            break;
        };
        if identity == 0 {
            continue; // a common entry, read when it is referred to
        }
        let at = body.address.wrapping_sub(identity as usize);
        let common = match last {
            Some(common @ Common { at: known, .. }) if known == at => Some(common),
            _ => common(bytes, address, at),
        };
        debug_assert!(start < body.address);
        last = common;
        let Some(common) = common else { continue };
        let range = inner
            .pointer(common.encoding, address)
            .and_then(|start| Some((start, inner.plain(common.encoding & 15)?)));
        let Some((start, length)) = range else {
            continue;
        };
        let end = start.wrapping_add(length);
        if start < end {
            found.push(Function {
                start,
                end,
                restorer: common.restorer,
            });
        }
    }
    sort(&mut found);
    found
}

/// Sorts by start. Where functions overlap, the first one ends where the next begins.
pub(crate) fn sort(functions: &mut Vec<Function>) {
    functions.sort_by_key(|one| (one.start, one.end));
    functions.dedup_by_key(|one| one.start);
    for at in 1..functions.len() {
        let next = functions[at].start;
        let before = &mut functions[at - 1];
        before.end = before.end.min(next);
    }
}

/// The address of the next entry, and its contents behind the length.
fn entry<'a>(reader: &mut Reader<'a>) -> Option<(usize, Reader<'a>)> {
    let start = reader.address;
    let length = match reader.number::<u32>()? {
        0 => return None, // the end
        u32::MAX => usize::try_from(reader.number::<u64>()?).ok()?,
        length => length as usize,
    };
    let address = reader.address;
    Some((
        start,
        Reader {
            bytes: reader.take(length)?,
            address,
        },
    ))
}

/// The common entry at `at` in the table.
fn common(table: &[u8], address: usize, at: usize) -> Option<Common> {
    let mut outer = Reader {
        bytes: table.get(at.checked_sub(address)?..)?,
        address: at,
    };
    let (_, mut reader) = entry(&mut outer)?;
    if reader.number::<u32>()? != 0 {
        return None;
    }
    let version: u8 = reader.number()?;
    let augmentation = reader.text()?;
    if version == 4 {
        reader.take(2)?; // sizes of addresses and of segment selectors
    }
    reader.variable()?; // alignment of code
    reader.variable()?; // alignment of data
    if version == 1 {
        reader.take(1)?; // register of the return address
    } else {
        reader.variable()?;
    }
    let mut common = Common {
        at,
        encoding: 0,
        restorer: augmentation.contains(&b'S'),
    };
    let Some((b'z', letters)) = augmentation.split_first() else {
        return augmentation.is_empty().then_some(common);
    };
    reader.variable()?; // length of the rest
    for letter in letters {
        match letter {
            b'R' => common.encoding = reader.number()?,
            b'P' => {
                let encoding: u8 = reader.number()?;
                reader.plain(encoding)?;
            }
            b'L' => {
                reader.take(1)?;
            }
            b'S' | b'B' => {}
            _ => return None,
        }
    }
    Some(common)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: usize = 0x10_0000;

    /// One common entry and two functions, as compilers write them, and the end.
    fn table() -> Vec<u8> {
        let mut table = vec![20, 0, 0, 0, 0, 0, 0, 0, 1];
        table.extend(b"zR\0");
        table.extend([1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1, 0, 0]);
        for (start, length) in [(0x1000_i32, 0x20), (0x800, 0x10)] {
            let at = table.len() as i32;
            table.extend([16, 0, 0, 0]);
            table.extend((at + 4).to_le_bytes());
            table.extend((start - (at + 8)).to_le_bytes());
            table.extend(i32::to_le_bytes(length));
            table.extend([0, 0, 0, 0]);
        }
        table.extend([0; 4]);
        table
    }

    fn function(start: usize, length: usize) -> Function {
        Function {
            start: BASE + start,
            end: BASE + start + length,
            restorer: false,
        }
    }

    #[test]
    fn functions_are_found_and_sorted() {
        let found = functions(&table(), BASE);
        assert_eq!(found, [function(0x800, 0x10), function(0x1000, 0x20)]);
    }

    #[test]
    fn overlapping_functions_end_where_the_next_begins() {
        let mut all = vec![
            function(0x30, 0x10),
            function(0, 0x100),
            function(0x30, 0x10),
        ];
        sort(&mut all);
        assert_eq!(all, [function(0, 0x30), function(0x30, 0x10)]);
    }

    #[test]
    fn cut_off_tables_end_early() {
        let table = table();
        for length in 0..table.len() {
            assert!(functions(&table[..length], BASE).len() <= 2);
        }
    }

    #[test]
    fn garbage_is_no_reason_to_panic() {
        let mut state = 1_u64;
        let mut random = move || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) as usize
        };
        for _ in 0..3_000 {
            let mut table = table();
            for _ in 0..1 + random() % 4 {
                let at = random() % table.len();
                table[at] = random() as u8;
            }
            let found = functions(&table, BASE);
            assert!(found.iter().all(|one| one.start <= one.end));
            frames(&table, BASE);
        }
        assert_eq!(frames(&[], BASE), None);
        assert_eq!(
            frames(&[1, 0x1b, 3, 0x3b, 8, 0, 0, 0], BASE),
            Some(BASE + 12)
        );
        assert_eq!(frames(&[1, 0xff, 3, 0x3b, 8, 0, 0, 0], BASE), None);
    }

    #[test]
    fn own_functions_are_found() {
        let (images, _) =
            super::super::image::find(&super::super::maps::read().unwrap(), |_| false);
        let here = own_functions_are_found as *const () as usize;
        let image = images
            .iter()
            .find(|one| one.object.range.contains(&here))
            .unwrap();
        let frames = frames(image.from(image.unwind).unwrap(), image.unwind).unwrap();
        let found = functions(image.from(frames).unwrap(), frames);
        assert!(found.iter().any(|one| one.start == here));
    }
}
