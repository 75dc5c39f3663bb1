//! `umcg/tube.h`: C's names for `umcg::tube`, with messages of a size in place of a type.
//!
//! A call first does what needs no waiting. Only if it has to wait is it a point of cancellation;
//! the unwinding is caught here (`ffi::interruptible`).

use crate::rt::{NO_TIMEOUT, status, value};
use crate::{array, misused};
use libc::{EAGAIN, ECANCELED, EINVAL, ENOMEM, ESHUTDOWN, ETIMEDOUT, c_int, c_ulong, ssize_t};
use std::ffi::c_void;
use std::ptr::null_mut;
use umcg::rt::ffi::{self, Cancelled};
use umcg::select::{Operation, Select};
use umcg::tube::ffi::{NoPlace, NotSent, Selected, TransferError, Tube};

/// Up to this many operations of `talt` need no memory but the stack.
const FEW: usize = 8;
/// The most that a tube has room for.
const MOST: usize = (1 << 28) - 1;

/// `Talt`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Talt {
    tube: *const Tube,
    message: *mut c_void,
    op: c_int,
}

const _: () = assert!(size_of::<Talt>() == 3 * size_of::<usize>());

/// Which way, and whether to wait for it.
const SEND: c_int = 1;
const RECEIVE: c_int = 2;
const NBSEND: c_int = 3;
const NBRECEIVE: c_int = 4;

/// The tube that C named.
///
/// # Safety
/// `tube` is null, or came from `umcg_tube_create` and is not freed as long as the caller uses it.
unsafe fn named<'a>(tube: *const Tube) -> Result<&'a Tube, c_int> {
    // SAFETY: by the contract.
    unsafe { tube.as_ref() }.ok_or(EINVAL)
}

/// The same, and the address of its messages, which may be null if they have no bytes.
///
/// # Safety
/// As `named`.
pub(crate) unsafe fn with_message<'a>(
    tube: *const Tube,
    message: *mut c_void,
) -> Result<(&'a Tube, *mut u8), c_int> {
    // SAFETY: passed on.
    let tube = unsafe { named(tube) }?;
    match message.cast::<u8>() {
        message if !message.is_null() => Ok((tube, message)),
        _ if tube.size() == 0 => Ok((tube, std::ptr::dangling_mut())),
        _ => Err(EINVAL),
    }
}

/// A refusal as an error, for a call that does not wait and for one that does.
fn errno_of_try(why: TransferError) -> c_int {
    match why {
        TransferError::Closed => ESHUTDOWN,
        TransferError::WouldBlock => EAGAIN,
    }
}

fn errno_of(why: TransferError) -> c_int {
    match why {
        TransferError::Closed => ESHUTDOWN,
        TransferError::WouldBlock => ETIMEDOUT,
    }
}

fn deadline(nanoseconds: u64) -> Option<u64> {
    (nanoseconds != NO_TIMEOUT).then_some(nanoseconds)
}

/// # Safety
/// There is a message at `from`.
unsafe fn send(tube: &Tube, from: *const u8, deadline_ns: u64) -> Result<(), c_int> {
    // SAFETY: passed on.
    match unsafe { tube.try_send(from) } {
        // SAFETY: passed on.
        Err(TransferError::WouldBlock) => unsafe { wait_to_send(tube, from, deadline_ns) },
        tried => tried.map_err(errno_of_try),
    }
}

/// # Safety
/// As `send`.
#[inline(never)]
unsafe fn wait_to_send(tube: &Tube, from: *const u8, deadline_ns: u64) -> Result<(), c_int> {
    // SAFETY: passed on.
    let sent = ffi::interruptible(|| unsafe { tube.send(from, deadline(deadline_ns)) });
    sent.map_err(|Cancelled| ECANCELED)?.map_err(errno_of)
}

/// # Safety
/// There is a place for a message at `into`.
unsafe fn recv(tube: &Tube, into: *mut u8, deadline_ns: u64) -> Result<(), c_int> {
    // SAFETY: passed on.
    match unsafe { tube.try_recv(into) } {
        // SAFETY: passed on.
        Err(TransferError::WouldBlock) => unsafe { wait_to_recv(tube, into, deadline_ns) },
        tried => tried.map_err(errno_of_try),
    }
}

/// # Safety
/// As `recv`.
#[inline(never)]
unsafe fn wait_to_recv(tube: &Tube, into: *mut u8, deadline_ns: u64) -> Result<(), c_int> {
    // SAFETY: passed on.
    let received = ffi::interruptible(|| unsafe { tube.recv(into, deadline(deadline_ns)) });
    received.map_err(|Cancelled| ECANCELED)?.map_err(errno_of)
}

/// Sends all, or as many as it can until `deadline_ns`. The error is of the first.
///
/// # Safety
/// There are this many messages at `from`.
unsafe fn send_many(
    tube: &Tube,
    from: *const u8,
    count: usize,
    deadline_ns: u64,
) -> Result<usize, c_int> {
    let mut sent = 0;
    while sent < count {
        // SAFETY: passed on.
        let some =
            unsafe { tube.try_send_many(from.wrapping_add(sent * tube.size()), count - sent) };
        let next = some.map_err(errno_of).and_then(|some| {
            sent += some;
            if sent == count {
                return Ok(0);
            }
            // SAFETY: passed on.
            unsafe { wait_to_send(tube, from.wrapping_add(sent * tube.size()), deadline_ns) }
                .map(|()| 1)
        });
        match next {
            Ok(more) => sent += more,
            Err(errno) if sent == 0 => return Err(errno),
            Err(_) => break,
        }
    }
    Ok(sent)
}

/// Receives as many as are there, but one at least.
///
/// # Safety
/// There are places for this many messages at `into`.
unsafe fn recv_many(
    tube: &Tube,
    into: *mut u8,
    most: usize,
    deadline_ns: u64,
) -> Result<usize, c_int> {
    // SAFETY: passed on.
    let some = unsafe { tube.try_recv_many(into, most) }.map_err(errno_of)?;
    if some > 0 || most == 0 {
        return Ok(some);
    }
    // SAFETY: passed on.
    unsafe { wait_to_recv(tube, into, deadline_ns) }?;
    // SAFETY: passed on.
    let others = unsafe { tube.try_recv_many(into.wrapping_add(tube.size()), most - 1) };
    // If it is closed just now, the next call says so.
    Ok(1 + others.unwrap_or(0))
}

/// A message in place, by the call that needs no waiting, or else by the one that may wait.
fn place(
    tried: Result<*mut u8, NoPlace>,
    errno_of: fn(TransferError) -> c_int,
    wait: impl FnOnce() -> Result<*mut c_void, c_int>,
) -> Result<*mut c_void, c_int> {
    match tried {
        Ok(at) => Ok(at.cast()),
        Err(NoPlace::NoMemory) => Err(ENOMEM),
        Err(NoPlace::Refused(TransferError::WouldBlock)) => wait(),
        Err(NoPlace::Refused(why)) => Err(errno_of(why)),
    }
}

/// The call that may wait, as a point of cancellation.
#[inline(never)]
fn waited_for(wait: impl FnOnce() -> Result<*mut u8, NoPlace>) -> Result<*mut c_void, c_int> {
    place(
        ffi::interruptible(wait).map_err(|Cancelled| ECANCELED)?,
        errno_of,
        || Err(ETIMEDOUT),
    )
}

/// # Safety
/// As `named`.
unsafe fn with_room<'a>(tube: *const Tube) -> Result<&'a Tube, c_int> {
    // SAFETY: passed on.
    unsafe { named(tube) }.and_then(|tube| {
        if tube.capacity() > 0 {
            Ok(tube)
        } else {
            Err(EINVAL)
        }
    })
}

fn count(done: Result<usize, c_int>) -> ssize_t {
    // Cannot overflow: an array has at most `isize::MAX` bytes, and one of messages without bytes
    // never has that many messages.
    value(done.map(|done| done as ssize_t), -1)
}

fn some_or_again(done: Result<usize, TransferError>, asked: usize) -> Result<usize, c_int> {
    match done {
        Ok(0) if asked > 0 => Err(EAGAIN),
        done => done.map_err(errno_of_try),
    }
}

impl Talt {
    fn waits(&self) -> bool {
        matches!(self.op, SEND | RECEIVE)
    }

    /// # Safety
    /// As `named`; there is a message, or a place for one, as long as the operation is used.
    unsafe fn operation<'a>(&self) -> Result<Selected<'a>, c_int> {
        // SAFETY: passed on.
        let (tube, message) = unsafe { with_message(self.tube, self.message) }?;
        match self.op {
            // SAFETY: passed on.
            SEND | NBSEND => Ok(unsafe { tube.sending(message) }),
            // SAFETY: passed on.
            RECEIVE | NBRECEIVE => Ok(unsafe { tube.receiving(message) }),
            _ => Err(EINVAL),
        }
    }
}

/// The work of `talt`: operations that do not wait are tried first, and then the others are waited
/// for. Returns the index of the completed operation, and its result.
///
/// # Safety
/// As `Talt::operation`, for each.
unsafe fn any(talts: &[Talt], deadline_ns: u64) -> Result<usize, c_int> {
    if talts.len() <= FEW {
        // SAFETY: passed on.
        let made = std::array::from_fn::<_, FEW, _>(|index| unsafe {
            talts.get(index).unwrap_or(&talts[0]).operation()
        });
        if let Some(errno) = made.iter().find_map(|made| made.as_ref().err()) {
            return Err(*errno);
        }
        let mut operations =
            made.map(|made| made.unwrap_or_else(|_| unreachable!("there is no error")));
        first(talts, &mut operations[..talts.len()], deadline_ns)
    } else {
        // SAFETY: passed on.
        let operations: Result<Vec<_>, _> = talts
            .iter()
            .map(|talt| unsafe { talt.operation() })
            .collect();
        first(talts, &mut operations?, deadline_ns)
    }
}

fn first(
    talts: &[Talt],
    operations: &mut [Selected<'_>],
    deadline_ns: u64,
) -> Result<usize, c_int> {
    let mut done = None;
    if talts.iter().any(Talt::waits) {
        for waits in [false, true] {
            talts
                .iter()
                .zip(&*operations)
                .for_each(|(talt, operation)| operation.take_part(talt.waits() == waits));
            done = done.or_else(|| Select::new().try_each(operations));
        }
        if done.is_none() {
            done = Some(wait(operations, deadline_ns)?);
        }
    } else {
        done = Select::new().try_wait(operations);
    }
    let index = done.ok_or(EAGAIN)?;
    operations[index]
        .outcome()
        .map_err(errno_of)
        .map(|()| index)
}

#[inline(never)]
fn wait(operations: &mut [Selected<'_>], deadline_ns: u64) -> Result<usize, c_int> {
    let done = ffi::interruptible(|| match deadline_ns {
        NO_TIMEOUT => Some(Select::new().wait(operations)),
        at => Select::new().wait_deadline(operations, ffi::instant(at)),
    });
    done.map_err(|Cancelled| ECANCELED)?.ok_or(ETIMEDOUT)
}

/// For functions that return nothing: prints the error, and ends the process.
fn or_misused(function: &str, result: Result<(), c_int>) {
    match result {
        Ok(()) => {}
        Err(ESHUTDOWN) => misused(function, "the tube is closed"),
        Err(_) => misused(function, "no tube, or no message"),
    }
}

#[unsafe(no_mangle)]
extern "C" fn newtube(msz: c_ulong, n: c_ulong) -> *mut Tube {
    umcg_tube_create(msz as usize, n as usize)
}

/// # Safety
/// As `umcg_tube_destroy`.
#[unsafe(no_mangle)]
unsafe extern "C" fn freetube(tube: *mut Tube) {
    // SAFETY: passed on.
    unsafe { umcg_tube_destroy(tube) };
}

/// # Safety
/// As `umcg_tube_send`.
#[unsafe(no_mangle)]
unsafe extern "C" fn tsend(tube: *const Tube, message: *mut c_void) {
    // SAFETY: passed on.
    let tube = unsafe { with_message(tube, message) };
    // SAFETY: passed on.
    or_misused(
        "tsend",
        tube.and_then(|(tube, from)| ffi::shielded(|| unsafe { send(tube, from, NO_TIMEOUT) })),
    );
}

/// # Safety
/// As `umcg_tube_recv`.
#[unsafe(no_mangle)]
unsafe extern "C" fn trecv(tube: *const Tube, message: *mut c_void) {
    // SAFETY: passed on.
    let tube = unsafe { with_message(tube, message) };
    // SAFETY: passed on.
    or_misused(
        "trecv",
        tube.and_then(|(tube, into)| ffi::shielded(|| unsafe { recv(tube, into, NO_TIMEOUT) })),
    );
}

/// # Safety
/// As `umcg_tube_send`.
#[unsafe(no_mangle)]
unsafe extern "C" fn nbtsend(tube: *const Tube, message: *mut c_void) -> c_int {
    // SAFETY: passed on.
    unsafe { umcg_tube_try_send(tube, message) }
}

/// # Safety
/// As `umcg_tube_recv`.
#[unsafe(no_mangle)]
unsafe extern "C" fn nbtrecv(tube: *const Tube, message: *mut c_void) -> c_int {
    // SAFETY: passed on.
    unsafe { umcg_tube_try_recv(tube, message) }
}

/// # Safety
/// As `umcg_tube_any`.
#[unsafe(no_mangle)]
unsafe extern "C" fn talt(talts: *const Talt, n: c_int) -> c_int {
    // SAFETY: passed on.
    unsafe { umcg_tube_any(talts, n, NO_TIMEOUT) }
}

#[unsafe(no_mangle)]
extern "C" fn umcg_tube_create(size: usize, capacity: usize) -> *mut Tube {
    let tube = if capacity > MOST {
        Err(EINVAL)
    } else {
        Tube::new(size, capacity).ok_or(ENOMEM)
    };
    value(tube.map(|tube| Box::into_raw(Box::new(tube))), null_mut())
}

/// # Safety
/// `tube` is null, or came from `umcg_tube_create` and is not used any more.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_tube_destroy(tube: *mut Tube) {
    if !tube.is_null() {
        // SAFETY: by the contract.
        drop(unsafe { Box::from_raw(tube) });
    }
}

/// # Safety
/// As `umcg_tube_send_until`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_tube_send(tube: *const Tube, message: *mut c_void) -> c_int {
    // SAFETY: passed on.
    unsafe { umcg_tube_send_until(tube, message, NO_TIMEOUT) }
}

/// # Safety
/// As `with_message`; there is a message.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_tube_send_until(
    tube: *const Tube,
    message: *mut c_void,
    deadline_ns: u64,
) -> c_int {
    // SAFETY: passed on.
    let tube = unsafe { with_message(tube, message) };
    // SAFETY: passed on.
    status(tube.and_then(|(tube, from)| unsafe { send(tube, from, deadline_ns) }))
}

/// # Safety
/// As `umcg_tube_send_until`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_tube_try_send(tube: *const Tube, message: *mut c_void) -> c_int {
    // SAFETY: passed on.
    let tube = unsafe { with_message(tube, message) };
    // SAFETY: passed on.
    status(tube.and_then(|(tube, from)| unsafe { tube.try_send(from) }.map_err(errno_of_try)))
}

/// # Safety
/// As `umcg_tube_recv_until`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_tube_recv(tube: *const Tube, message: *mut c_void) -> c_int {
    // SAFETY: passed on.
    unsafe { umcg_tube_recv_until(tube, message, NO_TIMEOUT) }
}

/// # Safety
/// As `with_message`; there is a place for one.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_tube_recv_until(
    tube: *const Tube,
    message: *mut c_void,
    deadline_ns: u64,
) -> c_int {
    // SAFETY: passed on.
    let tube = unsafe { with_message(tube, message) };
    // SAFETY: passed on.
    status(tube.and_then(|(tube, into)| unsafe { recv(tube, into, deadline_ns) }))
}

/// # Safety
/// As `umcg_tube_recv_until`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_tube_try_recv(tube: *const Tube, message: *mut c_void) -> c_int {
    // SAFETY: passed on.
    let tube = unsafe { with_message(tube, message) };
    // SAFETY: passed on.
    status(tube.and_then(|(tube, into)| unsafe { tube.try_recv(into) }.map_err(errno_of_try)))
}

/// # Safety
/// As `with_message`; there are this many messages.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_tube_send_many(
    tube: *const Tube,
    messages: *mut c_void,
    n: usize,
    deadline_ns: u64,
) -> ssize_t {
    // SAFETY: passed on.
    let tube = unsafe { with_message(tube, messages) };
    // SAFETY: passed on.
    count(tube.and_then(|(tube, from)| unsafe { send_many(tube, from, n, deadline_ns) }))
}

/// # Safety
/// As `umcg_tube_send_many`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_tube_try_send_many(
    tube: *const Tube,
    messages: *mut c_void,
    n: usize,
) -> ssize_t {
    // SAFETY: passed on.
    let tube = unsafe { with_message(tube, messages) };
    // SAFETY: passed on.
    count(tube.and_then(|(tube, from)| some_or_again(unsafe { tube.try_send_many(from, n) }, n)))
}

/// # Safety
/// As `with_message`; there are places for this many.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_tube_recv_many(
    tube: *const Tube,
    messages: *mut c_void,
    most: usize,
    deadline_ns: u64,
) -> ssize_t {
    // SAFETY: passed on.
    let tube = unsafe { with_message(tube, messages) };
    // SAFETY: passed on.
    count(tube.and_then(|(tube, into)| unsafe { recv_many(tube, into, most, deadline_ns) }))
}

/// # Safety
/// As `umcg_tube_recv_many`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_tube_try_recv_many(
    tube: *const Tube,
    messages: *mut c_void,
    most: usize,
) -> ssize_t {
    // SAFETY: passed on.
    let tube = unsafe { with_message(tube, messages) };
    count(tube.and_then(|(tube, into)| {
        // SAFETY: passed on.
        some_or_again(unsafe { tube.try_recv_many(into, most) }, most)
    }))
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_tube_close(tube: *const Tube) -> c_int {
    // SAFETY: passed on.
    status(unsafe { named(tube) }.map(Tube::close))
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_tube_length(tube: *const Tube) -> ssize_t {
    // SAFETY: passed on.
    count(unsafe { named(tube) }.map(Tube::len))
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_tube_capacity(tube: *const Tube) -> ssize_t {
    // SAFETY: passed on.
    count(unsafe { named(tube) }.map(Tube::capacity))
}

/// # Safety
/// `talts` is null, or points to `n` of them as for `Talt::operation`, until the call returns.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_tube_any(talts: *const Talt, n: c_int, deadline_ns: u64) -> c_int {
    // SAFETY: passed on.
    let talts = unsafe { array(talts, n) };
    // SAFETY: passed on.
    let index = talts.and_then(|talts| unsafe { any(talts, deadline_ns) });
    // It is less than `n`.
    value(index.map(|index| index as c_int), -1)
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_tube_reserve(tube: *const Tube) -> *mut c_void {
    // SAFETY: passed on.
    unsafe { umcg_tube_reserve_until(tube, NO_TIMEOUT) }
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_tube_reserve_until(tube: *const Tube, deadline_ns: u64) -> *mut c_void {
    // SAFETY: passed on.
    let at = unsafe { with_room(tube) }.and_then(|tube| {
        place(tube.try_reserve(), errno_of, || {
            waited_for(|| tube.reserve(deadline(deadline_ns)))
        })
    });
    value(at, null_mut())
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_tube_try_reserve(tube: *const Tube) -> *mut c_void {
    // SAFETY: passed on.
    let at = unsafe { with_room(tube) }
        .and_then(|tube| place(tube.try_reserve(), errno_of_try, || Err(EAGAIN)));
    value(at, null_mut())
}

/// # Safety
/// As `named`; if the place came from `umcg_tube_reserve` or its like, it has a message.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_tube_commit(tube: *const Tube, at: *mut c_void) -> c_int {
    // SAFETY: passed on.
    let tube = unsafe { named(tube) };
    status(tube.and_then(|tube| {
        // SAFETY: by the contract.
        unsafe { tube.commit(at.addr()) }.map_err(|why| match why {
            NotSent::Closed => ESHUTDOWN,
            NotSent::NoPlace => EINVAL,
        })
    }))
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_tube_unreserve(tube: *const Tube, at: *mut c_void) -> c_int {
    // SAFETY: passed on.
    status(unsafe { named(tube) }.and_then(|tube| {
        if tube.unreserve(at.addr()) {
            Ok(())
        } else {
            Err(EINVAL)
        }
    }))
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_tube_recv_ref(tube: *const Tube) -> *mut c_void {
    // SAFETY: passed on.
    unsafe { umcg_tube_recv_ref_until(tube, NO_TIMEOUT) }
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_tube_recv_ref_until(tube: *const Tube, deadline_ns: u64) -> *mut c_void {
    // SAFETY: passed on.
    let at = unsafe { named(tube) }.and_then(|tube| {
        place(tube.try_recv_ref(), errno_of, || {
            waited_for(|| tube.recv_ref(deadline(deadline_ns)))
        })
    });
    value(at, null_mut())
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_tube_try_recv_ref(tube: *const Tube) -> *mut c_void {
    // SAFETY: passed on.
    let at = unsafe { named(tube) }
        .and_then(|tube| place(tube.try_recv_ref(), errno_of_try, || Err(EAGAIN)));
    value(at, null_mut())
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_tube_recv_done(tube: *const Tube, at: *mut c_void) -> c_int {
    // SAFETY: passed on.
    status(unsafe { named(tube) }.and_then(|tube| {
        if tube.recv_done(at.addr()) {
            Ok(())
        } else {
            Err(EINVAL)
        }
    }))
}
