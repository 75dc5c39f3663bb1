//! Shared libraries that are made for a test, and loaded while it runs.

use std::ffi::{CStr, CString, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::Command;

/// Compiles it. None, with a message, where there is no C compiler.
pub(crate) fn build(name: &str, source: &str) -> Option<CString> {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let mine = folder.join(format!("{name}-{}", std::process::id()));
    let (text, object) = (mine.with_extension("c"), mine.with_extension("so"));
    std::fs::write(&text, source).unwrap();
    // The first is that of another architecture too, under qemu.
    let compilers = [
        format!("{}-linux-gnu-gcc", std::env::consts::ARCH),
        "cc".into(),
    ];
    let compile = |compiler: &String| {
        let mut compile = Command::new(compiler);
        compile
            .args([
                "-shared", "-fPIC", "-O1", "-pthread", "-Wall", "-Werror", "-o",
            ])
            .arg(&object)
            .arg(&text);
        compile.status().is_ok_and(|status| status.success())
    };
    let is_built = compilers.iter().any(compile);
    std::fs::remove_file(&text).unwrap();
    if !is_built {
        eprintln!("SKIPPED {name}: no C compiler");
        return None;
    }
    // One for the test and the processes that it starts: they make the same.
    let shared = folder.join(format!("{name}.so"));
    std::fs::rename(&object, &shared).unwrap();
    Some(CString::new(shared.as_os_str().as_bytes()).unwrap())
}

/// A library that is open.
pub(crate) struct Library(*mut c_void);

// SAFETY: the loader takes calls from any thread.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

impl Library {
    /// # Safety
    /// The code that runs when it is loaded and unloaded may run now.
    pub(crate) unsafe fn open(path: &CStr) -> Library {
        // SAFETY: passed on.
        let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
        assert!(!library.is_null(), "{path:?} cannot be loaded");
        Library(library)
    }

    /// The address of a symbol.
    pub(crate) fn symbol(&self, name: &CStr) -> *mut c_void {
        // SAFETY: an open library.
        let symbol = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        assert!(!symbol.is_null(), "no {name:?}");
        symbol
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: opened once, by the contract of `open`.
        unsafe { libc::dlclose(self.0) };
    }
}
