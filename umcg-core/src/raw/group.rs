//! Groups of servers and workers.

use crate::umcg::group;
use umcg_context::local::Hold;

/// A group: servers, and the workers whose events they collect. Copies mean the same group.
#[derive(Clone, Copy)]
pub struct Group(pub(super) &'static group::Group);

/// A visit to a group.
pub struct Visit(#[allow(dead_code, reason = "it ends with this")] group::Visit);

impl PartialEq for Group {
    fn eq(&self, other: &Group) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for Group {}

impl Group {
    /// The default group, which `umcg_ctl` uses.
    pub fn first() -> Group {
        Group(&group::FIRST)
    }

    /// A new group, without servers and workers.
    pub fn make() -> Group {
        Group(group::Group::make())
    }

    /// Makes the group available again.
    ///
    /// # Safety
    /// The group is not the first. It was made once for each call of this. It has no servers and no
    /// workers.
    pub unsafe fn unmake(self) {
        self.0.unmake();
    }

    /// Calls `hook(argument)` after each event that is posted for the servers of this group. The
    /// call comes on any kernel thread, perhaps with the thread-local storage of a worker that runs
    /// elsewhere, and with all signals blocked. So the hook touches no thread-local storage, errno
    /// included, and does not allocate.
    ///
    /// # Safety
    /// The hook keeps to that, and the group has no workers yet.
    pub unsafe fn set_hook(self, hook: fn(usize), argument: usize) {
        self.0.set_hook(Some(hook), argument);
    }

    /// Keeps the group alive while a thread that has just woken a worker still uses the owner's
    /// data: [`Group::unmake`] does not return as long as the result lives. Called while a worker
    /// of the group cannot end.
    pub fn visit(self) -> Visit {
        Visit(self.0.visit())
    }

    /// Whether the group has a visitor just now.
    pub fn is_visited(self) -> bool {
        self.0.is_visited()
    }

    /// Whether an event or a deadline may be waiting to be collected. This is only a hint.
    #[inline]
    pub fn has_events(self) -> bool {
        self.0.lists.has_events()
    }
}

/// Wakes an idle server of this group. Returns false when there is none.
pub fn wake_server(group: Group) -> bool {
    let _hold = Hold::begin();
    group.0.lists.wake_server()
}
