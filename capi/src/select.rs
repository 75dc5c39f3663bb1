//! `umcg/select.h`: C's arrays as operations of `umcg::select`.

mod set;

use crate::answer::{Errno, answer, require};
use crate::object::named;
use crate::rt::{Pointer, Worker, named_worker};
use crate::tube;
use crate::wait::{NO_TIMEOUT, wait};
use libc::{EINVAL, ESHUTDOWN, ETIMEDOUT};
use std::ffi::{c_int, c_void};
use std::mem::ManuallyDrop;
use std::os::fd::{BorrowedFd, RawFd};
use std::time::Instant;
use umcg::JoinHandle;
use umcg::io::Readiness;
use umcg::rt::Ending;
use umcg::rt::ffi;
use umcg::select::{Operation, Select, Selectable, Timer, at};
use umcg::sync::ffi::{Locking, locking};
use umcg::sync::{Acquiring, Event, Object, RawMutex, Semaphore, Waiting};
use umcg::tube::ffi::{Selected, Tube};

/// Up to this many operations need no memory but the stack, unless one is the end of a worker.
const FEW: usize = 8;

const BIASED: c_int = 1;
/// `UMCG_OP_END`.
const END: c_int = 3;

/// `umcg_op_t`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Op {
    kind: c_int,
    error: c_int,
    object: *mut c_void,
    value: u64,
}

const _: () =
    assert!(size_of::<Op>() == 2 * size_of::<c_int>() + size_of::<usize>() + size_of::<u64>());

impl Op {
    /// As something that `wait_any` and `wait_all` take.
    ///
    /// # Safety
    /// As `Named::by`.
    pub(crate) unsafe fn object<'a>(&self) -> Result<&'a dyn Object, c_int> {
        // SAFETY: passed on.
        match unsafe { Named::by(self) }? {
            Named::Semaphore(semaphore) => Ok(semaphore),
            Named::Mutex(mutex) => Ok(mutex),
            Named::Event(event) => Ok(event),
            _ => Err(EINVAL),
        }
    }

    /// # Safety
    /// The object is null or a tube, and the value the address of a message, or of a place for one.
    unsafe fn tube<'a>(&self) -> Result<(&'a Tube, *mut u8), c_int> {
        let message = std::ptr::with_exposed_provenance_mut::<c_void>(self.value as usize);
        // SAFETY: by the contract.
        unsafe { tube::with_message(self.object.cast(), message) }
    }

    /// # Safety
    /// The value is a descriptor. If it is not open, the operation reports that.
    unsafe fn fd<'a>(&self) -> Result<BorrowedFd<'a>, c_int> {
        // In C an int, which is widened with its sign.
        let fd = RawFd::try_from(self.value as i64)
            .ok()
            .filter(|fd| *fd >= 0)
            .ok_or(EINVAL)?;
        // SAFETY: not -1; otherwise by the contract.
        Ok(unsafe { BorrowedFd::borrow_raw(fd) })
    }
}

/// The object of an operation, checked.
#[derive(Clone, Copy)]
enum Named<'a> {
    Nothing,
    Semaphore(&'a Semaphore),
    Time(u64),
    Worker(*mut Worker),
    Readable(BorrowedFd<'a>),
    Writable(BorrowedFd<'a>),
    Send(&'a Tube, *mut u8),
    Receive(&'a Tube, *mut u8),
    Mutex(&'a RawMutex),
    Event(&'a Event),
}

impl Named<'_> {
    /// # Safety
    /// The object is null, or as the kind requires.
    unsafe fn by(op: &Op) -> Result<Self, c_int> {
        match op.kind {
            0 => Ok(Named::Nothing),
            // SAFETY: by the contract.
            1 => unsafe { named(op.object.cast()) }.map(Named::Semaphore),
            2 => Ok(Named::Time(op.value)),
            END => Ok(Named::Worker(op.object.cast())),
            // SAFETY: by the contract.
            4 => unsafe { op.tube() }.map(|(tube, message)| Named::Send(tube, message)),
            // SAFETY: by the contract.
            5 => unsafe { op.tube() }.map(|(tube, message)| Named::Receive(tube, message)),
            // SAFETY: by the contract.
            6 => unsafe { named(op.object.cast()) }.map(Named::Mutex),
            // SAFETY: by the contract.
            7 => unsafe { named(op.object.cast()) }.map(Named::Event),
            // SAFETY: by the contract.
            8 => unsafe { op.fd() }.map(Named::Readable),
            // SAFETY: by the contract.
            9 => unsafe { op.fd() }.map(Named::Writable),
            _ => Err(EINVAL),
        }
    }
}

/// The right to a worker's end, which stays with C.
type Borrowed = ManuallyDrop<JoinHandle<Pointer>>;

/// The workers among the operations, each once: an end has room for one that waits for it.
///
/// # Safety
/// As `Named::by`; each worker is neither joined nor detached.
unsafe fn workers(ops: &[Op]) -> Result<Vec<Borrowed>, c_int> {
    let mut seen = Vec::new();
    let mut workers = Vec::new();
    for op in ops {
        // SAFETY: passed on.
        if let Named::Worker(worker) = unsafe { Named::by(op) }? {
            // SAFETY: passed on.
            workers.push(unsafe { named_worker(worker) }?);
            seen.push(worker);
        }
    }
    seen.sort_unstable();
    require(seen.windows(2).all(|pair| pair[0] != pair[1]), EINVAL)?;
    Ok(workers)
}

enum AnyOperation<'a> {
    Semaphore(Acquiring<'a>),
    Time(Timer),
    Message(Selected<'a>),
    Ready(Readiness<'a>),
    Lock(Locking<'a>),
    Event(Waiting<'a>),
    /// In memory of its own, as it is large.
    End(Box<Ending<'a>>),
}

impl<'a> AnyOperation<'a> {
    /// # Safety
    /// As `workers`, which gave `ends`.
    unsafe fn new(
        op: Option<&Op>,
        never: Instant,
        ends: &mut impl Iterator<Item = &'a mut Borrowed>,
    ) -> AnyOperation<'a> {
        // SAFETY: passed on.
        match op.map(|op| unsafe { Named::by(op) }) {
            Some(Ok(Named::Semaphore(semaphore))) => AnyOperation::Semaphore(semaphore.acquiring()),
            Some(Ok(Named::Time(NO_TIMEOUT))) => AnyOperation::Time(at(never)),
            Some(Ok(Named::Time(time))) => AnyOperation::Time(at(ffi::instant(time))),
            Some(Ok(Named::Send(tube, message))) => {
                // SAFETY: by the contract of `Named::by`.
                AnyOperation::Message(unsafe { tube.sending(message) })
            }
            Some(Ok(Named::Receive(tube, message))) => {
                // SAFETY: likewise.
                AnyOperation::Message(unsafe { tube.receiving(message) })
            }
            Some(Ok(Named::Mutex(mutex))) => AnyOperation::Lock(locking(mutex)),
            Some(Ok(Named::Event(event))) => AnyOperation::Event(event.waiting()),
            Some(Ok(Named::Readable(fd))) => AnyOperation::Ready(Readiness::to_read(fd)),
            Some(Ok(Named::Writable(fd))) => AnyOperation::Ready(Readiness::to_write(fd)),
            Some(Ok(Named::Worker(_))) => {
                let worker = ends
                    .next()
                    .unwrap_or_else(|| unreachable!("`workers` found as many"));
                AnyOperation::End(Box::new(worker.ending()))
            }
            Some(Ok(Named::Nothing) | Err(_)) | None => AnyOperation::Time(at(never)),
        }
    }

    fn operation(&mut self) -> &mut (dyn WithError + 'a) {
        match self {
            AnyOperation::Semaphore(operation) => operation,
            AnyOperation::Time(operation) => operation,
            AnyOperation::Message(operation) => operation,
            AnyOperation::Ready(operation) => operation,
            AnyOperation::Lock(operation) => operation,
            AnyOperation::Event(operation) => operation,
            AnyOperation::End(operation) => &mut **operation,
        }
    }
}

/// The result that C gets for a completed operation.
trait WithError: Selectable {
    fn error(&mut self) -> c_int;
}

impl WithError for Acquiring<'_> {
    fn error(&mut self) -> c_int {
        self.outcome().map_or(ESHUTDOWN, |()| 0)
    }
}

impl WithError for Selected<'_> {
    fn error(&mut self) -> c_int {
        self.outcome().map_or(ESHUTDOWN, |()| 0)
    }
}

impl WithError for Readiness<'_> {
    fn error(&mut self) -> c_int {
        self.outcome().map_or_else(Errno::errno, |()| 0)
    }
}

macro_rules! without_error {
    ($($operation:ty),*) => {
        $(impl WithError for $operation {
            fn error(&mut self) -> c_int {
                0
            }
        })*
    };
}

without_error!(Timer, Locking<'_>, Waiting<'_>, Ending<'_>);

/// The index of the operation that can be done at once, or that can be done first; and its result.
fn first<'o>(
    how: Select,
    operations: &mut [&mut (dyn WithError + 'o)],
    deadline_ns: u64,
) -> Result<(usize, c_int), c_int> {
    let index = match how.try_each(operations) {
        Some(index) => index,
        None => wait(deadline_ns, |deadline| match deadline {
            None => Ok(how.wait(operations)),
            Some(at) => how.wait_deadline(operations, at).ok_or(ETIMEDOUT),
        })?,
    };
    Ok((index, operations[index].error()))
}

/// The index of the completed operation, and its result.
///
/// # Safety
/// As `workers`.
unsafe fn select(ops: &[Op], flags: c_int, deadline_ns: u64) -> Result<(usize, c_int), c_int> {
    let how = match flags {
        0 => Select::new(),
        BIASED => Select::new().biased(),
        _ => return Err(EINVAL),
    };
    // SAFETY: passed on.
    let mut workers = unsafe { workers(ops) }?;
    let mut ends = workers.iter_mut();
    let never = ffi::instant(u64::MAX);
    if ops.len() <= FEW {
        // SAFETY: passed on.
        let mut waits: [AnyOperation<'_>; FEW] = std::array::from_fn(|index| unsafe {
            AnyOperation::new(ops.get(index), never, &mut ends)
        });
        let mut operations = waits.each_mut().map(AnyOperation::operation);
        first(how, &mut operations[..ops.len()], deadline_ns)
    } else {
        // SAFETY: passed on.
        let mut waits: Vec<_> = ops
            .iter()
            .map(|op| unsafe { AnyOperation::new(Some(op), never, &mut ends) })
            .collect();
        let mut operations: Vec<_> = waits.iter_mut().map(AnyOperation::operation).collect();
        first(how, &mut operations, deadline_ns)
    }
}

/// # Safety
/// `ops` is null, or points to `n` operations; each object is null, or as its kind requires, and
/// stays so until the call returns.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_select(ops: *mut Op, n: c_int, flags: c_int, deadline_ns: u64) -> c_int {
    let len = usize::try_from(n).unwrap_or(0);
    let is_array = require(!ops.is_null() && len > 0, EINVAL);
    answer(is_array.and_then(|()| {
        // SAFETY: by the contract.
        let ops = unsafe { std::slice::from_raw_parts_mut(ops, len) };
        // SAFETY: passed on.
        let (index, error) = unsafe { select(ops, flags, deadline_ns) }?;
        ops[index].error = error;
        Ok(index)
    }))
}
