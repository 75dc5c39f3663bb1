//! Stacks, cut from slabs.
//!
//! ```text
//!   slab:   header page | guard | stack 0 | guard | stack 1 | …        one mapping, never unmapped
//!   stack:  guard (64 KiB) | base … usable … top | colour | spare page | next guard
//! ```
//!
//! - A slab costs one mapping however many stacks it holds, because the [guards](crate::guard) are
//!   markers in the page table, not mappings. Where the first guard of a slab cannot be a marker,
//!   the slab has no access at first. Each stack is made accessible when it is cut, and the
//!   remaining ranges are the guards: two mappings a stack. So where memory is locked as soon as it
//!   is mapped (`mlockall`), only stacks in use are locked.
//! - Slabs stay mapped for the life of the process. Data at the top of a stack can therefore be
//!   read at any later time: descriptors there are type-stable, and a signal handler may walk the
//!   list of slabs. Do not read stacks that were not cut yet.
//! - Slabs grow with the number of existing stacks, so that the list of slabs stays short.
//! - Tops are *coloured*: moved down by one of 8 multiples of 192 bytes. Otherwise the hot lines of
//!   all stacks would have the same address within their page and share a 64th of the cache's sets.
//! - The distance from one stack to the next is an odd number of pages. With a power of two, as a
//!   guard and a stack of 64 KiB make, all stacks would share a few sets of the second-level cache
//!   and of the TLB, and there would be only two colours. So there is a spare page above each
//!   stack, which is never touched.

use crate::guard;
pub use crate::guard::{GuardKind, kind as guard_kind};
use crate::lock::HoldLock;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::*};

const PAGE: usize = 4096;
/// A class's first slab.
const LEAST_SLAB: usize = 4 << 20;
const LARGEST_SLAB: usize = 64 << 20;
/// For slabs of large stacks, and where there is no address space for more.
const FEWEST_STACKS: usize = 4;
/// Makes the number of pages from one stack to the next odd.
const SPARE: usize = PAGE;
const COLOURS: usize = 8;
const COLOUR_STEP: usize = 192;

/// The smallest stack that [`SizeClass::for_size`] gives, in bytes.
pub const MIN_SIZE: usize = 8 << 10;
/// The largest stack that [`SizeClass::for_size`] gives, in bytes.
pub const MAX_SIZE: usize = 1 << 30;
/// How many classes there are.
pub const CLASSES: usize = (MAX_SIZE / MIN_SIZE).trailing_zeros() as usize + 1;

/// A size class: stacks of [`MIN_SIZE`] times a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeClass(u8);

impl SizeClass {
    /// The smallest class whose stacks have at least `size` bytes; none above [`MAX_SIZE`].
    pub const fn for_size(size: usize) -> Option<SizeClass> {
        if size > MAX_SIZE {
            return None;
        }
        let size = if size < MIN_SIZE {
            MIN_SIZE
        } else {
            size.next_power_of_two()
        };
        Some(SizeClass((size / MIN_SIZE).trailing_zeros() as u8))
    }

    /// Bytes of a stack of this class, colour included and guard excluded.
    pub const fn size(self) -> usize {
        MIN_SIZE << self.0
    }

    /// The class of an index below [`CLASSES`].
    pub const fn from_index(index: usize) -> SizeClass {
        assert!(index < CLASSES);
        SizeClass(index as u8)
    }

    /// The class as an index below [`CLASSES`].
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    const fn stride(self) -> usize {
        guard::SIZE + self.size() + SPARE
    }

    /// How many stacks the next slab is to hold when `already` stacks exist.
    fn stacks_a_slab(self, already: usize) -> usize {
        let bytes = (already * self.stride() / 8).clamp(LEAST_SLAB, LARGEST_SLAB);
        ((bytes - PAGE) / self.stride()).max(FEWEST_STACKS)
    }
}

/// Why there is no stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StackError {
    /// No address space or memory (ENOMEM from the kernel).
    OutOfMemory,
    /// Larger than [`MAX_SIZE`].
    TooLarge,
    /// The kernel's pages are not of 4 KiB.
    PageSize,
    /// Guards cannot be markers here, and further ones would use up `vm.max_map_count`.
    TooManyMappings,
    /// The process locks all its memory (`mlockall`), and the limit of that (RLIMIT_MEMLOCK) is
    /// reached.
    Locked,
}

impl core::fmt::Display for StackError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            StackError::OutOfMemory => "no memory for a stack",
            StackError::TooLarge => "a stack may have at most 1 GiB",
            StackError::PageSize => "the kernel's pages are not of 4 KiB",
            StackError::TooManyMappings => {
                "more guarded stacks than vm.max_map_count allows (Linux 6.13 removes this bound, \
                 but for locked memory)"
            }
            StackError::Locked => {
                "no locked memory for a stack: the process locks all its memory, \
                and RLIMIT_MEMLOCK is reached"
            }
        })
    }
}

impl core::error::Error for StackError {}

/// A stack: the exclusive right to its memory. Dropping it leaks the memory; [`release`] or a pool
/// takes it back.
#[derive(Debug)]
#[must_use]
pub struct Stack {
    base: NonNull<u8>,
    class: SizeClass,
}

// SAFETY: a Stack is plain memory that it alone owns.
unsafe impl Send for Stack {}

impl Stack {
    /// The lowest usable address; the guard lies below.
    pub fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// The address just above the stack, 64-aligned.
    #[inline]
    pub fn top(&self) -> *mut u8 {
        top_of(self.base.as_ptr(), self.class)
    }

    /// Its size class.
    #[inline]
    pub fn class(&self) -> SizeClass {
        self.class
    }

    /// The parts that [`Stack::from_parts`] puts together again.
    #[inline]
    pub fn into_parts(self) -> (NonNull<u8>, SizeClass) {
        (self.base, self.class)
    }

    /// # Safety
    /// The parts came from [`Stack::into_parts`], once.
    #[inline]
    pub unsafe fn from_parts(base: NonNull<u8>, class: SizeClass) -> Stack {
        Stack { base, class }
    }
}

/// The most bytes that were ever in use on the stack at `base`, rounded to a page. These are the
/// bytes whose pages have been touched since the stack was new.
pub fn high_water(base: *mut u8, class: SizeClass) -> usize {
    let mut pages = [0u8; 64];
    let size = class.size();
    let mut at = 0;
    while at < size {
        let part = (size - at).min(pages.len() * PAGE);
        // SAFETY: the kernel checks the range, and `pages` has a byte for each of its pages.
        let failed =
            unsafe { libc::mincore(base.wrapping_add(at).cast(), part, pages.as_mut_ptr()) } != 0;
        if let (false, Some(first)) = (
            failed,
            pages[..part / PAGE].iter().position(|page| page & 1 == 1),
        ) {
            return size - at - first * PAGE;
        }
        at += part;
    }
    0
}

/// The address just above the stack at `base`, less the colour.
#[inline]
pub fn top_of(base: *mut u8, class: SizeClass) -> *mut u8 {
    // The page number changes by one stride from each stack to the next. That spreads the colours.
    let page = base as usize / PAGE;
    let colour = (page ^ (page >> 3)) % COLOURS * COLOUR_STEP;
    base.wrapping_add(class.size() - colour)
}

#[repr(C)]
struct Slab {
    next: *mut Slab,
    class: SizeClass,
    stacks: usize,
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

    /// Makes the next stack usable, and the range below it a guard. The caller holds the shelf's
    /// lock, and the slab has an uncut stack.
    fn cut_next(&self) -> Result<NonNull<u8>, StackError> {
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

/// One class's released stacks, and its slab of uncut ones.
struct Shelf {
    free: FreeList,
    /// Released stacks whose memory the kernel has back, except for the page that links them.
    trimmed: FreeList,
    /// The fewest that were in `free` since the last look of [`surplus`].
    fewest: usize,
    /// The slab that is being cut.
    slab: Option<&'static Slab>,
    /// How many stacks the slabs before it hold.
    stacks_before: usize,
}

// SAFETY: the shelf owns the memory that the pointers point to.
unsafe impl Send for Shelf {}

static SHELVES: [HoldLock<Shelf>; CLASSES] = [const {
    HoldLock::new(Shelf {
        free: FreeList::new(),
        trimmed: FreeList::new(),
        fewest: 0,
        slab: None,
        stacks_before: 0,
    })
}; CLASSES];

/// Free stacks of one class, last in first out, linked through the word at their tops.
#[derive(Debug)]
pub(crate) struct FreeList {
    head: *mut u8,
    len: usize,
}

impl FreeList {
    pub(crate) const fn new() -> Self {
        Self {
            head: null_mut(),
            len: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn push(&mut self, stack: Stack) {
        // SAFETY: the list owns the stack now, and its top word is 64-aligned and mapped.
        unsafe { link_of(&stack).write(self.head) };
        self.head = stack.base.as_ptr();
        self.len += 1;
    }

    #[inline]
    pub(crate) fn pop(&mut self, class: SizeClass) -> Option<Stack> {
        let stack = Stack {
            base: NonNull::new(self.head)?,
            class,
        };
        // SAFETY: `push` wrote the link, and the stack was unused since.
        self.head = unsafe { link_of(&stack).read() };
        self.len -= 1;
        Some(stack)
    }
}

fn link_of(stack: &Stack) -> *mut *mut u8 {
    stack.top().wrapping_sub(size_of::<*mut u8>()).cast()
}

/// A stack of `class`: one that was released, or a new one.
///
/// # Errors
/// As [`StackError`] says. A failure leaves nothing behind.
pub fn allocate(class: SizeClass) -> Result<Stack, StackError> {
    let mut shelf = SHELVES[class.index()].lock();
    if let Some(stack) = shelf.take(class) {
        return Ok(stack);
    }
    let base = shelf.uncut_slab(class)?.cut_next()?;
    drop(shelf);
    crate::annotate::stack_allocated(
        base.as_ptr() as usize,
        base.as_ptr() as usize + class.size(),
    );
    Ok(Stack { base, class })
}

impl Shelf {
    /// A stack that was released.
    fn take(&mut self, class: SizeClass) -> Option<Stack> {
        let stack = self.free.pop(class);
        self.fewest = self.fewest.min(self.free.len);
        stack.or_else(|| self.trimmed.pop(class))
    }

    /// A slab with a stack that was not cut yet.
    fn uncut_slab(&mut self, class: SizeClass) -> Result<&'static Slab, StackError> {
        if let Some(slab) = self
            .slab
            .filter(|slab| slab.cut.load(Relaxed) < slab.stacks)
        {
            return Ok(slab);
        }
        let already = self.stacks_before + self.slab.map_or(0, |slab| slab.stacks);
        let mut stacks = class.stacks_a_slab(already);
        let slab = loop {
            match map_slab(class, stacks) {
                Err(StackError::OutOfMemory | StackError::Locked) if stacks > FEWEST_STACKS => {
                    stacks = (stacks / 2).max(FEWEST_STACKS);
                }
                mapped => break mapped?,
            }
        };
        self.stacks_before = already;
        self.slab = Some(slab);
        Ok(slab)
    }
}

/// Takes a stack back for any thread to use.
pub fn release(stack: Stack) {
    SHELVES[stack.class.index()].lock().free.push(stack);
}

/// Like [`release`], and gives the kernel back the memory of the stack.
pub fn release_memory(stack: Stack) {
    // SAFETY: the stack's own memory, which is no longer in use. Failure would only keep the
    // memory.
    unsafe {
        libc::madvise(
            stack.base.as_ptr().cast(),
            stack.class.size(),
            libc::MADV_DONTNEED,
        )
    };
    release(stack);
}

/// Moves stacks between a thread's own list and the shared one, under one lock.
pub(crate) fn exchange(class: SizeClass, own: &mut FreeList, wanted: usize) {
    let mut shelf = SHELVES[class.index()].lock();
    while own.len > wanted {
        let Some(stack) = own.pop(class) else { return };
        shelf.free.push(stack);
    }
    while own.len < wanted {
        let Some(stack) = shelf.take(class) else {
            return;
        };
        own.push(stack);
    }
}

fn map_slab(class: SizeClass, stacks: usize) -> Result<&'static Slab, StackError> {
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

/// Takes all locks of this module, so that a fork finds consistent shelves.
pub fn before_fork() {
    for shelf in &SHELVES {
        shelf.take();
    }
}

/// Frees the locks again.
///
/// # Safety
/// Called once after each [`before_fork`], in the parent and in the child, by the thread that
/// called that.
pub unsafe fn forked() {
    for shelf in &SHELVES {
        // SAFETY: passed on.
        drop(unsafe { shelf.adopt() });
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

/// How many stacks are trimmed each time the lock is taken.
const TRIMMED_AT_ONCE: usize = 64;

/// Gives the kernel back the memory of at most `most` free stacks, except for the page that links
/// each. Stacks in pools are not free. Returns how many stacks were trimmed.
pub fn trim(most: usize) -> usize {
    let mut done = 0;
    for index in 0..CLASSES {
        while done < most && trim_some(SizeClass::from_index(index), most - done, &mut done) {}
    }
    done
}

/// Trims some stacks of a class. Returns false when there are none.
fn trim_some(class: SizeClass, most: usize, done: &mut usize) -> bool {
    let mut taken = FreeList::new();
    let mut shelf = SHELVES[class.index()].lock();
    while taken.len < most.min(TRIMMED_AT_ONCE) {
        let Some(stack) = shelf.free.pop(class) else {
            break;
        };
        taken.push(stack);
    }
    shelf.fewest = shelf.fewest.min(shelf.free.len);
    drop(shelf);
    let mut trimmed = FreeList::new();
    *done += taken.len;
    while let Some(stack) = taken.pop(class) {
        // SAFETY: the stack is ours here. Its last page, which is kept, holds the data that
        // outlives it. Failure would only keep the memory.
        unsafe {
            libc::madvise(
                stack.base.as_ptr().cast(),
                class.size() - PAGE,
                libc::MADV_DONTNEED,
            )
        };
        trimmed.push(stack);
    }
    let is_some = trimmed.len > 0;
    let mut shelf = SHELVES[class.index()].lock();
    while let Some(stack) = trimmed.pop(class) {
        shelf.trimmed.push(stack);
    }
    is_some
}

/// How many free stacks were not used since the last call, and are not trimmed.
pub fn surplus() -> usize {
    let since_last = |shelf: &HoldLock<Shelf>| {
        let mut shelf = shelf.lock();
        let now = shelf.free.len;
        core::mem::replace(&mut shelf.fewest, now)
    };
    SHELVES.iter().map(since_last).sum()
}

/// Whether there are free stacks that are not trimmed. This is only a hint.
pub fn may_be_trimmed() -> bool {
    SHELVES.iter().any(|shelf| shelf.lock().free.len > 0)
}
