//! Whether a program can be helped, from its file.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The file of a program, by the path as the kernel's callers search it.
pub(super) fn find(name: &OsStr) -> Option<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(name));
    }
    let path = env::var_os("PATH")?;
    env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

/// Why the library cannot be loaded into the program, or would not help it.
pub(super) fn obstacle(file: &Path) -> Option<String> {
    const SET_ID: u32 = 0o6000;
    let data = fs::metadata(file).ok()?;
    if data.mode() & SET_ID != 0 {
        return Some("it changes its user or group (setuid)".to_owned());
    }
    let mut bytes = Vec::new();
    File::open(file).ok()?.read_to_end(&mut bytes).ok()?;
    if let Some(line) = bytes.strip_prefix(b"#!") {
        return interpreter(line).and_then(|path| obstacle(&path));
    }
    let image = Image::new(&bytes)?;
    if !image.has_interpreter() {
        return Some("it is linked statically".to_owned());
    }
    if image.has_section(b".note.go.buildid") {
        return Some("its threads are scheduled by Go's own runtime".to_owned());
    }
    None
}

/// The interpreter in the first line of a script.
fn interpreter(line: &[u8]) -> Option<PathBuf> {
    let end = line.iter().position(|byte| *byte == b'\n')?;
    let name = line[..end]
        .split(|byte| byte.is_ascii_whitespace())
        .find(|word| !word.is_empty())?;
    Some(PathBuf::from(OsStr::from_bytes(name)))
}

/// An ELF file of 64 bits.
struct Image<'a>(&'a [u8]);

impl<'a> Image<'a> {
    /// None if the file is of another form.
    fn new(bytes: &'a [u8]) -> Option<Image<'a>> {
        const IS_64_LITTLE: [u8; 6] = [0x7f, b'E', b'L', b'F', 2, 1];
        bytes.starts_with(&IS_64_LITTLE).then_some(Image(bytes))
    }

    fn number(&self, at: usize, bytes: usize) -> Option<usize> {
        let field = self.0.get(at..at.checked_add(bytes)?)?;
        let mut number = [0; 8];
        number[..bytes].copy_from_slice(field);
        usize::try_from(u64::from_le_bytes(number)).ok()
    }

    /// The places of a table's entries: its offset, the size of an entry and their count stand at
    /// these places of the file's header.
    fn table(&self, [offset, size, count]: [usize; 3]) -> impl Iterator<Item = usize> {
        let offset = self.number(offset, 8).unwrap_or(0);
        let size = self.number(size, 2).unwrap_or(0);
        let count = self.number(count, 2).unwrap_or(0);
        (0..count).filter_map(move |index| offset.checked_add(index * size))
    }

    fn has_interpreter(&self) -> bool {
        const INTERPRETER: usize = 3;
        self.table([32, 54, 56])
            .any(|entry| self.number(entry, 4) == Some(INTERPRETER))
    }

    fn has_section(&self, name: &[u8]) -> bool {
        const SECTIONS: [usize; 3] = [40, 58, 60];
        let Some(names) = self
            .number(62, 2)
            .and_then(|index| self.table(SECTIONS).nth(index))
            .and_then(|entry| self.number(entry + 24, 8))
        else {
            return false;
        };
        self.table(SECTIONS).any(|entry| {
            let at = self.number(entry, 4).and_then(|at| names.checked_add(at));
            at.and_then(|at| self.0.get(at..))
                .is_some_and(|text| text.starts_with(name) && text.get(name.len()) == Some(&0))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ordinary_program_can_be_helped_and_a_script_is_its_interpreter() {
        let shell = find(OsStr::new("sh")).unwrap();
        assert_eq!(obstacle(&shell), None);
        assert_eq!(interpreter(b" /bin/sh -e\nexit"), Some("/bin/sh".into()));
        assert_eq!(interpreter(b"no end"), None);
    }

    #[test]
    fn a_file_that_is_cut_off_is_no_trouble() {
        let bytes = fs::read("/proc/self/exe").unwrap();
        for length in (0..1024).chain([bytes.len() / 2, bytes.len() - 1]) {
            if let Some(image) = Image::new(&bytes[..length]) {
                image.has_interpreter();
                image.has_section(b".note.go.buildid");
            }
        }
        assert!(Image::new(&bytes).unwrap().has_section(b".text"));
    }
}
