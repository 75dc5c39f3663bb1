//! Restartable sequences (rseq).
//!
//! For each kernel thread glibc registers an area in the thread's storage. The kernel writes the
//! number of the processor there, and finds there the critical section that it has to restart. Code
//! that runs with the storage of another kernel thread reads an outdated number, and announces its
//! critical sections in vain: two flows change the data of one processor at once. So the area of a
//! storage that moves is registered for no kernel thread. It says "uninitialized", and code that
//! uses such areas takes its slow path for kernels without them:
//!
//! | storage | its area |
//! |---|---|
//! | a plain thread's, a server's, a helper's | as glibc made it: no code looks at it while the kernel thread runs with another storage |
//! | a thread worker's that moves | unregistered while it is a worker |
//! | a block | never registered |
//! | the one that a child of a fork continues with | registered, if it was when the worker was a plain thread; the area of the kernel thread that forked is registered no longer |
//!
//! A program can register an area itself, with `glibc.pthread.rseq=0` or a glibc before 2.35. The
//! kernel does not tell of such an area. Such a program must use no thread workers.

use crate::arch;
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

const UNREGISTER: c_int = 1;
/// Bytes of the first version of the area, which glibc registers where the kernel knows no more.
const INITIAL_BYTES: usize = 32;

/// The offset from the thread pointer to the area in each storage of glibc's, if it registers any.
fn offset() -> Option<isize> {
    static OFFSET: OnceLock<Option<isize>> = OnceLock::new();
    *OFFSET.get_or_init(|| {
        let [bytes, offset] = symbols()?;
        // SAFETY: such a symbol is an `unsigned int`.
        let bytes = unsafe { bytes.cast::<u32>().read() };
        // SAFETY: such a symbol is a `ptrdiff_t`.
        let offset = unsafe { offset.cast::<isize>().read() };
        (bytes != 0).then_some(offset)
    })
}

/// Where `__rseq_size` and `__rseq_offset` are, if glibc has them.
fn symbols() -> Option<[*const c_void; 2]> {
    let find = |name: &std::ffi::CStr| {
        // SAFETY: a C string; any handle.
        let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
        (!address.is_null()).then_some(address.cast_const())
    };
    match (find(c"__rseq_size"), find(c"__rseq_offset")) {
        (Some(bytes), Some(offset)) => Some([bytes, offset]),
        _ => linked(),
    }
}

/// The addresses as the linker knows them: a statically linked program has no dynamic symbols. The
/// references are weak, as an older glibc has neither symbol.
fn linked() -> Option<[*const c_void; 2]> {
    let [bytes, offset] = arch::rseq_symbols();
    (!bytes.is_null() && !offset.is_null()).then_some([bytes, offset])
}

/// Looks the area up. The child of a fork must not do this.
pub(crate) fn look_up() {
    offset();
}

/// The sizes that glibc may have registered. A kernel with a larger area tells its size to every
/// process.
fn sizes() -> [usize; 2] {
    const AT_RSEQ_FEATURE_SIZE: libc::c_ulong = 27;
    const AT_RSEQ_ALIGN: libc::c_ulong = 28;
    // SAFETY: reads a vector that the kernel gave the process.
    let tell = |what| unsafe { libc::getauxval(what) } as usize;
    let align = tell(AT_RSEQ_ALIGN).max(INITIAL_BYTES);
    [
        INITIAL_BYTES,
        tell(AT_RSEQ_FEATURE_SIZE)
            .max(INITIAL_BYTES)
            .next_multiple_of(align),
    ]
}

fn rseq(tp: usize, bytes: usize, flags: c_int) -> bool {
    let Some(offset) = offset() else { return false };
    let area = tp.wrapping_add_signed(offset);
    // SAFETY: an area of glibc's, for its kernel thread. No critical section is open, as this is a
    // call of a function.
    unsafe { libc::syscall(libc::SYS_rseq, area, bytes, flags, arch::RSEQ_SIGNATURE) == 0 }
}

/// Unregisters the area of this storage, which is registered for the calling kernel thread. Returns
/// how many bytes were registered; 0 if it was not registered.
pub(crate) fn unregister(tp: usize) -> usize {
    keep_errno(|| {
        sizes()
            .into_iter()
            .find(|bytes| rseq(tp, *bytes, UNREGISTER))
            .unwrap_or(0)
    })
}

/// Registers the area of this storage again, with as many bytes as before, for the calling kernel
/// thread, which owns it.
pub(crate) fn register(tp: usize, bytes: usize) {
    if bytes != 0 {
        keep_errno(|| rseq(tp, bytes, 0));
    }
}

fn keep_errno<R>(f: impl FnOnce() -> R) -> R {
    // SAFETY: no precondition.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: this storage's.
    let before = unsafe { errno.read() };
    let result = f();
    // SAFETY: as above.
    unsafe { errno.write(before) };
    result
}

/// Called in a child that was forked on the kernel thread made with `own`, and that continues with
/// another storage. That thread no longer exists, so glibc may free the memory of `own`.
pub(crate) fn forked_in_child(own: usize) {
    if own != umcg_context::thread_pointer() {
        unregister(own);
    }
}
