//! futex_waitv(2): waiting for the first of a list of words that is woken.
//!
//! The list is read once. Each word has a place in the table, and the waiter is a [`Many`]: armed,
//! then the words are compared in their order, then it stops. A word that is requeued keeps its
//! waiter, as in the kernel: its place moves.
//!
//! # Lists with shared words
//!
//! A list of shared words only is the kernel's. A list of both kinds may not go to the kernel,
//! since private wake-ups look here. It has places for its private words. The caller, which is at
//! home, sleeps in the kernel by a list of the shared words and of the state word of its `Many`.
//! That list is not longer than the caller's, which has a private word. A waker that claims the
//! `Many` wakes its word in the kernel ([`Many::doze`]). So a wake-up of either kind ends the wait.
//! One that comes before the sleep is found by a comparison: here after arming, in the kernel under
//! its own locks.
//!
//! - V1: a wake-up that was counted is reported: the place at which it came is out of the table
//!   when the waiter leaves. Words that are woken after the first, until the waiter leaves, count,
//!   too, and the last in the list is reported. That is the kernel's way, by which such a wake-up
//!   is lost to others.

use super::super::many::Many;
use super::super::table;
use super::super::table::Stand;
use super::{doze, memory};
use crate::rt::server;
use crate::rt::time::now;
use crate::rt::wait::{self, Place};
use rustix::io::Errno;
use std::mem::MaybeUninit;

const REASON: &&str = &"futexes";

/// The kernel's limit.
pub(crate) const MOST: usize = 128;

/// The flags of a word.
const U32: u32 = 2;
const PRIVATE: u32 = 128;

/// The bytes of a word in the caller's list.
pub(crate) const ITEM: usize = 24;

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListEnd {
    /// The word with this index was woken.
    Woken(usize),
    /// Some word had another value.
    Changed,
    /// The list, or some word, cannot be read.
    Fault,
    /// Some word is not aligned.
    Misaligned,
    /// The list is the kernel's.
    Kernel,
    /// The list is to be waited for at home.
    Home,
    TimedOut,
    /// A cut has come.
    Cut,
    /// The kernel refuses to wait for the shared words.
    Refused(Errno),
}

/// A word of the list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListWord {
    pub(crate) address: usize,
    pub(crate) expected: u32,
    pub(crate) is_shared: bool,
}

/// The place of a word in the table.
#[repr(align(64))]
struct ListEntry {
    place: Place,
    stand: Stand,
}

/// Waits for the list at this address, which has from 1 to [`MOST`] words. The frame of a short
/// list is short, since stacks of threads may be.
pub(super) fn wait(list: usize, count: usize, deadline: u64) -> ListEnd {
    match count {
        0..=8 => wait_in::<8>(list, count, deadline),
        9..=32 => wait_in::<32>(list, count, deadline),
        _ => wait_in::<MOST>(list, count, deadline),
    }
}

#[inline(never)]
fn wait_in<const N: usize>(list: usize, count: usize, deadline: u64) -> ListEnd {
    let mut words = [const { MaybeUninit::<ListWord>::uninit() }; N];
    for (index, word) in words[..count].iter_mut().enumerate() {
        match item(list.wrapping_add(index * ITEM)) {
            Ok(item) => word.write(item),
            Err(end) => return end,
        };
    }
    let words: *const [MaybeUninit<_>] = &words[..count];
    // SAFETY: so many were written.
    let words = unsafe { &*(words as *const [ListWord]) };
    let shared = words.iter().filter(|word| word.is_shared).count();
    if shared == count {
        return ListEnd::Kernel;
    }
    if shared > 0 && server::running().is_some() {
        return ListEnd::Home;
    }
    words
        .iter()
        .find_map(ListWord::refused)
        .unwrap_or_else(|| wait_for::<N>(words, deadline))
}

/// A word of the caller's list. Lists that the kernel may refuse, or for which it may know more
/// than this does, are its own.
pub(crate) fn item(at: usize) -> Result<ListWord, ListEnd> {
    let words: [u32; ITEM / 4] = memory::read(at).ok_or(ListEnd::Fault)?;
    let [value, above, low, high, flags, reserved] = words;
    if above != 0 || reserved != 0 || flags & !PRIVATE != U32 {
        return Err(ListEnd::Kernel);
    }
    Ok(ListWord {
        address: memory::long(low, high) as usize,
        expected: value,
        is_shared: flags & PRIVATE == 0,
    })
}

impl ListWord {
    /// Why no party can wait for it.
    fn refused(&self) -> Option<ListEnd> {
        if self.address % size_of::<u32>() != 0 {
            Some(ListEnd::Misaligned)
        } else if !memory::may_be_there(self.address) {
            // The kernel knows whether that, or another word's value, comes first.
            Some(ListEnd::Kernel)
        } else {
            None
        }
    }

    /// Why a wait for it ends at once. The kernel looks at shared words.
    fn end(&self) -> Option<ListEnd> {
        if self.is_shared {
            return None;
        }
        match memory::load(self.address) {
            None => Some(ListEnd::Fault),
            Some(value) => (value != self.expected).then_some(ListEnd::Changed),
        }
    }
}

/// Waits for words that can be waited for, at most `N`.
#[inline]
pub(crate) fn wait_for<const N: usize>(words: &[ListWord], deadline: u64) -> ListEnd {
    // Read only, at first. That brings their pages in, too.
    if let Some(end) = words.iter().find_map(ListWord::end) {
        return end;
    }
    let many = Many::new();
    let mut entries = [const { MaybeUninit::<ListEntry>::uninit() }; N];
    let mut entered = 0;
    let own = words.iter().enumerate().filter(|(_, word)| !word.is_shared);
    for (index, word) in own {
        entries[entered].write(ListEntry {
            place: Place::new(),
            stand: Stand::of_many(word.address, &many, index).moving(),
        });
        entered += 1;
    }
    let entries: *const [MaybeUninit<ListEntry>] = &entries[..entered];
    // SAFETY: so many were written.
    let entries = unsafe { &*(entries as *const [ListEntry]) };
    wait::undisturbed(|_| {
        for entry in entries {
            // SAFETY: they stay in this frame until they have left, below.
            unsafe { table().enter(&entry.stand, &entry.place) };
        }
    });
    let end = wait_entered(&many, words, deadline);
    // V1: as in the kernel, the last word is reported that was woken, also after the first.
    let mut woken = None;
    wait::undisturbed(|_| {
        for entry in entries {
            if !table().leave(&entry.stand, &entry.place) {
                woken = Some(entry.stand.index());
            }
        }
    });
    match (end, woken) {
        (ListEnd::Woken(shared), Some(index)) => ListEnd::Woken(index.max(shared)),
        (_, Some(index)) => ListEnd::Woken(index),
        (end, None) => end,
    }
}

/// Waits for words whose places stand in the table.
fn wait_entered(many: &Many, words: &[ListWord], deadline: u64) -> ListEnd {
    many.arm();
    if let Some(end) = words.iter().find_map(ListWord::end) {
        return many.disarm().map_or(end, ListEnd::Woken);
    }
    if words.iter().any(|word| word.is_shared) {
        return doze::wait(many, words, deadline);
    }
    match many.wait_cuttable(REASON, deadline) {
        Some(index) => ListEnd::Woken(index),
        None if now() >= deadline => ListEnd::TimedOut,
        None => ListEnd::Cut,
    }
}
