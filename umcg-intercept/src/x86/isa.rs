//! The processors that an object was built for, by its own note.
//!
//! A linker writes the note `.note.gnu.property`, and names its place in the program headers (x86
//! psABI, "Program Property"). The property X86_ISA_1_NEEDED has a bit for each level of
//! processors, of which the first is x86-64-baseline.

use super::image::read;

pub(crate) const PT_GNU_PROPERTY: u32 = 0x6474_e553;
const NT_GNU_PROPERTY_TYPE_0: u32 = 5;
const X86_ISA_1_NEEDED: u32 = 0xc000_8002;
const BASELINE: u32 = 1;

/// Whether the object at this path, with this note, is a C library that was built for the first
/// x86-64 processors. Notes of other objects say nothing: see [`super::extended`].
pub(crate) fn is_first_of_libc(path: &[u8], note: &[u8]) -> bool {
    path.rsplit(|&byte| byte == b'/').next() == Some(b"libc.so.6") && needed(note) == Some(BASELINE)
}

/// The levels of processors that the note demands.
fn needed(note: &[u8]) -> Option<u32> {
    const NAME: &[u8] = b"GNU\0";
    let name = 3 * size_of::<u32>();
    let size = read::<u32>(note.get(4..)?)? as usize;
    let kind = read::<u32>(note.get(8..)?)?;
    let start = name + NAME.len();
    if kind != NT_GNU_PROPERTY_TYPE_0 || note.get(name..start)? != NAME {
        return None;
    }
    let mut rest = note.get(start..start.checked_add(size)?)?;
    loop {
        let kind = read::<u32>(rest)?;
        let size = read::<u32>(rest.get(4..)?)? as usize;
        let data = rest.get(8..)?.get(..size)?;
        if kind == X86_ISA_1_NEEDED {
            return read(data);
        }
        rest = rest.get(8 + size.next_multiple_of(8)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIBC: &[u8] = b"/usr/lib/libc.so.6";

    /// A note with these properties, of four bytes each.
    fn note(kind: u32, properties: &[(u32, u32)]) -> Vec<u8> {
        let size = 16 * properties.len() as u32;
        let mut words = vec![4, size, kind, u32::from_le_bytes(*b"GNU\0")];
        for &(kind, value) in properties {
            words.extend([kind, 4, value, 0]);
        }
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn a_libc_for_the_first_processors() {
        let other = (0xc000_0002, 3);
        for (expected, kind, properties) in [
            (true, 5, &[(X86_ISA_1_NEEDED, 1)][..]),
            (true, 5, &[other, (X86_ISA_1_NEEDED, 1)]),
            (false, 5, &[(X86_ISA_1_NEEDED, 5)]),
            (false, 5, &[(X86_ISA_1_NEEDED, 0)]),
            (false, 5, &[other]),
            (false, 5, &[]),
            (false, 1, &[(X86_ISA_1_NEEDED, 1)]),
        ] {
            assert_eq!(is_first_of_libc(LIBC, &note(kind, properties)), expected);
        }
        let first = note(5, &[(X86_ISA_1_NEEDED, 1)]);
        assert!(!is_first_of_libc(b"/usr/lib/ld-linux-x86-64.so.2", &first));
        assert!(!is_first_of_libc(b"/usr/lib/libc.so.6.so", &first));
        for length in 0..first.len() - 4 {
            assert!(!is_first_of_libc(LIBC, &first[..length]), "{length} bytes");
        }
    }
}
