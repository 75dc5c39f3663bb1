//! Where stacks lie.

use std::collections::BTreeMap;
use umcg_context::stack::{self, Class};

const PAGE: usize = 4096;

/// How often each of these values comes.
fn counts(values: impl Iterator<Item = usize>) -> BTreeMap<usize, usize> {
    let mut counts = BTreeMap::new();
    values.for_each(|value| *counts.entry(value).or_default() += 1);
    counts
}

/// Of stacks that were cut one after the other the tops have all colours alike, and a large cache
/// or a TLB, which go by the lowest bits of the page's number, tell them apart. One test, as
/// another would take some of those in between.
#[test]
fn stacks_spread_over_the_sets_of_caches() {
    for size in [8 << 10, 16 << 10, 64 << 10, 128 << 10, 256 << 10, 1 << 20] {
        let class = Class::for_size(size).unwrap();
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
