//! A call on its way through a hook, and the hook's answer.
//!
//! The entry stub builds a [`Call`] on the caller's stack, so its layout is fixed: `x86::stub` has
//! the offsets, and asserts them.

/// A system call that a site was about to make.
#[derive(Debug)]
#[repr(C)]
pub struct Call {
    /// The number of the call. The hook may change it.
    pub number: usize,
    /// The arguments. The hook may change them: the caller's registers keep their values, except
    /// after [`Next::Tail`].
    pub arguments: [usize; 6],
    /// The result that [`Next::Return`] hands to the caller. On a call of the hook that follows
    /// [`Next::Again`], the kernel's answer.
    pub result: isize,
    /// How many times the hook has answered [`Next::Again`] for this call.
    pub step: usize,
    /// Words for the hook. At its first call those from [`Call::FRESH`] on are zero, and the
    /// others have any value; then they are as the hook left them.
    pub notes: [usize; 16],
    pub(crate) site: *const Site,
    pub(crate) stack_pointer: usize,
}

impl Call {
    /// The first of the notes that are zero at the hook's first call.
    pub const FRESH: usize = 12;

    /// The address behind the site's `syscall`: the caller, as an unwinder sees it.
    #[must_use]
    pub fn next(&self) -> usize {
        // SAFETY: the stub stored a descriptor, and descriptors live for ever.
        unsafe { (*self.site).next }
    }

    /// Whether code at the site may have values in vector registers beyond the low halves of xmm0
    /// to xmm15. A hook that lets another thread run then preserves these too.
    #[must_use]
    pub fn keeps_vectors(&self) -> bool {
        // SAFETY: as in `next`.
        unsafe { (*self.site).keeps_vectors != 0 }
    }

    /// The caller's stack pointer at the site. Its red zone lies below.
    #[must_use]
    pub fn stack_pointer(&self) -> usize {
        self.stack_pointer
    }
}

/// How a call goes on when the hook has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Next {
    /// The caller goes on with [`Call::result`].
    Return = 0,
    /// The stub makes the call as [`Call::number`] and [`Call::arguments`] say now, and the caller
    /// goes on with the kernel's answer. No frame of Rust is on the stack meanwhile, so signal
    /// handlers and cancellation may unwind the stack.
    Native = 1,
    /// As `Native`, but the answer goes to [`Call::result`], [`Call::step`] is one more, and the
    /// hook is called once more.
    Again = 2,
    /// All registers and the stack are as at the site, except that the number and the arguments
    /// are those of [`Call`]. The call is made by an instruction of the site's own trampoline, and
    /// its caller goes on there: for calls that return twice, on a new stack, or never.
    Tail = 3,
}

/// The function that decides on a call.
///
/// It runs on the caller's stack, at any place where the program makes system calls: in signal
/// handlers, between `vfork` and `exec`, in the first and the last instructions of threads. It must
/// neither unwind, nor use vector registers beyond the low halves of xmm0 to xmm15, nor compute
/// with floats, which notes exceptions in MXCSR.
pub type Hook = unsafe extern "C" fn(&mut Call) -> Next;

/// Descriptor of a site: constant, beside the code of its trampoline. The stub reads it.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Site {
    /// Behind the original `syscall`.
    pub(crate) next: usize,
    /// Where the caller goes on after the stub.
    pub(crate) resume: usize,
    /// The `syscall` of the trampoline itself, for [`Next::Tail`].
    pub(crate) tail: usize,
    /// For [`Call::keeps_vectors`]: not 0.
    pub(crate) keeps_vectors: u8,
    /// [`Site::MARK`], if the code of the trampoline follows.
    pub(crate) mark: [u8; 7],
}

impl Site {
    /// By this, unwinders that come from below find a descriptor.
    pub(crate) const MARK: [u8; 7] = *b"site-->";
    /// Length of a `syscall`.
    pub(crate) const CALL: usize = 2;
    /// Length of `lea address(%rip), register`.
    pub(crate) const LOAD: usize = 7;
    /// Length of the code between the displaced instructions and `tail`: it goes to the stub.
    pub(crate) const WAY: usize = 2 * Site::LOAD + 6;

    /// The original address that stands for an instruction of the trampoline: the registers that
    /// functions rely on are as there.
    pub(crate) fn original(&self, pc: usize) -> usize {
        let call = self.next - Site::CALL;
        let (way, back) = (self.tail - Site::WAY, self.tail + Site::CALL);
        if pc < way {
            call - (way - pc)
        } else if pc < back {
            call
        } else {
            self.next + (pc - back).saturating_sub(Site::LOAD)
        }
    }
}
