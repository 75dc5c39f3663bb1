//! Deadlines of waiting workers: arming and disarming take constant time, allocate nothing, and
//! cost no more with a million of them.
//!
//! Source: Varghese, Lauck, "Hashed and hierarchical timing wheels", 1987, scheme 7. Time is cut
//! into ticks of 1.024 us. Level 0 has a slot for each of 256 ticks, a slot of level 1 is 256 ticks
//! wide, and so on. Seven levels span all 64 bits of nanoseconds, so no deadline is too far.
//!
//! ```text
//! level 0   |·|·|x|·|x|…        each slot: a ring of entries, and a lower bound of their deadlines
//! level 1   |   ·   |   x   |…  each level: a bit for each slot that is not empty
//! ```
//!
//! An entry stands at the level of the highest eight bits in which its tick differs from the
//! current one. So within a level all entries lie ahead, none wraps around, and all of one level
//! come before any of the next: the first bit of the lowest level is the slot of the earliest
//! entry. When the time reaches a slot of a higher level, its entries are placed again, further
//! down. That happens at most six times in an entry's life, and never to an entry that is disarmed
//! before.
//!
//! Invariants:
//!
//! - I1: An entry of level n > 0 agrees with `current` in all bits above the level's, and its slot
//!   is greater than that of `current`. Of level 0: not less.
//! - I2: A slot's bit is set exactly while it has entries; a level's, while it has such slots.
//! - I3: `earliest` of a slot is no later than any deadline in it, and the tick it lies in no
//!   earlier than the slot begins. It is exact unless the slot's `stale` bit is set.
//!
//! No entry fires early: whether an entry of the current tick is due is decided by its nanoseconds.
//! No entry fires late: [`Wheel::next`] is never after any entry's deadline. It is the earliest
//! deadline, except when the earliest of many in a slot was disarmed. Then it causes one early
//! check, which sorts the slot out. Avoiding that check would mean searching thousands of entries
//! again and again, as on a server with thousands of connections.
//!
//! An entry belongs to the wheel from `insert` until it fires or is removed, and stays where it is
//! for as long. All of it is guarded by the lock that the wheel is under. Entries with the same
//! deadline fire in the order in which they were armed.
//!
//! Not chosen: the pairing heap of `umcg_core`. Its removal takes logarithmic time, with a cache
//! miss at each step, and most deadlines of a server are disarmed.

use std::cell::Cell;
use std::marker::PhantomPinned;
use std::ptr::NonNull;

/// Nanoseconds of a tick, as a power of two.
const TICK: u32 = 10;
/// Bits of the tick that one level distinguishes.
const BITS: u32 = 8;
const SLOTS: usize = 1 << BITS;
const LEVELS: usize = (u64::BITS - TICK).div_ceil(BITS) as usize;
/// How many entries `next` examines.
const LOOKS: usize = 32;
/// The place of an entry that is in no slot.
const NOWHERE: u16 = u16::MAX;

/// A place in a wheel, for one deadline at a time.
pub(crate) struct TimerEntry<P> {
    payload: P,
    deadline: Cell<u64>,
    /// Level and slot, or `NOWHERE`.
    place: Cell<u16>,
    /// The ring of entries in the slot.
    next: Cell<NonNull<TimerEntry<P>>>,
    before: Cell<NonNull<TimerEntry<P>>>,
    _pinned: PhantomPinned,
}

// SAFETY: the contents of the cells are touched under the wheel's lock only. The payload goes to
// the thread that fires the entry.
unsafe impl<P: Send> Send for TimerEntry<P> {}
// SAFETY: as above; a shared entry gives access to nothing.
unsafe impl<P: Send> Sync for TimerEntry<P> {}

impl<P> TimerEntry<P> {
    pub(crate) const fn new(payload: P) -> Self {
        TimerEntry {
            payload,
            deadline: Cell::new(0),
            place: Cell::new(NOWHERE),
            next: Cell::new(NonNull::dangling()),
            before: Cell::new(NonNull::dangling()),
            _pinned: PhantomPinned,
        }
    }
}

struct WheelSlot<P> {
    first: Option<NonNull<TimerEntry<P>>>,
    earliest: u64,
}

/// A set of bits, one for each slot of a level.
#[derive(Clone, Copy, Default)]
struct Bits([u64; SLOTS / 64]);

impl Bits {
    fn set(&mut self, slot: usize) {
        self.0[slot / 64] |= 1 << (slot % 64);
    }

    fn clear(&mut self, slot: usize) {
        self.0[slot / 64] &= !(1 << (slot % 64));
    }

    fn has(&self, slot: usize) -> bool {
        self.0[slot / 64] & 1 << (slot % 64) != 0
    }

    fn first(&self) -> Option<usize> {
        let word = self.0.iter().position(|&word| word != 0)?;
        Some(word * 64 + self.0[word].trailing_zeros() as usize)
    }
}

/// The armed deadlines of a server, in nanoseconds of a clock that does not go back.
pub(crate) struct Wheel<P> {
    /// The tick before which no entry is left. The tick itself may have entries left.
    current: u64,
    armed: usize,
    /// A bit for each level with entries.
    levels: u8,
    occupied: [Bits; LEVELS],
    stale: [Bits; LEVELS],
    slots: Box<[WheelSlot<P>]>,
}

// SAFETY: entries are touched by the owner of the wheel only, and may be shared between threads for
// that.
unsafe impl<P: Send> Send for Wheel<P> {}

/// # Safety
/// The entry is armed, and in this wheel, or is about to be: so it is alive, and the caller owns
/// the wheel.
#[inline]
unsafe fn at<'a, P>(entry: NonNull<TimerEntry<P>>) -> &'a TimerEntry<P> {
    // SAFETY: passed on.
    unsafe { entry.as_ref() }
}

impl<P: Copy> Wheel<P> {
    /// An empty wheel. The first `expire` sets its clock, which may start anywhere.
    pub(crate) fn new() -> Self {
        Wheel {
            current: 0,
            armed: 0,
            levels: 0,
            occupied: [Bits::default(); LEVELS],
            stale: [Bits::default(); LEVELS],
            slots: (0..LEVELS * SLOTS)
                .map(|_| WheelSlot {
                    first: None,
                    earliest: u64::MAX,
                })
                .collect(),
        }
    }

    /// How many entries are armed.
    pub(crate) fn len(&self) -> usize {
        self.armed
    }

    /// Arms an entry.
    ///
    /// # Safety
    /// It is not armed. Until it has fired, or was removed from this wheel, it stays alive, where
    /// it is, and untouched.
    pub(crate) unsafe fn insert(&mut self, entry: NonNull<TimerEntry<P>>, deadline: u64) {
        // SAFETY: passed on.
        let armed = unsafe { at(entry) };
        debug_assert_eq!(armed.place.get(), NOWHERE);
        armed.deadline.set(deadline);
        self.armed += 1;
        self.place(entry);
    }

    /// Disarms an entry. Returns whether it was armed: if not, it has fired, or never was armed.
    ///
    /// # Safety
    /// The entry is alive. If it is armed, it is armed in this wheel.
    pub(crate) unsafe fn remove(&mut self, entry: NonNull<TimerEntry<P>>) -> bool {
        // SAFETY: alive, and of this wheel.
        let armed = unsafe { at(entry) };
        if armed.place.get() == NOWHERE {
            return false;
        }
        self.unlink(entry);
        self.armed -= 1;
        true
    }

    /// When to call `expire` next: no entry is due before. `u64::MAX` if there is none.
    pub(crate) fn next(&mut self) -> u64 {
        let Some(place) = self.first() else {
            return u64::MAX;
        };
        if self.stale[place / SLOTS].has(place % SLOTS) {
            self.look_for_earliest(place);
        }
        self.slots[place].earliest
    }

    /// Disarms the entries that are due at `now`, and calls `fired` with the payload of each. The
    /// entry no longer belongs to the wheel then. Stops when `fired` returns false; the rest stays
    /// due.
    pub(crate) fn expire(&mut self, now: u64, fired: &mut dyn FnMut(P) -> bool) {
        // Another thread may have read the clock earlier and taken the lock later.
        let target = (now >> TICK).max(self.current);
        while let Some(place) = self.first() {
            let begins = self.begins(place);
            if begins > target {
                break;
            }
            // No entry lies between (I1).
            self.current = begins;
            if place < SLOTS {
                if !self.fire(place, now, fired) {
                    return;
                }
                if self.occupied[0].has(place) {
                    break; // the rest of the current tick stays
                }
            } else {
                self.spread(place);
            }
        }
        self.current = target;
    }

    /// The slot of the earliest entry.
    #[inline]
    fn first(&self) -> Option<usize> {
        let level = self.levels.trailing_zeros() as usize;
        Some(level * SLOTS + self.occupied.get(level)?.first()?)
    }

    /// The first tick of a slot that lies ahead.
    fn begins(&self, place: usize) -> u64 {
        let shift = BITS * (place / SLOTS) as u32;
        let above = self.current.checked_shr(shift + BITS).unwrap_or(0);
        (above << BITS | (place % SLOTS) as u64) << shift
    }

    /// Puts an entry at the end of the slot that its deadline belongs to. The entry is alive, and
    /// in no slot.
    fn place(&mut self, entry: NonNull<TimerEntry<P>>) {
        // SAFETY: about to be in this wheel.
        let placed = unsafe { at(entry) };
        let deadline = placed.deadline.get();
        let tick = (deadline >> TICK).max(self.current);
        let level = (63 - (tick ^ self.current | 1).leading_zeros()) / BITS;
        let slot = (tick >> (level * BITS)) as usize % SLOTS;
        let level = level as usize;
        let place = level * SLOTS + slot;
        placed.place.set(place as u16);
        let ring = &mut self.slots[place];
        if let Some(first) = ring.first {
            // SAFETY: in this wheel.
            let first_entry = unsafe { at(first) };
            let last = first_entry.before.replace(entry);
            // SAFETY: in this wheel.
            unsafe { at(last) }.next.set(entry);
            placed.before.set(last);
            placed.next.set(first);
            if deadline <= ring.earliest {
                ring.earliest = deadline;
                self.stale[level].clear(slot);
            }
        } else {
            placed.before.set(entry);
            placed.next.set(entry);
            *ring = WheelSlot {
                first: Some(entry),
                earliest: deadline,
            };
            self.stale[level].clear(slot);
            self.occupied[level].set(slot);
            self.levels |= 1 << level;
        }
    }

    /// Takes an entry out of its slot.
    fn unlink(&mut self, entry: NonNull<TimerEntry<P>>) {
        // SAFETY: in this wheel.
        let unlinked = unsafe { at(entry) };
        let place = usize::from(unlinked.place.replace(NOWHERE));
        let (next, before) = (unlinked.next.get(), unlinked.before.get());
        if next == entry {
            self.empty(place);
            return;
        }
        // SAFETY: in this wheel.
        unsafe { at(next) }.before.set(before);
        // SAFETY: in this wheel.
        unsafe { at(before) }.next.set(next);
        let ring = &mut self.slots[place];
        if ring.first == Some(entry) {
            ring.first = Some(next);
        }
        if ring.earliest == unlinked.deadline.get() {
            self.stale[place / SLOTS].set(place % SLOTS);
        }
    }

    /// Empties a slot, and returns its first entry.
    fn empty(&mut self, place: usize) -> Option<NonNull<TimerEntry<P>>> {
        let (level, slot) = (place / SLOTS, place % SLOTS);
        self.occupied[level].clear(slot);
        if self.occupied[level].first().is_none() {
            self.levels &= !(1 << level);
        }
        self.slots[place].first.take()
    }

    /// Places the entries of a slot again, now that the time has reached its beginning.
    fn spread(&mut self, place: usize) {
        let Some(first) = self.empty(place) else {
            return;
        };
        let mut entry = first;
        loop {
            // SAFETY: was in this wheel, and will be.
            let next = unsafe { at(entry) }.next.get();
            self.place(entry);
            if next == first {
                return;
            }
            entry = next;
        }
    }

    /// Fires the entries that are due in a slot of level 0, and finds the earliest of the rest.
    /// False if `fired` takes no more.
    fn fire(&mut self, place: usize, now: u64, fired: &mut dyn FnMut(P) -> bool) -> bool {
        let Some(first) = self.slots[place].first else {
            return true;
        };
        // SAFETY: in this wheel.
        let last = unsafe { at(first) }.before.get();
        let mut entry = first;
        let mut earliest = u64::MAX;
        loop {
            // SAFETY: in this wheel.
            let looked_at = unsafe { at(entry) };
            let (next, deadline, payload) = (
                looked_at.next.get(),
                looked_at.deadline.get(),
                looked_at.payload,
            );
            if deadline <= now {
                self.unlink(entry);
                self.armed -= 1;
                // From here on the entry may be gone.
                if !fired(payload) {
                    return false; // the slot's bound stays valid, if not exact
                }
            } else {
                earliest = earliest.min(deadline);
            }
            if entry == last {
                break;
            }
            entry = next;
        }
        self.slots[place].earliest = earliest;
        self.stale[place / SLOTS].clear(place % SLOTS);
        true
    }

    /// Makes the bound of a slot exact, if it has few entries.
    fn look_for_earliest(&mut self, place: usize) {
        let Some(first) = self.slots[place].first else {
            return;
        };
        let mut entry = first;
        let mut earliest = u64::MAX;
        for _ in 0..LOOKS {
            // SAFETY: in this wheel.
            let looked_at = unsafe { at(entry) };
            earliest = earliest.min(looked_at.deadline.get());
            entry = looked_at.next.get();
            if entry == first {
                self.slots[place].earliest = earliest;
                self.stale[place / SLOTS].clear(place % SLOTS);
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// A xorshift generator: the same sequence every run.
    fn random(state: &mut u64) -> u64 {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        *state
    }

    /// A wheel, and its expected contents: (deadline, when armed, index).
    struct Pair {
        wheel: Wheel<usize>,
        entries: Vec<TimerEntry<usize>>,
        armed: Vec<Option<(u64, u64)>>,
        sorted: BTreeSet<(u64, u64, usize)>,
        turn: u64,
    }

    impl Pair {
        fn new(count: usize) -> Pair {
            Pair {
                wheel: Wheel::new(),
                entries: (0..count).map(TimerEntry::new).collect(),
                armed: vec![None; count],
                sorted: BTreeSet::new(),
                turn: 0,
            }
        }

        fn toggle(&mut self, at: usize, deadline: u64) {
            let entry = NonNull::from(&self.entries[at]);
            self.turn += 1;
            if let Some((deadline, turn)) = self.armed[at].take() {
                // SAFETY: armed in this wheel.
                assert!(unsafe { self.wheel.remove(entry) });
                assert!(self.sorted.remove(&(deadline, turn, at)));
            } else {
                // SAFETY: alive, and not armed.
                assert!(!unsafe { self.wheel.remove(entry) });
                // SAFETY: not armed; the vector of entries does not change while the wheel lives.
                unsafe { self.wheel.insert(entry, deadline) };
                self.armed[at] = Some((deadline, self.turn));
                self.sorted.insert((deadline, self.turn, at));
            }
        }

        /// All entries that are due fire, and no others: in the order of the ticks, and with the
        /// same deadline in the order of arming.
        fn expire(&mut self, now: u64) {
            let mut fired = Vec::new();
            self.wheel.expire(now, &mut |at| {
                fired.push(at);
                true
            });
            let mut before = (0, 0, 0);
            for at in fired {
                let (deadline, turn) = self.armed[at].take().expect("fired what is not armed");
                assert!(deadline <= now, "fired early");
                assert!(self.sorted.remove(&(deadline, turn, at)));
                assert!(deadline != before.1 || turn > before.2, "out of turn");
                before = (before.0.max(deadline >> TICK), deadline, turn);
            }
            assert!(
                self.sorted.first().is_none_or(|first| first.0 > now),
                "did not fire"
            );
            self.check();
        }

        /// `next` is never late. It is exact where so few are armed that no slot has too many.
        fn check(&mut self) {
            let earliest = self.sorted.first().map_or(u64::MAX, |first| first.0);
            let next = self.wheel.next();
            assert!(next <= earliest, "late");
            assert!(next == earliest || self.sorted.len() > LOOKS, "early");
            assert_eq!(self.wheel.len(), self.sorted.len());
        }
    }

    /// A deadline as far from now as any of the levels.
    fn deadline(seed: &mut u64, now: u64) -> u64 {
        let bits = random(seed) % 64;
        let far = random(seed) >> bits;
        match random(seed) % 16 {
            0 => now.saturating_sub(far),
            1 => u64::MAX - far,
            2 => now, // often the same
            _ => now.saturating_add(far),
        }
    }

    fn against_a_sorted_set(count: usize, steps: usize, mut seed: u64) {
        let mut pair = Pair::new(count);
        let mut now = random(&mut seed) >> (random(&mut seed) % 64);
        for _ in 0..steps {
            match random(&mut seed) % 8 {
                0 => {
                    // The moment of an idle server's next check; seldom so far ahead that the rest
                    // of the run is at the end of time.
                    let next = pair.wheel.next().max(now);
                    if next - now < 1 << 44 || random(&mut seed) % 500 == 0 && next != u64::MAX {
                        now = next;
                    }
                    pair.expire(now);
                }
                1 => {
                    let bits = 20 + random(&mut seed) % 44;
                    now = now.saturating_add(random(&mut seed) >> bits);
                    pair.expire(now);
                }
                // A thread that read the clock earlier.
                2 => pair.expire(now.saturating_sub(random(&mut seed) % 10_000)),
                _ => {
                    let at = (random(&mut seed) % count as u64) as usize;
                    let deadline = deadline(&mut seed, now);
                    pair.toggle(at, deadline);
                    pair.check();
                }
            }
        }
        pair.expire(u64::MAX);
        assert_eq!(pair.wheel.next(), u64::MAX);
    }

    #[test]
    fn agrees_with_a_sorted_set() {
        let (seeds, steps) = if cfg!(miri) { (1, 300) } else { (100, 3000) };
        for seed in 1..=seeds {
            against_a_sorted_set(5, steps, seed * 0x9e37_79b9);
            against_a_sorted_set(30, steps, seed * 0x1234_5677);
            against_a_sorted_set(500, steps, seed * 0x2545_f491);
        }
    }

    /// An idle server wakes up for deadlines only, however far they are.
    #[test]
    fn nobody_wakes_for_nothing() {
        let mut pair = Pair::new(100);
        let mut seed = 0x2545_f491_4f6c_dd1d;
        for at in 0..100 {
            let deadline = deadline(&mut seed, 1 << 40);
            pair.toggle(at, deadline);
        }
        loop {
            let (next, before) = (pair.wheel.next(), pair.sorted.len());
            if before == 0 {
                break;
            }
            assert_eq!(next, pair.sorted.first().unwrap().0);
            pair.expire(next);
            assert!(pair.sorted.len() < before);
        }
    }

    /// If the earliest of many is gone, it costs one early check and no more.
    #[test]
    fn one_early_look_at_most() {
        let mut pair = Pair::new(1000);
        let base = 1 << 44;
        pair.expire(base);
        for at in 0..1000 {
            pair.toggle(at, base + 30_000_000_000 + at as u64 * 1000);
        }
        (0..500).for_each(|at| pair.toggle(at, 0));
        let early = pair.wheel.next();
        assert!(early >= base + 30_000_000_000);
        pair.expire(early);
        assert_eq!(pair.wheel.next(), base + 30_000_500_000);
    }

    /// With a million entries: arming, disarming half, and letting the rest fire takes a fraction
    /// of a second.
    #[test]
    fn a_million() {
        let count = if cfg!(miri) { 1000 } else { 1_000_000 };
        let entries: Vec<TimerEntry<u64>> = (0..count)
            .map(|index| TimerEntry::new(index as u64))
            .collect();
        let mut wheel = Wheel::new();
        let mut seed = 88_172_645_463_325_252;
        let start = std::time::Instant::now();
        for entry in &entries {
            // SAFETY: armed once; the vector does not change.
            unsafe { wheel.insert(NonNull::from(entry), random(&mut seed) % 60_000_000_000) };
        }
        for entry in entries.iter().step_by(2) {
            // SAFETY: as above.
            assert!(unsafe { wheel.remove(NonNull::from(entry)) });
        }
        let (mut fired, mut looks) = (0, 0);
        for now in (0..=60_000_000_000).step_by(1_000_000) {
            looks += usize::from(wheel.next() <= now);
            wheel.expire(now, &mut |_| {
                fired += 1;
                true
            });
        }
        assert_eq!((fired, wheel.len()), (count / 2, 0));
        println!("{count} entries, {looks} looks: {:?}", start.elapsed());
        assert!(start.elapsed() < std::time::Duration::from_secs(30));
    }
}
