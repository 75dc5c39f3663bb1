//! A global runtime that cannot be started: every call that needs it says so, and later calls try
//! again.

use crate::support::{child_command, is_child};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;
use umcg::{Builder, Error, SpawnError};

const WHY: &str =
    "the global runtime could not be started: UMCG_DRIVER is neither epoll nor io_uring";

/// The message of a panic in `f`.
fn said<R>(f: impl FnOnce() -> R) -> String {
    let Err(payload) = catch_unwind(AssertUnwindSafe(f)) else {
        panic!("it does not panic")
    };
    *payload.downcast::<String>().unwrap()
}

/// The calls that return errors.
fn errors() {
    let refused = SpawnError::Runtime(Error::NoSuchDriver);
    assert_eq!(refused.to_string(), WHY);
    assert_eq!(Builder::new().spawn(|| ()).unwrap_err(), refused);
    assert_eq!(
        // SAFETY: it does nothing.
        unsafe { Builder::new().spawn_light(|| ()) }.unwrap_err(),
        refused
    );
    umcg::scope(|scope| assert_eq!(scope.build(&Builder::new(), || ()).unwrap_err(), refused));
    assert_eq!(
        std::io::Error::from(refused).to_string(),
        Error::NoSuchDriver.to_string()
    );
    let file = umcg::fs::read("/proc/self/status").unwrap_err();
    assert_eq!(file.to_string(), Error::NoSuchDriver.to_string());
}

/// The calls that have no errors to return.
fn panics() {
    let no_worker = format!("no worker could be made: {WHY}");
    assert_eq!(said(|| umcg::spawn(|| ())), no_worker);
    // SAFETY: it does nothing.
    assert_eq!(said(|| unsafe { umcg::spawn_light(|| ()) }), no_worker);
    assert_eq!(said(|| umcg::spawn_future(async {})), no_worker);
    assert_eq!(
        said(|| umcg::scope(|scope| drop(scope.spawn(|| ())))),
        no_worker
    );
    assert_eq!(said(umcg::rt::global), WHY);
    let no_time = said(|| umcg::timeout(Duration::ZERO, || unreachable!("nobody keeps the time")));
    assert!(
        no_time.starts_with("timeout: ") && no_time.ends_with(&Error::NoSuchDriver.to_string()),
        "{no_time}"
    );
}

/// The calls that a plain thread does by itself.
fn works_all_the_same() {
    umcg::sleep(Duration::from_millis(1));
    umcg::yield_now();
    assert!(!umcg::park_timeout(Duration::from_millis(1)));
    assert_eq!(umcg::blocking(|| umcg::block_on(async { 3 })), 3);
    assert_eq!(umcg::scope(|_| umcg::shielded(|| 4)), 4);
    let (sender, receiver) = umcg::tube::tube(1);
    sender.send(5).unwrap();
    assert_eq!(
        (receiver.recv().unwrap(), *umcg::sync::Mutex::new(6).lock()),
        (5, 6)
    );
}

#[test]
fn what_needs_it_says_so_and_tries_again() {
    const NAME: &str = "no_global::what_needs_it_says_so_and_tries_again";
    if !is_child(NAME) {
        let output = child_command(NAME)
            .env("UMCG_DRIVER", "carrier pigeons")
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:#?}");
        return;
    }
    errors();
    panics();
    works_all_the_same();
    // SAFETY: no other thread of this process looks at the environment just now.
    unsafe { std::env::remove_var("UMCG_DRIVER") };
    assert_eq!(umcg::spawn(|| 7).join().unwrap(), 7);
    assert_eq!(umcg::timeout(Duration::from_secs(60), || 8), Ok(8));
    assert_eq!(umcg::rt::global().run(|| 9), 9);
    assert!(!umcg::fs::read("/proc/self/status").unwrap().is_empty());
}
