//! Deadlines in order: an intrusive pairing heap, so that arming and disarming allocate nothing.
//!
//! Source: Fredman, Sedgewick, Sleator, Tarjan, "The pairing heap: a new form of self-adjusting
//! heap", 1986. Insert and `first` take constant time, removal takes logarithmic time amortised.
//! The lock around the heap guards all links.

use crate::base::link::Link;
use std::sync::atomic::{AtomicU64, Ordering::*};

/// An item that can stand in a heap. Its timer must be in one heap at most.
pub(crate) trait Timed: Sync + Sized + 'static {
    fn timer(&self) -> &HeapTimer<Self>;
}

/// A place in a heap.
pub(crate) struct HeapTimer<T: 'static> {
    /// Nanoseconds of CLOCK_REALTIME.
    deadline: AtomicU64,
    child: Link<T>,
    next: Link<T>,
    /// The sibling before, or the parent of a first child.
    before: Link<T>,
}

impl<T: Timed> HeapTimer<T> {
    pub(crate) const fn new() -> Self {
        Self {
            deadline: AtomicU64::new(0),
            child: Link::none(),
            next: Link::none(),
            before: Link::none(),
        }
    }

    pub(crate) fn deadline(&self) -> u64 {
        self.deadline.load(Relaxed)
    }
}

/// The armed timers.
pub(crate) struct Heap<T: 'static> {
    root: Link<T>,
}

impl<T: Timed> Heap<T> {
    pub(crate) const fn new() -> Self {
        Self { root: Link::none() }
    }

    /// The earliest deadline; `u64::MAX` when nothing is armed.
    pub(crate) fn next_deadline(&self) -> u64 {
        self.root
            .get()
            .map_or(u64::MAX, |first| first.timer().deadline())
    }

    /// Forgets all timers.
    pub(crate) fn clear(&self) {
        self.root.set(None);
    }

    pub(crate) fn insert(&self, item: &'static T, deadline: u64) {
        item.timer().deadline.store(deadline, Relaxed);
        let root = match self.root.get() {
            Some(root) => merge(root, item),
            None => item,
        };
        self.root.set(Some(root));
    }

    /// Takes out the earliest timer that is due at `now`.
    pub(crate) fn pop_due(&self, now: u64) -> Option<&'static T> {
        let first = self
            .root
            .get()
            .filter(|first| first.timer().deadline() <= now)?;
        self.remove(first);
        Some(first)
    }

    /// Takes out a timer that is in the heap.
    pub(crate) fn remove(&self, item: &'static T) {
        let timer = item.timer();
        let children = timer.child.take().and_then(merge_pairs);
        if self.root.is(item) {
            self.root.set(children);
            return;
        }
        let next = timer.next.take();
        if let Some(before) = timer.before.take() {
            let from = if before.timer().child.is(item) {
                &before.timer().child
            } else {
                &before.timer().next
            };
            from.set(next);
            if let Some(next) = next {
                next.timer().before.set(Some(before));
            }
        }
        if let (Some(children), Some(root)) = (children, self.root.get()) {
            self.root.set(Some(merge(root, children)));
        }
    }
}

/// Makes the later root the first child of the earlier one, which is returned.
fn merge<T: Timed>(a: &'static T, b: &'static T) -> &'static T {
    let (first, second) = if b.timer().deadline() < a.timer().deadline() {
        (b, a)
    } else {
        (a, b)
    };
    let child = first.timer().child.get();
    second.timer().next.set(child);
    second.timer().before.set(Some(first));
    if let Some(child) = child {
        child.timer().before.set(Some(second));
    }
    first.timer().child.set(Some(second));
    first
}

/// Makes one heap of a list of siblings: merges pairs from the left, then merges the pairs from the
/// right.
fn merge_pairs<T: Timed>(first: &'static T) -> Option<&'static T> {
    let mut rest = Some(first);
    let mut pairs: Option<&'static T> = None; // linked through `next`, last first
    while let Some(a) = rest {
        a.timer().before.set(None);
        let merged = match a.timer().next.take() {
            None => {
                rest = None;
                a
            }
            Some(b) => {
                b.timer().before.set(None);
                rest = b.timer().next.take();
                merge(a, b)
            }
        };
        merged.timer().next.set(pairs);
        pairs = Some(merged);
    }
    let mut whole: Option<&'static T> = None;
    while let Some(part) = pairs {
        pairs = part.timer().next.take();
        whole = Some(whole.map_or(part, |whole| merge(whole, part)));
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Item(HeapTimer<Item>);

    impl Timed for Item {
        fn timer(&self) -> &HeapTimer<Item> {
            &self.0
        }
    }

    /// A xorshift generator: the same sequence every run.
    fn random(state: &mut u64) -> u64 {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        *state
    }

    #[test]
    fn agrees_with_a_sorted_list() {
        let heap = Heap::new();
        let mut seed = 0x9e37_79b9_7f4a_7c15;
        let items: Vec<&'static Item> = (0..200)
            .map(|_| &*Box::leak(Box::new(Item(HeapTimer::new()))))
            .collect();
        let mut armed: Vec<(u64, usize)> = Vec::new();
        for _ in 0..20_000 {
            let at = (random(&mut seed) % 200) as usize;
            match armed.iter().position(|&(_, index)| index == at) {
                Some(position) => {
                    heap.remove(items[at]);
                    armed.swap_remove(position);
                }
                None => {
                    let deadline = random(&mut seed) % 1000;
                    heap.insert(items[at], deadline);
                    armed.push((deadline, at));
                }
            }
            assert_eq!(
                heap.next_deadline(),
                armed
                    .iter()
                    .map(|&(deadline, _)| deadline)
                    .min()
                    .unwrap_or(u64::MAX)
            );
            if random(&mut seed) % 8 == 0 {
                let now = random(&mut seed) % 300;
                while let Some(due) = heap.pop_due(now) {
                    let position = armed
                        .iter()
                        .position(|&(_, index)| std::ptr::eq(items[index], due))
                        .unwrap();
                    assert!(armed.swap_remove(position).0 <= now);
                }
                assert!(armed.iter().all(|&(deadline, _)| deadline > now));
            }
        }
    }
}
