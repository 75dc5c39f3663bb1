//! Forks, as they concern the threads under all of the library. The child has one virtual processor
//! at most, that of the thread that it is a copy of.

use super::vp;
use crate::os::everywhere;
use crate::os::fork::Part;
use crate::{identity, storage};
use rustix::io::Errno;
use umcg_context::stack;

/// Registers this room and those below it for forks.
pub(crate) fn install() -> Result<(), Errno> {
    static IDENTITY: Part = Part::new(Part::IDENTITY, identity::before_fork, identity_forked);
    static UTH: Part = Part::new(Part::UTH, before, after);
    IDENTITY.enter()?;
    UTH.enter()
}

/// # Safety
/// As for [`Part::new`].
unsafe fn identity_forked(in_child: bool) {
    if in_child {
        identity::forked_in_child();
        everywhere::forked_in_child();
    }
}

fn before() {
    vp::SPARE.take();
    storage::before_fork();
    stack::before_fork();
}

/// # Safety
/// As for [`Part::new`].
unsafe fn after(in_child: bool) {
    // SAFETY: `before` took them.
    unsafe { stack::forked() };
    // SAFETY: likewise.
    unsafe { storage::forked() };
    // SAFETY: likewise.
    drop(unsafe { vp::SPARE.adopt() });
    if in_child {
        vp::forked_in_child();
    }
}
