//! Where a guest stands: the call by which it left its server last, for lists of threads, traces
//! and debuggers.
//!
//! The guest notes it just before it leaves, by four stores. It does not note that it goes on:
//! whether it stands still is the scheduler's to say. So what is noted means something only while
//! the guest is off a server, and another thread may read it while it changes.
//!
//! The time is the one that its server's loop saw last; if the loop goes on after the guest, it
//! stamps the guest's task itself ([`turns`]).

use super::memory;
use crate::rt::engine::turns;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use umcg_intercept::Call;

/// Why a guest leaves its server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum LeaveReason {
    /// It has not left one by a call.
    #[default]
    None = 0,
    /// It waits for a private word.
    Word = 1,
    Sleep = 2,
    Yield = 3,
    /// It goes home to make a call.
    Home = 4,
}

const ALL: [LeaveReason; 5] = [
    LeaveReason::None,
    LeaveReason::Word,
    LeaveReason::Sleep,
    LeaveReason::Yield,
    LeaveReason::Home,
];

/// Debuggers read it: its layout is in `layout`.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Standing {
    why: AtomicU32,
    /// The number of the call.
    number: AtomicU32,
    /// The [`Call`], on the guest's stack: there while the guest stands.
    call: AtomicUsize,
    /// By the clock of [`turns`].
    since: AtomicU64,
}

impl Standing {
    pub(super) fn reset(&self) {
        self.why.store(LeaveReason::None as u32, Relaxed);
    }

    #[inline(always)]
    pub(super) fn note(&self, why: LeaveReason, call: &Call) {
        self.number.store(call.number as u32, Relaxed);
        self.call
            .store(std::ptr::from_ref(call).expose_provenance(), Relaxed);
        let now = if why == LeaveReason::Home {
            turns::coarse()
        } else {
            turns::clock()
        };
        self.since.store(now, Relaxed);
        self.why.store(why as u32, Relaxed);
    }

    pub(super) fn why(&self) -> LeaveReason {
        let why = self.why.load(Relaxed) as usize;
        ALL.get(why).copied().unwrap_or_default()
    }

    pub(super) fn number(&self) -> u32 {
        self.number.load(Relaxed)
    }

    /// Nanoseconds since the guest has left. `stamp` is when its server has seen that, or 0.
    pub(super) fn time(&self, stamp: u64) -> u64 {
        let since = self.since.load(Relaxed).max(stamp);
        turns::coarse().saturating_sub(since)
    }

    /// What the guest left for. None if it is not there to be read any more.
    pub(super) fn site(&self) -> Option<Site> {
        Site::read(self.call.load(Relaxed))
    }
}

/// A call, and the code that makes it.
pub(super) struct Site {
    pub(super) number: usize,
    pub(super) arguments: [usize; 6],
    /// Behind the `syscall`.
    pub(super) next: usize,
    pub(super) stack_pointer: usize,
}

/// Words of a [`Call`], and which of them names the site. The next is the stack pointer.
const WORDS: usize = size_of::<Call>() / size_of::<usize>();
const SITE: usize = 25;
const _: () = assert!(WORDS == SITE + 2);

impl Site {
    /// Of the [`Call`] at this address, if there is one: it may be gone.
    pub(super) fn read(at: usize) -> Option<Site> {
        let mut words = [0; WORDS];
        if at == 0 || !memory::fetch(at, &mut words) {
            return None;
        }
        let mut site = [0; 1];
        if !memory::fetch(words[SITE], &mut site) {
            return None;
        }
        Some(Site {
            number: words[0],
            arguments: std::array::from_fn(|index| words[1 + index]),
            // The first word of a descriptor.
            next: site[0],
            stack_pointer: words[SITE + 1],
        })
    }
}
