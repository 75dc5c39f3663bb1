//! Where stacks lie.

use std::collections::BTreeMap;
use umcg_context::stack::{self, Class};

const PAGE: usize = 4096;

/// Of 64 stacks cut one after the other: how often each value comes.
fn spread(size: usize, of: impl Fn(usize, usize) -> usize) -> BTreeMap<usize, usize> {
    let class = Class::for_size(size).unwrap();
    let stacks: Vec<_> = (0..64).map(|_| stack::allocate(class).unwrap()).collect();
    let mut counts = BTreeMap::new();
    for stack in &stacks {
        *counts.entry(of(stack.base() as usize, stack.top() as usize)).or_default() += 1;
    }
    stacks.into_iter().for_each(stack::release);
    counts
}

#[test]
fn tops_have_all_colours_alike() {
    for size in [8 << 10, 16 << 10, 64 << 10, 128 << 10, 256 << 10, 1 << 20] {
        let colours = spread(size, |_, top| top % PAGE);
        assert_eq!(colours.len(), 8, "{size}: {colours:?}");
        assert!(colours.values().all(|&count| (4..=16).contains(&count)), "{size}: {colours:?}");
    }
}

/// As a large cache or a TLB tells them apart, by the lowest bits of the page's number.
#[test]
fn stacks_spread_over_the_sets_of_caches() {
    for size in [8 << 10, 16 << 10, 64 << 10, 128 << 10, 256 << 10, 1 << 20] {
        let sets = spread(size, |base, _| base / PAGE % 16);
        assert_eq!(sets.len(), 16, "{size}: {sets:?}");
        assert!(sets.values().all(|&count| count <= 16), "{size}: {sets:?}");
    }
}
