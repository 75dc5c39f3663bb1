//! A set of addresses in the code of one object, and which of them are entered.
//!
//! The set is small, and nearly all questions are about addresses far from it. So a bit for each
//! line of 64 bytes, all of which the first cache holds, answers nearly all.

use core::ops::Range;

const LINE: usize = 64;

/// A line with addresses of the set, as bits.
struct Line {
    /// Its address, in lines.
    at: usize,
    has: u64,
    entered: u64,
}

/// The set.
pub(crate) struct Zone {
    /// The first line of the object.
    first: usize,
    /// For each line of the object whether it is in `lines`; and how many of those before the 64
    /// lines are.
    bits: Vec<(u64, usize)>,
    /// By ascending address.
    lines: Vec<Line>,
}

impl Zone {
    /// The set of the addresses in the ranges, which lie in the object.
    pub(crate) fn new(object: &Range<usize>, mut ranges: Vec<Range<usize>>) -> Zone {
        let first = object.start / LINE;
        let count = (object.end / LINE).saturating_sub(first) + 1;
        let mut zone = Zone {
            first,
            bits: vec![(0, 0); count.div_ceil(64)],
            lines: Vec::with_capacity(2 * ranges.len()),
        };
        ranges.sort_unstable_by_key(|range| range.start);
        let mut next = object.start;
        for range in ranges {
            for address in range.start.max(next)..range.end.min(object.end) {
                zone.add(address);
                next = address + 1;
            }
        }
        let mut before = 0;
        for (word, rank) in &mut zone.bits {
            *rank = before;
            before += word.count_ones() as usize;
        }
        zone
    }

    /// Adds an address that is higher than all so far.
    fn add(&mut self, address: usize) {
        let (at, bit) = (address / LINE, 1 << (address % LINE));
        match self.lines.last_mut() {
            Some(line) if line.at == at => line.has |= bit,
            _ => self.lines.push(Line {
                at,
                has: bit,
                entered: 0,
            }),
        }
        let index = at - self.first;
        self.bits[index / 64].0 |= 1 << (index % 64);
    }

    #[inline(always)]
    fn line(&self, address: usize) -> Option<usize> {
        let index = (address / LINE).wrapping_sub(self.first);
        let &(word, rank) = self.bits.get(index / 64)?;
        let bit = 1 << (index % 64);
        (word & bit != 0).then(|| rank + (word & (bit - 1)).count_ones() as usize)
    }

    /// Whether the address is in the set, and not entered as far as known.
    #[inline]
    pub(crate) fn is_untouched(&self, address: usize) -> bool {
        self.line(address).is_some_and(|line| {
            let Line { has, entered, .. } = self.lines[line];
            (has & !entered) >> (address % LINE) & 1 != 0
        })
    }

    /// Notes that something enters the address, if it is in the set.
    #[inline]
    pub(crate) fn enter(&mut self, address: usize) {
        if let Some(line) = self.line(address) {
            let line = &mut self.lines[line];
            line.entered |= line.has & 1 << (address % LINE);
        }
    }

    /// Where the addresses of the set lie: ranges that contain all of them, by ascending address,
    /// made longer on both sides. They do not overlap.
    pub(crate) fn around(&self, before: usize, after: usize) -> Vec<Range<usize>> {
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for line in &self.lines {
            let start = line.at * LINE + line.has.trailing_zeros() as usize;
            let end = line.at * LINE + LINE - line.has.leading_zeros() as usize;
            let (start, end) = (start.saturating_sub(before), end + after);
            match ranges.last_mut() {
                Some(last) if last.end >= start => last.end = end,
                _ => ranges.push(start..end),
            }
        }
        ranges
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_found_and_entered() {
        let object = 0x10_0010..0x20_0000;
        let ranges = vec![
            0x10_00f0..0x10_0102,
            0x10_0010..0x10_0012,
            0x10_0100..0x10_0104,
            0x1f_0001..0x1f_0002,
        ];
        let mut zone = Zone::new(&object, ranges.clone());
        for address in 0x0f_ff00..0x10_0200 {
            let expected = ranges.iter().any(|range| range.contains(&address));
            assert_eq!(zone.is_untouched(address), expected, "{address:x}");
        }
        assert!(zone.is_untouched(0x1f_0001) && !zone.is_untouched(0x1f_0002));
        for outside in [0, 0x10_000f, 0x10_0104, 0x20_0000, usize::MAX] {
            zone.enter(outside);
            assert!(!zone.is_untouched(outside));
        }
        zone.enter(0x10_0101);
        assert!(!zone.is_untouched(0x10_0101));
        assert!(zone.is_untouched(0x10_0102) && zone.is_untouched(0x10_0100));
    }

    #[test]
    fn ranges_around_do_not_overlap() {
        let ranges = vec![0x1000..0x1002, 0x1050..0x1060, 0x3000..0x3001];
        let zone = Zone::new(&(0..0x4000), ranges);
        assert_eq!(
            zone.around(0x10, 0x20),
            [0xff0..0x1022, 0x1040..0x1080, 0x2ff0..0x3021]
        );
        assert_eq!(zone.around(0x100, 0x100), [0xf00..0x1160, 0x2f00..0x3101]);
    }

    #[test]
    fn ranges_outside_of_the_object_are_none() {
        let zone = Zone::new(&(0x1000..0x1000), vec![0..1, 1..usize::MAX]);
        assert!(!zone.is_untouched(0x1000));
        assert!(zone.around(1, 1).is_empty());
    }
}
