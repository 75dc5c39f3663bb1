//! Groups: servers, and the workers whose events they collect.
//!
//! A worker belongs to one group all its life, a server while it is registered. An event of a
//! worker goes to a server of its group. So two schedulers in one process (two runtimes, or a
//! runtime and a program's own servers) never get each other's workers. `umcg_ctl` knows one group
//! a process, the first one. It is the default here.
//!
//! Descriptors are recycled and never freed, like all others.

use super::clock;
use super::idle::{EventKind, Lists, Node};
use crate::base::link::Link;
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::*};
use umcg_context::lock::HoldLock;

/// Called when an event was posted. It runs on any kernel thread, a home thread included, so it
/// touches no thread-local storage.
pub(crate) type Hook = fn(usize);

pub(crate) struct Group {
    pub(crate) lists: Lists,
    /// A [`Hook`], or null.
    hook: AtomicPtr<()>,
    hook_argument: AtomicUsize,
    /// How many threads are using data of the group's owner. The owner has to wait for them before
    /// it ends: see [`Group::visit`].
    visitors: AtomicUsize,
    next: Link<Group>,
}

/// The default group.
pub(crate) static FIRST: Group = Group::new();

/// All groups but the first.
static ALL: HoldLock<Link<Group>> = HoldLock::new(Link::none());
/// Groups that are not in use.
static SPARE: HoldLock<Vec<&'static Group>> = HoldLock::new(Vec::new());

/// The function called for a worker that has ended and whose EXIT was delivered.
static RELEASE: OnceLock<fn(&'static Node)> = OnceLock::new();

/// Sets the function that is called for a worker that has ended and whose EXIT was delivered. Call
/// it before there are such workers.
pub(crate) fn when_released(release: fn(&'static Node)) {
    let _ = RELEASE.set(release);
}

fn released(node: &'static Node) {
    if let Some(release) = RELEASE.get() {
        release(node);
    }
}

impl Group {
    const fn new() -> Group {
        Group {
            lists: Lists::new(clock, released),
            hook: AtomicPtr::new(null_mut()),
            hook_argument: AtomicUsize::new(0),
            visitors: AtomicUsize::new(0),
            next: Link::none(),
        }
    }

    /// A group without servers and workers.
    pub(crate) fn make() -> &'static Group {
        if let Some(spare) = SPARE.lock().pop() {
            return spare;
        }
        let group: &'static Group = Box::leak(Box::new(Group::new()));
        let all = ALL.lock();
        group.next.set(all.get());
        all.set(Some(group));
        group
    }

    /// Keeps the group alive while a thread that has just woken a worker still uses the owner's
    /// data. During this call the caller has a worker of the group that does not end; afterwards it
    /// relies on the visit.
    pub(crate) fn visit(&'static self) -> Visit {
        self.visitors.fetch_add(1, Relaxed);
        Visit(self)
    }

    pub(crate) fn is_visited(&self) -> bool {
        // ORDERING(visitors.1): Acquire, as in `unmake`.
        self.visitors.load(Acquire) != 0
    }

    /// Makes the group available again, once it has no visitors. It has no servers and no workers.
    pub(crate) fn unmake(&'static self) {
        // ORDERING(visitors.1): Acquire, pairs with visitors.2. The visitors have finished. Each
        // came while there were workers.
        while self.visitors.load(Acquire) != 0 {
            umcg_context::way::give_way();
        }
        self.set_hook(None, 0);
        SPARE.lock().push(self);
    }

    /// Sets the hook to call for events. Call it before the group has workers.
    pub(crate) fn set_hook(&self, hook: Option<Hook>, argument: usize) {
        self.hook_argument.store(argument, Relaxed);
        // ORDERING(hook.1): Release, pairs with hook.2. A thread that sees the hook sees its
        // argument.
        self.hook
            .store(hook.map_or(null_mut(), |hook| hook as *mut ()), Release);
    }

    /// Posts an event of a worker of this group, and calls the hook.
    pub(crate) fn post(&'static self, node: &'static Node, kind: EventKind, deadline: Option<u64>) {
        // Once the event is posted, the worker may run and end, and the hook's owner with it.
        let _visit = self.visit();
        self.lists.post(node, kind, deadline);
        // ORDERING(hook.2): Acquire, pairs with hook.1.
        let hook = self.hook.load(Acquire);
        // SAFETY: null or a hook that `set_hook` stored; `Option<fn>` represents null as None.
        if let Some(hook) = unsafe { std::mem::transmute::<*mut (), Option<Hook>>(hook) } {
            hook(self.hook_argument.load(Relaxed));
        }
    }
}

/// A visit to a group, until it is dropped.
pub(crate) struct Visit(&'static Group);

impl Drop for Visit {
    fn drop(&mut self) {
        // ORDERING(visitors.2): Release, pairs with visitors.1.
        self.0.visitors.fetch_sub(1, Release);
    }
}

/// Keeps all groups still while the process forks.
pub(crate) fn before_fork() {
    SPARE.take();
    ALL.take();
    each(|group| group.lists.before_fork());
}

/// # Safety
/// Called once after each `before_fork`, by the thread that called that.
pub(crate) unsafe fn forked(in_child: bool) {
    // SAFETY: passed on, for each group once.
    each(|group| unsafe { group.lists.forked(in_child) });
    // SAFETY: passed on.
    drop(unsafe { ALL.adopt() });
    // SAFETY: passed on.
    drop(unsafe { SPARE.adopt() });
}

/// Calls `f` with each group. The caller holds the lock of `ALL`.
fn each(f: impl Fn(&'static Group)) {
    f(&FIRST);
    // SAFETY: `before_fork` holds the lock; this guard is another view of it, and is forgotten.
    let all = std::mem::ManuallyDrop::new(unsafe { ALL.adopt() });
    let mut at = all.get();
    while let Some(group) = at {
        f(group);
        at = group.next.get();
    }
}
