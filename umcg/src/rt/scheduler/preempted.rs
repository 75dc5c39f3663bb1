//! Workers that were preempted, on any server.
//!
//! They mostly compute, and keep a server for as long as they may, while others mostly run for a
//! moment. So they come last (Corbató et al., "An experimental time-sharing system", 1962): when no
//! other worker is ready, or when others have run for [`PERIOD`] on end. Then each of them that
//! waits gets a turn, for that long in all.
//!
//! They share the processors by a *virtual time* (Stoica, Abdel-Wahab, "Earliest eligible virtual
//! deadline first", 1995; here without the deadlines). A worker's grows with each turn by the time
//! that the turn took, roughly: [`EARLY`] if others were waiting, and the worker had to go before
//! its tick; else [`FULL_TURN`]. The worker with the least is next. So a worker that was preempted
//! early comes before those that ran until their tick, as long as it has used no more than they: it
//! may hold a lock that others wait for. A worker that was not here for some time begins [`CREDIT`]
//! before the time of the one that was last served: it cannot save up more.
//!
//! All servers share one queue, so all such workers get an equal share of the processors.

use super::shared::{EMPTY, RunQueue, SharedQueue};
use crate::rt::base::sync::{AtomicU64, AtomicUsize, Ordering::*};
use crate::rt::task::Task;
use crate::rt::task::runnable::{Queue, Runnable};
use std::ptr;
use std::time::{Duration, Instant};

/// For how long others run on a server before preempted ones do, and these before others.
const PERIOD: Duration = Duration::from_millis(3);
/// Virtual time of a turn, in milliseconds.
const EARLY: u64 = 1;
pub(super) const FULL_TURN: u64 = 10;
/// What a worker may have saved up. Without it, one that mostly waits would have to wait for all
/// that compute whenever it is preempted.
const CREDIT: u64 = 3;

/// In the order of their virtual time.
#[derive(Default)]
struct ByTime(Queue);

impl RunQueue for ByTime {
    fn push(&mut self, worker: Runnable) {
        let time = worker.task().virtual_time.load(Relaxed);
        self.0
            .insert(worker, |other| other.virtual_time.load(Relaxed) <= time);
    }

    fn pop(&mut self) -> Option<Runnable> {
        self.0.pop_front()
    }

    fn first(&self) -> u64 {
        self.0
            .front()
            .map_or(EMPTY, |first| first.virtual_time.load(Relaxed))
    }

    fn another(&self) -> ByTime {
        ByTime::default()
    }
}

/// The workers that wait.
#[derive(Default)]
pub(super) struct Preempted {
    queue: SharedQueue<ByTime>,
    /// The virtual time of the one that was last served.
    now: AtomicU64,
    /// The address of the one that each server has served last.
    served: Box<[AtomicUsize]>,
}

/// A server's part in it.
#[derive(Default)]
pub(super) struct PreemptedTurns {
    /// When one was last preempted here.
    preempted: Option<Instant>,
    /// The next one is preempted before its tick.
    is_early: bool,
    /// Their turns before others: until when, and of those whose virtual time is less.
    period: Option<(Instant, u64)>,
}

impl PreemptedTurns {
    /// The worker that this server preempts next has not run until its tick.
    pub(super) fn note_early(&mut self) {
        self.is_early = true;
    }

    /// This server preempts a worker now. Returns the virtual time of its turn.
    pub(super) fn note_preempted(&mut self, now: Instant) -> u64 {
        self.preempted = Some(now);
        match std::mem::take(&mut self.is_early) {
            true => EARLY,
            false => FULL_TURN,
        }
    }

    /// Whether one is to run now although others are ready. `first`: the virtual time of that one.
    pub(super) fn is_time(&mut self, first: u64, now: Instant) -> bool {
        let goes_on = |(end, limit)| now < end && first < limit;
        if self.period.is_some_and(goes_on) {
            return true;
        }
        let is_time = self
            .preempted
            .is_none_or(|preempted| now.duration_since(preempted) >= PERIOD);
        self.period = is_time.then(|| (now + PERIOD, first.saturating_add(EARLY)));
        is_time
    }
}

impl Preempted {
    pub(super) fn start(&mut self, servers: usize) {
        self.served = (0..servers).map(|_| AtomicUsize::new(0)).collect();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// The virtual time of the next one.
    pub(super) fn first(&self) -> u64 {
        self.queue.first()
    }

    /// Adds one that had a turn of that virtual time.
    pub(super) fn put(&self, worker: Runnable, turn: u64) {
        let time = &worker.task().virtual_time;
        let least = self.now.load(Relaxed).saturating_sub(CREDIT);
        time.store(time.load(Relaxed).max(least) + turn, Relaxed);
        self.queue.push(worker);
    }

    /// Adds one that yields, behind all that had no longer turns.
    pub(super) fn put_last(&self, worker: Runnable) {
        let time = &worker.task().virtual_time;
        time.fetch_max(self.now.load(Relaxed), Relaxed);
        self.put(worker, FULL_TURN);
    }

    /// The one that is next, for this server.
    pub(super) fn next(&self, server: usize) -> Option<Runnable> {
        let next = self.queue.pop()?;
        let time = next.task().virtual_time.load(Relaxed);
        self.now.fetch_max(time, Relaxed);
        self.served[server].store(address(next.task()), Relaxed);
        Some(next)
    }

    /// Whether this worker, which runs on that server, goes on there after a preemption, and has
    /// woken no other one since. Called by any thread.
    pub(super) fn goes_on(&self, server: usize, task: &Task) -> bool {
        let is_served = self.served[server].load(Relaxed) == address(task);
        is_served && task.was_preempted.load(Relaxed)
    }
}

fn address(task: &Task) -> usize {
    ptr::from_ref(task).addr()
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::rt::task::heap;

    fn preempted() -> Preempted {
        let mut preempted = Preempted::default();
        preempted.start(1);
        preempted
    }

    fn task() -> &'static Task {
        let task = heap::take().unwrap();
        task.virtual_time.store(0, Relaxed);
        task
    }

    fn put(preempted: &Preempted, task: &'static Task, turn: u64) {
        // SAFETY: a task that no thread runs; it is put once, as the caller has it.
        preempted.put(unsafe { Runnable::new(task) }, turn);
    }

    fn next(preempted: &Preempted) -> &'static Task {
        preempted.next(0).unwrap().into_task()
    }

    #[test]
    fn the_one_that_has_used_least_is_next() {
        let preempted = preempted();
        let [full, one, other] = [task(), task(), task()];
        put(&preempted, full, FULL_TURN);
        put(&preempted, one, EARLY);
        put(&preempted, other, EARLY);
        // Early ones take turns, until each has used as much.
        for _ in 1..FULL_TURN {
            for early in [one, other] {
                let next = next(&preempted);
                assert!(ptr::eq(next, early));
                put(&preempted, next, EARLY);
            }
        }
        assert!(ptr::eq(next(&preempted), full));
        assert!(ptr::eq(next(&preempted), one));
        assert!(ptr::eq(next(&preempted), other));
        assert!(preempted.is_empty() && preempted.next(0).is_none());
    }

    #[test]
    fn one_that_was_away_saves_up_few_turns() {
        let preempted = preempted();
        let [away, stays] = [task(), task()];
        for _ in 0..100 {
            put(&preempted, stays, EARLY);
            next(&preempted);
        }
        put(&preempted, stays, EARLY);
        for _ in 0..CREDIT {
            put(&preempted, away, EARLY);
            assert!(ptr::eq(next(&preempted), away));
        }
        put(&preempted, away, EARLY);
        assert!(ptr::eq(next(&preempted), stays));
        assert!(ptr::eq(next(&preempted), away));
    }

    #[test]
    fn one_that_yields_has_no_credit() {
        let preempted = preempted();
        let [computes, yields] = [task(), task()];
        put(&preempted, computes, FULL_TURN);
        put(&preempted, next(&preempted), FULL_TURN);
        // SAFETY: a task that no thread runs.
        preempted.put_last(unsafe { Runnable::new(yields) });
        assert!(ptr::eq(next(&preempted), computes));
        assert!(ptr::eq(next(&preempted), yields));
    }

    #[test]
    fn one_goes_on_until_it_wakes_others_or_another_is_served() {
        let preempted = preempted();
        let [one, other] = [task(), task()];
        one.was_preempted.store(true, Relaxed);
        put(&preempted, one, EARLY);
        put(&preempted, other, EARLY);
        assert!(!preempted.goes_on(0, one));
        next(&preempted);
        assert!(preempted.goes_on(0, one) && !preempted.goes_on(0, other));
        one.was_preempted.store(false, Relaxed);
        assert!(!preempted.goes_on(0, one));
        one.was_preempted.store(true, Relaxed);
        next(&preempted);
        assert!(!preempted.goes_on(0, one));
        one.was_preempted.store(false, Relaxed);
    }

    #[test]
    fn a_long_queue_is_not_searched_to_its_front() {
        const COUNT: usize = 1000;
        let preempted = preempted();
        (0..COUNT).for_each(|_| put(&preempted, task(), FULL_TURN));
        let early = task();
        put(&preempted, early, EARLY);
        let place = (0..COUNT).position(|_| ptr::eq(next(&preempted), early));
        assert!((COUNT - 100..COUNT).contains(&place.unwrap()));
        while preempted.next(0).map(Runnable::into_task).is_some() {}
    }

    #[test]
    fn periods_of_others_and_of_theirs_alternate() {
        let mut turns = PreemptedTurns::default();
        let start = Instant::now();
        let later = |milliseconds| start + Duration::from_millis(milliseconds);
        turns.note_early();
        assert_eq!(turns.note_preempted(start), EARLY);
        assert_eq!(turns.note_preempted(start), FULL_TURN);
        assert!(!turns.is_time(5, later(2)), "the others' time");
        assert!(turns.is_time(5, later(3)));
        turns.note_preempted(later(4));
        assert!(turns.is_time(5, later(4)), "each one's turn comes");
        turns.note_preempted(later(5));
        assert!(!turns.is_time(6, later(5)), "all have had one");
        assert!(turns.is_time(6, later(8)));
        turns.note_preempted(later(11));
        assert!(!turns.is_time(6, later(11)), "for so long in all");
    }
}
