//! Blocks by glibc. On x86-64 the thread control block lies at the thread pointer and the static
//! storage below it; on aarch64 the control block ends at the thread pointer and the static storage
//! is above it.
//!
//! The values written into a block, and the failure without each:
//!
//! | place | value | otherwise |
//! |---|---|---|
//! | `header.tcb`, `.self` (x86-64) | the block | `pthread_self` and each access to a thread-local would fail |
//! | `header.multiple_threads` | 1 | older versions would leave locks out |
//! | `header.stack_guard`, `.pointer_guard` (x86-64) | the caller's | functions that span a switch would abort; `longjmp` would go astray |
//! | `tid` | one of its own | recursive and error-checking mutexes would take all workers for one |
//! | `list` | itself | a fork by a worker takes the block out of the list of threads that it is not in |
//! | `specific[0]` | `specific_1stblock` | values of thread keys |
//! | `robust_head.list` | itself, which is the empty list | a robust mutex would be linked to null |
//! | `rseq.cpu_id` | "uninitialized" | `sched_getcpu` would say 0: the kernel writes to the kernel thread's area, never to this |
//! | `__resp` | a resolver state of its own | all workers would share that of the first thread |
//!
//! glibc tells the places of these to libthread_db (`_thread_db_*`), the kernel
//! (`get_robust_list`), or the program (`__rseq_offset`).

use super::modules::{self, ResetPlan, Scratch};
use super::probe::{self, ProbeError};
use super::{Header, StorageError};
use crate::arch::control_block;
use crate::base::granted::Granted;
use crate::identity::threaded;
use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};
use umcg_context::lock::HoldLock;

/// How often destructors of keys may create new values (PTHREAD_DESTRUCTOR_ITERATIONS).
const ROUNDS: usize = 4;
const KEYS_A_LEVEL: usize = 32;

/// The tids of the block that the probe tries, and of the scratch block of surveys. Both may be in
/// use at once, so there are two.
pub(super) const PROBE_TID: u32 = super::LAST_TID + 1;
const SCRATCH_TID: u32 = super::LAST_TID + 2;

type Allocate = unsafe extern "C" fn(*mut c_void) -> *mut c_void;
type Deallocate = unsafe extern "C" fn(*mut c_void, bool);
type Procedure = unsafe extern "C" fn();
type Destructor = unsafe extern "C" fn(*mut c_void);

/// A key, as `struct pthread_key_struct`. The sequence number is odd while it is in use.
#[repr(C)]
pub(super) struct PthreadKey {
    pub(super) sequence: usize,
    pub(super) destructor: Option<Destructor>,
}

/// A thread's value of a key, as `struct pthread_key_data`.
#[repr(C)]
pub(super) struct PthreadKeyData {
    pub(super) sequence: usize,
    pub(super) data: *mut c_void,
}

/// The data from the symbols; the same for all threads.
#[derive(Clone, Debug)]
pub(super) struct Symbols {
    pub(super) allocate: Allocate,
    pub(super) deallocate: Deallocate,
    pub(super) call_tls_dtors: Procedure,
    pub(super) ctype_init: Procedure,
    pub(super) keys: *const PthreadKey,
    /// Bytes of `struct pthread`.
    pub(super) tcb: usize,
    /// Bytes and alignment of the static storage. On x86-64 with `struct pthread`.
    pub(super) storage: usize,
    pub(super) align: usize,
    /// Offsets in `struct pthread`.
    pub(super) tid: usize,
    pub(super) list: usize,
    pub(super) specific: usize,
    /// The offset from the thread pointer; none if this glibc knows no rseq.
    pub(super) rseq: Option<isize>,
    /// The address of the probing thread's `__resp`; its place from the thread pointer is the same
    /// in all threads.
    pub(super) resp: isize,
    /// Addresses in the two libraries.
    pub(super) libc: usize,
    pub(super) linker: usize,
}

/// The further data that a thread made by `pthread_create` shows.
#[derive(Clone, Debug)]
pub(super) struct PthreadLayout {
    pub(super) shared: [usize; control_block::SHARED.len()],
    /// Offsets in `struct pthread`.
    pub(super) first_values: usize,
    pub(super) robust: usize,
    pub(super) resolver: usize,
    /// `robust_head.futex_offset`
    pub(super) futex_offset: usize,
}

// SAFETY: addresses of functions and of a table that lives for ever.
unsafe impl Send for Symbols {}
// SAFETY: as above.
unsafe impl Sync for Symbols {}

/// How blocks are made here.
#[derive(Debug)]
pub(super) struct Glibc {
    pub(super) symbols: Symbols,
    pub(super) thread: PthreadLayout,
    pub(super) plan: ResetPlan,
}

/// How blocks are made here, or why they can never be made. A temporary reason is not remembered.
static GLIBC: Granted<Result<Glibc, &'static str>> = Granted::new();

/// How blocks are made here, or why none are.
#[inline]
pub(super) fn get() -> Result<&'static Glibc, StorageError> {
    match GLIBC.get_or_ask(find_out) {
        Ok(Ok(glibc)) => Ok(glibc),
        Ok(Err(never)) => Err(StorageError::Unavailable(never)),
        Err(why) => Err(StorageError::Refused(why)),
    }
}

#[cold]
fn find_out() -> Result<Result<Glibc, &'static str>, &'static str> {
    match probe::look() {
        Ok(glibc) => Ok(Ok(glibc)),
        Err(ProbeError::Never(why)) => Ok(Err(why)),
        Err(ProbeError::NotNow(why)) => Err(why),
    }
}

pub(super) fn at<T>(address: usize) -> *mut T {
    std::ptr::with_exposed_provenance_mut(address)
}

/// # Safety
/// The address is aligned for a T, and ours to write.
pub(super) unsafe fn put<T>(address: usize, value: T) {
    // SAFETY: passed on.
    unsafe { at::<T>(address).write_volatile(value) };
}

/// # Safety
/// The address is aligned for a T, and readable.
pub(super) unsafe fn get_at<T: Copy>(address: usize) -> T {
    // SAFETY: passed on.
    unsafe { at::<T>(address).read_volatile() }
}

impl Symbols {
    fn alignment(&self) -> usize {
        self.align.max(64)
    }

    /// The distance from the beginning of a block to its thread pointer.
    fn below(&self) -> usize {
        let bytes = if control_block::BELOW {
            self.tcb
        } else {
            self.storage - self.tcb
        };
        bytes.next_multiple_of(self.alignment())
    }

    /// The distance from the thread pointer to the end of the block.
    fn above(&self) -> usize {
        let bytes = if control_block::BELOW {
            self.storage
        } else {
            self.tcb
        };
        bytes.next_multiple_of(align_of::<Header>())
    }

    /// The `struct pthread` of this thread pointer.
    pub(super) fn control(&self, tp: usize) -> usize {
        if control_block::BELOW {
            tp - self.tcb
        } else {
            tp
        }
    }

    /// Whether so many bytes at this distance from the thread pointer are within a block.
    pub(super) fn holds(&self, offset: isize, bytes: usize) -> bool {
        let (start, end) = if control_block::BELOW {
            (self.tcb, self.storage)
        } else {
            (self.storage - self.tcb, self.tcb)
        };
        offset >= -(start as isize) && offset + bytes as isize <= end as isize
    }

    pub(super) fn stride(&self) -> usize {
        (self.below() + self.above() + size_of::<Header>()).next_multiple_of(self.alignment())
    }

    /// Makes glibc set up the storage in this place, and returns its thread pointer. None without
    /// memory.
    ///
    /// # Safety
    /// The place is zero, has as many bytes as the stride, and is aligned to a page or follows such
    /// a place.
    pub(super) unsafe fn allocate_in(&self, place: *mut u8) -> Option<usize> {
        let tp = place.wrapping_add(self.below());
        // SAFETY: the static storage below, and the control block at it, are zero and ours.
        let made = unsafe { (self.allocate)(tp.cast()) };
        (!made.is_null()).then(|| tp.expose_provenance())
    }

    /// Writes the further values that `pthread_create` would write.
    ///
    /// # Safety
    /// `tp` came from `allocate_in`, and no flow runs with it yet.
    pub(super) unsafe fn furnish(&self, thread: &PthreadLayout, tp: usize, tid: u32) {
        let control = self.control(tp);
        let (robust, list) = (control + thread.robust, control + self.list);
        let words = [
            (list, list),
            (list + 8, list),
            (control + self.specific, control + thread.first_values),
            (robust - 8, robust),
            (robust, robust),
            (robust + 8, thread.futex_offset),
            (tp.wrapping_add_signed(self.resp), control + thread.resolver),
        ];
        let selves = control_block::SELVES
            .iter()
            .map(|offset| (control + offset, tp));
        let shared = control_block::SHARED
            .iter()
            .zip(thread.shared)
            .map(|(offset, value)| (control + offset, value));
        for (address, value) in words.into_iter().chain(selves).chain(shared) {
            // SAFETY: a word of the block: the probe compared each place with the size of the
            // block.
            unsafe { put(address, value) };
        }
        // SAFETY: as above, half a word.
        unsafe { put(control + control_block::MULTIPLE_THREADS, 1u32) };
        // SAFETY: as above.
        unsafe { put(control + self.tid, tid) };
        if let Some(rseq) = self.rseq {
            // SAFETY: as above. The second half-word is `cpu_id`, and -1 is
            // RSEQ_CPU_ID_UNINITIALIZED.
            unsafe { put(tp.wrapping_add_signed(rseq) + 4, u32::MAX) };
        }
    }
}

impl Glibc {
    /// Bytes from one block to the next.
    pub(super) fn stride(&self) -> usize {
        self.symbols.stride()
    }

    /// Makes sure that glibc takes its locks. This is repeated because a forked child has one
    /// thread again.
    pub(super) fn ensure_threaded(&self) -> Result<(), StorageError> {
        if threaded::ensure() {
            Ok(())
        } else {
            Err(StorageError::OutOfMemory)
        }
    }

    /// Makes a block; null without memory.
    ///
    /// # Safety
    /// As `Symbols::allocate_in`.
    pub(super) unsafe fn make(&self, place: *mut u8, tid: u32) -> *mut Header {
        // SAFETY: passed on.
        let Some(tp) = (unsafe { self.symbols.allocate_in(place) }) else {
            return null_mut();
        };
        // SAFETY: made just now.
        unsafe { self.symbols.furnish(&self.thread, tp, tid) };
        let header = at::<Header>(tp + self.symbols.above());
        // SAFETY: behind the storage, within the stride.
        unsafe {
            header.write(Header {
                next: null_mut(),
                tp,
                tid,
                dirty: false,
                stamp: (0, 0),
            })
        };
        header
    }

    /// # Safety
    /// The thread pointer is that of the block.
    #[inline]
    pub(super) unsafe fn begin(&self, header: NonNull<Header>) {
        // SAFETY: passed on.
        unsafe { self.plan.catch_up(header, self) };
        // SAFETY: sets this storage's tables of character classes, as `setlocale` may have been
        // called since.
        unsafe { (self.symbols.ctype_init)() };
    }

    /// # Safety
    /// The thread pointer is that of the block, and its worker uses no thread-local afterwards.
    #[inline]
    pub(super) unsafe fn finish(&self, header: NonNull<Header>) {
        // SAFETY: passed on.
        let control = self.symbols.control(unsafe { (*header.as_ptr()).tp });
        for _ in 0..ROUNDS {
            // SAFETY: as at the end of a thread.
            unsafe { (self.symbols.call_tls_dtors)() };
            // SAFETY: passed on.
            if !unsafe { self.destroy_values(control) } {
                break;
            }
        }
        // SAFETY: as above. Nothing may be left that refers to storage that is about to be reset.
        unsafe { (self.symbols.call_tls_dtors)() };
        // SAFETY: passed on.
        unsafe { self.plan.reset(header, self) };
        // SAFETY: the value for the global locale.
        unsafe { libc::uselocale(std::ptr::without_provenance_mut(usize::MAX)) };
        let robust = control + self.thread.robust;
        // SAFETY: the block's list of robust mutexes: the next worker's is empty.
        unsafe { put(robust, robust) };
        // SAFETY: no precondition.
        let errno = unsafe { libc::__errno_location() };
        // SAFETY: this storage's.
        unsafe { errno.write(0) };
    }

    /// Calls the destructors of key values. Returns whether there were any.
    ///
    /// # Safety
    /// As `finish`.
    #[inline]
    unsafe fn destroy_values(&self, control: usize) -> bool {
        // SAFETY: passed on.
        let mut some = unsafe { self.destroy_level(control + self.thread.first_values, 0) };
        for level in 1..KEYS_A_LEVEL {
            // SAFETY: the table of levels; the first is always the one in the control block.
            let values: usize = unsafe { get_at(control + self.symbols.specific + level * 8) };
            if values != 0 {
                // SAFETY: passed on.
                some |= unsafe { self.destroy_level(values, level * KEYS_A_LEVEL) };
            }
        }
        some
    }

    /// # Safety
    /// `values` is the block's level of values that begins with this key.
    #[inline]
    unsafe fn destroy_level(&self, values: usize, first_key: usize) -> bool {
        // SAFETY: passed on.
        let level: &mut [PthreadKeyData; KEYS_A_LEVEL] = unsafe { &mut *at(values) };
        let none = level.iter().fold(0, |any, value| any | value.data.addr()) == 0;
        !none && self.destroy_some(at(values), first_key)
    }

    #[cold]
    fn destroy_some(&self, level: *mut PthreadKeyData, first_key: usize) -> bool {
        let mut some = false;
        for index in 0..KEYS_A_LEVEL {
            let place = level.wrapping_add(index);
            // SAFETY: one of the values of the level. This is no reference, because destructors may
            // set values.
            let PthreadKeyData { sequence, data } = unsafe { place.read() };
            if data.is_null() {
                continue;
            }
            // SAFETY: as above.
            unsafe { (*place).data = null_mut() };
            // SAFETY: glibc's table of all keys.
            let key = unsafe {
                self.symbols
                    .keys
                    .wrapping_add(first_key + index)
                    .read_volatile()
            };
            if let (Some(destructor), true) = (key.destructor, key.sequence == sequence) {
                some = true;
                // SAFETY: the key is in use, and this is its value.
                unsafe { destructor(data) };
            }
        }
        some
    }
}

/// The place of the scratch block, once it was needed.
static SCRATCH: HoldLock<Option<usize>> = HoldLock::new(None);

impl Scratch for Glibc {
    fn get(&self) -> Option<usize> {
        let mut place = SCRATCH.lock();
        if place.is_none() {
            *place = super::map(self.stride())
                .ok()
                .map(|start| start.expose_provenance());
        }
        // SAFETY: the place was zero, or was given back.
        let tp = unsafe { self.symbols.allocate_in(at((*place)?)) }?;
        // SAFETY: fresh.
        unsafe { self.symbols.furnish(&self.thread, tp, SCRATCH_TID) };
        Some(tp)
    }

    fn put(&self) {
        if let Some(place) = *SCRATCH.lock() {
            // SAFETY: `get` had it allocated. `false` keeps the memory.
            unsafe { (self.symbols.deallocate)(at(place + self.symbols.below()), false) };
        }
    }
}

pub(super) fn before_fork() {
    modules::before_fork();
    SCRATCH.take();
}

/// # Safety
/// Called once after each `before_fork`, by the thread that called that.
pub(super) unsafe fn forked() {
    // SAFETY: passed on.
    drop(unsafe { SCRATCH.adopt() });
    // SAFETY: passed on.
    unsafe { modules::forked() };
}
