//! What the engine found, and what became of it.

use core::fmt;
use core::ops::Range;

/// A loaded ELF object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// The path of its file.
    pub path: Vec<u8>,
    /// Where it lies in memory.
    pub range: Range<usize>,
}

/// Counts of sites: of one object, or of all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Instructions `syscall` found by decoding.
    pub sites: usize,
    /// Sites that lead to the hook.
    pub patched: usize,
    /// Sites with a known number that is not hooked: left as they are.
    pub unhooked: usize,
    /// Sites of restorers (`rt_sigreturn`), which are never patched.
    pub restorers: usize,
    /// Sites of the engine itself.
    pub own: usize,
    /// Sites without a window: something jumps between the instructions.
    pub no_window: usize,
    /// Sites for which no memory is free within reach of a jump.
    pub no_memory: usize,
    /// Sites in code that the system did not allow to write.
    pub not_writable: usize,
    /// Bytes like a site's in functions that do not decode. They may be data.
    pub undecoded: usize,
    /// Bytes like a site's outside of all known functions. They may be data.
    pub outside: usize,
}

impl core::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.sites += other.sites;
        self.patched += other.patched;
        self.unhooked += other.unhooked;
        self.restorers += other.restorers;
        self.own += other.own;
        self.no_window += other.no_window;
        self.no_memory += other.no_memory;
        self.not_writable += other.not_writable;
        self.undecoded += other.undecoded;
        self.outside += other.outside;
    }
}

/// Counts of all objects that were looked at and are still loaded.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Each object with sites, and its counts.
    pub objects: Vec<(Object, Counts)>,
    /// As [`Look::misses`](crate::Look::misses).
    pub misses: bool,
}

impl Report {
    /// The sum over all objects.
    #[must_use]
    pub fn total(&self) -> Counts {
        let mut total = Counts::default();
        self.objects.iter().for_each(|(_, counts)| total += *counts);
        total
    }
}

/// One line for each object: the path, then each count that is not zero, as `name=count`.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (object, counts) in &self.objects {
            write!(f, "{}", String::from_utf8_lossy(&object.path))?;
            for (name, count) in [
                ("sites", counts.sites),
                ("patched", counts.patched),
                ("unhooked", counts.unhooked),
                ("restorers", counts.restorers),
                ("own", counts.own),
                ("no_window", counts.no_window),
                ("no_memory", counts.no_memory),
                ("not_writable", counts.not_writable),
                ("undecoded", counts.undecoded),
                ("outside", counts.outside),
            ] {
                if count != 0 {
                    write!(f, " {name}={count}")?;
                }
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// Why nothing was installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The architecture is none that the engine knows.
    Unsupported,
    /// A hook is installed already.
    Installed,
    /// The list of mappings cannot be read (`/proc/self/maps`): the kernel's error number.
    Mappings(i32),
    /// No site could be replaced: a policy lets no code be changed, or no memory is near it.
    Unchangeable,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Unsupported => f.write_str("interception is for Linux on x86-64"),
            Error::Installed => f.write_str("a hook is installed already"),
            Error::Mappings(error) => write!(f, "cannot read /proc/self/maps: error {error}"),
            Error::Unchangeable => f.write_str("the system lets no code be changed"),
        }
    }
}

impl std::error::Error for Error {}
