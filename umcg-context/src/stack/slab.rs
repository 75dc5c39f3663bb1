//! Slabs: mappings that stacks are cut from, and the list by which an address finds its stack.

use super::{PAGE, SizeClass, StackError, top_of};
use crate::guard;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::*};

#[repr(C)]
pub(super) struct Slab {
    next: *mut Slab,
    class: SizeClass,
    pub(super) stacks: usize,
    /// Its guards are markers, unless its memory was locked later.
    is_marked: bool,
    /// How many stacks have been cut. These may be read, and their guards are in place.
    cut: AtomicUsize,
}

impl Slab {
    fn first_guard(&self) -> usize {
        self as *const Slab as usize + PAGE
    }

    /// How many stacks may be read.
    fn cut(&self) -> usize {
        // ORDERING(cut.2): Acquire, pairs with cut.1.
        self.cut.load(Acquire)
    }

    /// Whether a stack was not cut yet. The caller holds the shelf's lock.
    pub(super) fn has_uncut(&self) -> bool {
        self.cut.load(Relaxed) < self.stacks
    }

    /// Makes the next stack usable, and the range below it a guard. The caller holds the shelf's
    /// lock, and the slab has an uncut stack.
    pub(super) fn cut_next(&self) -> Result<NonNull<u8>, StackError> {
        let cut = self.cut.load(Relaxed);
        let guard = core::ptr::with_exposed_provenance_mut::<u8>(
            self.first_guard() + cut * self.class.stride(),
        );
        let base = guard.wrapping_add(guard::SIZE);
        // SAFETY: the pages of the guard are in the slab, and unused.
        if !(self.is_marked && unsafe { guard::mark(guard) }) {
            guard::count_protection().map_err(|_| StackError::TooManyMappings)?;
            let guarded = if self.is_marked {
                // SAFETY: as above.
                unsafe { guard::protect(guard) }
            } else {
                let access = libc::PROT_READ | libc::PROT_WRITE;
                // SAFETY: the pages of the stack are in the slab, and unused.
                unsafe { libc::mprotect(base.cast(), self.class.size(), access) == 0 }
            };
            if !guarded {
                guard::uncount_protection();
                return Err(StackError::TooManyMappings);
            }
        }
        // ORDERING(cut.1): Release, pairs with cut.2. A thread that counts the stack may read it.
        self.cut.store(cut + 1, Release);
        NonNull::new(base).ok_or(StackError::OutOfMemory)
    }
}

/// All slabs, newest first. The list only grows.
static SLABS: AtomicPtr<Slab> = AtomicPtr::new(null_mut());

pub(super) fn map_slab(class: SizeClass, stacks: usize) -> Result<&'static Slab, StackError> {
    // SAFETY: no precondition.
    if unsafe { libc::sysconf(libc::_SC_PAGESIZE) } != PAGE as libc::c_long {
        return Err(StackError::PageSize);
    }
    let bytes = PAGE + stacks * class.stride();
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_STACK;
    // Without access, so that the kernel does not fill it where memory is locked as soon as it is
    // mapped.
    // SAFETY: a new mapping at an address of the kernel's choice.
    let start = unsafe { libc::mmap(null_mut(), bytes, libc::PROT_NONE, kind, -1, 0) };
    if start == libc::MAP_FAILED {
        // SAFETY: no precondition.
        let errno = unsafe { libc::__errno_location() };
        // SAFETY: this thread's.
        let is_limit = unsafe { errno.read() } == libc::EAGAIN;
        return Err(if is_limit {
            StackError::Locked
        } else {
            StackError::OutOfMemory
        });
    }
    // A huge page would make one touched stack cost as much as 30 of them. Failure (no such
    // feature) is fine.
    // SAFETY: advice on our own mapping.
    unsafe { libc::madvise(start, bytes, libc::MADV_NOHUGEPAGE) };
    start.expose_provenance();
    // SAFETY: the first guard is ours, and holds nothing.
    let is_marked = unsafe { guard::mark(start.cast::<u8>().wrapping_add(PAGE)) };
    let accessible = if is_marked { bytes } else { PAGE };
    // SAFETY: our own mapping, of which nothing is in use.
    if unsafe { libc::mprotect(start, accessible, libc::PROT_READ | libc::PROT_WRITE) } != 0 {
        // SAFETY: as above.
        unsafe { libc::munmap(start, bytes) };
        return Err(StackError::OutOfMemory);
    }
    let slab = start.cast::<Slab>();
    // SAFETY: the first page is ours and writable.
    unsafe {
        slab.write(Slab {
            next: null_mut(),
            class,
            stacks,
            is_marked,
            cut: AtomicUsize::new(0),
        })
    };
    let mut head = SLABS.load(Relaxed);
    loop {
        // SAFETY: not published yet, so no other thread reads it.
        unsafe { (*slab).next = head };
        // ORDERING(slabs.1): Release, pairs with slabs.2. A thread that finds the slab sees its
        // header.
        match SLABS.compare_exchange_weak(head, slab, Release, Relaxed) {
            // SAFETY: it is never unmapped, and the only field that changes from now on is atomic.
            Ok(_) => return Ok(unsafe { &*slab }),
            Err(now) => head = now,
        }
    }
}

/// Which stack an address belongs to, and whether it is in that stack's guard. Safe in a signal
/// handler.
#[derive(Clone, Copy, Debug)]
pub struct StackLocation {
    /// The lowest usable address of the stack.
    pub base: *mut u8,
    /// Its class.
    pub class: SizeClass,
    /// The address lies in the guard below the stack.
    pub in_guard: bool,
}

/// Finds the stack that `address` belongs to. Safe in a signal handler; takes time in proportion to
/// the number of slabs.
pub fn find(address: usize) -> Option<StackLocation> {
    // ORDERING(slabs.2): Acquire, pairs with slabs.1.
    let mut at = SLABS.load(Acquire);
    // SAFETY: slabs are never unmapped and their headers never change once published.
    while let Some(slab) = unsafe { at.as_ref() } {
        let stride = slab.class.stride();
        let offset = address.wrapping_sub(slab.first_guard());
        if offset < slab.cut() * stride {
            let guard = slab.first_guard() + offset / stride * stride;
            let base = core::ptr::with_exposed_provenance_mut(guard + guard::SIZE);
            return Some(StackLocation {
                base,
                class: slab.class,
                in_guard: offset % stride < guard::SIZE,
            });
        }
        at = slab.next;
    }
    None
}

/// Calls `f` with the top of each existing stack. A stack that was never in use holds zeros there.
pub fn each(f: &mut dyn FnMut(*mut u8)) {
    // ORDERING(slabs.2): as in `find`.
    let mut at = SLABS.load(Acquire);
    // SAFETY: as in `find`.
    while let Some(slab) = unsafe { at.as_ref() } {
        for index in 0..slab.cut() {
            let base = slab.first_guard() + index * slab.class.stride() + guard::SIZE;
            f(top_of(
                core::ptr::with_exposed_provenance_mut(base),
                slab.class,
            ));
        }
        at = slab.next;
    }
}
