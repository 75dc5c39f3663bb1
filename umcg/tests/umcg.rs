//! Servers, workers and events as a user of the safe types sees them.

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use umcg::{Event, Ready, Server, TimedOut, WaitError, Worker, WorkerId};

/// The idle lists belong to the process, so tests that use them take turns.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn id(index: u64) -> WorkerId {
    WorkerId::from_index(index)
}

fn light(index: u64, f: impl FnOnce() + Send + 'static) -> Ready {
    // SAFETY: no code that the tests have run so keeps a reference into thread-local storage, or a
    // value that is not `Send`, across a call that switches; and preempted code counts or spins, no
    // more.
    unsafe { umcg::light(id(index)).spawn(f) }.unwrap()
}

fn waited(event: Event) -> Ready {
    match event {
        Event::Wait(ready) => ready,
        other => panic!("{other:?}"),
    }
}

fn woken(event: Event) -> Ready {
    match event {
        Event::Wake(ready) => ready,
        other => panic!("{other:?}"),
    }
}

fn exited(event: Event, index: u64) {
    assert!(
        matches!(event, Event::Exit(gone) if gone == id(index)),
        "{event:?}"
    );
}

/// A worker is not looked at as a uth: where it is suspended its record does not say.
#[test]
fn a_worker_is_not_inspected() {
    struct Name(umcg::uth::Uth);
    // SAFETY: a name only.
    unsafe impl Send for Name {}
    let _turn = turn();
    let server = Server::register().unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    let ready = light(1, move || {
        tell.send(Name(umcg::uth::current().unwrap())).unwrap();
        umcg::wait().unwrap();
    });
    let ready = waited(server.switch_to(ready));
    let worker = told.recv().unwrap();
    let inspected = std::thread::spawn(move || {
        let worker = worker;
        umcg::uth::vp_init(None).unwrap();
        // SAFETY: no server runs it meanwhile, and nothing is to be called.
        unsafe { umcg::uth::inspect(worker.0, &mut || panic!("called")) }
    });
    assert_eq!(inspected.join().unwrap(), Err(umcg::uth::UthError::Worker));
    exited(server.switch_to(ready), 1);
}

/// The C library's answer for the calling thread's stack.
fn stack_by_the_c_library() -> Option<std::ops::Range<usize>> {
    // SAFETY: zero is a valid attribute object, which the next call fills.
    let mut attributes: libc::pthread_attr_t = unsafe { std::mem::zeroed() };
    // SAFETY: no precondition.
    let me = unsafe { libc::pthread_self() };
    // SAFETY: the caller is alive.
    if unsafe { libc::pthread_getattr_np(me, &mut attributes) } != 0 {
        return None;
    }
    let (mut low, mut size) = (std::ptr::null_mut(), 0);
    // SAFETY: filled above.
    let failed = unsafe { libc::pthread_attr_getstack(&attributes, &mut low, &mut size) } != 0;
    // SAFETY: as above, and not used again.
    unsafe { libc::pthread_attr_destroy(&mut attributes) };
    (!failed).then(|| low.addr()..low.addr() + size)
}

/// It finds a thread worker's own stack, wherever that runs: garbage collectors and the like ask
/// so.
#[test]
fn the_c_library_knows_the_stacks_of_thread_workers() {
    let _turn = turn();
    let thread = std::thread::spawn(|| {
        let before = stack_by_the_c_library();
        let worker = Worker::register(id(31)).unwrap();
        let here = 0u8;
        let while_away = stack_by_the_c_library();
        drop(worker);
        assert!(
            before.is_some() && before == while_away,
            "{before:?} {while_away:?}"
        );
        assert!(before.unwrap().contains(&(&raw const here).addr()));
    });
    let server = Server::register().unwrap();
    let ready = woken(server.wait().unwrap());
    exited(server.switch_to(ready), 31);
    thread.join().unwrap();
}

#[test]
fn a_light_worker_waits_and_exits() {
    let _turn = turn();
    let server = Server::register().unwrap();
    let ready = light(1, || {
        for _ in 0..3 {
            umcg::wait().unwrap();
        }
    });
    let mut ready = waited(server.switch_to(ready));
    assert_eq!(ready.id(), id(1));
    for _ in 0..2 {
        ready = waited(server.switch_to(ready));
    }
    exited(server.switch_to(ready), 1);
    assert!(server.try_wait().is_none());
}

#[test]
fn a_thread_worker_keeps_its_thread_locals() {
    thread_local!(static MINE: std::cell::Cell<u64> = const { std::cell::Cell::new(0) });
    let _turn = turn();
    let threads: Vec<_> = (1..=8)
        .map(|index| {
            std::thread::spawn(move || {
                MINE.set(index);
                let _worker = Worker::register(id(index)).unwrap();
                for _ in 0..100 {
                    umcg::wait().unwrap();
                    assert_eq!(MINE.get(), index);
                    assert_eq!(umcg::current_id(), Some(id(index)));
                }
            })
        })
        .collect();
    let server = Server::register().unwrap();
    MINE.set(99);
    let mut ready: Vec<Ready> = (0..8).map(|_| woken(server.wait().unwrap())).collect();
    while let Some(next) = ready.pop() {
        match server.switch_to(next) {
            Event::Wait(waiting) => ready.insert(0, waiting),
            Event::Exit(_) => {}
            other => panic!("{other:?}"),
        }
        assert_eq!(MINE.get(), 99);
    }
    drop(server);
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
}

#[test]
fn roles_exclude_each_other() {
    let _turn = turn();
    assert_eq!(umcg::wait(), Err(umcg::NotAWorker));
    assert_eq!(
        umcg::wait_timeout(Duration::ZERO),
        Err(TimedOut::NotAWorker)
    );
    assert_eq!(umcg::current_id(), None);
    assert_eq!(umcg::blocking(|| 7), 7);
    assert_eq!(umcg::critical(|| 8), 8);
    let server = Server::register().unwrap();
    assert_eq!(Server::register().unwrap_err(), umcg::Error::Registered);
    assert_eq!(
        Worker::register(id(1)).unwrap_err(),
        umcg::Error::Registered
    );
    assert_eq!(umcg::wait(), Err(umcg::NotAWorker));
    let ready = light(2, || {
        assert!(Server::register().is_err());
        assert!(Worker::register(id(3)).is_err());
    });
    exited(server.switch_to(ready), 2);
    drop(server);
    drop(Server::register().unwrap());
}

#[test]
fn blocking_gives_block_then_wake() {
    let _turn = turn();
    let (sender, receiver) = std::sync::mpsc::channel::<u32>();
    let server = Server::register().unwrap();
    let thread = std::thread::spawn(move || {
        let _worker = Worker::register(id(5)).unwrap();
        let before = kernel_tid();
        let (value, at_home) = umcg::blocking(|| (receiver.recv().unwrap(), kernel_tid()));
        assert_eq!(value, 42);
        if std::env::var_os("UMCG_NO_FSGSBASE").is_none() {
            assert_ne!(
                before, at_home,
                "blocks on its home thread, runs on the server's"
            );
        }
    });
    let ready = woken(server.wait().unwrap());
    let event = server.switch_to(ready);
    assert!(
        matches!(event, Event::Block(blocked) if blocked == id(5)),
        "{event:?}"
    );
    assert_eq!(
        server.wait_timeout(Duration::from_millis(20)).unwrap_err(),
        WaitError::TimedOut
    );
    sender.send(42).unwrap();
    let ready = woken(server.wait().unwrap());
    exited(server.switch_to(ready), 5);
    thread.join().unwrap();
}

#[test]
fn a_light_worker_blocks_on_a_helper() {
    let _turn = turn();
    let server = Server::register().unwrap();
    let (sender, receiver) = std::sync::mpsc::channel::<u32>();
    let ready = light(6, move || {
        let value = umcg::blocking(|| umcg::blocking(|| receiver.recv().unwrap()));
        assert_eq!(value, 1);
        umcg::wait().unwrap();
        // The function may end inside a scope too, when it unwinds; here it just blocks again.
        umcg::blocking(|| std::thread::sleep(Duration::from_millis(1)));
    });
    assert!(matches!(server.switch_to(ready), Event::Block(_)));
    sender.send(1).unwrap();
    let ready = waited(server.switch_to(woken(server.wait().unwrap())));
    assert!(matches!(server.switch_to(ready), Event::Block(_)));
    exited(server.switch_to(woken(server.wait().unwrap())), 6);
}

fn kernel_tid() -> u64 {
    // The kernel's answer, not the library's: which kernel thread runs this.
    std::fs::read_link("/proc/thread-self")
        .unwrap()
        .file_name()
        .unwrap()
        .to_str()
        .unwrap()
        .parse()
        .unwrap()
}

#[test]
fn deadlines_give_wait_then_timeout() {
    let _turn = turn();
    let server = Server::register().unwrap();
    static TIMED_OUT: AtomicUsize = AtomicUsize::new(0);
    let ready = light(7, || {
        for timeout in [5, 3_600_000] {
            if umcg::wait_timeout(Duration::from_millis(timeout)) == Err(TimedOut::Passed) {
                TIMED_OUT.fetch_add(1, Relaxed);
            }
        }
        assert_eq!(umcg::wait_deadline(Instant::now()), Err(TimedOut::Passed));
        assert_eq!(umcg::wait_timeout(Duration::from_secs(3600)), Ok(()));
    });
    let ready = waited(server.switch_to(ready));
    let event = server.wait().unwrap();
    assert!(
        matches!(event, Event::Timeout(late) if late == id(7)),
        "{event:?}"
    );
    let ready = waited(server.switch_to(ready)); // the second wait: run before its deadline passes
    assert_eq!(TIMED_OUT.load(Relaxed), 1);
    let ready = waited(server.switch_to(ready)); // the third: already past
    assert_eq!(TIMED_OUT.load(Relaxed), 1);
    assert!(matches!(server.wait().unwrap(), Event::Timeout(_)));
    let ready = waited(server.switch_to(ready));
    exited(server.switch_to(ready), 7);
    assert!(
        server.try_wait().is_none(),
        "a cancelled timer leaves nothing behind"
    );
}

#[test]
fn workers_switch_to_each_other() {
    let _turn = turn();
    let server = Server::register().unwrap();
    let thread = std::thread::spawn(|| {
        let _worker = Worker::register(id(2)).unwrap();
        umcg::wait().unwrap();
    });
    let other = woken(server.wait().unwrap());
    let first = light(1, move || {
        umcg::switch_to(other).unwrap();
    });
    // The light worker lets the thread worker run, which then waits: both become ready, one
    // directly and one through the list.
    let second = waited(server.switch_to(first));
    assert_eq!(second.id(), id(2));
    let first = waited(server.wait().unwrap());
    assert_eq!(first.id(), id(1));
    exited(server.switch_to(first), 1);
    exited(server.switch_to(second), 2);
    thread.join().unwrap();
    let ready = light(3, || ());
    let Err(ready) = umcg::switch_to(ready) else {
        panic!("a server is no worker")
    };
    exited(server.switch_to(ready), 3);
}

#[test]
fn a_dropped_right_comes_back() {
    let _turn = turn();
    let server = Server::register().unwrap();
    drop(light(9, || umcg::wait().unwrap()));
    let ready = woken(server.wait().unwrap());
    drop(waited(server.switch_to(ready)));
    let ready = woken(server.try_wait().unwrap());
    exited(server.switch_to(ready), 9);
}

#[test]
fn wake_ends_a_wait() {
    let _turn = turn();
    assert!(!umcg::wake());
    let thread = std::thread::spawn(|| Server::register().unwrap().wait().unwrap_err());
    while !umcg::wake() {
        std::thread::yield_now();
    }
    assert_eq!(thread.join().unwrap(), WaitError::Woken);
}

#[test]
fn a_thread_that_ends_exits() {
    let _turn = turn();
    let thread = std::thread::spawn(|| std::mem::forget(Worker::register(id(4)).unwrap()));
    let server = Server::register().unwrap();
    let ready = woken(server.wait().unwrap());
    exited(server.switch_to(ready), 4);
    thread.join().unwrap();
}

#[test]
fn a_panic_in_a_thread_worker_is_its_own() {
    let _turn = turn();
    let thread = std::thread::spawn(|| {
        let _worker = Worker::register(id(4)).unwrap();
        umcg::wait().unwrap();
        panic!("expected by the test");
    });
    let server = Server::register().unwrap();
    let ready = waited(server.switch_to(woken(server.wait().unwrap())));
    exited(server.switch_to(ready), 4);
    assert!(thread.join().is_err());
}

/// The processor time of this kernel thread: the clock of the preemption tick.
fn cpu_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

#[test]
fn preemption_takes_a_busy_worker_off() {
    let _turn = turn();
    umcg::set_preemption(Some(Duration::from_millis(4))).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let server = Server::register().unwrap();
    let busy = |index| {
        let stop = stop.clone();
        light(index, move || while !stop.load(Relaxed) {})
    };
    let mut ready = vec![busy(1), busy(2)];
    for turn in 0..6 {
        match server.switch_to(ready.remove(0)) {
            Event::Preempt(preempted) => ready.push(preempted),
            other => panic!("{turn}: {other:?}"),
        }
    }
    stop.store(true, Relaxed);
    ready
        .into_iter()
        .for_each(|ready| assert!(matches!(server.switch_to(ready), Event::Exit(_))));
    // The kernel's ticks hit those that run just then: among many threads this one may be missed
    // for a while.
    for millis in [40, 400, 4000] {
        let stop = AtomicBool::new(false);
        let ready = light(3, move || {
            umcg::critical(|| {
                let start = cpu_time();
                while cpu_time() - start < Duration::from_millis(millis) {}
                stop.store(true, Relaxed);
            });
            assert!(stop.load(Relaxed));
        });
        match server.switch_to(ready) {
            Event::Preempt(late) => {
                exited(server.switch_to(late), 3);
                break;
            }
            Event::Exit(_) if millis < 4000 => {}
            other => panic!("{other:?}"),
        }
    }
    drop(server);
    umcg::set_preemption(None).unwrap();
}

/// Looks that were due before it was turned off change nothing afterwards.
#[test]
#[cfg_attr(umcg_asan, ignore = "its qsort is a part of the program")]
fn preemption_that_is_turned_off_ends_at_once() {
    fn compute() {
        let start = cpu_time();
        while cpu_time() - start < Duration::from_millis(40) {}
    }
    /// Called by the C library, where preemption is not allowed.
    extern "C" fn compare(_: *const c_void, _: *const c_void) -> c_int {
        compute();
        umcg::set_preemption(None).unwrap();
        0
    }
    let _turn = turn();
    umcg::set_preemption(Some(Duration::from_millis(4))).unwrap();
    let server = Server::register().unwrap();
    let ready = light(1, || {
        let mut pair = [1u64, 2];
        // SAFETY: two elements of eight bytes, and a function that compares them.
        unsafe { libc::qsort(pair.as_mut_ptr().cast(), 2, 8, Some(compare)) };
        compute();
    });
    exited(server.switch_to(ready), 1);
}

/// A light worker that is preempted on one server and goes on on another has the other one's
/// storage from there.
#[test]
fn a_preempted_worker_goes_on_with_the_storage_of_its_server() {
    let _turn = turn();
    // SAFETY: no preconditions. By the thread pointer, anew each time.
    let storage = || unsafe { libc::pthread_self() } as u64;
    umcg::set_preemption(Some(Duration::from_millis(4))).unwrap();
    let (moved, seen) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU64::new(0)),
    );
    let (has_moved, tell) = (moved.clone(), seen.clone());
    let server = Server::register().unwrap();
    let mut ready = light(1, move || {
        while !has_moved.load(Acquire) {}
        tell.store(storage(), Relaxed);
    });
    for _ in 0..4 {
        let Event::Preempt(preempted) = server.switch_to(ready) else {
            panic!("not preempted")
        };
        let other = std::thread::spawn(move || {
            let server = Server::register().unwrap();
            let Event::Preempt(preempted) = server.switch_to(preempted) else {
                panic!("not preempted")
            };
            preempted
        });
        ready = other.join().unwrap();
    }
    moved.store(true, Release);
    exited(server.switch_to(ready), 1);
    assert_eq!(seen.load(Relaxed), storage());
    drop(server);
    umcg::set_preemption(None).unwrap();
}

/// Workers of both kinds that wait, switch, time out, block and exit, on several servers. Every
/// event is accounted for.
#[test]
fn nothing_is_lost_on_many_servers() {
    let _turn = turn();
    for servers in [1, 2, 4] {
        storm(servers, 40, 50);
    }
}

static STEPS: AtomicU64 = AtomicU64::new(0);

fn body(index: u64, steps: u64) {
    for step in 0..steps {
        STEPS.fetch_add(1, Relaxed);
        match (index + step) % 5 {
            0 => umcg::blocking(std::thread::yield_now),
            1 => drop(umcg::wait_timeout(Duration::from_micros(50))),
            _ => umcg::wait().unwrap(),
        }
    }
}

fn storm(servers: usize, workers: u64, steps: u64) {
    STEPS.store(0, Relaxed);
    let left = AtomicUsize::new(2 * workers as usize);
    let queue: Mutex<Vec<Ready>> = Mutex::new(
        (0..workers)
            .map(|index| light(index, move || body(index, steps)))
            .collect(),
    );
    let parked: Mutex<HashMap<WorkerId, Ready>> = Mutex::new(HashMap::new());
    let threads: Vec<_> = (workers..2 * workers)
        .map(|index| {
            std::thread::spawn(move || {
                let _worker = Worker::register(id(index)).unwrap();
                body(index, steps);
            })
        })
        .collect();
    std::thread::scope(|scope| {
        for _ in 0..servers {
            scope.spawn(|| serve(&left, &queue, &parked));
        }
    });
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    assert_eq!(STEPS.load(Relaxed), 2 * workers * steps);
    assert!(queue.lock().unwrap().is_empty() && parked.lock().unwrap().is_empty());
}

fn serve(left: &AtomicUsize, queue: &Mutex<Vec<Ready>>, parked: &Mutex<HashMap<WorkerId, Ready>>) {
    let server = Server::register().unwrap();
    while left.load(Relaxed) > 0 {
        let next = queue.lock().unwrap().pop();
        let event = match next {
            Some(ready) => Ok(server.switch_to(ready)),
            None => server.wait_timeout(Duration::from_millis(1)),
        };
        for event in event.into_iter().chain(server.events()) {
            match event {
                Event::Wake(ready) | Event::Wait(ready) | Event::Preempt(ready) => {
                    assert!(!parked.lock().unwrap().contains_key(&ready.id()));
                    queue.lock().unwrap().insert(0, ready);
                }
                Event::Exit(_) => drop(left.fetch_sub(1, Relaxed)),
                Event::Block(_) | Event::Timeout(_) => {}
            }
        }
    }
}
