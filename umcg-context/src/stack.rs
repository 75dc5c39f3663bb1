//! Stacks, cut from slabs.
//!
//! ```text
//!   slab:   header page | guard | stack 0 | guard | stack 1 | …        one mapping, never unmapped
//!   stack:  guard (one page) | base … usable … top | colour | next guard
//! ```
//!
//! - A slab costs one mapping however many stacks it holds, because the guards are markers in the page table (`MADV_GUARD_INSTALL`,
//!   Linux 6.13), not mappings. Without them a guard is a page made inaccessible, which costs two mappings; the number of stacks is then
//!   bounded so that half of `vm.max_map_count` stays free for the rest of the program.
//! - Slabs stay mapped for the life of the process. What is written at the top of a stack can therefore be read at any later
//!   time: descriptors there are type-stable, and a signal handler may walk the list of slabs.
//! - Tops are *coloured*: moved down by one of 8 multiples of 192 bytes. Otherwise the hot lines of all stacks would have the same
//!   address within their page and share a 64th of the cache's sets.

use crate::lock::HoldLock;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicUsize, Ordering::*};

const PAGE: usize = 4096;
const SLAB_BYTES: usize = 4 << 20;
const MIN_STACKS_A_SLAB: usize = 4;
const COLOURS: usize = 8;
const COLOUR_STEP: usize = 192;
const MADV_GUARD_INSTALL: libc::c_int = 102;

/// The smallest stack that [`Class::for_size`] gives, in bytes.
pub const MIN_SIZE: usize = 8 << 10;
/// The largest stack that [`Class::for_size`] gives, in bytes.
pub const MAX_SIZE: usize = 1 << 30;
/// How many classes there are.
pub const CLASSES: usize = (MAX_SIZE / MIN_SIZE).trailing_zeros() as usize + 1;

/// A size class: stacks of [`MIN_SIZE`] times a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class(u8);

impl Class {
    /// The smallest class whose stacks have at least `size` bytes; none above [`MAX_SIZE`].
    pub const fn for_size(size: usize) -> Option<Class> {
        if size > MAX_SIZE {
            return None;
        }
        let size = if size < MIN_SIZE { MIN_SIZE } else { size.next_power_of_two() };
        Some(Class((size / MIN_SIZE).trailing_zeros() as u8))
    }

    /// Bytes of a stack of this class, colour included and guard excluded.
    pub const fn size(self) -> usize {
        MIN_SIZE << self.0
    }

    /// The class of an index below [`CLASSES`].
    pub const fn from_index(index: usize) -> Class {
        assert!(index < CLASSES);
        Class(index as u8)
    }

    /// The class as an index below [`CLASSES`].
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    const fn stride(self) -> usize {
        self.size() + PAGE
    }

    const fn stacks_a_slab(self) -> usize {
        let n = (SLAB_BYTES - PAGE) / self.stride();
        if n < MIN_STACKS_A_SLAB { MIN_STACKS_A_SLAB } else { n }
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
    /// This kernel has no guard markers, and further guards would use up `vm.max_map_count`.
    TooManyMappings,
}

impl core::fmt::Display for StackError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            StackError::OutOfMemory => "no memory for a stack",
            StackError::TooLarge => "a stack may have at most 1 GiB",
            StackError::PageSize => "the kernel's pages are not of 4 KiB",
            StackError::TooManyMappings => "more guarded stacks than vm.max_map_count allows (Linux 6.13 removes this bound)",
        })
    }
}

impl core::error::Error for StackError {}

/// A stack: the exclusive right to its memory. Dropping it leaks it; [`release`] or a pool takes it back.
#[derive(Debug)]
#[must_use]
pub struct Stack {
    base: NonNull<u8>,
    class: Class,
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
    pub fn class(&self) -> Class {
        self.class
    }

    /// The parts that [`Stack::from_parts`] puts together again.
    #[inline]
    pub fn into_parts(self) -> (NonNull<u8>, Class) {
        (self.base, self.class)
    }

    /// # Safety
    /// The parts came from [`Stack::into_parts`], once.
    #[inline]
    pub unsafe fn from_parts(base: NonNull<u8>, class: Class) -> Stack {
        Stack { base, class }
    }
}

/// The most bytes that were ever in use on the stack at `base`, to a page: those whose pages have been touched since the stack was new.
pub fn high_water(base: *mut u8, class: Class) -> usize {
    let mut pages = [0u8; 64];
    let size = class.size();
    let mut at = 0;
    while at < size {
        let part = (size - at).min(pages.len() * PAGE);
        // SAFETY: the kernel checks the range, and `pages` has a byte for each of its pages.
        let failed = unsafe { libc::mincore(base.wrapping_add(at).cast(), part, pages.as_mut_ptr()) } != 0;
        if let (false, Some(first)) = (failed, pages[..part / PAGE].iter().position(|page| page & 1 == 1)) {
            return size - at - first * PAGE;
        }
        at += part;
    }
    0
}

/// The address just above the stack at `base`, colour taken off.
#[inline]
pub fn top_of(base: *mut u8, class: Class) -> *mut u8 {
    // The page number changes by a stride from one stack to the next, and so spreads the colours.
    let page = base as usize / PAGE;
    let colour = (page ^ (page >> 3)) % COLOURS * COLOUR_STEP;
    base.wrapping_add(class.size() - colour)
}

#[repr(C)]
struct Slab {
    next: *mut Slab,
    class: Class,
    stacks: usize,
}

impl Slab {
    fn first_guard(&self) -> usize {
        self as *const Slab as usize + PAGE
    }
}

/// All slabs, newest first; only ever grows.
static SLABS: AtomicPtr<Slab> = AtomicPtr::new(null_mut());

/// What has been handed back and what is still uncut, a class.
struct Shelf {
    free: FreeList,
    uncut: *mut u8,
    uncut_stacks: usize,
}

// SAFETY: the pointers are to memory that the shelf owns.
unsafe impl Send for Shelf {}

static SHELVES: [HoldLock<Shelf>; CLASSES] =
    [const { HoldLock::new(Shelf { free: FreeList::new(), uncut: null_mut(), uncut_stacks: 0 }) }; CLASSES];

/// Free stacks of one class, last in first out, linked through the word at their tops.
#[derive(Debug)]
pub(crate) struct FreeList {
    head: *mut u8,
    len: usize,
}

impl FreeList {
    pub(crate) const fn new() -> Self {
        Self { head: null_mut(), len: 0 }
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
    pub(crate) fn pop(&mut self, class: Class) -> Option<Stack> {
        let stack = Stack { base: NonNull::new(self.head)?, class };
        // SAFETY: `push` wrote the link, and the stack was nobody's since.
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
/// As [`StackError`] says; nothing is left behind.
pub fn allocate(class: Class) -> Result<Stack, StackError> {
    let mut shelf = SHELVES[class.index()].lock();
    if let Some(stack) = shelf.free.pop(class) {
        return Ok(stack);
    }
    if shelf.uncut_stacks == 0 {
        shelf.uncut = map_slab(class)?;
        shelf.uncut_stacks = class.stacks_a_slab();
    }
    install_guard(shelf.uncut)?;
    let base = shelf.uncut.wrapping_add(PAGE);
    shelf.uncut = shelf.uncut.wrapping_add(class.stride());
    shelf.uncut_stacks -= 1;
    drop(shelf);
    crate::annotate::stack_allocated(base as usize, base as usize + class.size());
    NonNull::new(base).map(|base| Stack { base, class }).ok_or(StackError::OutOfMemory)
}

/// Takes a stack back for any thread to use.
pub fn release(stack: Stack) {
    SHELVES[stack.class.index()].lock().free.push(stack);
}

/// Like [`release`], and gives the kernel back the memory of the stack.
pub fn release_memory(stack: Stack) {
    // SAFETY: the stack's own memory, and nobody uses it any more. Failure would only keep the memory.
    unsafe { libc::madvise(stack.base.as_ptr().cast(), stack.class.size(), libc::MADV_DONTNEED) };
    release(stack);
}

/// Moves stacks between a thread's own list and the shared one, under one lock.
pub(crate) fn exchange(class: Class, own: &mut FreeList, wanted: usize) {
    let mut shelf = SHELVES[class.index()].lock();
    while own.len > wanted {
        let Some(stack) = own.pop(class) else { return };
        shelf.free.push(stack);
    }
    while own.len < wanted {
        let Some(stack) = shelf.free.pop(class) else { return };
        own.push(stack);
    }
}

fn map_slab(class: Class) -> Result<*mut u8, StackError> {
    // SAFETY: no precondition.
    if unsafe { libc::sysconf(libc::_SC_PAGESIZE) } != PAGE as libc::c_long {
        return Err(StackError::PageSize);
    }
    let stacks = class.stacks_a_slab();
    let bytes = PAGE + stacks * class.stride();
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_STACK;
    // SAFETY: a new mapping at an address of the kernel's choice.
    let start = unsafe { libc::mmap(null_mut(), bytes, access, kind, -1, 0) };
    if start == libc::MAP_FAILED {
        return Err(StackError::OutOfMemory);
    }
    // A huge page would make one touched stack cost as much as 30 of them. Failure (no such feature) is fine.
    // SAFETY: advice on our own mapping.
    unsafe { libc::madvise(start, bytes, libc::MADV_NOHUGEPAGE) };
    let slab = start.cast::<Slab>();
    // SAFETY: the first page is ours and writable.
    unsafe { slab.write(Slab { next: null_mut(), class, stacks }) };
    let mut head = SLABS.load(Relaxed);
    loop {
        // SAFETY: not published yet, so nobody else reads it.
        unsafe { (*slab).next = head };
        // ORDERING(slabs.1): Release, pairs with slabs.2: who finds the slab sees its header.
        match SLABS.compare_exchange_weak(head, slab, Release, Relaxed) {
            Ok(_) => return Ok(start.cast::<u8>().wrapping_add(PAGE)),
            Err(now) => head = now,
        }
    }
}

/// How guards are made here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum GuardKind {
    /// Not tried yet.
    Unknown,
    /// Markers in the page table: no mapping, no bound.
    Marker,
    /// Pages without access: two mappings a stack.
    Protection,
}

static GUARD_KIND: AtomicU8 = AtomicU8::new(GuardKind::Unknown as u8);
/// How many more guards may be made by protection.
static PROTECTIONS_LEFT: AtomicUsize = AtomicUsize::new(0);

/// How the guards of the stacks so far were made. `UMCG_NO_GUARD_INSTALL` in the environment forbids markers.
pub fn guard_kind() -> GuardKind {
    match GUARD_KIND.load(Relaxed) {
        1 => GuardKind::Marker,
        2 => GuardKind::Protection,
        _ => GuardKind::Unknown,
    }
}

fn install_guard(page: *mut u8) -> Result<(), StackError> {
    if guard_kind() != GuardKind::Protection {
        // SAFETY: getenv reads the environment; the guard page is ours and holds nothing.
        let forbidden =
            guard_kind() == GuardKind::Unknown && unsafe { !libc::getenv(c"UMCG_NO_GUARD_INSTALL".as_ptr()).is_null() };
        // SAFETY: as above.
        if !forbidden && unsafe { libc::madvise(page.cast(), PAGE, MADV_GUARD_INSTALL) } == 0 {
            GUARD_KIND.store(GuardKind::Marker as u8, Relaxed);
            return Ok(());
        }
        if guard_kind() == GuardKind::Marker {
            return Err(StackError::OutOfMemory);
        }
        PROTECTIONS_LEFT.store(max_map_count() / 4, Relaxed);
        GUARD_KIND.store(GuardKind::Protection as u8, Relaxed);
    }
    if PROTECTIONS_LEFT.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_err() {
        return Err(StackError::TooManyMappings);
    }
    // SAFETY: as above.
    if unsafe { libc::mprotect(page.cast(), PAGE, libc::PROT_NONE) } != 0 {
        return Err(StackError::TooManyMappings);
    }
    Ok(())
}

/// `vm.max_map_count`, or the kernel's default where it cannot be read.
fn max_map_count() -> usize {
    const DEFAULT: usize = 65_530;
    let mut text = [0u8; 24];
    // SAFETY: a constant path.
    let fd = unsafe { libc::open(c"/proc/sys/vm/max_map_count".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    if fd < 0 {
        return DEFAULT;
    }
    // SAFETY: the buffer has room for what is asked for.
    let read = unsafe { libc::read(fd, text.as_mut_ptr().cast(), text.len()) };
    // SAFETY: our own descriptor, closed once.
    unsafe { libc::close(fd) };
    let digits = text.iter().take(read.max(0) as usize).take_while(|byte| byte.is_ascii_digit());
    match digits.fold(0usize, |n, byte| n * 10 + usize::from(byte - b'0')) {
        0 => DEFAULT,
        n => n,
    }
}

/// Takes all locks of this module, so that a fork finds them in order.
pub fn before_fork() {
    for shelf in &SHELVES {
        shelf.take();
    }
}

/// Frees them again.
///
/// # Safety
/// Called once after each [`before_fork`], in the parent and in the child, by the thread that called that.
pub unsafe fn forked() {
    for shelf in &SHELVES {
        // SAFETY: passed on.
        drop(unsafe { shelf.adopt() });
    }
}

/// Which stack an address belongs to, and whether it is in that stack's guard. Safe in a signal handler.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The lowest usable address of the stack.
    pub base: *mut u8,
    /// Its class.
    pub class: Class,
    /// The address lies in the guard below the stack.
    pub in_guard: bool,
}

/// Finds the stack that `address` belongs to. Safe in a signal handler; takes time in proportion to the number of slabs.
pub fn find(address: usize) -> Option<Place> {
    // ORDERING(slabs.2): Acquire, pairs with slabs.1.
    let mut at = SLABS.load(Acquire);
    // SAFETY: slabs are never unmapped and their headers never change once published.
    while let Some(slab) = unsafe { at.as_ref() } {
        let stride = slab.class.stride();
        let offset = address.wrapping_sub(slab.first_guard());
        if offset < slab.stacks * stride {
            let guard = slab.first_guard() + offset / stride * stride;
            return Some(Place { base: (guard + PAGE) as *mut u8, class: slab.class, in_guard: offset % stride < PAGE });
        }
        at = slab.next;
    }
    None
}

/// Calls `f` with the top of each place for a stack that there is; one that was never in use holds zeros there.
pub fn each(f: &mut dyn FnMut(*mut u8)) {
    // ORDERING(slabs.2): as in `find`.
    let mut at = SLABS.load(Acquire);
    // SAFETY: as in `find`.
    while let Some(slab) = unsafe { at.as_ref() } {
        for index in 0..slab.stacks {
            let base = slab.first_guard() + index * slab.class.stride() + PAGE;
            f(top_of(base as *mut u8, slab.class));
        }
        at = slab.next;
    }
}

/// Gives the kernel back the memory of all free stacks but the page that links them. Returns how many stacks that was.
pub fn trim() -> usize {
    let mut trimmed = 0;
    for (index, shelf) in SHELVES.iter().enumerate() {
        let shelf = shelf.lock();
        let mut at = shelf.free.head;
        let class = Class::from_index(index);
        while let Some(base) = NonNull::new(at) {
            let stack = Stack { base, class };
            // SAFETY: the stack is free and the lock held; the link in its last page is kept.
            unsafe { libc::madvise(base.as_ptr().cast(), class.size() - PAGE, libc::MADV_DONTNEED) };
            // SAFETY: written by `push`.
            at = unsafe { link_of(&stack).read() };
            trimmed += 1;
        }
    }
    trimmed
}
