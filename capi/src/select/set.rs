//! Operations that are kept for many waits.

use super::{AnyOperation, BIASED, Borrowed, END, Op, WithError, workers};
use crate::answer::{answer, require};
use crate::array;
use crate::object::{boxed, store, unboxed};
use crate::wait::{NO_TIMEOUT, wait};
use libc::{EDEADLK, EINVAL, ETIMEDOUT, c_int};
use umcg::rt::Handle;
use umcg::rt::ffi;
use umcg::select::Set;

type BoxedOperation = Box<dyn WithError>;

/// `umcg_select_set_t`.
struct OpSet {
    /// Before the workers, whose ends it has.
    set: Set<BoxedOperation>,
    ops: Vec<Op>,
    workers: Vec<Option<Box<Borrowed>>>,
    /// Whether there is any of these.
    has_workers: bool,
}

impl OpSet {
    /// # Safety
    /// As `workers`; all that the operations name stays as long as the set, or until the operation
    /// is changed.
    unsafe fn new(ops: &[Op], flags: c_int) -> Result<OpSet, c_int> {
        let is_biased = match flags {
            0 => false,
            BIASED => true,
            _ => return Err(EINVAL),
        };
        // SAFETY: passed on.
        drop(unsafe { workers(ops) }?);
        // SAFETY: passed on.
        let (kept, workers): (Vec<_>, Vec<_>) = ops.iter().map(|op| unsafe { keep(op) }).unzip();
        let set = Set::new(kept);
        let has_workers = has_any(&workers);
        Ok(OpSet {
            set: if is_biased { set.biased() } else { set },
            ops: ops.to_vec(),
            workers,
            has_workers,
        })
    }

    /// # Safety
    /// As `new`.
    unsafe fn change(&mut self, index: usize, op: Op) -> Result<(), c_int> {
        if index >= self.ops.len() || self.has_worker_elsewhere(index, op) {
            return Err(EINVAL);
        }
        // SAFETY: passed on.
        drop(unsafe { workers(&[op]) }?);
        // SAFETY: passed on.
        let (kept, worker) = unsafe { keep(&op) };
        *self.set.get_mut(index) = kept;
        self.workers[index] = worker;
        self.ops[index] = op;
        self.has_workers = has_any(&self.workers);
        Ok(())
    }

    /// Whether the caller may wait: another caller may have made the set.
    fn look_for_caller(&self) -> Result<(), c_int> {
        if !self.has_workers {
            return Ok(());
        }
        let me = Handle::current();
        let mut workers = self.workers.iter().flatten();
        require(workers.all(|worker| worker.handle() != me), EDEADLK)
    }

    fn has_worker_elsewhere(&self, index: usize, op: Op) -> bool {
        let is_same =
            |other: &Op| op.kind == END && (other.kind, other.object) == (op.kind, op.object);
        self.ops
            .iter()
            .enumerate()
            .any(|(at, other)| at != index && is_same(other))
    }

    fn wait(&mut self, deadline_ns: u64) -> Result<usize, c_int> {
        // Looking is no point of cancellation, and so comes first.
        let at_once = if ffi::is_cancelled() {
            self.set.try_wait()
        } else {
            None
        };
        if let Some(index) = at_once {
            return Ok(index);
        }
        wait(deadline_ns, |deadline| match deadline {
            None => Ok(self.set.wait()),
            Some(at) => self.set.wait_deadline(at).ok_or(ETIMEDOUT),
        })
    }
}

fn has_any(workers: &[Option<Box<Borrowed>>]) -> bool {
    workers.iter().any(Option::is_some)
}

/// An operation in memory of its own, and the worker whose end it is.
///
/// # Safety
/// As `OpSet::new`; `workers` has looked at the operation.
unsafe fn keep(op: &Op) -> (BoxedOperation, Option<Box<Borrowed>>) {
    // SAFETY: passed on.
    let mut worker = unsafe { workers(std::slice::from_ref(op)) }
        .ok()
        .and_then(|mut workers| workers.pop())
        .map(Box::new);
    let end = worker.as_deref_mut().map(std::ptr::from_mut);
    // SAFETY: it lives as long as the operation, by the order in which `OpSet` drops and changes
    // them, and no other thread uses it.
    let mut ends = end.map(|end| unsafe { &mut *end }).into_iter();
    // SAFETY: passed on.
    let wait = unsafe { AnyOperation::new(Some(op), ffi::instant(u64::MAX), &mut ends) };
    let kept: BoxedOperation = match wait {
        AnyOperation::Semaphore(operation) => Box::new(operation),
        AnyOperation::Time(operation) => Box::new(operation),
        AnyOperation::Message(operation) => Box::new(operation),
        AnyOperation::Ready(operation) => Box::new(operation),
        AnyOperation::Lock(operation) => Box::new(operation),
        AnyOperation::Event(operation) => Box::new(operation),
        AnyOperation::End(operation) => operation,
    };
    (kept, worker)
}

/// The set that C named.
///
/// # Safety
/// `set` is null, or came from `umcg_select_set_create`, and no other thread uses it.
unsafe fn named<'a>(set: *mut OpSet) -> Result<&'a mut OpSet, c_int> {
    // SAFETY: by the contract.
    unsafe { set.as_mut() }.ok_or(EINVAL)
}

/// # Safety
/// As `named`; `error` is null, or room for a number.
unsafe fn waited(
    set: *mut OpSet,
    error: *mut c_int,
    wait: impl FnOnce(&mut OpSet) -> Result<usize, c_int>,
) -> c_int {
    // SAFETY: passed on.
    let done = unsafe { named(set) }.and_then(|set| {
        set.look_for_caller()?;
        let index = wait(set)?;
        Ok((index, set.set.get_mut(index).error()))
    });
    answer(done.map(|(index, code)| {
        // SAFETY: by the contract.
        unsafe { store(error, code) };
        index
    }))
}

/// # Safety
/// `ops` is null, or points to `n` operations; their objects are valid as for `OpSet::new`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_select_set_create(ops: *const Op, n: c_int, flags: c_int) -> *mut OpSet {
    // SAFETY: passed on.
    let set = unsafe { array(ops, n) }.and_then(|ops| unsafe { OpSet::new(ops, flags) });
    boxed(set)
}

/// # Safety
/// `set` is null, or came from `umcg_select_set_create` and is not used any more.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_select_set_destroy(set: *mut OpSet) {
    // SAFETY: passed on.
    unsafe { unboxed(set) };
}

/// # Safety
/// As `named`; `op` is null, or an operation as for `OpSet::new`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_select_set_change(set: *mut OpSet, index: c_int, op: *const Op) -> c_int {
    // SAFETY: passed on.
    let set = unsafe { named(set) };
    // SAFETY: by the contract.
    let op = unsafe { op.as_ref() }.ok_or(EINVAL);
    answer(set.and_then(|set| {
        let index = usize::try_from(index).map_err(|_| EINVAL)?;
        // SAFETY: passed on.
        unsafe { set.change(index, *op?) }
    }))
}

/// # Safety
/// As `waited`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_select_set_wait(set: *mut OpSet, error: *mut c_int) -> c_int {
    // SAFETY: passed on.
    unsafe { umcg_select_set_wait_until(set, NO_TIMEOUT, error) }
}

/// # Safety
/// As `waited`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_select_set_wait_until(
    set: *mut OpSet,
    deadline_ns: u64,
    error: *mut c_int,
) -> c_int {
    // SAFETY: passed on.
    unsafe { waited(set, error, |set| set.wait(deadline_ns)) }
}

/// # Safety
/// As `waited`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_select_set_try_wait(set: *mut OpSet, error: *mut c_int) -> c_int {
    // SAFETY: passed on.
    unsafe { waited(set, error, |set| set.set.try_wait().ok_or(libc::EAGAIN)) }
}
