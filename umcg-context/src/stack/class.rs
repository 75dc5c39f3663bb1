//! The sizes of stacks, and how their slabs are laid out.

use super::PAGE;
use crate::guard;

/// A class's first slab.
const LEAST_SLAB: usize = 4 << 20;
const LARGEST_SLAB: usize = 64 << 20;
/// For slabs of large stacks, and where there is no address space for more.
pub(super) const FEWEST_STACKS: usize = 4;
/// Makes the number of pages from one stack to the next odd.
const SPARE: usize = PAGE;
const COLOURS: usize = 8;
const COLOUR_STEP: usize = 192;

/// The smallest stack that [`SizeClass::for_size`] gives, in bytes.
pub const MIN_SIZE: usize = 8 << 10;
/// The largest stack that [`SizeClass::for_size`] gives, in bytes.
pub const MAX_SIZE: usize = 1 << 30;
/// How many classes there are.
pub const CLASSES: usize = (MAX_SIZE / MIN_SIZE).trailing_zeros() as usize + 1;

/// A size class: stacks of [`MIN_SIZE`] times a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeClass(u8);

impl SizeClass {
    /// The smallest class whose stacks have at least `size` bytes; none above [`MAX_SIZE`].
    pub const fn for_size(size: usize) -> Option<SizeClass> {
        if size > MAX_SIZE {
            return None;
        }
        let size = if size < MIN_SIZE {
            MIN_SIZE
        } else {
            size.next_power_of_two()
        };
        Some(SizeClass((size / MIN_SIZE).trailing_zeros() as u8))
    }

    /// Bytes of a stack of this class, colour included and guard excluded.
    pub const fn size(self) -> usize {
        MIN_SIZE << self.0
    }

    /// The class of an index below [`CLASSES`].
    pub const fn from_index(index: usize) -> SizeClass {
        assert!(index < CLASSES);
        SizeClass(index as u8)
    }

    /// The class as an index below [`CLASSES`].
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    pub(super) const fn stride(self) -> usize {
        guard::SIZE + self.size() + SPARE
    }

    /// How many stacks the next slab is to hold when `already` stacks exist.
    pub(super) fn stacks_a_slab(self, already: usize) -> usize {
        let bytes = (already * self.stride() / 8).clamp(LEAST_SLAB, LARGEST_SLAB);
        ((bytes - PAGE) / self.stride()).max(FEWEST_STACKS)
    }
}

/// The address just above the stack at `base`, less the colour.
#[inline]
pub fn top_of(base: *mut u8, class: SizeClass) -> *mut u8 {
    // The page number changes by one stride from each stack to the next. That spreads the colours.
    let page = base as usize / PAGE;
    let colour = (page ^ (page >> 3)) % COLOURS * COLOUR_STEP;
    base.wrapping_add(class.size() - colour)
}
