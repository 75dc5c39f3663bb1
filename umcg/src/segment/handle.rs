//! Common parts of the handles of all kinds of objects.

use super::directory::{self, Wanted};
use super::error::{Fault, NameError};
use super::object::{SegmentObject, SegmentObjectKind};
use super::shared::OpenSegment;
use super::wait::{SegmentWait, Wish, WishOutcome};
use crate::rt::sync::AtomicU64;
use std::ptr::NonNull;
use std::sync::Arc;

/// An object of a segment. The segment stays mapped as long as a handle exists.
#[derive(Clone)]
pub(super) struct ObjectHandle {
    pub(super) shared: Arc<OpenSegment>,
    number: u32,
    kind: SegmentObjectKind,
    word: NonNull<AtomicU64>,
}

// SAFETY: the word lies in memory that `shared` keeps, and is atomic.
unsafe impl Send for ObjectHandle {}
// SAFETY: as above.
unsafe impl Sync for ObjectHandle {}

impl ObjectHandle {
    pub(super) fn new(
        shared: &Arc<OpenSegment>,
        name: &str,
        wanted: Wanted,
    ) -> Result<ObjectHandle, NameError> {
        let object = directory::named(shared, name, wanted)?;
        Ok(ObjectHandle {
            shared: shared.clone(),
            number: object.number,
            kind: object.kind,
            word: NonNull::from(object.word()),
        })
    }

    #[inline(always)]
    pub(super) fn word(&self) -> &AtomicU64 {
        // SAFETY: in memory that `shared` keeps.
        unsafe { self.word.as_ref() }
    }

    pub(super) fn kind(&self) -> SegmentObjectKind {
        self.kind
    }

    pub(super) fn object(&self) -> SegmentObject<'_> {
        SegmentObject::new(&self.shared, self.number, self.kind)
    }

    pub(super) fn wish(&self, queue: u32, want: u32) -> Wish<'_> {
        Wish {
            object: self.object(),
            queue,
            want,
        }
    }

    /// Waits for this, and takes it. False if the deadline has passed. Not for tubes, where a
    /// message must be taken, too.
    #[cold]
    pub(super) fn wait(&self, queue: u32, want: u32, deadline: u64) -> Result<bool, Fault> {
        let wishes = [self.wish(queue, want)];
        let (wait, outcome) = SegmentWait::wait(&self.shared, &wishes, 0, deadline)?;
        match outcome {
            WishOutcome::Given(at) => {
                wait.taken(at);
                Ok(true)
            }
            WishOutcome::TimedOut => Ok(false),
            WishOutcome::Closed(_) => Err(Fault::Corrupt),
        }
    }
}
