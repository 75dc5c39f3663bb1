//! Workers with thread-local storage of their own, run by servers.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::ffi::c_int;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use umcg::{Event, Ready, Server, WorkerId, uth};

/// The idle lists belong to the process, so the tests take turns. None where workers cannot have
/// storage of their own.
fn turn() -> Option<MutexGuard<'static, ()>> {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    umcg_core::storage::available().is_ok().then_some(turn)
}

fn spawn(index: u64, f: impl FnOnce() + Send + 'static) -> Ready {
    umcg::light(WorkerId::from_index(index))
        .name("owning")
        .spawn_owning(f)
        .unwrap()
}

unsafe extern "C" {
    fn fork() -> c_int;
    fn waitpid(child: c_int, status: *mut c_int, options: c_int) -> c_int;
    fn _exit(status: c_int) -> !;
}

thread_local! {
    static NUMBER: Cell<u64> = const { Cell::new(7) };
    static GUARD: RefCell<Option<Ended>> = const { RefCell::new(None) };
}

/// Counts its drops.
struct Ended(Arc<AtomicUsize>);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = umcg::wait(); // a destructor may switch as well
        self.0.fetch_add(1, Relaxed);
    }
}

/// Runs all of these to their ends, on this many servers.
fn serve(servers: usize, workers: Vec<Ready>) {
    serve_counting(servers, workers, &AtomicUsize::new(0));
}

/// And counts how often one was preempted.
fn serve_counting(servers: usize, workers: Vec<Ready>, preempted: &AtomicUsize) {
    let left = AtomicUsize::new(workers.len());
    let queue = Mutex::new(workers);
    std::thread::scope(|scope| {
        for _ in 0..servers {
            scope.spawn(|| {
                let server = Server::register().unwrap();
                while left.load(Relaxed) > 0 {
                    let ready = queue.lock().unwrap().pop();
                    let event = match ready {
                        Some(ready) => server.switch_to(ready),
                        None => match server.wait_timeout(Duration::from_millis(1)) {
                            Ok(event) => event,
                            Err(_) => continue,
                        },
                    };
                    if let Event::Preempt(_) = event {
                        preempted.fetch_add(1, Relaxed);
                    }
                    match event {
                        Event::Wake(ready) | Event::Wait(ready) | Event::Preempt(ready) => {
                            queue.lock().unwrap().insert(0, ready)
                        }
                        Event::Exit(_) => drop(left.fetch_sub(1, Relaxed)),
                        Event::Block(_) | Event::Timeout(_) => {}
                    }
                }
            });
        }
    });
}

#[test]
fn each_has_its_own_storage_wherever_it_runs() {
    let Some(_turn) = turn() else { return };
    let (ended, ids) = (
        Arc::new(AtomicUsize::new(0)),
        Arc::new(Mutex::new(HashSet::new())),
    );
    for round in 1..=2 {
        let body = |me: u64| {
            let (ended, ids) = (ended.clone(), ids.clone());
            move || {
                assert_eq!(NUMBER.replace(me), 7);
                GUARD.with_borrow_mut(|guard| *guard = Some(Ended(ended)));
                let id = std::thread::current().id();
                assert!(ids.lock().unwrap().insert(id));
                for step in 0..20 {
                    // Borrowed across a switch: a worker that shares its storage must not do that.
                    NUMBER.with(|number| {
                        let before = number.get();
                        if (step + me) % 5 == 0 {
                            umcg::blocking(|| std::thread::sleep(Duration::from_micros(50)));
                        } else {
                            umcg::wait().unwrap();
                        }
                        assert_eq!(number.get(), before);
                        number.set(before + 1);
                    });
                    assert_eq!(std::thread::current().id(), id);
                    assert!(uth::current().is_some());
                }
                assert_eq!(NUMBER.get(), me + 20);
            }
        };
        serve(3, (0..100).map(|me| spawn(me, body(me))).collect());
        assert_eq!(ended.load(Relaxed), 100 * round);
        assert_eq!(ids.lock().unwrap().len(), 100 * round);
    }
}

#[test]
fn blocking_does_not_hold_the_server_up() {
    let Some(_turn) = turn() else { return };
    static BLOCKED: AtomicUsize = AtomicUsize::new(0);
    // Each waits until all others block, too.
    let blocks = || {
        BLOCKED.fetch_add(1, Relaxed);
        let started = Instant::now();
        while BLOCKED.load(Relaxed) < 20 {
            assert!(
                started.elapsed() < Duration::from_secs(30),
                "one waits for another"
            );
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    serve(
        1,
        (0..20)
            .map(|me| spawn(me, move || umcg::blocking(blocks)))
            .collect(),
    );
    assert_eq!(BLOCKED.load(Relaxed), 20);
}

#[test]
fn they_switch_to_each_other_and_to_other_kinds() {
    let Some(_turn) = turn() else { return };
    let done = Arc::new(AtomicUsize::new(0));
    let leaf = |index: u64, owning: bool| {
        let done = done.clone();
        let body = move || {
            if owning {
                assert_eq!(NUMBER.replace(index), 7);
            }
            umcg::wait().unwrap();
            if owning {
                assert_eq!(NUMBER.get(), index);
            }
            done.fetch_add(1, Relaxed);
        };
        if owning {
            spawn(index, body)
        } else {
            // SAFETY: one that shares its storage touches no thread-local.
            unsafe { umcg::light(WorkerId::from_index(index)).spawn(body) }.unwrap()
        }
    };
    let pairs = (0..4).map(|kind| {
        let (first, second) = (kind & 1 == 1, kind & 2 == 2);
        let next = leaf(100 + kind, second);
        let body = move || assert!(umcg::switch_to(next).is_ok());
        let index = 200 + kind;
        if first {
            spawn(index, body)
        } else {
            // SAFETY: as above.
            unsafe { umcg::light(WorkerId::from_index(index)).spawn(body) }.unwrap()
        }
    });
    let pairs: Vec<Ready> = pairs.collect();
    let server = Server::register().unwrap();
    let (mut queue, mut left) = (pairs, 8);
    while left > 0 {
        let event = match queue.pop() {
            Some(ready) => server.switch_to(ready),
            None => server.wait().unwrap(),
        };
        match event {
            Event::Wake(ready) | Event::Wait(ready) | Event::Preempt(ready) => queue.push(ready),
            Event::Exit(_) => left -= 1,
            Event::Block(_) | Event::Timeout(_) => {}
        }
    }
    assert_eq!(done.load(Relaxed), 4);
}

#[test]
fn preemption_keeps_storages_apart() {
    let Some(_turn) = turn() else { return };
    umcg::set_preemption(Some(Duration::from_millis(2))).unwrap();
    let preempted = Arc::new(AtomicUsize::new(0));
    let body = |me: u64| {
        let preempted = preempted.clone();
        move || {
            let begin = Instant::now();
            // Longer where there was no processor meanwhile.
            let is_over = || match begin.elapsed().as_millis() {
                0..100 => false,
                100..60_000 => preempted.load(Relaxed) > 0,
                _ => true,
            };
            while !is_over() {
                NUMBER.set(me);
                for _ in 0..1000 {
                    assert_eq!(std::hint::black_box(NUMBER.get()), me);
                }
                let chunk = vec![me; 100];
                assert!(chunk.iter().all(|word| *word == me));
            }
        }
    };
    serve_counting(
        2,
        (0..8).map(|me| spawn(me, body(me))).collect(),
        &preempted,
    );
    umcg::set_preemption(None).unwrap();
    assert!(preempted.load(Relaxed) > 0, "{preempted:?}");
}

#[test]
fn one_that_forks_goes_on_in_the_child() {
    let Some(_turn) = turn() else { return };
    if cfg!(not(target_arch = "x86_64")) {
        return; // qemu does not fork a process of several threads well
    }
    let body = || {
        NUMBER.set(12);
        // SAFETY: the child does no more than a child of several threads may, plus the calls that
        // these tests are about.
        let child = unsafe { fork() };
        if child == 0 {
            let thread = umcg_core::kernel_thread::spawn("child", || NUMBER.get());
            let right = thread.is_ok_and(|made| made.join().is_ok_and(|seven| seven == 7))
                && NUMBER.get() == 12
                && umcg::wait().is_err();
            // SAFETY: ends the child.
            unsafe { _exit(if right { 42 } else { 1 }) };
        }
        let mut status = 0;
        assert_eq!(
            // SAFETY: our own child.
            umcg::blocking(|| unsafe { waitpid(child, &mut status, 0) }),
            child
        );
        assert_eq!(status, 42 << 8);
    };
    serve(1, vec![spawn(1, body)]);
}

#[test]
fn one_that_was_forgotten_keeps_its_storage() {
    let Some(_turn) = turn() else { return };
    // Recycled storages must be clean even if workers before them were never run.
    drop(spawn(1, || ()));
    let server = Server::register().unwrap();
    let Ok(Event::Wake(ready)) = server.wait() else {
        panic!("no WAKE of a dropped token")
    };
    assert!(matches!(server.switch_to(ready), Event::Exit(_)));
}

/// The result of a run of this test by itself with a variable set: see below.
fn overflow() {
    #[allow(unconditional_recursion)]
    fn deeper(n: u64) -> u64 {
        let frame = std::hint::black_box([n; 64]);
        deeper(n + 1) + frame[63]
    }
    let body = || assert_eq!(std::hint::black_box(deeper(0)), 0);
    let ready = umcg::light(WorkerId::from_index(1))
        .name("ophelia")
        .spawn_owning(body);
    let _ = Server::register().unwrap().switch_to(ready.unwrap());
}

#[test]
fn an_overflow_is_named() {
    let Some(_turn) = turn() else { return };
    if cfg!(not(target_arch = "x86_64")) {
        return; // under qemu the program cannot run itself
    }
    const ASKED: &str = "UMCG_TEST_OVERFLOW";
    if std::env::var_os(ASKED).is_some() {
        return overflow();
    }
    let mut again = std::process::Command::new(std::env::current_exe().unwrap());
    let ended = again
        .args(["--exact", "an_overflow_is_named", "--nocapture"])
        .env(ASKED, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(
        !ended.status.success() && said.contains("worker `ophelia` overflowed its 64 KiB stack"),
        "{ended:?}"
    );
}
