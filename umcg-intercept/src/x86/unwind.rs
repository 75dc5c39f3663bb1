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
/// 32 bits.
const TABLE_COUNT: u8 = 3;
/// 32 bits with a sign, relative to the table.
const TABLE_ENTRY: u8 = 0x3b;

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

/// What `.eh_frame_hdr` says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Header<'a> {
    /// The address of `.eh_frame`.
    pub(crate) frames: usize,
    /// The addresses of its entries, by ascending start of their functions. Each is the latter half
    /// of eight bytes, and relative to the header. `None` without a table of the usual form.
    entries: Option<&'a [u8]>,
}

/// Reads `.eh_frame_hdr`, which lies at `address`.
pub(crate) fn header(bytes: &[u8], address: usize) -> Option<Header<'_>> {
    let mut reader = Reader { bytes, address };
    let [version, encoding, count, table]: [u8; 4] = reader.number()?;
    if version != 1 || encoding == OMITTED {
        return None;
    }
    let frames = reader.pointer(encoding, address)?;
    let entries = if (count, table) == (TABLE_COUNT, TABLE_ENTRY) {
        let count: u32 = reader.number()?;
        reader.take(8 * count as usize)
    } else {
        None
    };
    Some(Header { frames, entries })
}

/// What the entries of functions take from their common entry.
#[derive(Debug, Clone, Copy)]
struct Common {
    at: usize,
    encoding: u8,
    restorer: bool,
}

/// All functions of `.eh_frame`, whose header lies at `header`, by ascending start.
pub(crate) fn functions<'a>(
    image: impl Fn(usize) -> Option<&'a [u8]>,
    header: usize,
) -> Option<Vec<Function>> {
    let Header { frames, entries } = self::header(image(header)?, header)?;
    let bytes = image(frames)?;
    let mut found = Vec::new();
    let mut commons = Commons(Vec::new());
    match entries {
        Some(entries) => {
            found.reserve(entries.len() / 8);
            for entry in entries.chunks_exact(8) {
                let at = header.wrapping_add(read::<i32>(&entry[4..])? as usize);
                let offset = at.wrapping_sub(frames);
                let mut reader = Reader {
                    bytes: bytes.get(offset..).unwrap_or_default(),
                    address: at,
                };
                let entry = self::entry(&mut reader);
                found.extend(entry.and_then(|body| commons.function(bytes, frames, body)));
            }
        }
        None => {
            let mut reader = Reader {
                bytes,
                address: frames,
            };
            while let Some(body) = entry(&mut reader) {
                found.extend(commons.function(bytes, frames, body));
            }
        }
    }
    sort(&mut found);
    Some(found)
}

/// The common entries that were read. Most objects have three.
struct Commons(Vec<Common>);

impl Commons {
    /// The function of an entry of the table, which lies at `address`. Common entries have none.
    fn function(&mut self, table: &[u8], address: usize, mut body: Reader) -> Option<Function> {
        let here = body.address;
        let identity = body.number::<u32>()?;
        if identity == 0 {
            return None; // a common entry, read when it is referred to
        }
        let at = here.wrapping_sub(identity as usize);
        let known = self.0.iter().find(|common| common.at == at);
        let common = match known {
            Some(&common) => common,
            None => {
                let common = common(table, address, at)?;
                self.0.push(common);
                common
            }
        };
        let start = body.pointer(common.encoding, address)?;
        let end = start.wrapping_add(body.plain(common.encoding & 15)?);
        (start < end).then_some(Function {
            start,
            end,
            restorer: common.restorer,
        })
    }
}

/// Sorts by start. Where functions overlap, the first one ends where the next begins.
pub(crate) fn sort(functions: &mut Vec<Function>) {
    if !functions.is_sorted_by_key(|one| (one.start, one.end)) {
        functions.sort_by_key(|one| (one.start, one.end));
    }
    functions.dedup_by_key(|one| one.start);
    for at in 1..functions.len() {
        let next = functions[at].start;
        let before = &mut functions[at - 1];
        before.end = before.end.min(next);
    }
}

/// The contents of the next entry behind its length.
fn entry<'a>(reader: &mut Reader<'a>) -> Option<Reader<'a>> {
    let length = match reader.number::<u32>()? {
        0 => return None, // the end
        u32::MAX => usize::try_from(reader.number::<u64>()?).ok()?,
        length => length as usize,
    };
    let address = reader.address;
    Some(Reader {
        bytes: reader.take(length)?,
        address,
    })
}

/// The common entry at `at` in the table.
fn common(table: &[u8], address: usize, at: usize) -> Option<Common> {
    let mut outer = Reader {
        bytes: table.get(at.checked_sub(address)?..)?,
        address: at,
    };
    let mut reader = entry(&mut outer)?;
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
    const HEADER: usize = BASE - 0x100;

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

    /// The header of that table, with or without the list of its entries.
    fn header_of_table(listed: bool) -> Vec<u8> {
        let mut header = vec![1, 0x1b, if listed { 3 } else { 0xff }, 0x3b];
        header.extend((BASE as i32 - (HEADER as i32 + 4)).to_le_bytes());
        header.extend(2_u32.to_le_bytes());
        for (start, entry) in [(0x800, 44), (0x1000, 24)] {
            header.extend(i32::to_le_bytes(0x100 + start));
            header.extend(i32::to_le_bytes(0x100 + entry));
        }
        header
    }

    fn parsed(header: &[u8], table: &[u8]) -> Option<Vec<Function>> {
        let image = |address| match address {
            HEADER => Some(header),
            BASE => Some(table),
            _ => None,
        };
        functions(image, HEADER)
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
        for listed in [false, true] {
            let found = parsed(&header_of_table(listed), &table()).unwrap();
            assert_eq!(found, [function(0x800, 0x10), function(0x1000, 0x20)]);
        }
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
        for listed in [false, true] {
            let (header, table) = (header_of_table(listed), table());
            for length in 0..table.len() {
                assert!(parsed(&header, &table[..length]).is_some_and(|found| found.len() <= 2));
            }
            for length in 0..header.len() {
                let found = parsed(&header[..length], &table);
                assert!(found.is_none_or(|found| found.len() == 2));
            }
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
        for round in 0..6_000 {
            let (mut header, mut table) = (header_of_table(round % 2 == 0), table());
            for _ in 0..1 + random() % 4 {
                let bytes = if random() % 3 == 0 {
                    &mut header
                } else {
                    &mut table
                };
                let at = random() % bytes.len();
                bytes[at] = random() as u8;
            }
            let found = parsed(&header, &table).unwrap_or_default();
            assert!(found.iter().all(|one| one.start <= one.end));
        }
        assert_eq!(header(&[], BASE), None);
        let frames = |bytes| header(bytes, BASE).map(|header| header.frames);
        assert_eq!(
            frames(&[1, 0x1b, 3, 0x3b, 8, 0, 0, 0, 0, 0, 0, 0]),
            Some(BASE + 12)
        );
        assert_eq!(frames(&[1, 0xff, 3, 0x3b, 8, 0, 0, 0]), None);
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
        let found = functions(|address| image.from(address), image.unwind).unwrap();
        assert!(found.iter().any(|one| one.start == here));
    }
}
