//! New guests that wait or give way: the courier tells their homes for which signals to look.
//!
//! The home of a guest that begins on a server looks for no signal until it is told. That costs two
//! switches of the kernel, and two more when the guest ends: more than all else of a thread that
//! waits a few times and ends. So a new guest that waits goes into a list. The first one in it
//! rouses the courier, which tells the homes of all of them after a pause. A signal that the
//! program sends to such a thread has its home told before (`attributes.rs`). Another process's
//! signal may wait as long as the pause. The same for a new guest that gives way: each turn of it
//! may be too short for the tick.
//!
//! - U1: *a guest in the list is told of its last mask.* The courier takes it out before it looks
//!   at the mask. A guest that has been in the list before it sets its first mask enters it again
//!   after that, if it is there no more (`listed.1`).
//! - U2: *states of guests are never freed.* One that has ended while it was in the list has no
//!   worker, or is another thread's, whose home may as well be told.
//!
//! Model: `umcg/tests/model/late.rs`.

use super::guest::Guest;
use crate::rt::time as clock;
use std::ptr::{from_ref, null_mut};
use std::sync::atomic::{AtomicPtr, Ordering::*};
use umcg_core::raw;

/// In nanoseconds. As long as the tick, by which a guest's home is told that computes.
const PAUSE: u64 = 10_000_000;

static FIRST: AtomicPtr<Guest> = AtomicPtr::new(null_mut());

/// The calling guest is about to wait or to give way, away.
#[inline(always)]
pub(super) fn note_pause(guest: &'static Guest) {
    if guest.home.is_new.load(Relaxed) {
        list(guest);
    }
}

/// The calling guest, which is away, has set its first mask.
pub(super) fn note_first_mask(guest: &'static Guest) {
    if !guest.home.is_new.load(Relaxed) {
        // It has paused before: the courier may have told of the mask that it had then.
        list(guest);
    }
}

#[cold]
fn list(guest: &'static Guest) {
    let home = &guest.home;
    home.is_new.store(false, Relaxed);
    // ORDERING(listed.1): AcqRel, pairs with itself: the courier, if it takes the guest out later,
    // sees the mask.
    if home.is_listed.swap(true, AcqRel) {
        return;
    }
    let own = from_ref(guest).cast_mut();
    let mut first = FIRST.load(Relaxed);
    loop {
        home.next_untold.store(first, Relaxed);
        // ORDERING(untold.1): Release, pairs with untold.2: the courier sees the next one.
        match FIRST.compare_exchange_weak(first, own, Release, Relaxed) {
            Ok(_) => break,
            Err(now) => first = now,
        }
    }
    if first.is_null() {
        raw::rouse_courier();
    }
}

/// The courier's pause, while there is something in the list.
pub(super) struct Pause {
    until: Option<u64>,
}

impl Pause {
    pub(super) fn none() -> Pause {
        Pause { until: None }
    }

    /// When the courier has to look again at the latest.
    pub(super) fn deadline(&self) -> u64 {
        self.until.unwrap_or(u64::MAX)
    }

    /// Called each time that the courier has looked.
    pub(super) fn serve(&mut self) {
        match self.until {
            Some(until) if clock::now() >= until => {
                self.until = None;
                tell_all();
            }
            None if !FIRST.load(Relaxed).is_null() => self.until = Some(clock::now() + PAUSE),
            _ => {}
        }
    }
}

fn tell_all() {
    // ORDERING(untold.2): Acquire, pairs with untold.1.
    let mut next = FIRST.swap(null_mut(), Acquire);
    // SAFETY: null, or a state, which is never freed.
    while let Some(guest) = unsafe { next.as_ref() } {
        next = guest.home.next_untold.load(Relaxed);
        // ORDERING(listed.1): AcqRel, as above.
        guest.home.is_listed.swap(false, AcqRel);
        if let Some(tid) = guest.tid() {
            raw::tell_home(tid);
        }
    }
}
