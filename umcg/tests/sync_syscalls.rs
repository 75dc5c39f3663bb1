//! Synchronisation that makes no system call: all operations without contention, and every attempt
//! that does not wait. Counted by strace, between two writes to no file that mark each operation.
//!
//! Where there is no strace, or it may not trace, the test says so and passes.

mod strace;

use std::io::Write;
use std::sync::atomic::AtomicU32;
use strace::{Trace, mark, measured, planted};
use umcg::Runtime;
use umcg::select::{Operation, Select, Set};
use umcg::sync::{Event, Mutex, RawMutex, RwLock, Semaphore, acquire_any, try_acquire_any};
use umcg::tube::{TrySendError, tube};

/// Set for the process that is traced.
const TRACED: &str = "UMCG_TEST_SYNC_TRACED";

fn semaphores(who: &str) {
    for (order, semaphore) in [
        ("strong", Semaphore::new(2)),
        ("barging", Semaphore::barging(2)),
    ] {
        measured(&format!("{who}: {order} semaphore"), || {
            semaphore.acquire_many(2).unwrap();
            assert!(semaphore.try_acquire().is_err());
            semaphore.release(2).unwrap();
        });
    }
    let (empty, full) = (Semaphore::new(0), Semaphore::new(1));
    measured(&format!("{who}: altsems"), || {
        assert!(try_acquire_any(&[&empty, &empty]).is_err());
        assert_eq!(acquire_any(&[&empty, &full]), Ok(1));
        full.release(1).unwrap();
    });
}

fn locks(who: &str) {
    for (order, mutex) in [
        ("barging", Mutex::new(0)),
        ("fair", Mutex::from_raw(RawMutex::fair(), 0)),
    ] {
        measured(&format!("{who}: {order} mutex"), || {
            let guard = mutex.lock();
            assert!(mutex.try_lock().is_none());
            drop(guard);
        });
    }
    let lock = RwLock::new(0);
    measured(&format!("{who}: lock for readers and writers"), || {
        *lock.write() += 1;
        let (_one, _other) = (lock.read(), lock.read());
        assert!(lock.try_write().is_none());
    });
    let event = Event::auto(false);
    measured(&format!("{who}: event"), || {
        event.set();
        event.wait();
        assert!(!event.try_wait());
        event.pulse();
    });
    let word = AtomicU32::new(1);
    measured(&format!("{who}: word"), || {
        assert!(umcg::futex::wait(&word, 0).is_err());
        assert_eq!(umcg::futex::wake(&word, 1), 0);
    });
}

fn tubes(who: &str) {
    let (sender, receiver) = tube(1);
    measured(&format!("{who}: tube"), || {
        sender.send(1).unwrap();
        assert!(matches!(sender.try_send(2), Err(TrySendError::Full(2))));
        assert_eq!(receiver.recv(), Ok(1));
        assert!(receiver.try_recv().is_err());
    });
    let (_nobody, silent) = tube::<i32>(1);
    measured(&format!("{who}: select"), || {
        umcg::select! {
            got = silent.receiving() => panic!("{got:?}"),
            sent = sender.sending(1) => sent.unwrap(),
        }
        let mut both = [silent.receiving(), receiver.receiving()];
        assert_eq!(Select::new().wait(&mut both), 1);
        assert_eq!(both[1].outcome(), Ok(1));
        assert_eq!(Select::new().try_wait(&mut both), None);
    });
    let mut set: Set<_> = [silent.receiving(), receiver.receiving()]
        .into_iter()
        .collect();
    measured(&format!("{who}: set"), || {
        sender.send(1).unwrap();
        assert_eq!(set.wait(), 1);
        assert_eq!(set.outcome(1), Ok(1));
    });
}

fn operations(who: &str) {
    planted(&format!("planted, {who}"));
    semaphores(who);
    locks(who);
    tubes(who);
}

/// The process that is traced. On its own this is no test.
#[test]
fn traced() {
    if std::env::var_os(TRACED).is_none() {
        return;
    }
    operations("thread");
    let runtime = Runtime::builder().servers(1).build().unwrap();
    runtime.spawn(|| operations("worker")).join().unwrap();
    mark("done\n");
}

#[test]
fn what_need_not_wait_makes_no_system_call() {
    match Trace::of(
        ["--exact", "traced", "--nocapture"],
        (TRACED, "1".to_owned()),
    ) {
        Ok(trace) => trace.assert_none(24),
        Err(why) => drop(writeln!(std::io::stderr(), "{why}")),
    }
}
