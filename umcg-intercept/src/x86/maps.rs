//! The mappings of the process, read from the kernel's list.
//!
//! One reading serves three purposes: it finds loaded objects without the loader's lock, it tells
//! whether an object is mapped completely, and it shows the gaps for trampolines.

use super::raw::{Errno, File};
use core::ops::Range;

/// One line of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub(crate) range: Range<usize>,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    pub(crate) executable: bool,
    pub(crate) offset: usize,
    /// Device and inode; zero for memory without a file.
    pub(crate) file: (u64, u64),
    pub(crate) path: Vec<u8>,
}

/// All mappings, by ascending address.
pub(crate) fn read() -> Result<Vec<Mapping>, Errno> {
    let file = File::open(b"/proc/self/maps\0")?;
    let mut text = vec![0; 32 << 10];
    let mut length = 0;
    loop {
        length += file.read_at(&mut text[length..], length)?;
        if length < text.len() {
            break;
        }
        text.resize(2 * length, 0);
    }
    Ok(text[..length]
        .split(|&byte| byte == b'\n')
        .filter_map(line)
        .collect())
}

/// `start-end rwxp offset major:minor inode   path`
fn line(line: &[u8]) -> Option<Mapping> {
    let mut rest = line;
    let start = hexadecimal(field(&mut rest, b'-')?)?;
    let end = hexadecimal(field(&mut rest, b' ')?)?;
    let rights = field(&mut rest, b' ')?;
    let offset = hexadecimal(field(&mut rest, b' ')?)?;
    let major = hexadecimal(field(&mut rest, b':')?)?;
    let minor = hexadecimal(field(&mut rest, b' ')?)?;
    let inode = field(&mut rest, b' ').unwrap_or(rest);
    let inode = core::str::from_utf8(inode).ok()?.parse().ok()?;
    let path = rest
        .iter()
        .position(|&byte| byte != b' ')
        .map_or(&b""[..], |at| &rest[at..]);
    Some(Mapping {
        range: start..end,
        readable: rights.first() == Some(&b'r'),
        writable: rights.get(1) == Some(&b'w'),
        executable: rights.get(2) == Some(&b'x'),
        offset,
        file: ((major as u64) << 32 | minor as u64, inode),
        path: if inode == 0 && !path.starts_with(b"[") {
            Vec::new()
        } else {
            path.to_vec()
        },
    })
}

/// Cuts off the part before the separator.
fn field<'a>(rest: &mut &'a [u8], separator: u8) -> Option<&'a [u8]> {
    let at = rest.iter().position(|&byte| byte == separator)?;
    let (field, after) = rest.split_at(at);
    *rest = &after[1..];
    Some(field)
}

fn hexadecimal(digits: &[u8]) -> Option<usize> {
    usize::from_str_radix(core::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_all_kinds() {
        let mapped = line(b"7f00-8f00 r-xp 00026000 fe:01 4711       /lib/a b.so").unwrap();
        assert_eq!(mapped.range, 0x7f00..0x8f00);
        assert!(mapped.readable && !mapped.writable && mapped.executable);
        assert_eq!(mapped.offset, 0x26000);
        assert_eq!(mapped.file, (0xfe_0000_0001, 4711));
        assert_eq!(mapped.path, b"/lib/a b.so");
        let anonymous = line(b"7f00-8f00 rw-p 00000000 00:00 0 ").unwrap();
        assert_eq!(anonymous.path, b"");
        let stack = line(b"7f00-8f00 rw-p 00000000 00:00 0         [stack]").unwrap();
        assert_eq!(stack.path, b"[stack]");
        assert_eq!(line(b""), None);
        assert_eq!(line(b"7f00 r-xp"), None);
    }

    #[test]
    fn own_code_is_mapped() {
        let here = own_code_is_mapped as *const () as usize;
        let all = read().unwrap();
        assert!(
            all.iter()
                .any(|mapping| mapping.executable && mapping.range.contains(&here))
        );
        assert!(
            all.windows(2)
                .all(|pair| pair[0].range.end <= pair[1].range.start)
        );
    }
}
