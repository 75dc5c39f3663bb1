//! The rows of the table that are the kernel's or the C library's doing, as a worker sees them.

use crate::crowd::{on_server, with_server};
use crate::support::{Kind, eventually};
use rustix::thread::{CpuSet, gettid, sched_getaffinity, sched_setaffinity};
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::*};
use std::time::Duration;
use umcg::Runtime;
use umcg_core::raw::threads_move;

pub(crate) fn runtime() -> Runtime {
    Runtime::builder()
        .servers(1)
        .stack_size(256 << 10)
        .build()
        .unwrap()
}

/// The kernel's status of the calling kernel thread.
pub(crate) fn status(key: &str) -> String {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(key)).unwrap();
    line.split_whitespace().nth(1).unwrap().to_owned()
}

/// Calls `f` as a full worker, as a light one and as a thread worker: first on the server's kernel
/// thread, then in a blocking scope on another one.
pub(crate) fn change_and_see(change: fn(bool), see: fn() -> String) {
    let body = move || {
        let server = see();
        change(true);
        let changed = see();
        assert_ne!(changed, server);
        assert_ne!(umcg::blocking(see), changed, "the change is the carrier's");
        assert_eq!(see(), changed, "and stays there");
        change(false);
        assert_eq!(see(), server);
    };
    let runtime = runtime();
    Kind::Light.spawn_on(&runtime, body).join().unwrap();
    if threads_move() {
        runtime.spawn(body).join().unwrap();
        with_server(|| (), move || on_server(body));
    }
}

fn mask(how: i32, signal: i32) {
    let mut set = MaybeUninit::uninit();
    // SAFETY: written here.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: written above.
    unsafe { libc::sigaddset(set.as_mut_ptr(), signal) };
    assert_eq!(
        // SAFETY: as above.
        unsafe { libc::pthread_sigmask(how, set.as_ptr(), null_mut()) },
        0
    );
}

#[test]
fn a_signal_mask_is_the_carriers() {
    let change = |blocked| {
        mask(
            if blocked {
                libc::SIG_BLOCK
            } else {
                libc::SIG_UNBLOCK
            },
            libc::SIGWINCH,
        )
    };
    change_and_see(change, || status("SigBlk:"));
}

#[test]
fn an_alternate_stack_is_the_carriers() {
    fn now() -> libc::stack_t {
        let mut now = MaybeUninit::uninit();
        // SAFETY: writes the setting.
        assert_eq!(unsafe { libc::sigaltstack(null(), now.as_mut_ptr()) }, 0);
        // SAFETY: written above.
        unsafe { now.assume_init() }
    }
    let change = |other: bool| {
        let mut setting = now();
        let offset = if other { 4096 } else { -4096 };
        setting.ss_sp = setting.ss_sp.wrapping_byte_offset(offset);
        setting.ss_size = setting.ss_size.wrapping_add_signed(-offset);
        // SAFETY: a part of the stack that is there, and back.
        assert_eq!(unsafe { libc::sigaltstack(&setting, null_mut()) }, 0);
    };
    change_and_see(change, || format!("{:p} {}", now().ss_sp, now().ss_size));
}

#[test]
fn a_name_is_the_carriers() {
    fn comm() -> String {
        std::fs::read_to_string("/proc/thread-self/comm").unwrap()
    }
    let change = |other| {
        static BEFORE: std::sync::Mutex<String> = std::sync::Mutex::new(String::new());
        let before = std::mem::replace(&mut *BEFORE.lock().unwrap(), comm());
        let name = if other {
            "other".to_owned()
        } else {
            before.trim_end().to_owned()
        };
        std::fs::write("/proc/thread-self/comm", name).unwrap();
    };
    change_and_see(change, comm);
}

#[test]
fn affinity_and_nice_are_the_carriers() {
    let all = sched_getaffinity(None).unwrap();
    if all.count() > 1 {
        let change = |pinned| {
            static ALL: std::sync::Mutex<Option<CpuSet>> = std::sync::Mutex::new(None);
            let mut set = *ALL
                .lock()
                .unwrap()
                .get_or_insert_with(|| sched_getaffinity(None).unwrap());
            if pinned {
                let first = (0..CpuSet::MAX_CPU).find(|cpu| set.is_set(*cpu)).unwrap();
                set = CpuSet::new();
                set.set(first);
            }
            sched_setaffinity(None, &set).unwrap();
        };
        change_and_see(change, || status("Cpus_allowed:"));
    }
    // Only up, as it takes a privilege to go down again.
    let nice = || {
        // SAFETY: no precondition.
        unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }
    };
    let runtime = runtime();
    let worker = Kind::Light.spawn_on(&runtime, move || {
        // SAFETY: no precondition.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice() + 1) };
        (nice(), umcg::blocking(nice))
    });
    assert_eq!(worker.join().unwrap(), (nice() + 1, nice()));
}

#[test]
fn a_signal_for_a_thread_worker_waits_at_home() {
    if !threads_move() {
        return; // it is at home all the time
    }
    static HANDLED_BY: AtomicI32 = AtomicI32::new(0);
    extern "C" fn on_signal(_signal: i32) {
        HANDLED_BY.store(gettid().as_raw_nonzero().get(), Relaxed);
    }
    // SAFETY: the handler is async-signal-safe.
    unsafe {
        libc::signal(
            libc::SIGUSR2,
            on_signal as extern "C" fn(i32) as libc::sighandler_t,
        )
    };
    with_server(
        || (),
        || {
            let home = gettid().as_raw_nonzero().get();
            on_server(|| {
                assert_ne!(gettid().as_raw_nonzero().get(), home);
                // SAFETY: no precondition.
                let this = unsafe { libc::pthread_self() };
                // SAFETY: the worker's thread. (A thread that signals itself signals its carrier.)
                let kill = move || unsafe { libc::pthread_kill(this, libc::SIGUSR2) };
                assert_eq!(std::thread::spawn(kill).join().unwrap(), 0);
                std::thread::sleep(Duration::from_millis(10));
                assert_eq!(HANDLED_BY.load(Relaxed), 0);
                umcg::blocking(|| eventually_here("handled", || HANDLED_BY.load(Relaxed) == home));
            });
        },
    );
}

/// As [`eventually`], for a caller that waits as a thread.
fn eventually_here(what: &str, so: impl Fn() -> bool) {
    for _ in 0..30_000 {
        if so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("not so: {what}");
}

/// A mutex of glibc's.
struct Mutex(UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: it is for threads to share.
unsafe impl Sync for Mutex {}
// SAFETY: as above; it does not move while it is locked.
unsafe impl Send for Mutex {}

impl Mutex {
    fn new(set: impl Fn(*mut libc::pthread_mutexattr_t)) -> Arc<Mutex> {
        let mut attributes = MaybeUninit::uninit();
        // SAFETY: written here.
        unsafe { libc::pthread_mutexattr_init(attributes.as_mut_ptr()) };
        set(attributes.as_mut_ptr());
        // SAFETY: zeros are one.
        let mutex = Arc::new(Mutex(UnsafeCell::new(unsafe { std::mem::zeroed() })));
        assert_eq!(
            // SAFETY: no thread uses it yet.
            unsafe { libc::pthread_mutex_init(mutex.0.get(), attributes.as_ptr()) },
            0
        );
        mutex
    }

    fn of_kind(kind: i32) -> Arc<Mutex> {
        Mutex::new(|attributes| {
            // SAFETY: initialised by the caller.
            unsafe { libc::pthread_mutexattr_settype(attributes, kind) };
        })
    }

    fn lock(&self) -> i32 {
        // SAFETY: initialised.
        unsafe { libc::pthread_mutex_lock(self.0.get()) }
    }

    fn try_lock(&self) -> i32 {
        // SAFETY: as above.
        unsafe { libc::pthread_mutex_trylock(self.0.get()) }
    }

    fn lock_until(&self, timeout: Duration) -> i32 {
        let until = std::time::SystemTime::now() + timeout;
        let until = until.duration_since(std::time::UNIX_EPOCH).unwrap();
        let until = libc::timespec {
            tv_sec: until.as_secs() as _,
            tv_nsec: until.subsec_nanos() as _,
        };
        // SAFETY: as above.
        unsafe { libc::pthread_mutex_timedlock(self.0.get(), &until) }
    }

    fn unlock(&self) -> i32 {
        // SAFETY: as above; a mutex that checks refuses others than its owner.
        unsafe { libc::pthread_mutex_unlock(self.0.get()) }
    }
}

/// Its owner keeps it from carrier to carrier, and another worker on the same carrier is another
/// owner.
fn owned(mutex: Arc<Mutex>, other_is_refused: impl Fn(&Mutex)) {
    assert_eq!(mutex.lock(), 0);
    assert_eq!(umcg::blocking(|| mutex.unlock()), 0);
    assert_eq!(umcg::blocking(|| mutex.lock()), 0);
    other_is_refused(&mutex);
    assert_eq!(mutex.unlock(), 0);
}

#[test]
fn a_mutex_knows_the_worker_by_its_storage() {
    for kind in [
        libc::PTHREAD_MUTEX_ERRORCHECK,
        libc::PTHREAD_MUTEX_RECURSIVE,
    ] {
        let body = move || {
            owned(Mutex::of_kind(kind), |mutex| {
                let again = if kind == libc::PTHREAD_MUTEX_RECURSIVE {
                    0
                } else {
                    libc::EDEADLK
                };
                assert_eq!(mutex.lock(), again);
                if again == 0 {
                    assert_eq!(mutex.unlock(), 0);
                }
            });
        };
        let runtime = runtime();
        if umcg::storage::available().is_ok() {
            runtime.spawn(body).join().unwrap();
            let mutex = Mutex::of_kind(kind);
            let (seen, result) = (mutex.clone(), Arc::new(AtomicI32::new(-1)));
            let (tell, locked) = (result.clone(), Arc::new(AtomicBool::new(false)));
            let has = locked.clone();
            let owner = runtime.spawn(move || {
                assert_eq!(seen.lock(), 0);
                has.store(true, Relaxed);
                while tell.load(Relaxed) == -1 {
                    umcg::yield_now();
                }
                assert_eq!(seen.unlock(), 0);
            });
            eventually("locked", || locked.load(Relaxed));
            result.store(runtime.run(move || mutex.try_lock()), Relaxed);
            owner.join().unwrap();
            assert_eq!(result.load(Relaxed), libc::EBUSY);
        }
        with_server(|| (), move || on_server(body));
    }
}

#[test]
fn a_thread_worker_has_a_pi_mutex_within_one_scope() {
    let mutex = Mutex::new(|attributes| {
        // SAFETY: initialised by the caller.
        unsafe { libc::pthread_mutexattr_setprotocol(attributes, libc::PTHREAD_PRIO_INHERIT) };
    });
    let contend = |mutex: &Arc<Mutex>| {
        let mutex = mutex.clone();
        std::thread::spawn(move || (mutex.lock_until(Duration::from_secs(30)), mutex.unlock()))
    };
    let body = move || {
        on_server(|| {
            umcg::blocking(|| {
                assert_eq!(mutex.lock(), 0);
                let other = contend(&mutex);
                std::thread::sleep(Duration::from_millis(10));
                assert_eq!(mutex.unlock(), 0);
                assert_eq!(other.join().unwrap(), (0, 0));
            });
        });
    };
    with_server(|| (), body);
}

#[test]
fn a_full_workers_robust_mutex_stays_locked() {
    if umcg::storage::available().is_err() {
        return;
    }
    let mutex = Mutex::new(|attributes| {
        // SAFETY: initialised by the caller.
        unsafe { libc::pthread_mutexattr_setrobust(attributes, libc::PTHREAD_MUTEX_ROBUST) };
    });
    let (runtime, seen) = (runtime(), mutex.clone());
    runtime
        .spawn(move || assert_eq!(seen.lock(), 0))
        .join()
        .unwrap();
    assert_eq!(mutex.try_lock(), libc::EBUSY);
    let seen = mutex.clone();
    assert_eq!(
        runtime
            .spawn(move || seen.lock_until(Duration::from_millis(10)))
            .join()
            .unwrap(),
        libc::ETIMEDOUT
    );
}

#[test]
fn a_full_workers_contended_pi_mutex_times_out() {
    if umcg::storage::available().is_err() {
        return;
    }
    let mutex = Mutex::new(|attributes| {
        // SAFETY: initialised by the caller.
        unsafe { libc::pthread_mutexattr_setprotocol(attributes, libc::PTHREAD_PRIO_INHERIT) };
    });
    let runtime = runtime();
    let (seen, locked, over) = (
        mutex.clone(),
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicBool::new(false)),
    );
    let (has, seen_over) = (locked.clone(), over.clone());
    let owner = runtime.spawn(move || {
        assert_eq!(seen.lock(), 0);
        has.store(true, Relaxed);
        while !seen_over.load(Relaxed) {
            umcg::sleep(Duration::from_millis(1));
        }
        seen.unlock()
    });
    eventually("locked", || locked.load(Relaxed));
    assert_eq!(mutex.lock_until(Duration::from_millis(20)), libc::ETIMEDOUT);
    over.store(true, Relaxed);
    owner.join().unwrap();
}
