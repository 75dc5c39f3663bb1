//! Types that may be sent, and types that may be shared.

use std::cell::Cell;
use std::marker::PhantomData;
use std::rc::Rc;
use umcg::sync::{
    Acquiring, ArcMutexGuard, Barrier, Condvar, Doing, Event, LazyLock, Locking, MappedMutexGuard,
    Mutex, MutexGuard, Once, OnceLock, Permit, RawMutex, RawRwLock, RwLock, RwLockReadGuard,
    RwLockUpgradableReadGuard, RwLockWriteGuard, Semaphore, WaitGroup, Waiting,
};

/// Asks at run time the question of a bound, so that the answer may be no: the constant of the type
/// hides that of the trait where the bound holds.
struct Ask<T: ?Sized>(PhantomData<T>);

trait No {
    const SEND: bool = false;
    const SYNC: bool = false;
}

impl<T: ?Sized> No for Ask<T> {}

macro_rules! yes {
    ($name:ident, $constant:ident, $bound:ident) => {
        struct $name<T: ?Sized>(PhantomData<T>);

        #[allow(dead_code)]
        impl<T: ?Sized + $bound> $name<T> {
            const $constant: bool = true;
        }

        impl<T: ?Sized> No for $name<T> {}
    };
}

yes!(AskSend, SEND, Send);
yes!(AskSync, SYNC, Sync);

macro_rules! assert_types {
    ($($type:ty: $send:literal $sync:literal;)*) => {
        $(
            assert_eq!(
                (AskSend::<$type>::SEND, AskSync::<$type>::SYNC),
                ($send, $sync),
                stringify!($type)
            );
        )*
    };
}

type Send0 = Cell<u8>;
type Neither = Rc<u8>;

#[test]
fn send_and_sync() {
    assert_eq!(
        (Ask::<u8>::SEND, Ask::<u8>::SYNC),
        (false, false),
        "the default"
    );
    assert_types! {
        Semaphore: true true;
        RawMutex: true true;
        RawRwLock: true true;
        Condvar: true true;
        Event: true true;
        Barrier: true true;
        WaitGroup: true true;
        Once: true true;
        Permit<'static>: true true;
        Doing<&'static WaitGroup>: true true;
        Mutex<u8>: true true;
        Mutex<Send0>: true true;
        Mutex<Neither>: false false;
        RwLock<u8>: true true;
        RwLock<Send0>: true false;
        RwLock<Neither>: false false;
        OnceLock<u8>: true true;
        OnceLock<Send0>: true false;
        OnceLock<Neither>: false false;
        LazyLock<u8>: true true;
        LazyLock<u8, Neither>: false false;
        LazyLock<Send0>: true false;
        MutexGuard<'static, u8>: true true;
        MutexGuard<'static, Send0>: true false;
        MutexGuard<'static, Neither>: false false;
        MappedMutexGuard<'static, u8>: true true;
        MappedMutexGuard<'static, Neither>: false false;
        ArcMutexGuard<u8>: true true;
        RwLockReadGuard<'static, u8>: true true;
        RwLockReadGuard<'static, Send0>: false false;
        RwLockWriteGuard<'static, u8>: true true;
        RwLockWriteGuard<'static, Neither>: false false;
        RwLockUpgradableReadGuard<'static, u8>: true true;
        // An operation has a place in its frame, which others find there.
        Acquiring<'static>: false false;
        Locking<'static, u8>: false false;
        Waiting<'static>: false false;
    }
}

/// As docs/sync.md says.
#[test]
fn sizes() {
    assert_eq!(size_of::<Mutex<()>>(), 24);
    let others = [
        size_of::<RwLock<()>>(),
        size_of::<Semaphore>(),
        size_of::<Event>(),
        size_of::<WaitGroup>(),
        size_of::<Condvar>(),
        size_of::<Once>(),
    ];
    assert!(
        others.iter().all(|size| (16..=24).contains(size)),
        "{others:?}"
    );
}
