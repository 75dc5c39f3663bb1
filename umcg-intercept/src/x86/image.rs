//! A loaded ELF object, as it lies in memory.
//!
//! Invariant: [`find`] returns an object only if each of its segments is mapped from its file at
//! the right place. A loader that is half done shows an object that is not.
//!
//! Headers are input that may be malformed: every read is checked against the mapped segments.

use super::isa::{PT_GNU_PROPERTY, is_first_of_libc};
use super::maps::Mapping;
use super::raw::{File, PAGE, read_memory};
use crate::Object;
use core::ops::Range;
use libc::{Elf64_Ehdr, Elf64_Phdr};

const PF_X: u32 = 1;
const PF_W: u32 = 2;
const DT_TEXTREL: u64 = 22;
const DT_FLAGS: u64 = 30;
const DF_TEXTREL: u64 = 4;
const DT_RELA: u64 = 7;
const DT_RELASZ: u64 = 8;
const EM_X86_64: u16 = 62;
const ET_EXEC: u16 = 2;
const ET_DYN: u16 = 3;

/// The part of a segment that the file has.
#[derive(Debug, Clone)]
pub(crate) struct Segment {
    pub(crate) range: Range<usize>,
    pub(crate) executable: bool,
    pub(crate) writable: bool,
}

/// An object and its segments.
#[derive(Debug, Clone)]
pub(crate) struct Image {
    pub(crate) object: Object,
    /// Difference of addresses in memory and in the file.
    pub(crate) bias: usize,
    pub(crate) segments: Vec<Segment>,
    /// Address of the table of unwind tables; 0 if there is none.
    pub(crate) unwind: usize,
    pub(crate) dynamic: usize,
    /// Linked for a fixed address: code may hold absolute addresses.
    pub(crate) fixed: bool,
    /// As [`Call::keeps_vectors`](crate::Call::keeps_vectors), of the sites here.
    pub(crate) keeps_vectors: bool,
    pub(crate) file: (u64, u64),
}

/// Reads plain data of the file's format, wherever it lies.
pub(crate) fn read<T: Copy>(bytes: &[u8]) -> Option<T> {
    (bytes.len() >= size_of::<T>()).then(|| {
        // SAFETY: long enough, and the callers name types for which all bytes are values.
        unsafe { bytes.as_ptr().cast::<T>().read_unaligned() }
    })
}

impl Image {
    /// The bytes from an address to the end of its segment.
    pub(crate) fn from(&self, address: usize) -> Option<&[u8]> {
        let segment = self
            .segments
            .iter()
            .find(|one| one.range.contains(&address))?;
        // SAFETY: the segment is mapped from its file and readable, and nothing but the engine
        // writes to those that matter. Objects in use are not unmapped.
        Some(unsafe {
            core::slice::from_raw_parts(address as *const u8, segment.range.end - address)
        })
    }

    pub(crate) fn bytes(&self, range: &Range<usize>) -> Option<&[u8]> {
        self.from(range.start)?.get(..range.len())
    }

    /// The executable segments.
    pub(crate) fn text(&self) -> impl Iterator<Item = Range<usize>> {
        self.segments
            .iter()
            .filter(|one| one.executable)
            .map(|one| one.range.clone())
    }

    /// From the first byte of code to behind the last one. In nearly all objects all of it is code.
    pub(crate) fn hull(&self) -> Range<usize> {
        self.text()
            .reduce(|all, one| all.start.min(one.start)..all.end.max(one.end))
            .unwrap_or(0..0)
    }

    pub(crate) fn is_text(&self, address: usize) -> bool {
        self.segments
            .iter()
            .any(|one| one.executable && one.range.contains(&address))
    }

    /// The entries of the dynamic section: tag and value.
    fn entries(&self) -> impl Iterator<Item = (u64, u64)> {
        let bytes = if self.dynamic == 0 {
            None
        } else {
            self.from(self.dynamic)
        };
        bytes
            .unwrap_or_default()
            .chunks_exact(16)
            .filter_map(|entry| Some((read(entry)?, read(&entry[8..])?)))
            .take_while(|entry| entry.0 != 0)
    }

    fn relocates_text(&self) -> bool {
        self.entries()
            .any(|(tag, value)| tag == DT_TEXTREL || (tag == DT_FLAGS && value & DF_TEXTREL != 0))
    }

    /// The loader's relocations: pairs of kind and addend, as addresses in memory.
    pub(crate) fn addends(&self) -> impl Iterator<Item = usize> {
        let value = |wanted| {
            self.entries()
                .find(|entry| entry.0 == wanted)
                .map(|entry| entry.1)
        };
        let bytes = value(DT_RELA)
            .zip(value(DT_RELASZ))
            .and_then(|(address, size)| {
                // The loader may have made an address of it already.
                let address = address as usize;
                let bytes = self
                    .from(address)
                    .or_else(|| self.from(self.bias.wrapping_add(address)))?;
                bytes.get(..size as usize)
            });
        bytes
            .unwrap_or_default()
            .chunks_exact(24)
            .filter_map(|entry| Some(read::<usize>(&entry[16..])?.wrapping_add(self.bias)))
    }
}

/// All objects that are mapped completely, but for those that are known by their first mapping. And
/// whether there are others in the making.
pub(crate) fn find(
    mappings: &[Mapping],
    is_known: impl Fn(&Mapping) -> bool,
) -> (Vec<Image>, bool) {
    let mut unfinished = false;
    let mut images = Vec::new();
    for first in mappings
        .iter()
        .filter(|one| one.offset == 0 && one.readable)
    {
        let is_code = |one: &Mapping| one.file == first.file && one.executable;
        if first.file.1 == 0 || is_known(first) || !mappings.iter().any(is_code) {
            continue;
        }
        match parse(first, mappings) {
            Ok(image) if !image.relocates_text() => images.push(image),
            Ok(_) | Err(Flaw::Other) => {}
            Err(Flaw::Unfinished) => unfinished = true,
        }
    }
    (images, unfinished)
}

enum Flaw {
    Other,
    Unfinished,
}

/// The headers of an object that this processor runs.
fn headers(first: &Mapping) -> Option<(Elf64_Ehdr, Vec<Elf64_Phdr>)> {
    // They lie in the first page, except of objects with dozens of segments.
    let mut bytes = [0; PAGE];
    if !read_memory(first.range.start, &mut bytes) {
        return None;
    }
    let header: Elf64_Ehdr = read(&bytes)?;
    let known = header.e_ident.starts_with(b"\x7fELF\x02\x01")
        && header.e_machine == EM_X86_64
        && matches!(header.e_type, ET_EXEC | ET_DYN)
        && usize::from(header.e_phentsize) == size_of::<Elf64_Phdr>();
    let table = bytes.get(header.e_phoff as usize..).filter(|_| known)?;
    let each = table.chunks_exact(size_of::<Elf64_Phdr>());
    Some((
        header,
        each.take(header.e_phnum.into()).filter_map(read).collect(),
    ))
}

fn parse(first: &Mapping, mappings: &[Mapping]) -> Result<Image, Flaw> {
    let (header, headers) = headers(first).ok_or(Flaw::Other)?;
    let load = |one: &&Elf64_Phdr| one.p_type == libc::PT_LOAD && one.p_filesz > 0;
    let lowest = headers.iter().find(load).ok_or(Flaw::Other)?;
    let bias = first
        .range
        .start
        .wrapping_sub(lowest.p_vaddr.wrapping_sub(lowest.p_offset) as usize);
    let mut segments = Vec::new();
    for one in headers.iter().filter(load) {
        let start = bias.wrapping_add(one.p_vaddr as usize);
        let end = start
            .checked_add(one.p_filesz as usize)
            .ok_or(Flaw::Other)?;
        let segment = Segment {
            range: start..end,
            executable: one.p_flags & PF_X != 0,
            writable: one.p_flags & PF_W != 0,
        };
        if !is_mapped(&segment, one.p_offset as usize, first, mappings) {
            return Err(Flaw::Unfinished);
        }
        segments.push(segment);
    }
    let address_of = |kind| {
        let found = headers.iter().find(|one| one.p_type == kind);
        found.map_or(0, |one| bias.wrapping_add(one.p_vaddr as usize))
    };
    let end = segments.iter().map(|one| one.range.end).max().unwrap_or(0);
    let mut image = Image {
        object: Object {
            path: first.path.clone(),
            range: first.range.start..end,
        },
        bias,
        segments,
        unwind: address_of(libc::PT_GNU_EH_FRAME),
        dynamic: address_of(libc::PT_DYNAMIC),
        fixed: header.e_type == ET_EXEC,
        keeps_vectors: true,
        file: first.file,
    };
    if let Some(one) = headers.iter().find(|one| one.p_type == PT_GNU_PROPERTY) {
        let start = bias.wrapping_add(one.p_vaddr as usize);
        let note = image.bytes(&(start..start.wrapping_add(one.p_filesz as usize)));
        image.keeps_vectors = !is_first_of_libc(&first.path, note.unwrap_or_default());
    }
    Ok(image)
}

/// Whether the file is mapped all along the segment, with its rights.
fn is_mapped(segment: &Segment, offset: usize, first: &Mapping, mappings: &[Mapping]) -> bool {
    let mut at = segment.range.start;
    for one in mappings
        .iter()
        .filter(|one| one.range.end > segment.range.start)
    {
        if !one.range.contains(&at) {
            break;
        }
        let expected = offset.wrapping_add(at - segment.range.start) & !4095;
        let fits = one.file == first.file
            && one.readable
            && one.executable == segment.executable
            && one.offset + ((at & !4095) - one.range.start) == expected;
        if !fits {
            break;
        }
        at = one.range.end;
        if at >= segment.range.end {
            return true;
        }
    }
    false
}

/// The addresses of functions by the tables of symbols in the object's file, with their sizes.
pub(crate) fn symbols(image: &Image) -> Vec<(usize, usize)> {
    read_symbols(image).unwrap_or_default()
}

fn read_symbols(image: &Image) -> Option<Vec<(usize, usize)>> {
    let mut path = image.object.path.clone();
    path.push(0);
    let file = File::open(&path).ok()?;
    if file.inode().ok()? != image.file.1 {
        return None; // replaced since it was mapped
    }
    let part = |offset: u64, length: usize| {
        let mut bytes = vec![0; length];
        let count = file.read_at(&mut bytes, offset as usize).ok()?;
        bytes.truncate(count);
        Some(bytes)
    };
    let header: Elf64_Ehdr = read(&part(0, size_of::<Elf64_Ehdr>())?)?;
    let each = size_of::<libc::Elf64_Shdr>();
    let sections = part(header.e_shoff, each * usize::from(header.e_shnum))?;
    let mut found = Vec::new();
    for section in sections
        .chunks_exact(each)
        .filter_map(read::<libc::Elf64_Shdr>)
    {
        const SYMTAB: u32 = 2;
        const DYNSYM: u32 = 11;
        const ALLOCATED: u64 = 2;
        // An upper limit, against a size that is garbage.
        if !matches!(section.sh_type, SYMTAB | DYNSYM) || section.sh_size > 1 << 30 {
            continue;
        }
        let start = image.bias.wrapping_add(section.sh_addr as usize);
        let mapped = image.bytes(&(start..start.wrapping_add(section.sh_size as usize)));
        match mapped.filter(|_| section.sh_flags & ALLOCATED != 0) {
            Some(table) => add_symbols(image, table, &mut found),
            None => {
                let table = part(section.sh_offset, section.sh_size as usize)?;
                add_symbols(image, &table, &mut found);
            }
        }
    }
    found.sort_unstable();
    found.dedup_by_key(|one| one.0);
    Some(found)
}

/// Adds the addresses and sizes of functions in a table of symbols.
fn add_symbols(image: &Image, table: &[u8], found: &mut Vec<(usize, usize)>) {
    let table = table.chunks_exact(size_of::<libc::Elf64_Sym>());
    found.reserve(table.len());
    for symbol in table.filter_map(read::<libc::Elf64_Sym>) {
        let address = image.bias.wrapping_add(symbol.st_value as usize);
        // No type, function, or function chosen at load time: anything that may be entered.
        let entered = matches!(symbol.st_info & 15, 0 | 2 | 10);
        if entered && symbol.st_shndx != 0 && image.is_text(address) {
            found.push((address, symbol.st_size as usize));
        }
    }
}
