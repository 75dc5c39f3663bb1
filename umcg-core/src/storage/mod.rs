//! Thread-local storage for flows that have no kernel thread.
//!
//! A [`Block`] holds the data that glibc gives a new thread besides its stack: the thread control
//! block and the static thread-local storage. A worker that runs with the thread pointer of its own
//! block has its own `thread_local!`s, errno, malloc cache, C++ exception state and `pthread_self`,
//! whichever kernel thread carries it. So safe code may spawn it.
//!
//! ```text
//!   base          thread pointer          + size of struct pthread
//!    | static storage | struct pthread     | Header |   next block …        (x86-64)
//!    | struct pthread | static storage     | Header |   next block …        (aarch64)
//! ```
//!
//! | a block | how long |
//! |---|---|
//! | is made by glibc's `_dl_allocate_tls` in memory of ours, and gets the values that `pthread_create` would write | once |
//! | is [begun](Block::begin) by the worker, on its block | a worker |
//! | is [finished](Block::finish) by the worker: its thread-local destructors run, then the storage is as new | a worker |
//! | rests in a [`BlockPool`], or on the shared shelf | until the next worker |
//!
//! The C library's own part of the storage (malloc's cache, the locale tables, the resolver) is not
//! reset. It goes from worker to worker as it does from job to job in a pool of threads, so
//! malloc's cache is neither lost nor filled again. Values of `pthread_key_create` are destroyed as
//! at a thread's end. `pthread_self()` in a worker is an identity; do not join, cancel or signal
//! it.
//!
//! No property of glibc is taken on trust: [`available`] checks each one once, tries a block, and
//! refuses if anything is not as expected.
//!
//! # Limits
//!
//! - The kernel's state for a thread (signal mask, affinity, `gettid`) is that of the kernel thread
//!   that carries the worker: `docs/identity.md`.
//! - Workers with blocks cannot use a priority-inheriting mutex: it hands its word to the kernel,
//!   which knows no thread by the block's tid.
//! - A robust mutex is not marked when a worker ends with it locked. It stays locked, as any other
//!   mutex does.
//! - A library loaded by `dlopen` may have static storage with initial values other than zero.
//!   These values do not reach the blocks of workers that are alive then. (glibc finds the threads
//!   to update by a list of its own, under a lock of its own.) Workers begun later have them.
//! - Libraries in other link namespaces (`dlmopen`) are not reset between workers.
//! - A worker in the middle of binding a symbol lazily does not delay a `dlclose` elsewhere.
//!
//! # Not chosen
//!
//! - *`_dl_allocate_tls(NULL)`*, which takes the memory from malloc: it does not zero the room for
//!   libraries loaded later.
//! - *Freeing blocks.* glibc's clean-up of a thread's malloc cache is not exported. A kept block
//!   needs no clean-up.
//! - *Joining glibc's lists of threads*, so that `dlopen` sees blocks: their lock is not reachable.

cfg_if::cfg_if! {
    if #[cfg(all(
        target_os = "linux",
        target_env = "gnu",
        any(target_arch = "x86_64", target_arch = "aarch64"),
        not(any(umcg_asan, umcg_tsan))
    ))] {
        mod glibc;
        mod modules;
        mod probe;
    } else {
        mod none;
        use none as glibc;
    }
}

use std::fmt;
use std::ptr::{NonNull, null_mut};
use umcg_context::lock::HoldLock;

/// How many free blocks a pool keeps to itself.
const KEEP: usize = 256;
/// The first tid of blocks: above the kernel's (PID_MAX_LIMIT), and within the bits that a futex
/// word of glibc's has for a tid.
const FIRST_TID: u32 = 1 << 29;
const LAST_TID: u32 = (1 << 30) - 3;
/// How many blocks are mapped at a time.
const BLOCKS_A_SLAB: usize = 64;

/// Why there is no block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageError {
    /// Blocks cannot be made with this C library, this processor, or this environment; the reason.
    Unavailable(&'static str),
    /// The system refuses the resources to find out whether blocks can be made; the reason. It may
    /// be temporary.
    Refused(&'static str),
    /// The system has no memory left for one.
    OutOfMemory,
}

impl fmt::Display for StorageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable(why) => write!(f, "workers cannot have storage of their own: {why}"),
            Self::Refused(why) => write!(f, "no storage for a worker: {why}"),
            Self::OutOfMemory => f.write_str("out of memory for a worker's storage"),
        }
    }
}

impl std::error::Error for StorageError {}

/// Whether blocks can be made here, or why not. A thread of its own finds out, once a process. If
/// the system gives no thread or memory for that, the next call tries again. `UMCG_NO_OWN_STORAGE`
/// in the environment forbids blocks.
///
/// # Errors
/// The reason.
pub fn available() -> Result<(), &'static str> {
    match glibc::get() {
        Ok(_) => Ok(()),
        Err(StorageError::Unavailable(why) | StorageError::Refused(why)) => Err(why),
        Err(StorageError::OutOfMemory) => Err("no memory"),
    }
}

/// Whether blocks can never be made here. False also if that cannot be found out just now.
#[inline]
pub fn is_ruled_out() -> bool {
    matches!(glibc::get(), Err(StorageError::Unavailable(_)))
}

/// Bytes of memory that one block takes, without the memory that malloc's cache may hold.
pub fn bytes_a_block() -> usize {
    glibc::get().map_or(0, |glibc| glibc.stride())
}

/// Lies behind the block.
#[repr(C)]
struct Header {
    /// While it is free: the next free one.
    next: *mut Header,
    tp: usize,
    tid: u32,
    /// A worker has begun on it, and has not finished it.
    dirty: bool,
    /// Which libraries were loaded when the storage was reset. It is updated only if libraries come
    /// and go.
    stamp: Stamp,
}

/// Which libraries are loaded: how many have come and how many have gone.
type Stamp = (u64, u64);

/// A block: the exclusive right to its memory. Dropping it leaks it; [`BlockPool::give`] takes it
/// back.
#[derive(Debug)]
#[must_use]
pub struct Block(NonNull<Header>);

// SAFETY: a block is memory that it alone owns.
unsafe impl Send for Block {}

impl Block {
    /// The thread pointer to run its worker with.
    #[inline]
    pub fn thread_pointer(&self) -> usize {
        // SAFETY: the header of a block is written before the block exists, and this field never
        // again.
        unsafe { (*self.0.as_ptr()).tp }
    }

    /// The number that glibc takes for the worker's tid.
    pub fn tid(&self) -> u32 {
        // SAFETY: as above.
        unsafe { (*self.0.as_ptr()).tid }
    }

    /// Called first by a worker on its block.
    ///
    /// # Safety
    /// The thread pointer is this block's.
    #[inline]
    pub unsafe fn begin(&self) {
        // SAFETY: the header is the block's owner's to write.
        unsafe { (*self.0.as_ptr()).dirty = true };
        if let Ok(glibc) = glibc::get() {
            // SAFETY: passed on.
            unsafe { glibc.begin(self.0) };
        }
    }

    /// Called last by a worker on its block: runs the destructors of its thread-locals, and resets
    /// the storage.
    ///
    /// # Safety
    /// The thread pointer is this block's, and the worker uses no thread-local afterwards.
    #[inline]
    pub unsafe fn finish(&self) {
        if let Ok(glibc) = glibc::get() {
            // SAFETY: passed on.
            unsafe { glibc.finish(self.0) };
        }
        // SAFETY: as in `begin`.
        unsafe { (*self.0.as_ptr()).dirty = false };
    }

    /// Whether a worker has begun on it and has not finished it. Then the values of its
    /// thread-locals are still alive.
    #[inline]
    fn is_dirty(&self) -> bool {
        // SAFETY: as in `begin`.
        unsafe { (*self.0.as_ptr()).dirty }
    }

    /// The pointer from which [`Block::from_raw`] makes the block again.
    #[inline]
    pub fn into_raw(self) -> NonNull<()> {
        self.0.cast()
    }

    /// # Safety
    /// The pointer came from [`Block::into_raw`], once.
    #[inline]
    pub unsafe fn from_raw(raw: NonNull<()>) -> Block {
        Block(raw.cast())
    }
}

/// Free blocks, last in first out, for one virtual processor: without a lock as long as it is
/// neither empty nor full.
#[derive(Debug)]
pub struct BlockPool {
    head: *mut Header,
    len: usize,
}

impl Default for BlockPool {
    fn default() -> Self {
        Self::new()
    }
}

impl BlockPool {
    /// An empty pool.
    pub const fn new() -> Self {
        Self {
            head: null_mut(),
            len: 0,
        }
    }

    /// The last block given back, or one from the shared shelf, or a new one.
    ///
    /// # Errors
    /// As [`StorageError`] says. A failure leaves nothing behind.
    #[inline]
    pub fn take(&mut self) -> Result<Block, StorageError> {
        match self.pop() {
            Some(block) => Ok(block),
            None => self.take_slow(),
        }
    }

    #[cold]
    fn take_slow(&mut self) -> Result<Block, StorageError> {
        let glibc = glibc::get()?;
        glibc.ensure_threaded()?;
        let mut shelf = SHELF.lock();
        while self.len < KEEP / 2 {
            let Some(block) = shelf.free.pop() else { break };
            self.push(block);
        }
        drop(shelf);
        self.pop().map_or_else(|| make(glibc), Ok)
    }

    /// Takes a block back. If its worker has begun and not finished, because it was discarded
    /// without running its destructors, the block is never used again: pointers to its
    /// thread-locals may still exist, and their destructors have not run.
    #[inline]
    pub fn give(&mut self, block: Block) {
        if block.is_dirty() {
            return;
        }
        self.push(block);
        if self.len > KEEP {
            self.spill(KEEP / 2);
        }
    }

    #[cold]
    fn spill(&mut self, keep: usize) {
        let mut shelf = SHELF.lock();
        while self.len > keep {
            let Some(block) = self.pop() else { return };
            shelf.free.push(block);
        }
    }

    #[inline]
    fn push(&mut self, block: Block) {
        // SAFETY: the pool owns the block now.
        unsafe { (*block.0.as_ptr()).next = self.head };
        self.head = block.0.as_ptr();
        self.len += 1;
    }

    #[inline]
    fn pop(&mut self) -> Option<Block> {
        let block = Block(NonNull::new(self.head)?);
        // SAFETY: `push` wrote the link, and the block was unused since.
        self.head = unsafe { (*block.0.as_ptr()).next };
        self.len -= 1;
        Some(block)
    }
}

impl Drop for BlockPool {
    fn drop(&mut self) {
        self.spill(0);
    }
}

/// A block for a caller that has no pool.
///
/// # Errors
/// As [`BlockPool::take`].
pub(crate) fn take() -> Result<Block, StorageError> {
    let glibc = glibc::get()?;
    glibc.ensure_threaded()?;
    let free = SHELF.lock().free.pop();
    free.map_or_else(|| make(glibc), Ok)
}

/// Takes a block back from such a caller.
pub(crate) fn give(block: Block) {
    if !block.is_dirty() {
        SHELF.lock().free.push(block);
    }
}

/// The blocks that were given back, and the memory that is still uncut.
struct Shelf {
    free: BlockPool,
    uncut: *mut u8,
    uncut_blocks: usize,
    next_tid: u32,
}

// SAFETY: the shelf owns the memory that the pointers point to.
unsafe impl Send for Shelf {}

static SHELF: HoldLock<Shelf> = HoldLock::new(Shelf {
    free: BlockPool::new(),
    uncut: null_mut(),
    uncut_blocks: 0,
    next_tid: FIRST_TID,
});

#[cold]
fn make(glibc: &glibc::Glibc) -> Result<Block, StorageError> {
    let mut shelf = SHELF.lock();
    if shelf.next_tid > LAST_TID {
        return Err(StorageError::OutOfMemory);
    }
    if shelf.uncut_blocks == 0 {
        shelf.uncut = map(glibc.stride() * BLOCKS_A_SLAB)?;
        shelf.uncut_blocks = BLOCKS_A_SLAB;
    }
    let (place, tid) = (shelf.uncut, shelf.next_tid);
    shelf.uncut = place.wrapping_add(glibc.stride());
    shelf.uncut_blocks -= 1;
    shelf.next_tid += 1;
    drop(shelf);
    // SAFETY: the place is new, zero, and as large as a block.
    let header = unsafe { glibc.make(place, tid) };
    // Without memory for the dynamic linker's table, the place is lost: 4 KiB of a process that has
    // no memory left.
    NonNull::new(header)
        .map(Block)
        .ok_or(StorageError::OutOfMemory)
}

fn map(bytes: usize) -> Result<*mut u8, StorageError> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping at an address of the kernel's choice.
    let start = unsafe { libc::mmap(null_mut(), bytes, access, kind, -1, 0) };
    if start == libc::MAP_FAILED {
        Err(StorageError::OutOfMemory)
    } else {
        Ok(start.cast())
    }
}

/// Takes all locks of this module, so that a fork finds consistent data.
pub(crate) fn before_fork() {
    SHELF.take();
    glibc::before_fork();
}

/// # Safety
/// Called once after each `before_fork`, by the thread that called that.
pub(crate) unsafe fn forked() {
    // SAFETY: passed on.
    unsafe { glibc::forked() };
    // SAFETY: passed on.
    drop(unsafe { SHELF.adopt() });
}
