//! Names for addresses of code, found by system calls and memory of our own only. For signal
//! handlers, where `dladdr` could wait for the loader's lock; besides, it knows exported functions
//! only.
//!
//! `/proc/self/maps` says which file an address comes from, and the file's own table of symbols
//! says which function.

use rustix::fd::{BorrowedFd, IntoRawFd, RawFd};
use rustix::fs::{Mode, OFlags, open};
use std::cell::UnsafeCell;
use std::ffi::CStr;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::*};

/// The largest part of `/proc/self/maps` that is read at a time; longer lines are not understood.
const PART: usize = 4608;

struct MapsBuffer {
    is_taken: AtomicBool,
    bytes: UnsafeCell<[u8; PART]>,
}

// SAFETY: `find` gives the bytes to one caller at a time, by `is_taken`.
unsafe impl Sync for MapsBuffer {}
static BUFFER: MapsBuffer = MapsBuffer {
    is_taken: AtomicBool::new(false),
    bytes: UnsafeCell::new([0; PART]),
};

/// A function's name, and how far into it an address is.
type Symbol<'a> = (&'a str, usize);

/// Calls `tell` with the file that holds the code at `pc`, the place in it, and the function if
/// there is a symbol. The file is `?` if nothing is found, or another call is under way.
/// Async-signal-safe.
pub(crate) fn find(pc: usize, tell: impl FnOnce(&str, usize, Option<Symbol<'_>>)) {
    // ORDERING(symbols.1): Acquire, pairs with symbols.2. One caller at a time has the bytes.
    if BUFFER.is_taken.swap(true, Acquire) {
        return tell("?", pc, None);
    }
    // SAFETY: by `is_taken` the bytes are this call's.
    let bytes = unsafe { &mut *BUFFER.bytes.get() };
    match mapping_of(pc, bytes) {
        Some(Mapping {
            path,
            offset,
            inode,
        }) => {
            let name = path.to_str().unwrap_or("?");
            // If the program was rebuilt meanwhile, another file is at its path.
            match MappedFile::map(path, inode).or_else(|| MappedFile::map(c"/proc/self/exe", inode))
            {
                Some(file) => {
                    let place = Elf(file.bytes()).address_of(offset).unwrap_or(offset);
                    tell(name, place, Elf(file.bytes()).symbol_at(place));
                }
                None => tell(name, offset, None),
            }
        }
        None => tell("?", pc, None),
    }
    // ORDERING(symbols.2): Release, pairs with symbols.1.
    BUFFER.is_taken.store(false, Release);
}

/// The file that is mapped at an address, and the place in it.
struct Mapping<'a> {
    path: &'a CStr,
    offset: usize,
    inode: u64,
}

/// The mapping at `pc`.
fn mapping_of(pc: usize, bytes: &mut [u8; PART]) -> Option<Mapping<'_>> {
    let fd = UncancelledFd::open(c"/proc/self/maps")?;
    let mut used = 0;
    loop {
        used += rustix::io::read(fd.get(), &mut bytes[used..])
            .ok()
            .filter(|read| *read > 0)?;
        let mut begin = 0;
        while let Some(length) = bytes[begin..used].iter().position(|byte| *byte == b'\n') {
            let line = begin..begin + length;
            if let Some((path, offset, inode)) = line_with(&bytes[line.clone()], pc) {
                bytes[line.end] = 0;
                let path = CStr::from_bytes_with_nul(&bytes[line.start + path..=line.end]).ok()?;
                return Some(Mapping {
                    path,
                    offset,
                    inode,
                });
            }
            begin = line.end + 1;
        }
        bytes.copy_within(begin..used, 0);
        used -= begin;
    }
}

/// If this line is the one for `pc`: where in the line the path begins, the place of `pc` in the
/// file, and the file's number. `start-end rights offset device inode      path`
fn line_with(line: &[u8], pc: usize) -> Option<(usize, usize, u64)> {
    let (start, rest) = hexadecimal(line)?;
    let (end, rest) = hexadecimal(rest.strip_prefix(b"-")?)?;
    if !(start..end).contains(&pc) {
        return None;
    }
    let (offset, rest) = hexadecimal(rest.get(6..)?)?;
    let inode = rest.split(|byte| *byte == b' ').nth(2)?;
    let inode = std::str::from_utf8(inode).ok()?.parse().ok()?;
    let path = line.iter().position(|byte| *byte == b'/')?;
    Some((path, pc - start + offset, inode))
}

fn hexadecimal(text: &[u8]) -> Option<(usize, &[u8])> {
    let digits = text
        .iter()
        .take_while(|byte| byte.is_ascii_hexdigit())
        .count();
    let number = usize::from_str_radix(std::str::from_utf8(&text[..digits]).ok()?, 16).ok()?;
    Some((number, &text[digits..]))
}

/// A descriptor that is never passed to a function of the C library at which `pthread_cancel` may
/// end the calling thread.
struct UncancelledFd(RawFd);

impl UncancelledFd {
    fn open(path: &CStr) -> Option<UncancelledFd> {
        let fd = open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
        Some(UncancelledFd(fd.into_raw_fd()))
    }

    fn get(&self) -> BorrowedFd<'_> {
        // SAFETY: it is open as long as this lives.
        unsafe { BorrowedFd::borrow_raw(self.0) }
    }
}

impl Drop for UncancelledFd {
    fn drop(&mut self) {
        // SAFETY: our own descriptor, closed once.
        unsafe { rustix::io::close(self.0) };
    }
}

/// A file in memory.
struct MappedFile {
    start: *mut libc::c_void,
    size: usize,
}

impl MappedFile {
    /// Maps the file with this path and number.
    fn map(path: &CStr, inode: u64) -> Option<MappedFile> {
        let fd = UncancelledFd::open(path)?;
        // SAFETY: zero is a valid stat.
        let mut about: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: writes about a file of our own.
        if unsafe { libc::fstat(fd.0, &mut about) } != 0 || about.st_ino != inode {
            return None;
        }
        let size = usize::try_from(about.st_size)
            .ok()
            .filter(|size| *size > 0)?;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size,
                libc::PROT_READ,
                libc::MAP_PRIVATE,
                fd.0,
                0,
            )
        };
        (start != libc::MAP_FAILED).then_some(MappedFile { start, size })
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: mapped for as long as this lives. The kernel refuses writes to a running program.
        // A process that writes to a library changes running code anyway.
        unsafe { std::slice::from_raw_parts(self.start.cast(), self.size) }
    }
}

impl Drop for MappedFile {
    fn drop(&mut self) {
        // SAFETY: our own mapping, which is no longer borrowed.
        unsafe { libc::munmap(self.start, self.size) };
    }
}

/// A file of 64-bit ELF, in this machine's byte order. Whatever its contents, nothing outside it is
/// read.
struct Elf<'a>(&'a [u8]);

const LOAD: u32 = 1;
const TABLES: [u32; 2] = [2, 11]; // all symbols; those that the loader needs
const FUNCTION: u8 = 2;
const SYMBOL_BYTES: usize = 24;

impl<'a> Elf<'a> {
    fn part(&self, range: Range<usize>) -> Option<&'a [u8]> {
        self.0.get(range)
    }

    fn number<const N: usize>(&self, at: usize) -> Option<usize> {
        let bytes = self.part(at..at.checked_add(N)?)?;
        let mut number = [0; 8];
        number[if cfg!(target_endian = "big") {
            8 - N..8
        } else {
            0..N
        }]
        .copy_from_slice(bytes);
        usize::try_from(u64::from_ne_bytes(number)).ok()
    }

    /// The entries of a table. Its place, entry size and count stand at these places of the header.
    fn entries(
        &self,
        place: usize,
        size: usize,
        count: usize,
    ) -> Option<impl Iterator<Item = usize> + use<'a>> {
        let (place, size, count) = (
            self.number::<8>(place)?,
            self.number::<2>(size)?,
            self.number::<2>(count)?,
        );
        Some((0..count).filter_map(move |index| place.checked_add(index * size)))
    }

    /// The address of this place in the file, before the file was relocated.
    fn address_of(&self, offset: usize) -> Option<usize> {
        self.entries(32, 54, 56)?.find_map(|segment| {
            let (from, address, length) = (
                self.number::<8>(segment + 8)?,
                self.number::<8>(segment + 16)?,
                self.number::<8>(segment + 32)?,
            );
            let within = offset.checked_sub(from).filter(|within| *within < length)?;
            (self.number::<4>(segment)? == LOAD as usize).then(|| address.wrapping_add(within))
        })
    }

    /// The function at such an address.
    fn symbol_at(&self, address: usize) -> Option<Symbol<'a>> {
        TABLES.into_iter().find_map(|kind| {
            let table = self
                .entries(40, 58, 60)?
                .find(|section| self.number::<4>(section + 4) == Some(kind as usize))?;
            let (place, bytes, link) = (
                self.number::<8>(table + 24)?,
                self.number::<8>(table + 32)?,
                self.number::<4>(table + 40)?,
            );
            let strings = self.entries(40, 58, 60)?.nth(link)?;
            let strings = self.number::<8>(strings + 24)?;
            let symbols = self.part(place..place.checked_add(bytes)?)?;
            let (name, into) = symbols
                .chunks_exact(SYMBOL_BYTES)
                .find_map(|symbol| function(symbol, address))?;
            let name = self.0.get(strings.checked_add(name)?..)?;
            Some((CStr::from_bytes_until_nul(name).ok()?.to_str().ok()?, into))
        })
    }
}

/// If this symbol is a function that contains the address: the place of its name, and how far into
/// it the address is.
fn function(symbol: &[u8], address: usize) -> Option<(usize, usize)> {
    let word = |at: usize| {
        symbol
            .get(at..at + 8)?
            .try_into()
            .ok()
            .map(u64::from_ne_bytes)
    };
    let (value, size) = (word(8)? as usize, word(16)? as usize);
    let into = address.checked_sub(value).filter(|into| *into < size)?;
    let name = u32::from_ne_bytes(symbol.get(..4)?.try_into().ok()?);
    (symbol.get(4)? & 15 == FUNCTION).then_some((name as usize, into))
}

#[cfg(test)]
mod tests {
    #[inline(never)]
    extern "C" fn to_be_found() -> usize {
        std::hint::black_box(7)
    }

    #[test]
    fn a_function_has_its_name() {
        let place = to_be_found as *const () as usize;
        super::find(place, |module, _, symbol| {
            let (name, into) = symbol.unwrap();
            assert!(
                module.contains("umcg_core") && name.contains("to_be_found") && into == 0,
                "{module} {name}+{into}"
            );
        });
        super::find(libc::getpid as *const () as usize, |module, _, symbol| {
            assert!(
                module.contains("libc.so")
                    && symbol.is_some_and(|(name, into)| name.contains("getpid") && into == 0)
            );
        });
        super::find(&raw const place as usize, |module, _, symbol| {
            assert!(module == "?" && symbol.is_none())
        });
        assert_eq!(to_be_found(), 7);
    }
}
