//! For `umcg_context`. The flows of a model are threads of the checker's. A switch to the loop at
//! home is a call of it, which returns when the worker is at home again.

use std::cell::{Cell, UnsafeCell};

pub type EntryFn = unsafe extern "C" fn(*mut ()) -> !;

#[derive(Default)]
pub struct Context;

impl Context {
    /// # Safety
    /// As the library's.
    pub unsafe fn prepare(&mut self, _: *mut u8, _: EntryFn, _: *mut ()) {}
}

/// # Safety
/// As the library's.
pub unsafe fn switch(_: *mut Context, _: *mut Context) {
    super::home_loop();
}

shuttle::thread_local! {
    static STORAGE: Cell<usize> = const { Cell::new(0) };
}

/// # Safety
/// As the library's.
pub unsafe fn set_thread_pointer(to: usize) {
    STORAGE.with(|storage| storage.set(to));
}

/// The thread pointer of the calling thread.
pub(crate) fn storage() -> usize {
    STORAGE.with(Cell::get)
}

pub mod way {
    pub fn nap(_: u32) {
        shuttle::thread::yield_now();
    }
}

pub mod local {
    /// Words of a storage that nobody reads.
    pub struct Words;

    impl Words {
        /// # Safety
        /// As the library's.
        pub unsafe fn of(_: usize) -> Words {
            Words
        }

        pub fn set_vp(&self, _: *mut ()) {}

        pub fn set_task(&self, _: *mut ()) {}

        pub fn set_holds(&self, _: usize) {}

        pub fn set_guest(&self, _: *mut ()) {}
    }
}

pub(super) type Saved = UnsafeCell<Context>;
