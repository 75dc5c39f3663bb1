//! The sources above the runtime as they are, with stand-ins for the parts that are left out.

#[path = "../../src/select"]
pub(crate) mod select {
    #[cfg(shuttle)]
    pub(crate) mod custom;
    pub(crate) mod engine;
    pub(crate) mod list;
    pub(crate) mod operation;
    pub(crate) mod order;
    pub(crate) mod set;

    /// The loop is used without it.
    struct Select;

    impl Select {
        fn new() -> Select {
            unreachable!()
        }

        fn wait(self, _: &mut [impl operation::Selectable]) -> usize {
            unreachable!()
        }

        fn wait_deadline(
            self,
            _: &mut [impl operation::Selectable],
            _: std::time::Instant,
        ) -> Option<usize> {
            unreachable!()
        }

        fn wait_timeout(
            self,
            _: &mut [impl operation::Selectable],
            _: std::time::Duration,
        ) -> Option<usize> {
            unreachable!()
        }
    }
}

#[path = "../../src/sync"]
pub(crate) mod sync {
    pub(crate) mod any;
    #[cfg(shuttle)]
    pub(crate) mod barrier;
    pub(crate) mod condvar;
    pub(crate) mod event;
    pub(crate) mod gate;
    pub(crate) mod joint;
    pub(crate) mod mutex;
    pub(crate) mod objects;
    pub(crate) mod once;
    pub(crate) mod rwlock;
    pub(crate) mod semaphore;
    #[cfg(shuttle)]
    pub(crate) mod wait_group;
    pub(crate) use any::any;
    pub(crate) use mutex::Mutex;
    pub(crate) use semaphore::Semaphore;

    crate::checker::shared! {
        static JOINT_LOCK: crate::rt::spin::Spin<()> = crate::rt::spin::Spin::new(());
    }

    fn joint_lock() -> &'static crate::rt::spin::Spin<()> {
        &JOINT_LOCK
    }

    /// For `std::sync`, which this is under a checker whose crate is `std` to itself.
    #[cfg(loom)]
    pub(crate) use crate::checker::std_sync::*;
}

#[path = "../../src/tube"]
pub(crate) mod tube {
    pub(crate) mod back;
    #[cfg(shuttle)]
    pub(crate) mod batch;
    pub(crate) mod core;
    #[cfg(shuttle)]
    pub(crate) mod ends;
    #[cfg(shuttle)]
    pub(crate) mod error;
    #[cfg(shuttle)]
    pub(crate) mod futures;
    #[cfg(shuttle)]
    pub(crate) mod guards;
    pub(crate) mod layout;
    #[cfg(shuttle)]
    pub(crate) mod operation;
    /// Nobody looks first, so that more is waited for.
    mod patience {
        pub(super) fn back_off(_: &mut u32) {
            crate::rt::sync::spin();
        }

        pub(super) fn look_while(_: impl Fn() -> bool, _: impl Fn() -> bool) {}
    }
    #[cfg(shuttle)]
    pub(crate) mod node;
    pub(crate) mod slots;
    pub(crate) mod waiting;
}

/// But for words that processes share.
#[path = "../../src/futex"]
pub(crate) mod futex {
    pub(crate) mod many;
    pub(crate) mod set;
    pub(crate) mod table;
    pub(crate) mod word;
    pub(crate) use set::{ChangedAt, Wait, WaitMultipleError, WaitSet, wait_multiple_until};
    pub(crate) use word::{Changed, WaitError, cmp_requeue, requeue, wait_until, wake};

    crate::checker::shared! {
        /// So that words share a bucket.
        static TABLE: table::Table<2> = table::Table::new();
    }

    fn table() -> &'static table::Table<2> {
        &TABLE
    }

    mod shared {
        use super::many::{FutexEnd, Many};
        use super::set::Wait;

        pub(super) fn wait_for(_: &Many, _: &[Wait<'_>], _: u64) -> FutexEnd {
            unreachable!("no word is shared")
        }
    }
}
