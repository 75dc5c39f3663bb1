//! Memory of the library's own.
//!
//! The C library's allocator belongs to the program: a worker may be suspended in the midst of it,
//! with one of its locks. A server that needed the same lock would wait for ever. So the library
//! allocates from mappings of its own.

use dlmalloc::Dlmalloc;
use std::alloc::{GlobalAlloc, Layout};
use umcg_core::context::lock::HoldLock;
use umcg_core::fork::Part;

/// The allocator of all of the library's code.
struct Heap(HoldLock<Dlmalloc>);

// SAFETY: the allocator is used under its lock.
unsafe impl Send for Heap {}

#[global_allocator]
static HEAP: Heap = Heap(HoldLock::new(Dlmalloc::new()));

/// Below all other parts: they allocate.
static FORKS: Part = Part::new(0, || HEAP.0.take(), forked);

/// # Safety
/// As [`Part::new`] says.
unsafe fn forked(_in_child: bool) {
    // SAFETY: passed on.
    drop(unsafe { HEAP.0.adopt() });
}

/// Keeps the heap whole over forks.
pub(crate) fn prepare() {
    // Refused only for want of memory, of which this takes none.
    let _ = FORKS.enter();
}

// SAFETY: passed on to an allocator, under a lock.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: passed on.
        unsafe { self.0.lock().malloc(layout.size(), layout.align()) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: passed on.
        unsafe { self.0.lock().free(at, layout.size(), layout.align()) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: passed on.
        unsafe { self.0.lock().calloc(layout.size(), layout.align()) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: passed on.
        unsafe {
            self.0
                .lock()
                .realloc(at, layout.size(), layout.align(), size)
        }
    }
}
