//! What checking tools are told about stacks and switches.

/// A new stack occupies `base..top`. Called once a stack: stacks are recycled, never unmapped.
#[inline]
pub fn stack_allocated(_base: usize, _top: usize) {}
