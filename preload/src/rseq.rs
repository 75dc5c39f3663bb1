//! Areas for restartable sequences that are not the C library's.

/// Whether the calling thread has registered such an area. Code that uses it would take a server's
/// processor for that of the home. The kernel does not tell of such an area, but refuses a second
/// one by EINVAL. Any other error is a filter's, or says that the kernel has no such areas: the
/// kernel's EPERM and EBUSY are for the same area once more.
pub(crate) fn is_foreign() -> bool {
    const SIZE: usize = 32;
    const SIGNATURE: u32 = 0x5305_3053;
    const UNREGISTER: i32 = 1;
    #[repr(align(32))]
    struct Area([u8; SIZE]);
    // SAFETY: a name; looks up a symbol.
    let size = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_size".as_ptr()) };
    // SAFETY: the C library's symbol is an `unsigned int`.
    if !size.is_null() && unsafe { size.cast::<u32>().read() } != 0 {
        return false; // the area is the C library's, and there is one at most
    }
    let mut area = Area([0; SIZE]);
    let at = area.0.as_mut_ptr();
    // SAFETY: the area lives until it is unregistered.
    let rseq = |flags: i32| unsafe { libc::syscall(libc::SYS_rseq, at, SIZE, flags, SIGNATURE) };
    if rseq(0) == 0 {
        rseq(UNREGISTER);
        return false;
    }
    std::io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL)
}
