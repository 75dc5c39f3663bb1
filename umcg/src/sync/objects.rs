//! Waiting for any, or for all, of many objects of different kinds.

use super::event::Event;
use super::gate::NO_MORE;
use super::joint::{Ended, Joint, JointWait, Member};
use super::mutex::{self, Mutex};
use super::semaphore::{AcquireError, Closed, Semaphore, TryAcquireError};
use crate::rt::timed;
use crate::rt::wait::SelectQueue;
use crate::select::engine;
use crate::select::list::with_list;

const ANY: &&str = &"wait_any";
const ALL: &&str = &"wait_all";

/// An object that [`wait_any`] and [`wait_all`] can wait for: an [`Event`]; a [`Semaphore`], of
/// which one wakeup is taken; or a [`Mutex`], which is locked then. Get the mutex's guard by
/// `make_guard_unchecked`; [`select`](mod@crate::select) returns the guard itself.
pub trait Object: ObjectParts {}

impl<K: ObjectParts + ?Sized> Object for K {}

/// The parts of an object that waits use. Not for users.
#[allow(unreachable_pub, reason = "in a signature of a sealed trait")]
pub trait ObjectParts {
    #[doc(hidden)]
    fn queue(&self) -> &dyn SelectQueue;

    #[doc(hidden)]
    fn joint(&self) -> &dyn Joint;

    /// The want, as the object's gate defines it.
    #[doc(hidden)]
    fn want(&self) -> usize {
        0
    }

    /// Whether the note of a place that was served says that the object was closed.
    #[doc(hidden)]
    fn was_closed(&self, _note: usize) -> bool {
        false
    }
}

impl ObjectParts for Event {
    fn queue(&self) -> &dyn SelectQueue {
        self.gate()
    }

    fn joint(&self) -> &dyn Joint {
        self.gate()
    }
}

impl ObjectParts for Semaphore {
    fn queue(&self) -> &dyn SelectQueue {
        self.gate()
    }

    fn joint(&self) -> &dyn Joint {
        self.gate()
    }

    fn want(&self) -> usize {
        1
    }

    fn was_closed(&self, note: usize) -> bool {
        note == NO_MORE
    }
}

impl<T: ?Sized> ObjectParts for Mutex<T> {
    fn queue(&self) -> &dyn SelectQueue {
        mutex::raw(self).gate()
    }

    fn joint(&self) -> &dyn Joint {
        mutex::raw(self).gate()
    }
}

/// Waits for one of the objects, which may be in the list more than once, and returns its index: of
/// those that are there at once, the lowest. The others are not changed. A point of cancellation if
/// it has to wait. Switches.
///
/// ```
/// use umcg::sync::{Event, Semaphore, wait_any};
///
/// let (over, tickets) = (Event::manual(false), Semaphore::new(1));
/// assert_eq!(wait_any(&[&over, &tickets]), Ok(1));
/// over.set();
/// assert_eq!(wait_any(&[&over, &tickets]), Ok(0));
/// ```
///
/// # Errors
/// [`Closed`]: it was a semaphore, and is closed.
///
/// # Panics
/// When the list is empty: it would wait for ever.
pub fn wait_any(objects: &[&dyn Object]) -> Result<usize, Closed> {
    // Without a deadline there is no other error.
    any(objects, u64::MAX).map_err(|_| Closed)
}

timed! {
    "wait_any";
    /// # Errors
    /// [`AcquireError`].
    ///
    /// # Panics
    /// As [`wait_any`].
    pub fn wait_any_deadline, wait_any_timeout(objects: &[&dyn Object])
        -> Result<usize, AcquireError>;
    |deadline| any(objects, deadline)
}

/// Like [`wait_any`], if one of them is there; an error if there was a moment at which none was.
/// Never waits.
///
/// # Errors
/// [`TryAcquireError`].
pub fn try_wait_any(objects: &[&dyn Object]) -> Result<usize, TryAcquireError> {
    lowest(
        objects,
        None,
        TryAcquireError::Empty,
        TryAcquireError::Closed,
    )
}

pub(crate) fn any(objects: &[&dyn Object], deadline: u64) -> Result<usize, AcquireError> {
    assert!(!objects.is_empty(), "wait_any: an empty list");
    lowest(
        objects,
        Some(deadline),
        AcquireError::TimedOut,
        AcquireError::Closed,
    )
}

fn lowest<E>(
    objects: &[&dyn Object],
    deadline: Option<u64>,
    nothing: E,
    closed: E,
) -> Result<usize, E> {
    let member = |index: usize| (objects[index].queue(), objects[index].want());
    with_list(objects.len(), member, |list| {
        let index = engine::lowest(list, ANY, deadline).ok_or(nothing)?;
        if objects[index].was_closed(list.served()) {
            Err(closed)
        } else {
            Ok(index)
        }
    })
}

/// Waits until all of the objects are there at once, and takes them together. Before that it keeps
/// nothing from other callers. So it cannot deadlock with others that wait for the same objects, in
/// any order. In the moment when all are there it comes before the waiters that came later to any
/// of the queues, and after those that came before. Only objects that are never there at once keep
/// it waiting. A point of cancellation if it has to wait. Switches.
///
/// ```
/// use umcg::sync::{Event, Mutex, Semaphore, wait_all};
///
/// let (started, tickets, log) = (Event::manual(true), Semaphore::new(1), Mutex::new(Vec::new()));
/// wait_all(&[&started, &tickets, &log]).unwrap();
/// // SAFETY: it was locked just now, and there is no other guard for it.
/// let mut log = unsafe { log.make_guard_unchecked() };
/// log.push("all there");
/// ```
///
/// # Errors
/// [`Closed`]: one of them is a semaphore that was closed.
///
/// # Panics
/// When an object is in the list twice.
pub fn wait_all(objects: &[&dyn Object]) -> Result<(), Closed> {
    // Without a deadline there is no other error.
    all(objects, u64::MAX).map_err(|_| Closed)
}

timed! {
    "wait_all";
    /// # Errors
    /// [`AcquireError`].
    ///
    /// # Panics
    /// As [`wait_all`].
    pub fn wait_all_deadline, wait_all_timeout(objects: &[&dyn Object]) -> Result<(), AcquireError>;
    |deadline| all(objects, deadline)
}

/// Like [`wait_all`], if all are there. Never waits.
///
/// # Errors
/// [`TryAcquireError`].
///
/// # Panics
/// As [`wait_all`].
pub fn try_wait_all(objects: &[&dyn Object]) -> Result<(), TryAcquireError> {
    let members = members(objects);
    match joint_wait(&members).try_take() {
        Some(Ended::Closed) => Err(TryAcquireError::Closed),
        Some(_) => Ok(()),
        None => Err(TryAcquireError::Empty),
    }
}

pub(crate) fn all(objects: &[&dyn Object], deadline: u64) -> Result<(), AcquireError> {
    let members = members(objects);
    let joint = joint_wait(&members);
    match joint
        .try_take()
        .unwrap_or_else(|| joint.wait(ALL, deadline))
    {
        Ended::Taken => Ok(()),
        Ended::Closed => Err(AcquireError::Closed),
        Ended::TimedOut => Err(AcquireError::TimedOut),
    }
}

fn members<'a>(objects: &'a [&'a dyn Object]) -> Box<[Member<'a>]> {
    objects
        .iter()
        .map(|object| Member::new(object.joint(), object.want()))
        .collect()
}

fn joint_wait<'a>(members: &'a [Member<'a>]) -> JointWait<'a> {
    JointWait::new(members).unwrap_or_else(|| panic!("wait_all: the same object twice"))
}
