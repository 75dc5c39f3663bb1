//! Underlying threads: the operations of UthLib, on any number of virtual processors.
//!
//! A *uth* is a context with an entry function and a stack, and no scheduler: the program says
//! which uth runs next ([`switch_to`]). A *virtual processor* is a kernel thread that runs uths
//! ([`vp_init`]). A uth may continue on another one each time. Source: P. Hadjidoukas, "UthLib: a
//! portable thread package core", whose six proposed optimisations are all here: constant-time
//! self-identification (one thread-local word), recycling without a mutex (a pool a processor), a
//! driver that gets its descriptor as its argument, and an assembly switch, beside the paper's two
//! portable ones.
//!
//! A caller that switches to a uth must know that it is suspended. A running, finished or deleted
//! uth is noticed and refused. If another virtual processor is just about to run the uth, that
//! cannot be noticed at this speed; the caller must rule it out.

mod dispatch;
mod driver;
mod error;
mod failure;
pub(crate) mod fork;
pub(crate) mod inspect;
pub(crate) mod method;
pub(crate) mod overflow;
pub(crate) mod record;
pub(crate) mod vp;

pub use error::UthError;
pub(crate) use failure::{bounded, caught, die};
pub use method::Method;
pub use record::NAME_BYTES;

use crate::os::thread_end::{self, Room};
use driver::driver;
use record::{UthRecord, state};
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering::*};
use umcg_context::annotate::Flow;
use umcg_context::local::Hold;
use umcg_context::stack::{self, SizeClass, StackError};
use vp::Vp;

/// The function of a uth. When it returns, the uth is finished and its virtual processor's own flow
/// continues.
pub type EntryFn = extern "C-unwind" fn(*mut c_void);

/// The default stack size of uths, in bytes.
pub const DEFAULT_STACK_SIZE: usize = 64 << 10;
/// The stack size when `vp_init` had to call [`init`] itself, in bytes (the paper's figure).
const IMPLICIT_STACK_SIZE: usize = 128 << 10;

/// How the stacks of deleted uths are recycled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Recycle {
    /// Their memory goes back to the kernel.
    Off,
    /// Any virtual processor may use them next.
    Global,
    /// The virtual processor that deleted them uses them next; far more than that are shared.
    PerVp,
}

/// The paper's compile-time options, at run time.
#[derive(Clone, Copy, Debug)]
pub struct UthOptions {
    /// Bytes of stack; rounded up to a power of two of at least [`stack::MIN_SIZE`].
    pub stack_size: usize,
    /// How the stacks of deleted uths are recycled.
    pub recycle: Recycle,
    /// How virtual processors switch, unless told otherwise by [`vp_init_with`].
    pub method: Method,
}

impl Default for UthOptions {
    fn default() -> Self {
        Self {
            stack_size: DEFAULT_STACK_SIZE,
            recycle: Recycle::PerVp,
            method: Method::Asm,
        }
    }
}

static INITIALISED: AtomicBool = AtomicBool::new(false);
static STACK_SIZE: AtomicUsize = AtomicUsize::new(DEFAULT_STACK_SIZE);
static RECYCLE: AtomicU8 = AtomicU8::new(Recycle::PerVp as u8);
static METHOD: AtomicU8 = AtomicU8::new(Method::Asm as u8);

/// Sets the options. Called at most once, before the first virtual processor; a thread that becomes
/// one earlier sets the defaults with 128 KiB stacks.
///
/// # Errors
/// [`UthError::AlreadyInitialised`]; [`UthError::Stack`] for an impossible stack size;
/// [`UthError::MethodMissing`].
pub fn init(options: UthOptions) -> Result<(), UthError> {
    let class = SizeClass::for_size(options.stack_size).ok_or(StackError::TooLarge)?;
    options.method.check()?;
    if INITIALISED.swap(true, Relaxed) {
        return Err(UthError::AlreadyInitialised);
    }
    STACK_SIZE.store(class.size(), Relaxed);
    RECYCLE.store(options.recycle as u8, Relaxed);
    METHOD.store(options.method as u8, Relaxed);
    Ok(())
}

fn default_class() -> SizeClass {
    const DEFAULT: SizeClass = SizeClass::for_size(DEFAULT_STACK_SIZE).unwrap();
    // A size that `init` has checked.
    SizeClass::for_size(STACK_SIZE.load(Relaxed)).unwrap_or(DEFAULT)
}

/// Makes the calling kernel thread the virtual processor of this rank, or of the lowest free one.
/// Returns the rank.
///
/// # Errors
/// [`UthError::AlreadyVp`], [`UthError::RankTaken`], [`UthError::OutOfMemory`].
pub fn vp_init(rank: Option<u32>) -> Result<u32, UthError> {
    vp_init_with(rank, Method::from_u8(METHOD.load(Relaxed)))
}

/// Like [`vp_init`], for a virtual processor that switches by `method`. It can run the uths of that
/// method only.
///
/// # Errors
/// As [`vp_init`]; [`UthError::MethodMissing`].
pub fn vp_init_with(rank: Option<u32>, method: Method) -> Result<u32, UthError> {
    method.check()?;
    if !INITIALISED.load(Relaxed) {
        // A lost race is fine: another thread has initialised the library then.
        let _ = init(UthOptions {
            stack_size: IMPLICIT_STACK_SIZE,
            ..UthOptions::default()
        });
    }
    if Vp::here().is_some() {
        return Err(UthError::AlreadyVp);
    }
    if !thread_end::watch(Room::Uth, thread_ended) || fork::install().is_err() {
        return Err(UthError::OutOfMemory);
    }
    let vp = Vp::init(rank, method, dispatch::prepare_native)?;
    overflow::install();
    overflow::ensure_signal_stack();
    Ok(vp.rank())
}

/// Makes the calling kernel thread a plain thread again. Its end does the same.
///
/// # Errors
/// [`UthError::NoVp`]; [`UthError::NotCurrent`] when called by a uth.
pub fn vp_exit() -> Result<(), UthError> {
    Vp::exit(dispatch::release_native)
}

/// The rank of the virtual processor that the caller runs on.
///
/// # Errors
/// [`UthError::NoVp`].
pub fn vpid() -> Result<u32, UthError> {
    Vp::here().map(Vp::rank).ok_or(UthError::NoVp)
}

/// A uth: a name for it, not the right to it. Any copy may outlive the uth. Using such a copy gives
/// an error, or reaches the uth that lives in the same place by then.
#[derive(Clone, Copy)]
pub struct Uth(pub(crate) &'static UthRecord);

impl PartialEq for Uth {
    fn eq(&self, other: &Uth) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for Uth {}

impl std::fmt::Debug for Uth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Uth({:p}, {:?})", self.0, self.name())
    }
}

impl Uth {
    /// The argument of its function.
    pub fn arg(self) -> *mut c_void {
        self.0.arg.load(Relaxed)
    }

    /// Changes the argument; returns the one before. A function that has begun keeps its argument.
    pub fn set_arg(self, arg: *mut c_void) -> *mut c_void {
        self.0.arg.swap(arg, Relaxed)
    }

    /// Its name; empty if it has none.
    pub fn name(self) -> String {
        let (bytes, len) = self.0.name();
        String::from_utf8_lossy(&bytes[..len]).into_owned()
    }

    /// Gives it a name, cut to [`NAME_BYTES`] bytes. Messages about the uth carry it.
    pub fn set_name(self, name: &str) {
        self.0.set_name(name);
    }

    /// The most bytes of stack it has used, to a page; none for a kernel thread's own flow.
    pub fn stack_high_water(self) -> Option<usize> {
        let place = stack::find(self.0.stack_base() as usize)?;
        Some(stack::high_water(place.base, place.class))
    }

    /// The address that identifies it, as C sees it.
    pub fn as_ptr(self) -> *mut c_void {
        (self.0 as *const UthRecord).cast_mut().cast()
    }

    /// The uth that [`Uth::as_ptr`] gave; none for null.
    ///
    /// # Safety
    /// `pointer` is null or came from [`Uth::as_ptr`].
    #[inline]
    pub unsafe fn from_ptr(pointer: *mut c_void) -> Option<Uth> {
        // SAFETY: records are never unmapped.
        unsafe { pointer.cast::<UthRecord>().as_ref() }.map(Uth)
    }
}

/// How to make a uth.
#[derive(Clone, Copy, Debug, Default)]
pub struct UthAttr<'a> {
    /// Bytes of stack; 0 for the size given to [`init`].
    pub stack_size: usize,
    /// Its name; may be empty.
    pub name: &'a str,
}

/// Makes a uth that will call `entry(arg)` when it is first switched to. It is made for the switch
/// method of the caller's virtual processor.
///
/// # Errors
/// [`UthError::NoVp`]; [`UthError::Stack`] when there is no memory for the stack.
#[inline]
pub fn create(entry: EntryFn, arg: *mut c_void) -> Result<Uth, UthError> {
    let _hold = Hold::begin(); // otherwise preemption would leave us with another thread's pool
    let vp = Vp::here().ok_or(UthError::NoVp)?;
    let record = make(Some(vp), default_class(), vp.method())?;
    record.vp.store((vp as *const Vp).cast_mut(), Relaxed);
    record.set_entry(entry, arg);
    // SAFETY: the record is new.
    unsafe { start_driver(record, driver) };
    Ok(Uth(record))
}

/// Like [`create`], with a stack size and a name of its own.
///
/// # Errors
/// As [`create`].
pub fn create_with(attr: &UthAttr<'_>, entry: EntryFn, arg: *mut c_void) -> Result<Uth, UthError> {
    let _hold = Hold::begin(); // as in `create`
    let vp = Vp::here().ok_or(UthError::NoVp)?;
    let record = make(Some(vp), class_for(attr.stack_size)?, vp.method())?;
    record.set_name(attr.name);
    record.set_entry(entry, arg);
    // SAFETY: the record is new.
    unsafe { start_driver(record, driver) };
    Ok(Uth(record))
}

/// The class for so many bytes; 0 for the size given to `init`.
pub(crate) fn class_for(stack_size: usize) -> Result<SizeClass, UthError> {
    match stack_size {
        0 => Ok(default_class()),
        size => Ok(SizeClass::for_size(size).ok_or(StackError::TooLarge)?),
    }
}

/// A record on a stack of its own, not yet able to run.
#[inline]
pub(crate) fn make(
    vp: Option<&Vp>,
    class: SizeClass,
    method: Method,
) -> Result<&'static UthRecord, UthError> {
    let stack = match (vp, RECYCLE.load(Relaxed)) {
        (Some(vp), r) if r == Recycle::PerVp as u8 => vp.take_stack(class)?,
        _ => stack::allocate(class)?,
    };
    let record = UthRecord::place(stack, method);
    dispatch::prepare_record(record);
    Ok(record)
}

/// Makes `record` ready to run `driver(record)`.
///
/// # Safety
/// Nothing runs on its stack.
#[inline]
pub(crate) unsafe fn start_driver(record: &'static UthRecord, driver: umcg_context::EntryFn) {
    // SAFETY: passed on.
    unsafe { dispatch::prepare(record, driver) };
    record
        .state
        // handing the uth on synchronises
        .store(state::READY + record.method.load(Relaxed), Relaxed);
    // SAFETY: null or a processor's descriptor, which is never freed.
    if let Some(vp) = unsafe { record.vp.load(Relaxed).as_ref() } {
        record.belongs_to(vp);
    }
}

/// Makes a uth ready to run another function from its beginning, on the stack it has.
///
/// # Errors
/// [`UthError::Running`], [`UthError::Deleted`], [`UthError::Native`], [`UthError::Worker`].
///
/// # Safety
/// The uth is not about to run elsewhere. Values that its frames own are leaked: the frames are not
/// unwound.
#[inline]
pub unsafe fn reinit(uth: Uth, entry: EntryFn, arg: *mut c_void) -> Result<(), UthError> {
    check_idle(uth.0)?;
    uth.0.set_entry(entry, arg);
    // SAFETY: it is not running, and the caller rules out that it begins to.
    unsafe { start_driver(uth.0, driver) };
    Ok(())
}

/// Ends a uth that does not run, and recycles its stack.
///
/// # Errors
/// [`UthError::Running`], [`UthError::Deleted`], [`UthError::Native`], [`UthError::Worker`].
///
/// # Safety
/// As [`reinit`].
#[inline]
pub unsafe fn delete(uth: Uth) -> Result<(), UthError> {
    check_idle(uth.0)?;
    let _hold = Hold::begin(); // as in `create`
    // SAFETY: as `reinit`.
    unsafe { discard(Vp::here(), uth.0) };
    Ok(())
}

/// Marks a record deleted and recycles its stack.
///
/// # Safety
/// Nothing runs on its stack, now or later.
#[inline]
pub(crate) unsafe fn discard(vp: Option<&Vp>, record: &UthRecord) {
    record.retire(state::DELETED);
    // SAFETY: passed on. No other thread has it.
    unsafe { &mut *record.flow.get() }.end();
    // SAFETY: passed on. By its state, a record is deleted once.
    let Some(stack) = (unsafe { record.take_stack() }) else {
        return;
    };
    match (vp, RECYCLE.load(Relaxed)) {
        (Some(vp), r) if r == Recycle::PerVp as u8 => vp.give_stack(stack),
        (_, r) if r == Recycle::Off as u8 => stack::release_memory(stack),
        _ => stack::release(stack),
    }
}

#[inline]
fn check_idle(record: &UthRecord) -> Result<(), UthError> {
    match record.state.load(Relaxed) {
        state::DELETED => Err(UthError::Deleted),
        state::WORKER => Err(UthError::Worker),
        _ if record.is_native() => Err(UthError::Native),
        _ if record.is_running() => Err(UthError::Running),
        _ => Ok(()),
    }
}

/// The calling uth; none without a virtual processor.
#[inline]
pub fn current() -> Option<Uth> {
    let _hold = Hold::begin();
    // SAFETY: `current` is null or a record, which is readable for ever.
    unsafe { Vp::here()?.current.load(Relaxed).as_ref() }.map(Uth)
}

/// The uth that runs on the virtual processor of this rank just now; none if there is no such
/// processor.
#[inline]
pub fn current_on(rank: u32) -> Option<Uth> {
    // SAFETY: as `current`.
    unsafe { Vp::of_rank(rank)?.current.load(Relaxed).as_ref() }.map(Uth)
}

/// Saves the caller, which must be `old`, and continues `new`. Returns when some flow switches to
/// `old`, perhaps on another virtual processor. Without `old` the caller is not saved, and the call
/// returns only with an error.
///
/// # Errors
/// [`UthError::NoVp`], [`UthError::NotCurrent`]; [`UthError::Running`] (also for `new` = `old`),
/// [`UthError::Finished`], [`UthError::Discarded`], [`UthError::Deleted`],
/// [`UthError::MethodMismatch`], [`UthError::Native`] for a `new` that cannot run here;
/// [`UthError::Worker`] when either is a light worker's.
///
/// # Safety
/// `old` does not run on another virtual processor just now. With debug assertions that is
/// [`UthError::NotCurrent`]; without, it is not noticed, as the check would make each switch 5 %
/// slower. No other virtual processor switches to `new` at the same time. The caller holds no
/// reference into thread-local storage across the call if the uth may continue on another virtual
/// processor. Without `old`, values that the caller's frames own are leaked.
#[inline]
pub unsafe fn switch_to(old: Option<Uth>, new: Uth) -> Result<(), UthError> {
    let Some(old) = old else {
        // SAFETY: passed on.
        return unsafe { switch_checked(None, new) };
    };
    // The running uth tells the processor, and four comparisons find all errors. Each failed
    // comparison branches to the slow path by itself, which keeps the fast path straight.
    let vp = old.0.short_way.load(Relaxed);
    // SAFETY: null or a processor's descriptor, which is never freed.
    let Some(here) = (unsafe { vp.as_ref() }) else {
        // SAFETY: passed on.
        return unsafe { switch_checked(Some(old), new) };
    };
    if !std::ptr::eq(new.0.short_way.load(Relaxed), vp)
        || !std::ptr::eq(here.current.load(Relaxed), old.0)
        || std::ptr::eq(old.0, new.0)
        || (cfg!(debug_assertions) && !Vp::here().is_some_and(|vp| std::ptr::eq(vp, here)))
    {
        // SAFETY: passed on.
        return unsafe { switch_checked(Some(old), new) };
    }
    here.current
        .store((new.0 as *const UthRecord).cast_mut(), Relaxed);
    // SAFETY: `new` is suspended, as was just checked and the caller vouches for; `old` is the
    // caller, so its context is its own.
    unsafe { Flow::leave(old.0.flow.get(), new.0.flow.get()) };
    // SAFETY: as above.
    unsafe { umcg_context::switch(old.0.context.get(), new.0.context.get()) };
    // SAFETY: back on the stack of `old`.
    unsafe { Flow::arrive(old.0.flow.get()) };
    Ok(())
}

/// Like [`switch_to`], on the virtual processor of this rank, which must be the caller's.
///
/// # Errors
/// As [`switch_to`].
///
/// # Safety
/// As [`switch_to`], and `rank` is that of the caller's virtual processor.
pub unsafe fn switch_to_on(rank: u32, old: Option<Uth>, new: Uth) -> Result<(), UthError> {
    // SAFETY: passed on.
    unsafe { switch_on(Vp::of_rank(rank), old, new) }
}

/// The slow path, on the caller's virtual processor.
///
/// # Safety
/// As [`switch_to`].
#[cold]
#[inline(never)]
unsafe fn switch_checked(old: Option<Uth>, new: Uth) -> Result<(), UthError> {
    // SAFETY: passed on.
    unsafe { switch_on(Vp::here(), old, new) }
}

/// A switch that does not take the fast path: the first on a processor, one by a portable method,
/// or a wrong one.
///
/// # Safety
/// As [`switch_to`]; `vp` is the caller's.
unsafe fn switch_on(vp: Option<&'static Vp>, old: Option<Uth>, new: Uth) -> Result<(), UthError> {
    let vp = vp.ok_or(UthError::NoVp)?;
    let Some(old) = old else {
        // SAFETY: passed on.
        return Err(unsafe { abandon(vp, new) });
    };
    check_switch(vp, old.0, new.0)?;
    vp.current
        .store((new.0 as *const UthRecord).cast_mut(), Relaxed);
    // SAFETY: `new` is suspended, as was just checked and the caller vouches for; `old` is the
    // caller, so its context is its own.
    unsafe { dispatch::switch(vp.ready.load(Relaxed), old.0, new.0) };
    Ok(())
}

/// Continues `new` without saving the caller. Returns only if that fails.
///
/// # Safety
/// As [`switch_to`]; `vp` is the caller's.
#[cold]
unsafe fn abandon(vp: &'static Vp, new: Uth) -> UthError {
    // SAFETY: `current` is set while a processor exists.
    let caller = unsafe { &*vp.current.load(Relaxed) };
    if let Err(error) = check_switch(vp, caller, new.0) {
        return error;
    }
    caller.retire(state::DISCARDED);
    vp.current
        .store((new.0 as *const UthRecord).cast_mut(), Relaxed);
    // SAFETY: `new` is suspended, as was checked and the caller vouches for.
    unsafe { dispatch::resume(caller, new.0) }
}

/// Whether `vp` can switch from `old` to `new`. If so, notes `new` as its own.
#[cold]
fn check_switch(vp: &'static Vp, old: &UthRecord, new: &UthRecord) -> Result<(), UthError> {
    if !std::ptr::eq(vp.current.load(Relaxed), old) {
        return Err(UthError::NotCurrent);
    }
    let state = new.state.load(Relaxed);
    match state {
        state::DELETED => return Err(UthError::Deleted),
        state::FINISHED => return Err(UthError::Finished),
        state::DISCARDED => return Err(UthError::Discarded),
        state::WORKER => return Err(UthError::Worker),
        _ if old.state.load(Relaxed) == state::WORKER => return Err(UthError::Worker),
        _ if new.is_running() => return Err(UthError::Running),
        _ if new.is_native() && !std::ptr::eq(new, &vp.native) => return Err(UthError::Native),
        _ if state != vp.ready.load(Relaxed) => return Err(UthError::MethodMismatch),
        _ => {}
    }
    new.belongs_to(vp);
    Ok(())
}

/// Calls `f` on the stack of a suspended uth, as if the uth had called it where it was suspended: a
/// backtrace that `f` takes shows what the uth is doing.
///
/// # Errors
/// As [`switch_to`].
///
/// # Safety
/// As [`switch_to`]; `f` does not switch.
pub unsafe fn inspect(uth: Uth, f: &mut dyn FnMut()) -> Result<(), UthError> {
    let vp = Vp::here().ok_or(UthError::NoVp)?;
    match uth.0.state.load(Relaxed) {
        state::DELETED => return Err(UthError::Deleted),
        state::FINISHED => return Err(UthError::Finished),
        state::DISCARDED => return Err(UthError::Discarded),
        state::WORKER => return Err(UthError::Worker),
        _ if uth.0.is_running() => return Err(UthError::Running),
        _ if uth.0.method.load(Relaxed) != Method::Asm as u8 => {
            return Err(UthError::MethodMismatch);
        }
        _ => {}
    }
    // SAFETY: `current` is set while a processor exists.
    let me = unsafe { &*vp.current.load(Relaxed) };
    // SAFETY: passed on.
    unsafe { inspect::inspect((me.flow.get(), uth.0.flow.get()), uth.0.context.get(), f) };
    Ok(())
}

/// Called when the calling thread ends.
pub(crate) fn thread_ended() {
    if let (Err(UthError::NotCurrent), Some(uth)) = (Vp::exit(dispatch::release_native), current())
    {
        die(uth.0, "ended its virtual processor's kernel thread");
    }
}
