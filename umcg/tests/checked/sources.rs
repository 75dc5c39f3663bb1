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
    pub(crate) mod kernel {
        #[cfg(shuttle)]
        pub(crate) mod beside;
        pub(crate) mod single;
        pub(crate) mod vector;

        /// Words that are there.
        mod memory {
            use crate::rt::sync::{AtomicU32, Ordering::*};

            fn word(address: usize) -> &'static AtomicU32 {
                let word: *const AtomicU32 = std::ptr::with_exposed_provenance(address);
                // SAFETY: the words of a model live as long as it runs.
                unsafe { &*word }
            }

            #[derive(Clone, Copy)]
            pub(crate) struct Reader;

            impl Reader {
                pub(crate) fn here() -> Reader {
                    Reader
                }

                pub(crate) fn load(self, address: usize) -> Option<u32> {
                    load(address)
                }
            }

            pub(crate) fn load(address: usize) -> Option<u32> {
                Some(word(address).load(Relaxed))
            }

            pub(crate) fn update(address: usize, change: impl Fn(u32) -> u32) -> Option<u32> {
                let word = word(address);
                loop {
                    let value = word.load(SeqCst);
                    let changed = word.compare_exchange(value, change(value), SeqCst, Relaxed);
                    if changed.is_ok() {
                        return Some(value);
                    }
                }
            }

            pub(crate) fn may_be_there(_: usize) -> bool {
                true
            }

            pub(crate) fn read<const WORDS: usize>(_: usize) -> Option<[u32; WORDS]> {
                unreachable!("a model has no lists of the kernel's")
            }

            pub(crate) fn long(_: u32, _: u32) -> u64 {
                unreachable!("a model has no lists of the kernel's")
            }
        }

        mod doze {
            use super::super::many::Many;
            use super::vector::{ListEnd, ListWord};

            pub(super) fn wait(_: &Many, _: &[ListWord], _: u64) -> ListEnd {
                unreachable!("no word is shared")
            }
        }
    }
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

    pub(crate) fn table() -> &'static table::Table<2> {
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
