//! Where stacks lie.

use std::collections::BTreeMap;
use umcg_context::stack::{self, SizeClass};

const PAGE: usize = 4096;

/// How often each of these values occurs.
fn counts(values: impl Iterator<Item = usize>) -> BTreeMap<usize, usize> {
    let mut counts = BTreeMap::new();
    values.for_each(|value| *counts.entry(value).or_default() += 1);
    counts
}

/// The tops of stacks that were cut one after the other have all colours equally often. They also
/// differ for a large cache or a TLB, which use the lowest bits of the page's number. This is one
/// test, because another would take some of the stacks in between.
#[test]
fn stacks_spread_over_the_sets_of_caches() {
    for size in [8 << 10, 16 << 10, 64 << 10, 128 << 10, 256 << 10, 1 << 20] {
        let class = SizeClass::for_size(size).unwrap();
        let stacks: Vec<_> = (0..64).map(|_| stack::allocate(class).unwrap()).collect();
        let colours = counts(stacks.iter().map(|stack| stack.top() as usize % PAGE));
        assert_eq!(colours.len(), 8, "{size}: {colours:?}");
        assert!(
            colours.values().all(|&count| (4..=16).contains(&count)),
            "{size}: {colours:?}"
        );
        let sets = counts(stacks.iter().map(|stack| stack.base() as usize / PAGE % 16));
        assert_eq!(sets.len(), 16, "{size}: {sets:?}");
        assert!(sets.values().all(|&count| count <= 16), "{size}: {sets:?}");
        stacks.into_iter().for_each(stack::release);
    }
}
