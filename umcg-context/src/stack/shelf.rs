//! Shelves: of each class, the released stacks and the slab that new ones are cut from.

use super::class::FEWEST_STACKS;
use super::slab::{Slab, map_slab};
use super::{CLASSES, PAGE, SizeClass, Stack, StackError};
use crate::lock::HoldLock;
use core::ptr::{NonNull, null_mut};

/// One class's released stacks, and its slab of uncut ones.
struct Shelf {
    free: FreeList,
    /// Released stacks whose memory the kernel has back, except for the page that links them.
    trimmed: FreeList,
    /// The fewest that were in `free` since the last look of [`surplus`].
    fewest: usize,
    /// The slab that is being cut.
    slab: Option<&'static Slab>,
    /// How many stacks the slabs before it hold.
    stacks_before: usize,
}

// SAFETY: the shelf owns the memory that the pointers point to.
unsafe impl Send for Shelf {}

static SHELVES: [HoldLock<Shelf>; CLASSES] = [const {
    HoldLock::new(Shelf {
        free: FreeList::new(),
        trimmed: FreeList::new(),
        fewest: 0,
        slab: None,
        stacks_before: 0,
    })
}; CLASSES];

/// Free stacks of one class, last in first out, linked through the word at their tops.
#[derive(Debug)]
pub(crate) struct FreeList {
    head: *mut u8,
    len: usize,
}

impl FreeList {
    pub(crate) const fn new() -> Self {
        Self {
            head: null_mut(),
            len: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn push(&mut self, stack: Stack) {
        // SAFETY: the list owns the stack now, and its top word is 64-aligned and mapped.
        unsafe { link_of(&stack).write(self.head) };
        self.head = stack.base.as_ptr();
        self.len += 1;
    }

    #[inline]
    pub(crate) fn pop(&mut self, class: SizeClass) -> Option<Stack> {
        let stack = Stack {
            base: NonNull::new(self.head)?,
            class,
        };
        // SAFETY: `push` wrote the link, and the stack was unused since.
        self.head = unsafe { link_of(&stack).read() };
        self.len -= 1;
        Some(stack)
    }
}

fn link_of(stack: &Stack) -> *mut *mut u8 {
    stack.top().wrapping_sub(size_of::<*mut u8>()).cast()
}

/// A stack of `class`: one that was released, or a new one.
///
/// # Errors
/// As [`StackError`] says. A failure leaves nothing behind.
pub fn allocate(class: SizeClass) -> Result<Stack, StackError> {
    let mut shelf = SHELVES[class.index()].lock();
    if let Some(stack) = shelf.take(class) {
        return Ok(stack);
    }
    let base = shelf.uncut_slab(class)?.cut_next()?;
    drop(shelf);
    crate::annotate::stack_allocated(
        base.as_ptr() as usize,
        base.as_ptr() as usize + class.size(),
    );
    Ok(Stack { base, class })
}

impl Shelf {
    /// A stack that was released.
    fn take(&mut self, class: SizeClass) -> Option<Stack> {
        let stack = self.free.pop(class);
        self.fewest = self.fewest.min(self.free.len);
        stack.or_else(|| self.trimmed.pop(class))
    }

    /// A slab with a stack that was not cut yet.
    fn uncut_slab(&mut self, class: SizeClass) -> Result<&'static Slab, StackError> {
        if let Some(slab) = self.slab.filter(|slab| slab.has_uncut()) {
            return Ok(slab);
        }
        let already = self.stacks_before + self.slab.map_or(0, |slab| slab.stacks);
        let mut stacks = class.stacks_a_slab(already);
        let slab = loop {
            match map_slab(class, stacks) {
                Err(StackError::OutOfMemory | StackError::Locked) if stacks > FEWEST_STACKS => {
                    stacks = (stacks / 2).max(FEWEST_STACKS);
                }
                mapped => break mapped?,
            }
        };
        self.stacks_before = already;
        self.slab = Some(slab);
        Ok(slab)
    }
}

/// Takes a stack back for any thread to use.
pub fn release(stack: Stack) {
    SHELVES[stack.class.index()].lock().free.push(stack);
}

/// Like [`release`], and gives the kernel back the memory of the stack.
pub fn release_memory(stack: Stack) {
    // SAFETY: the stack's own memory, which is no longer in use. Failure would only keep the
    // memory.
    unsafe {
        libc::madvise(
            stack.base.as_ptr().cast(),
            stack.class.size(),
            libc::MADV_DONTNEED,
        )
    };
    release(stack);
}

/// Moves stacks between a thread's own list and the shared one, under one lock.
pub(crate) fn exchange(class: SizeClass, own: &mut FreeList, wanted: usize) {
    let mut shelf = SHELVES[class.index()].lock();
    while own.len > wanted {
        let Some(stack) = own.pop(class) else { return };
        shelf.free.push(stack);
    }
    while own.len < wanted {
        let Some(stack) = shelf.take(class) else {
            return;
        };
        own.push(stack);
    }
}

/// Takes all locks of this module, so that a fork finds consistent shelves.
pub fn before_fork() {
    for shelf in &SHELVES {
        shelf.take();
    }
}

/// Frees the locks again.
///
/// # Safety
/// Called once after each [`before_fork`], in the parent and in the child, by the thread that
/// called that.
pub unsafe fn forked() {
    for shelf in &SHELVES {
        // SAFETY: passed on.
        drop(unsafe { shelf.adopt() });
    }
}

/// How many stacks are trimmed each time the lock is taken.
const TRIMMED_AT_ONCE: usize = 64;

/// Gives the kernel back the memory of at most `most` free stacks, except for the page that links
/// each. Stacks in pools are not free. Returns how many stacks were trimmed.
pub fn trim(most: usize) -> usize {
    let mut done = 0;
    for index in 0..CLASSES {
        while done < most && trim_some(SizeClass::from_index(index), most - done, &mut done) {}
    }
    done
}

/// Trims some stacks of a class. Returns false when there are none.
fn trim_some(class: SizeClass, most: usize, done: &mut usize) -> bool {
    let mut taken = FreeList::new();
    let mut shelf = SHELVES[class.index()].lock();
    while taken.len < most.min(TRIMMED_AT_ONCE) {
        let Some(stack) = shelf.free.pop(class) else {
            break;
        };
        taken.push(stack);
    }
    shelf.fewest = shelf.fewest.min(shelf.free.len);
    drop(shelf);
    let mut trimmed = FreeList::new();
    *done += taken.len;
    while let Some(stack) = taken.pop(class) {
        // SAFETY: the stack is ours here. Its last page, which is kept, holds the data that
        // outlives it. Failure would only keep the memory.
        unsafe {
            libc::madvise(
                stack.base.as_ptr().cast(),
                class.size() - PAGE,
                libc::MADV_DONTNEED,
            )
        };
        trimmed.push(stack);
    }
    let is_some = trimmed.len > 0;
    let mut shelf = SHELVES[class.index()].lock();
    while let Some(stack) = trimmed.pop(class) {
        shelf.trimmed.push(stack);
    }
    is_some
}

/// How many free stacks were not used since the last call, and are not trimmed.
pub fn surplus() -> usize {
    let since_last = |shelf: &HoldLock<Shelf>| {
        let mut shelf = shelf.lock();
        let now = shelf.free.len;
        core::mem::replace(&mut shelf.fewest, now)
    };
    SHELVES.iter().map(since_last).sum()
}

/// Whether there are free stacks that are not trimmed. This is only a hint.
pub fn may_be_trimmed() -> bool {
    SHELVES.iter().any(|shelf| shelf.lock().free.len > 0)
}
