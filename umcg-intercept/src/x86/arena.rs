//! Memory for trampolines, within reach of the object that they belong to.
//!
//! Address 0 is never used, nor anything below one MiB: a program that follows a null pointer must
//! fault. Where the heap and the main stack will grow is kept free.

use super::maps::Mapping;
use super::own;
use super::raw::{self, PAGE};
use core::ops::Range;

/// A jump reaches two GiB; the margin is for the far ends of the object and of the arena.
const REACH: usize = (2 << 30) - (1 << 20);
const LOWEST: usize = 1 << 20;
const HIGHEST: usize = (1 << 47) - PAGE;
/// What the heap and the stack may still take.
const GROWTH: usize = 1 << 30;

/// Whole pages of writable memory that all code of the object can jump to, and that can jump to all
/// of it: in the engine's own arena if that is in reach.
pub(crate) fn take(
    mappings: &[Mapping],
    object: &Range<usize>,
    length: usize,
) -> Option<Range<usize>> {
    let map = || places(mappings, object, length).find(|&at| raw::map_at(at, length).is_ok());
    let start = own::take(length, &reach(object)).or_else(map)?;
    Some(start..start + length)
}

/// Gives them back.
pub(crate) fn give_back(pages: &Range<usize>) {
    if !own::give_back(pages) {
        raw::unmap(pages.start, pages.len());
    }
}

fn reach(object: &Range<usize>) -> Range<usize> {
    object.end.saturating_sub(REACH)..(object.start + REACH).min(HIGHEST)
}

/// Free places: those below the object first, the nearest first.
fn places(
    mappings: &[Mapping],
    object: &Range<usize>,
    length: usize,
) -> impl Iterator<Item = usize> {
    let reach = reach(object);
    let mut below = Vec::new();
    let mut above = Vec::new();
    let mut start = LOWEST;
    for at in 0..=mappings.len() {
        let next = mappings.get(at);
        let growth = if next.is_some_and(|one| one.path == b"[stack]") {
            GROWTH
        } else {
            0
        };
        let end = next
            .map_or(HIGHEST, |one| one.range.start)
            .saturating_sub(growth);
        let gap = start.max(reach.start)..end.min(reach.end);
        if gap.start + length <= gap.end {
            if gap.end <= object.start {
                below.push((gap.end - length) & !(PAGE - 1));
            } else if gap.start >= object.end {
                above.push(gap.start.next_multiple_of(PAGE));
            }
        }
        let Some(next) = next else { break };
        let growth = if next.path == b"[heap]" { GROWTH } else { 0 };
        start = start.max(next.range.end + growth);
    }
    below.into_iter().rev().chain(above)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(range: Range<usize>, path: &[u8]) -> Mapping {
        Mapping {
            range,
            readable: true,
            writable: false,
            executable: false,
            offset: 0,
            file: (0, 0),
            path: path.to_vec(),
        }
    }

    fn all(mappings: &[Mapping], object: Range<usize>) -> Vec<usize> {
        places(mappings, &object, PAGE).collect()
    }

    #[test]
    fn a_fixed_executable_gets_pages_below_it_but_not_page_zero() {
        let mappings = [
            mapping(0x40_0000..0x41_0000, b"a"),
            mapping(0x50_0000..0x60_0000, b"[heap]"),
        ];
        let places = all(&mappings, 0x40_0000..0x41_0000);
        assert_eq!(places[0], 0x40_0000 - PAGE);
        assert!(places.iter().all(|&at| at >= LOWEST));
        assert!(!places.contains(&0x60_0000), "the heap grows there");
    }

    #[test]
    fn the_stack_may_grow() {
        let top = 0x7fff_0000_0000;
        let object = 0x7ffe_f000_0000..0x7ffe_f001_0000;
        let mappings = [
            mapping(object.clone(), b"a"),
            mapping(top..top + 0x1000, b"[stack]"),
        ];
        let places = all(&mappings, object.clone());
        assert!(places.iter().all(|at| !(object.end..top).contains(at)));
    }

    #[test]
    fn everything_is_within_reach() {
        let object = 0x7000_0000_0000..0x7000_4000_0000;
        for at in all(&[mapping(object.clone(), b"a")], object.clone()) {
            assert!(object.end - at.min(object.end) < 1 << 31);
            assert!(at.max(object.start) - object.start < 1 << 31);
        }
    }
}
