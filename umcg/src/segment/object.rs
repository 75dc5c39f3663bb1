//! Objects: their words, and their inner locks.
//!
//! ```text
//!   63   48 47        35     34       33       32     31   0
//!  | holder | generation | CORRUPT | DEAD | WAITERS | count |
//! ```
//!
//! The generation counts how often the lock was given back. By it a waiter for the lock knows two
//! holds by the same party from one. See the rules G1 to G4 of docs/protocols/segment.md.

use super::error::Fault;
use super::kernel;
use super::layout::OBJECT;
use super::shared::{OpenSegment, WaitRecord, claimed_at};
use super::stopwatch::Stopwatch;
use crate::rt::sync::{AtomicU32, AtomicU64, Ordering::*, give_way_briefly, spin};
use crate::rt::{time, wait};

pub(super) const COUNT: u64 = u32::MAX as u64;
pub(super) const WAITERS: u64 = 1 << 32;
pub(super) const DEAD: u64 = 1 << 33;
pub(super) const CORRUPT: u64 = 1 << 34;
const GENERATION: u64 = 1 << 35;
const GENERATIONS: u64 = 0x1fff << 35;
const HOLDER: u64 = 0xffff << 48;
/// If none of these is set, an operation is one compare-and-swap.
pub(super) const BUSY: u64 = HOLDER | CORRUPT | DEAD | WAITERS;

/// How often the lock is checked with preemption off.
const LOOKS: u32 = 100;
/// How often other threads may run before the holder is suspected.
const YIELDS: u32 = 20;
/// How long a party that buries another waits for a lock, in nanoseconds.
const BRIEF: u64 = 5_000_000;

/// The kind of an object. A copy that has been checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SegmentObjectKind {
    Semaphore,
    /// An event that is reset automatically.
    Auto,
    /// An event that is reset by hand.
    Manual,
    Tube(MessageRing),
}

/// The place of a tube's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MessageRing {
    pub(super) capacity: u32,
    /// Bytes of a message.
    pub(super) size: u32,
    pub(super) at: usize,
}

impl MessageRing {
    /// The distance from one message to the next.
    pub(super) fn stride(self) -> usize {
        (self.size as usize).next_multiple_of(8)
    }
}

/// The queue of an event or a semaphore, or of a tube's receivers.
pub(super) const FIRST: u32 = 0;
/// The queue of a tube's senders.
pub(super) const SENDERS: u32 = 1;

#[derive(Clone, Copy)]
pub(super) struct SegmentObject<'a> {
    pub(super) shared: &'a OpenSegment,
    pub(super) number: u32,
    pub(super) kind: SegmentObjectKind,
    at: usize,
}

/// How to wait for an inner lock.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// Waits as long as it takes, and checks whether the holder is alive.
    Patient,
    /// Waits for a short time. Then fails as if the segment were full.
    Brief,
}

/// The outcome of one attempt.
enum Attempt<R> {
    Done(Result<R, Fault>, ClaimedLeaders),
    Held(u64),
    Broken(Fault),
}

impl<'a> SegmentObject<'a> {
    /// The object with this number, which is below the number of objects.
    pub(super) fn new(
        shared: &'a OpenSegment,
        number: u32,
        kind: SegmentObjectKind,
    ) -> SegmentObject<'a> {
        SegmentObject {
            shared,
            number,
            kind,
            at: shared.layout.object(number),
        }
    }

    pub(super) fn word(self) -> &'a AtomicU64 {
        self.shared.memory.u64(self.at)
    }

    /// The first record of a queue, plus 1.
    pub(super) fn first(self, queue: u32) -> &'a AtomicU32 {
        self.shared.memory.u32(self.at + 32 + 8 * queue as usize)
    }

    /// The last record of a queue, plus 1.
    pub(super) fn last(self, queue: u32) -> &'a AtomicU32 {
        self.shared.memory.u32(self.at + 36 + 8 * queue as usize)
    }

    /// Of a tube: how many messages are promised to receivers, or free slots to senders.
    pub(super) fn promised(self, queue: u32) -> &'a AtomicU32 {
        self.shared.memory.u32(self.at + 48 + 4 * queue as usize)
    }

    /// Of a tube: the slot of the next message to receive.
    pub(super) fn head(self) -> &'a AtomicU32 {
        self.shared.memory.u32(self.at + 56)
    }

    /// Of a tube: how many messages there are, including promised ones.
    pub(super) fn len(self) -> &'a AtomicU32 {
        self.shared.memory.u32(self.at + 60)
    }

    /// Of a tube: whether it is closed.
    pub(super) fn closed(self) -> &'a AtomicU32 {
        self.shared.memory.u32(self.at + 64)
    }

    /// The fault of the object, if it is dead or corrupt for good.
    pub(super) fn fault(self) -> Option<Fault> {
        fault(self.word().load(Relaxed))
    }

    /// Calls `f` with the inner lock held, and then wakes the waiters that `f` claimed. Does not
    /// switch.
    pub(super) fn locked<R>(
        self,
        f: impl FnOnce(&mut LockedObject<'a>) -> Result<R, Fault>,
    ) -> Result<R, Fault> {
        let holder = self.shared.party()?.holder();
        self.locked_as(holder, Manner::Patient, f)
    }

    /// The same for a party that buries another, in the name of this holder. Gives up if it takes
    /// long.
    pub(super) fn locked_briefly<R>(
        self,
        holder: u32,
        f: impl FnOnce(&mut LockedObject<'a>) -> Result<R, Fault>,
    ) -> Result<R, Fault> {
        self.locked_as(holder, Manner::Brief, f)
    }

    fn locked_as<R>(
        self,
        holder: u32,
        manner: Manner,
        f: impl FnOnce(&mut LockedObject<'a>) -> Result<R, Fault>,
    ) -> Result<R, Fault> {
        let mut patience = Patience::default();
        let mut f = Some(f);
        loop {
            match wait::undisturbed(|_| self.attempt(holder, &mut f)) {
                Attempt::Done(result, woken) => {
                    woken.wake(self.shared);
                    if result.is_err() {
                        self.tell_all();
                    }
                    return result;
                }
                Attempt::Held(word) => patience.stand_by(self, word, manner)?,
                Attempt::Broken(fault) => return Err(fault),
            }
        }
    }

    /// Called with preemption off.
    fn attempt<R, F: FnOnce(&mut LockedObject<'a>) -> Result<R, Fault>>(
        self,
        holder: u32,
        f: &mut Option<F>,
    ) -> Attempt<R> {
        let mut looks = 0;
        let (word, taken) = loop {
            let word = self.word().load(Relaxed);
            if let Some(fault) = fault(word) {
                return Attempt::Broken(fault);
            }
            if word & HOLDER == 0 {
                let taken = word | (u64::from(holder) << 48);
                // ORDERING(seg-lock.1): Acquire, pairs with seg-lock.2: queues and rings are as the
                // last holder left them.
                // ORDERING(seg-word.2): likewise, for the data that the count stands for.
                if self
                    .word()
                    .compare_exchange_weak(word, taken, Acquire, Relaxed)
                    .is_ok()
                {
                    break (word, taken);
                }
            } else if looks >= LOOKS {
                return Attempt::Held(word);
            }
            looks += 1;
            spin();
        };
        let mut locked = LockedObject {
            object: self,
            word,
            woken: ClaimedLeaders::new(),
        };
        let result = match f.take() {
            Some(f) => f(&mut locked),
            None => Err(Fault::Corrupt),
        };
        let is_waited_for =
            self.first(FIRST).load(Relaxed) != 0 || self.first(SENDERS).load(Relaxed) != 0;
        let waiters = if is_waited_for { WAITERS } else { 0 };
        let corrupt = if result.is_err() { CORRUPT } else { 0 };
        let generation = word.wrapping_add(GENERATION) & GENERATIONS;
        let word = locked.word & COUNT | waiters | corrupt | generation;
        // ORDERING(seg-lock.2): Release, pairs with seg-lock.1.
        // ORDERING(seg-word.1): likewise, for operations that take from the word.
        match self.word().compare_exchange(taken, word, Release, Relaxed) {
            Ok(_) => Attempt::Done(result, locked.woken),
            // Another party has lost patience, or written an invalid value.
            Err(now) => Attempt::Broken(fault(now).unwrap_or_else(|| self.condemn(now, CORRUPT))),
        }
    }

    /// Makes the object dead or corrupt for good, if its word is still `word`.
    pub(super) fn condemn(self, word: u64, how: u64) -> Fault {
        if self
            .word()
            .compare_exchange(word, word & !HOLDER | how, Relaxed, Relaxed)
            .is_ok()
        {
            self.tell_all();
        }
        if how == DEAD {
            Fault::Dead
        } else {
            Fault::Corrupt
        }
    }

    /// Makes the object dead, if this party holds the lock.
    pub(super) fn condemn_if_held_by(self, party: u32) {
        let word = self.word().load(Relaxed);
        if holder(word) == Some(party) && fault(word).is_none() {
            self.condemn(word, DEAD);
        }
    }

    /// Wakes all waiters, so that they see the fault. A waiter that begins to sleep just then sees
    /// it when its interval ends.
    #[cold]
    fn tell_all(self) {
        for (_, record) in self.shared.records() {
            if record.object().load(Relaxed) == self.number + 1 {
                self.shared.wake(record.leader().load(Relaxed));
            }
        }
    }
}

/// The permanent fault that a word shows.
pub(super) fn fault(word: u64) -> Option<Fault> {
    match word & (DEAD | CORRUPT) {
        0 => None,
        DEAD => Some(Fault::Dead),
        _ => Some(Fault::Corrupt),
    }
}

/// The holder of the lock.
fn holder(word: u64) -> Option<u32> {
    ((word >> 48) as u32).checked_sub(1)
}

/// An object whose inner lock the caller holds.
pub(super) struct LockedObject<'a> {
    pub(super) object: SegmentObject<'a>,
    /// The word as it will be stored; the count is changed in it.
    pub(super) word: u64,
    pub(super) woken: ClaimedLeaders,
}

/// The leaders of the waits that were claimed.
pub(super) struct ClaimedLeaders {
    leaders: [u32; ClaimedLeaders::MOST],
    len: usize,
}

impl ClaimedLeaders {
    const MOST: usize = 16;

    fn new() -> ClaimedLeaders {
        ClaimedLeaders {
            leaders: [0; ClaimedLeaders::MOST],
            len: 0,
        }
    }

    pub(super) fn push(&mut self, leader: u32) {
        if let Some(slot) = self.leaders.get_mut(self.len) {
            *slot = leader;
        }
        self.len += 1;
    }

    /// Do not call this under a lock.
    fn wake(&self, shared: &OpenSegment) {
        match self.leaders.get(..self.len) {
            Some(leaders) => leaders.iter().for_each(|leader| shared.wake(*leader)),
            // There were too many to note: some waiters are woken without a reason, and check
            // again.
            None => {
                let claimed = |(_, record): &(u32, WaitRecord<'_>)| {
                    claimed_at(record.state().load(Relaxed)).is_some()
                };
                shared
                    .records()
                    .filter(claimed)
                    .for_each(|(number, _)| shared.wake(number));
            }
        }
    }
}

/// How long a party has waited for an inner lock while its word does not change, that is, while one
/// hold lasts: the next hold has another generation.
#[derive(Default)]
struct Patience {
    turns: u32,
    word: u64,
    waited: Stopwatch,
}

impl Patience {
    /// One turn of a wait for the lock. The holder may be running, may have lost its processor, may
    /// be stopped, or may be dead.
    #[cold]
    fn stand_by(
        &mut self,
        object: SegmentObject<'_>,
        word: u64,
        manner: Manner,
    ) -> Result<(), Fault> {
        self.turns += 1;
        if self.turns < YIELDS {
            give_way_briefly();
            return Ok(());
        }
        if word != self.word {
            (self.word, self.waited) = (word, Stopwatch::default());
        }
        let waited = self.waited.look(time::now());
        if manner == Manner::Brief {
            if waited > BRIEF {
                return Err(Fault::Full);
            }
        } else if waited > object.shared.patience.load(Relaxed) {
            return Err(object.condemn(word, CORRUPT));
        } else if let Some(holder) = holder(word) {
            object.shared.look_after(holder);
        }
        kernel::pause();
        Ok(())
    }
}

const _: () = assert!(OBJECT >= 192);
