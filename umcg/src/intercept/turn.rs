//! The turns of servers, for those that follow them: the clocks of threads, and the trace.

use super::guest;
use crate::rt::engine::turns::{self, ServerTurn, Watcher};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

/// The most servers of a runtime.
pub(super) const SERVERS: usize = 1024;

/// Those that follow turns, in the order in which they are told.
#[derive(Clone, Copy)]
pub(super) enum Follower {
    Clocks,
    Trace,
}

static WATCHERS: [AtomicPtr<()>; 2] = [const { AtomicPtr::new(null_mut()) }; 2];

/// From their next turn on servers tell the follower.
pub(super) fn follow(follower: Follower, watcher: Watcher) {
    WATCHERS[follower as usize].store(watcher as *mut (), Relaxed);
    turns::watch(note);
}

fn note(server: usize, turn: ServerTurn) -> bool {
    if guest::is_aside() {
        return false;
    }
    WATCHERS.iter().fold(false, |is_soon, watcher| {
        let watcher = watcher.load(Relaxed);
        if watcher.is_null() {
            return is_soon;
        }
        // SAFETY: `follow` has stored a `Watcher`.
        let watcher = unsafe { std::mem::transmute::<*mut (), Watcher>(watcher) };
        watcher(server, turn) | is_soon
    })
}
