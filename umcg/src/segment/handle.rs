//! Common parts of the handles of all kinds of objects.

use super::directory::{self, Wanted};
use super::error::{Fault, NameError};
use super::object::{Kind, Object};
use super::shared::Shared;
use super::standing::{End, Standing, Wish};
use crate::rt::sync::AtomicU64;
use std::ptr::NonNull;
use std::sync::Arc;

/// An object of a segment. The segment stays mapped as long as a handle exists.
#[derive(Clone)]
pub(super) struct Handle {
    pub(super) shared: Arc<Shared>,
    number: u32,
    kind: Kind,
    word: NonNull<AtomicU64>,
}

// SAFETY: the word lies in memory that `shared` keeps, and is atomic.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Handle {
    pub(super) fn new(
        shared: &Arc<Shared>,
        name: &str,
        wanted: Wanted,
    ) -> Result<Handle, NameError> {
        let object = directory::named(shared, name, wanted)?;
        Ok(Handle {
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

    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    pub(super) fn object(&self) -> Object<'_> {
        Object::new(&self.shared, self.number, self.kind)
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
        let (standing, end) = Standing::wait(&self.shared, &wishes, 0, deadline)?;
        match end {
            End::Given(at) => {
                standing.taken(at);
                Ok(true)
            }
            End::Late => Ok(false),
            End::Closed(_) => Err(Fault::Corrupt),
        }
    }
}
