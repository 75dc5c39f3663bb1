//! A virtual processor's own free stacks: last in, first out, without a lock.
//!
//! The lines of the stack that was used last are still in the cache. A pool that runs empty or full
//! exchanges half of [`KEEP`] stacks with the shared list. So a program that creates on one
//! processor and deletes on another takes the lock only once in many times.

use crate::stack::{self, CLASSES, FreeList, SizeClass, Stack, StackError};

/// How many stacks of a class a pool keeps to itself.
pub const KEEP: usize = 256;

/// Free stacks of every class, for one virtual processor.
#[derive(Debug)]
pub struct StackPool {
    lists: [FreeList; CLASSES],
}

impl Default for StackPool {
    fn default() -> Self {
        Self::new()
    }
}

impl StackPool {
    /// An empty pool.
    pub const fn new() -> Self {
        Self {
            lists: [const { FreeList::new() }; CLASSES],
        }
    }

    /// The last stack given back, or one from the shared list, or a new one.
    ///
    /// # Errors
    /// As [`stack::allocate`].
    #[inline]
    pub fn take(&mut self, class: SizeClass) -> Result<Stack, StackError> {
        match self.lists[class.index()].pop(class) {
            Some(stack) => Ok(stack),
            None => self.take_slow(class),
        }
    }

    #[cold]
    fn take_slow(&mut self, class: SizeClass) -> Result<Stack, StackError> {
        let list = &mut self.lists[class.index()];
        stack::exchange(class, list, KEEP / 2);
        list.pop(class).map_or_else(|| stack::allocate(class), Ok)
    }

    /// Takes a stack back.
    #[inline]
    pub fn give(&mut self, stack: Stack) {
        let class = stack.class();
        let list = &mut self.lists[class.index()];
        list.push(stack);
        if list.len() > KEEP {
            stack::exchange(class, list, KEEP / 2);
        }
    }
}

impl Drop for StackPool {
    fn drop(&mut self) {
        for (index, list) in self.lists.iter_mut().enumerate() {
            if list.len() > 0 {
                stack::exchange(SizeClass::from_index(index), list, 0);
            }
        }
    }
}
