//! `umcg/nt.h`: C's names for `umcg::nt`.
//!
//! A handle is the address of its object. A wait that has to wait has handles of its own meanwhile,
//! so that other callers may close theirs.

use crate::answer::{answer, require};
use crate::failed;
use crate::object::store;
use crate::wait::{NO_TIMEOUT, interruptible};
use libc::{EAGAIN, EINVAL, EOVERFLOW, EOWNERDEAD, EPERM, ETIMEDOUT, c_int};
use std::mem::ManuallyDrop;
use std::num::NonZeroU32;
use std::ptr::null;
use std::time::{Duration, SystemTime};
use umcg::nt::{
    self, BorrowedHandle, Event, Handle, Mutex, NotOwner, OutOfRange, Owned, Semaphore, Timer,
    Wait, WaitError, Woken,
};
use umcg::rt::ffi;

/// C's handle of an object.
type NtObject = *const ();

/// Up to this many handles need no memory but the stack.
const FEW: usize = 8;
/// As a deadline: do not wait.
const POLL: u64 = 1;

const MOST_OF_WINDOWS: u32 = 64;
const WAIT_OBJECT: u32 = 0x00;
const WAIT_ABANDONED: u32 = 0x80;
const WAIT_IO_COMPLETION: u32 = 0xc0;
const WAIT_TIMEOUT: u32 = 0x102;
const WAIT_FAILED: u32 = u32::MAX;
const INFINITE: u32 = u32::MAX;

/// From the beginning of 1601 to that of 1970, in units of 100 ns.
const EPOCH: u64 = 11_644_473_600 * 10_000_000;

/// The handle that C has; it stays C's.
///
/// # Safety
/// `object` is null, or has a reference as long as this is used.
unsafe fn named(object: NtObject) -> Result<ManuallyDrop<Handle>, c_int> {
    require(!object.is_null(), EINVAL)?;
    // SAFETY: by the contract, and it is not dropped.
    Ok(ManuallyDrop::new(unsafe { Handle::from_raw(object) }))
}

/// Calls `f` with the object, if it is of the kind.
///
/// # Safety
/// As `named`.
unsafe fn with<K, R>(
    object: NtObject,
    kind: impl FnOnce(&Handle) -> Option<&K>,
    f: impl FnOnce(&K) -> Result<R, c_int>,
) -> Result<R, c_int> {
    // SAFETY: passed on.
    let handle = unsafe { named(object) }?;
    f(kind(&handle).ok_or(EINVAL)?)
}

/// Changes the object, and stores its value before.
///
/// # Safety
/// `object` is as for `named`, `previous` as for `store`.
unsafe fn change<K, P>(
    object: NtObject,
    kind: impl FnOnce(&Handle) -> Option<&K>,
    previous: *mut P,
    f: impl FnOnce(&K) -> Result<P, c_int>,
) -> c_int {
    // SAFETY: passed on.
    let changed = unsafe { with(object, kind, f) };
    // SAFETY: passed on.
    answer(changed.map(|before| unsafe { store(previous, before) }))
}

/// Stores two values of the object.
///
/// # Safety
/// `object` is as for `named`, the others as for `store`.
unsafe fn read<K, A, B>(
    object: NtObject,
    kind: impl FnOnce(&Handle) -> Option<&K>,
    (first, second): (*mut A, *mut B),
    f: impl FnOnce(&K) -> (A, B),
) -> c_int {
    // SAFETY: passed on.
    answer(
        unsafe { with(object, kind, |object| Ok(f(object))) }.map(|values| {
            // SAFETY: passed on.
            unsafe { store(first, values.0) };
            // SAFETY: passed on.
            unsafe { store(second, values.1) };
        }),
    )
}

fn made(handle: impl Into<Handle>) -> NtObject {
    handle.into().into_raw()
}

fn owner(owner: u32) -> Result<NonZeroU32, c_int> {
    NonZeroU32::new(owner).ok_or(EINVAL)
}

/// The arguments of a wait.
#[derive(Clone, Copy)]
struct NtWait<'a> {
    objects: &'a [BorrowedHandle<'a>],
    is_all: bool,
    alert: Option<BorrowedHandle<'a>>,
    owner: Option<NonZeroU32>,
}

impl<'a> NtWait<'a> {
    /// # Safety
    /// `objects` is null, or points to `count` objects as for `named`; `alert` is as for that.
    unsafe fn new(
        objects: *const NtObject,
        count: u32,
        is_all: c_int,
        alert: NtObject,
    ) -> Result<NtWait<'a>, c_int> {
        let objects: &[NtObject] = match count {
            0 => &[],
            _ if objects.is_null() => return Err(EINVAL),
            // SAFETY: by the contract.
            _ => unsafe { std::slice::from_raw_parts(objects, count as usize) },
        };
        require(objects.iter().all(|object| !object.is_null()), EINVAL)?;
        // SAFETY: none is null, and by the contract they are objects; a borrowed handle is laid out
        // as a pointer to one.
        let objects = unsafe { &*(std::ptr::from_ref(objects) as *const [BorrowedHandle<'a>]) };
        // SAFETY: not null, and by the contract an object.
        let alert = (!alert.is_null()).then(|| unsafe { BorrowedHandle::from_raw(alert) });
        require(alert.is_none_or(|alert| alert.is_event()), EINVAL)?;
        Ok(NtWait {
            objects,
            is_all: is_all != 0,
            alert,
            owner: None,
        })
    }

    fn wait(&self) -> Wait<'a> {
        let wait = if self.is_all {
            Wait::all(self.objects)
        } else {
            Wait::any(self.objects)
        };
        let wait = self.alert.map_or(wait, |alert| wait.alert(alert));
        self.owner.map_or(wait, |owner| wait.owner(owner))
    }

    /// The result that can be had in one step, or without waiting: none if it may have to wait.
    fn at_once(&self, deadline_ns: u64) -> Option<Result<Woken, WaitError>> {
        if deadline_ns == POLL {
            return Some(self.wait().try_wait());
        }
        let quick = match self.objects {
            // Looking is no point of cancellation, and so comes first.
            _ if ffi::is_cancelled() => *self,
            [] => return None,
            [_] => *self,
            _ if self.is_all => return None,
            [first, ..] => NtWait {
                objects: std::slice::from_ref(first),
                alert: None,
                ..*self
            },
        };
        Some(quick.wait().try_wait()).filter(|tried| *tried != Err(WaitError::TimedOut))
    }

    fn ended(&self, deadline_ns: u64) -> Result<Woken, c_int> {
        let ended = match self.at_once(deadline_ns) {
            Some(ended) => ended,
            None => self.keep(deadline_ns)?,
        };
        ended.map_err(|error| match error {
            WaitError::TimedOut => ETIMEDOUT,
            _ => EINVAL,
        })
    }

    /// Waits, with handles of its own.
    #[inline(never)]
    fn keep(&self, deadline_ns: u64) -> Result<Result<Woken, WaitError>, c_int> {
        let mut handles = self
            .objects
            .iter()
            .chain(&self.alert)
            .map(|object| object.to_handle());
        if self.objects.len() < FEW {
            let _few: [Option<Handle>; FEW] = std::array::from_fn(|_| handles.next());
            self.stop(deadline_ns)
        } else {
            let _many: Vec<Handle> = handles.collect();
            self.stop(deadline_ns)
        }
    }

    fn stop(&self, deadline_ns: u64) -> Result<Result<Woken, WaitError>, c_int> {
        let wait = self.wait();
        interruptible(|| match deadline_ns {
            NO_TIMEOUT => wait.wait(),
            at => wait.wait_deadline(ffi::instant(at)),
        })
    }

    /// The index for C, and whether the object was abandoned.
    fn index(&self, woken: Woken) -> (u32, bool) {
        // There were not more than `u32` counts.
        match woken {
            Woken::Object(index) => (index as u32, false),
            Woken::Abandoned(index) => (index as u32, true),
            Woken::Alert => (self.objects.len() as u32, false),
        }
    }
}

/// # Safety
/// As `NtWait::new`; `index` as for `store`.
unsafe fn wait(asked: Result<NtWait<'_>, c_int>, deadline_ns: u64, index: *mut u32) -> c_int {
    let ended = asked.and_then(|asked| Ok(asked.index(asked.ended(deadline_ns)?)));
    answer(ended.and_then(|(at, is_abandoned)| {
        // SAFETY: passed on.
        unsafe { store(index, at) };
        require(!is_abandoned, EOWNERDEAD)
    }))
}

/// # Safety
/// As `NtWait::new`; `index` is null, or room for a number.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_nt_wait(
    objects: *const NtObject,
    count: u32,
    all: c_int,
    alert: NtObject,
    deadline_ns: u64,
    index: *mut u32,
) -> c_int {
    // SAFETY: passed on.
    let asked = unsafe { NtWait::new(objects, count, all, alert) };
    // SAFETY: passed on.
    unsafe { wait(asked, deadline_ns, index) }
}

/// # Safety
/// As `umcg_nt_wait`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_nt_wait_as(
    by: u32,
    objects: *const NtObject,
    count: u32,
    all: c_int,
    alert: NtObject,
    deadline_ns: u64,
    index: *mut u32,
) -> c_int {
    // SAFETY: passed on.
    let asked = unsafe { NtWait::new(objects, count, all, alert) };
    let asked = asked.and_then(|asked| {
        Ok(NtWait {
            owner: Some(owner(by)?),
            ..asked
        })
    });
    // SAFETY: passed on.
    unsafe { wait(asked, deadline_ns, index) }
}

/// # Safety
/// As `NtWait::new`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_nt_wait_multiple(
    count: u32,
    objects: *const NtObject,
    all: c_int,
    milliseconds: u32,
    alert: NtObject,
) -> u32 {
    let deadline_ns = match milliseconds {
        0 => POLL,
        INFINITE => NO_TIMEOUT,
        some => ffi::after(u64::from(some) * 1_000_000),
    };
    let fits = require((1..=MOST_OF_WINDOWS).contains(&count), EINVAL);
    // SAFETY: passed on.
    let asked = fits.and_then(|()| unsafe { NtWait::new(objects, count, all, alert) });
    match asked.and_then(|asked| asked.ended(deadline_ns)) {
        Ok(Woken::Object(index)) => WAIT_OBJECT + index as u32,
        Ok(Woken::Abandoned(index)) => WAIT_ABANDONED + index as u32,
        Ok(Woken::Alert) => WAIT_IO_COMPLETION,
        Err(ETIMEDOUT) => WAIT_TIMEOUT,
        Err(errno) => failed(errno, WAIT_FAILED),
    }
}

/// # Safety
/// `object` and `alert` are as for `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_nt_wait_single(
    object: NtObject,
    milliseconds: u32,
    alert: NtObject,
) -> u32 {
    // SAFETY: passed on; one object.
    unsafe { umcg_nt_wait_multiple(1, &object, 0, milliseconds, alert) }
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_nt_dup(object: NtObject) -> NtObject {
    // SAFETY: passed on.
    unsafe { named(object) }.map_or(null(), |handle| Handle::clone(&handle).into_raw())
}

/// # Safety
/// `object` is null, or has a reference of the caller's, which ends.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_nt_close(object: NtObject) {
    // SAFETY: passed on.
    if let Ok(handle) = unsafe { named(object) } {
        drop(ManuallyDrop::into_inner(handle));
    }
}

#[unsafe(no_mangle)]
extern "C" fn umcg_nt_self() -> u32 {
    nt::owner().get()
}

#[unsafe(no_mangle)]
extern "C" fn umcg_nt_event_create(manual: c_int, signaled: c_int) -> NtObject {
    made(if manual == 0 {
        Event::auto(signaled != 0)
    } else {
        Event::manual(signaled != 0)
    })
}

/// # Safety
/// As `change`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_nt_event_set(event: NtObject, previous: *mut c_int) -> c_int {
    // SAFETY: passed on.
    unsafe {
        change(event, Handle::as_event, previous, |event| {
            Ok(event.set().into())
        })
    }
}

/// # Safety
/// As `change`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_nt_event_reset(event: NtObject, previous: *mut c_int) -> c_int {
    // SAFETY: passed on.
    unsafe {
        change(event, Handle::as_event, previous, |event| {
            Ok(event.reset().into())
        })
    }
}

/// # Safety
/// As `change`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_nt_event_pulse(event: NtObject, previous: *mut c_int) -> c_int {
    // SAFETY: passed on.
    unsafe {
        change(event, Handle::as_event, previous, |event| {
            Ok(event.pulse().into())
        })
    }
}

/// # Safety
/// As `read`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_nt_event_read(
    event: NtObject,
    signaled: *mut c_int,
    manual: *mut c_int,
) -> c_int {
    let look = |event: &Event| (event.is_set().into(), event.is_manual().into());
    // SAFETY: passed on.
    unsafe { read(event, Handle::as_event, (signaled, manual), look) }
}

#[unsafe(no_mangle)]
extern "C" fn umcg_nt_sem_create(count: u32, max: u32) -> NtObject {
    answer(
        Semaphore::new(count, max)
            .map(made)
            .map_err(|OutOfRange| EINVAL),
    )
}

/// # Safety
/// As `change`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_nt_sem_release(sem: NtObject, count: u32, previous: *mut u32) -> c_int {
    let release = |sem: &Semaphore| sem.release(count).map_err(|OutOfRange| EOVERFLOW);
    // SAFETY: passed on.
    unsafe { change(sem, Handle::as_semaphore, previous, release) }
}

/// # Safety
/// As `read`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_nt_sem_read(sem: NtObject, count: *mut u32, max: *mut u32) -> c_int {
    let look = |sem: &Semaphore| (sem.count(), sem.most());
    // SAFETY: passed on.
    unsafe { read(sem, Handle::as_semaphore, (count, max), look) }
}

#[unsafe(no_mangle)]
extern "C" fn umcg_nt_mutex_create(owned: c_int) -> NtObject {
    made(Mutex::new(owned != 0))
}

#[unsafe(no_mangle)]
extern "C" fn umcg_nt_mutex_create_as(owner: u32, depth: u32) -> NtObject {
    answer(
        Mutex::with_owner(owner, depth)
            .map(made)
            .map_err(|OutOfRange| EINVAL),
    )
}

/// # Safety
/// As `umcg_nt_mutex_unlock`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_nt_mutex_release(mutex: NtObject, previous: *mut u32) -> c_int {
    // SAFETY: passed on.
    unsafe { umcg_nt_mutex_unlock(mutex, umcg_nt_self(), previous) }
}

/// # Safety
/// As `change`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_nt_mutex_unlock(mutex: NtObject, by: u32, previous: *mut u32) -> c_int {
    let unlock = |mutex: &Mutex| mutex.unlock_as(owner(by)?).map_err(|NotOwner| EPERM);
    // SAFETY: passed on.
    unsafe { change(mutex, Handle::as_mutex, previous, unlock) }
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_nt_mutex_kill(mutex: NtObject, by: u32) -> c_int {
    let kill = |mutex: &Mutex| mutex.kill(owner(by)?).map_err(|NotOwner| EPERM);
    // SAFETY: passed on.
    answer(unsafe { with(mutex, Handle::as_mutex, kill) })
}

/// # Safety
/// `mutex` is as for `named`, the others as for `store`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_nt_mutex_read(
    mutex: NtObject,
    owner: *mut u32,
    depth: *mut u32,
) -> c_int {
    // SAFETY: passed on.
    let read = unsafe { with(mutex, Handle::as_mutex, |mutex| Ok(mutex.owned())) };
    answer(read.and_then(|owned| {
        let (by, so_often) = match owned {
            Owned::By(by, so_often) => (by.get(), so_often),
            _ => (0, 0),
        };
        // SAFETY: passed on.
        unsafe { store(owner, by) };
        // SAFETY: passed on.
        unsafe { store(depth, so_often) };
        require(owned != Owned::Abandoned, EOWNERDEAD)
    }))
}

#[unsafe(no_mangle)]
extern "C" fn umcg_nt_timer_create(manual: c_int) -> NtObject {
    made(Timer::new(manual != 0))
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_nt_timer_set(timer: NtObject, due_ns: u64, period_ns: u64) -> c_int {
    let set = |timer: &Timer| match due_ns {
        NO_TIMEOUT => Err(EINVAL),
        due => timer
            .set_nanos(due, period_ns)
            .map(drop)
            .map_err(|error| error.raw_os_error().unwrap_or(EAGAIN)),
    };
    // SAFETY: passed on.
    answer(unsafe { with(timer, Handle::as_timer, set) })
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_nt_timer_set_100ns(timer: NtObject, due: i64, period_ms: i32) -> c_int {
    let Ok(period_ms) = u64::try_from(period_ms) else {
        return answer(Err::<(), _>(EINVAL));
    };
    let from_now = if due < 0 {
        due.unsigned_abs()
    } else {
        due.unsigned_abs().saturating_sub(now())
    };
    // SAFETY: passed on.
    unsafe {
        umcg_nt_timer_set(
            timer,
            ffi::after(from_now.saturating_mul(100)),
            period_ms * 1_000_000,
        )
    }
}

/// In 100 ns since the beginning of 1601.
fn now() -> u64 {
    let since = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or(Duration::ZERO);
    EPOCH + u64::try_from(since.as_nanos() / 100).unwrap_or(0)
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_nt_timer_cancel(timer: NtObject) -> c_int {
    // SAFETY: passed on.
    answer(unsafe { with(timer, Handle::as_timer, |timer| Ok(timer.cancel())) })
}

/// # Safety
/// As `read`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_nt_timer_read(
    timer: NtObject,
    signaled: *mut c_int,
    due_ns: *mut u64,
) -> c_int {
    let look = |timer: &Timer| (timer.is_set().into(), timer.due_nanos().unwrap_or(0));
    // SAFETY: passed on.
    unsafe { read(timer, Handle::as_timer, (signaled, due_ns), look) }
}
