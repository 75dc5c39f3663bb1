//! Waits that are cut, as by a signal: of workers and of threads.

use crate::side::{
    ALL, Call, Item, PRIVATE, REQUEUE, Side, WAIT, WAIT_BITSET, at, ours, wait, waitv,
};
use crate::support::{Kind, eventually, over};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use umcg::futex::kernel::{self, Outcome};
use umcg::{Handle, Runtime};

/// A party that has told its handle.
struct Party<R> {
    handle: Handle,
    join: Box<dyn FnOnce() -> R>,
}

impl<R: Send + 'static> Party<R> {
    fn start(worker: Option<(&Runtime, Kind)>, f: impl FnOnce() -> R + Send + 'static) -> Party<R> {
        let told: Arc<Mutex<Option<Handle>>> = Arc::default();
        let tell = told.clone();
        let body = move || {
            *tell.lock().unwrap() = Some(Handle::current());
            f()
        };
        let join: Box<dyn FnOnce() -> R> = match worker {
            Some((runtime, kind)) => {
                let worker = kind.spawn_on(runtime, body);
                Box::new(|| worker.join().unwrap())
            }
            None => {
                let thread = std::thread::spawn(body);
                Box::new(|| thread.join().unwrap())
            }
        };
        eventually("it tells its handle", || told.lock().unwrap().is_some());
        let handle = told.lock().unwrap().unwrap();
        Party { handle, join }
    }

    fn join(self) -> R {
        (self.join)()
    }
}

/// As a thread, and as a worker of either kind.
fn everywhere(name: &'static str, test: fn(Option<(&Runtime, Kind)>)) {
    test(None);
    over(name, |runtime, kind| test(Some((runtime, kind))));
}

fn word() -> &'static AtomicU32 {
    Box::leak(Box::new(AtomicU32::new(7)))
}

const HOUR: [i64; 2] = [3600, 0];

/// The waits: their call, arguments, and whether they are restarted.
fn waits(word: &AtomicU32) -> Vec<(Call, [usize; 6], bool)> {
    let list: &'static _ = Box::leak(Box::new([Item::new(at(word), 7); 2]));
    let far: &'static _ = Box::leak(Box::new([i64::MAX, 0]));
    let hour: &'static _ = Box::leak(Box::new(HOUR));
    let operation = [WAIT, WAIT_BITSET].map(|operation| operation | PRIVATE);
    vec![
        (Call::Futex, [at(word), operation[0], 7, 0, 0, 0], true),
        (Call::Futex, [at(word), operation[1], 7, 0, 0, 1], true),
        (
            Call::Futex,
            [at(word), operation[0], 7, at(hour), 0, 0],
            false,
        ),
        (
            Call::Futex,
            [at(word), operation[1], 7, at(far), 0, ALL],
            false,
        ),
        (Call::Waitv, waitv(list, 0, 0), true),
        (
            Call::Waitv,
            waitv(list, at(far), libc::CLOCK_MONOTONIC),
            true,
        ),
    ]
}

/// A cut ends a wait, whichever comes first; it takes no wake-up; and the wait can go on.
#[test]
fn a_wait_is_cut_and_goes_on() {
    everywhere("cut", |worker| {
        let word = word();
        for (call, arguments, restarts) in waits(word) {
            let places = if call == Call::Waitv { 2 } else { 1 };
            let goes_on = Arc::new(AtomicBool::new(false));
            let tell = goes_on.clone();
            let party = Party::start(worker, move || {
                let Outcome::Cut(rest) = ours(call, arguments) else {
                    panic!("{arguments:?} was not cut")
                };
                assert_eq!(rest.restarts, restarts);
                let me = Handle::current();
                // Until it is taken, all waits end.
                assert!(matches!(ours(call, arguments), Outcome::Cut(_)));
                assert!(kernel::take_cut(me) && !kernel::take_cut(me));
                let rest = kernel::Rest::from_words(rest.into_words());
                tell.store(true, SeqCst);
                // SAFETY: the arguments of that call.
                unsafe { kernel::go_on(call == Call::Waitv, &arguments, rest) }
            });
            eventually("it waits", || Side::Ours.waiting(word) == places);
            kernel::cut(party.handle);
            eventually("it waits again", || {
                goes_on.load(SeqCst) && Side::Ours.waiting(word) == places
            });
            assert!(Side::Ours.wake(word, 1) == 1);
            assert!(matches!(party.join(), Outcome::Done(0 | 1)));
            assert_eq!(Side::Ours.waiting(word), 0);
        }
    });
}

#[test]
fn a_cut_that_comes_before() {
    everywhere("cut before", |worker| {
        let word = word();
        let party = Party::start(worker, move || {
            kernel::cut(Handle::current());
            // Another value comes first.
            assert_eq!(wait(word, 8), -(libc::EAGAIN as isize));
            for (call, arguments, _) in waits(word) {
                assert!(matches!(ours(call, arguments), Outcome::Cut(_)));
            }
            assert!(!kernel::sleep(u64::MAX));
            assert!(kernel::take_cut(Handle::current()));
            // A time that has passed.
            kernel::sleep(1)
        });
        assert!(party.join());
        assert_eq!(Side::Ours.waiting(word), 0);
    });
}

/// A relative time goes on from where it began.
#[test]
fn the_rest_of_a_time() {
    everywhere("rest", |worker| {
        let word = word();
        let begun = Instant::now();
        let party = Party::start(worker, move || {
            let time = [0i64, 30_000_000];
            let arguments = [at(word), WAIT | PRIVATE, 7, at(&time), 0, 0];
            let Outcome::Cut(rest) = ours(Call::Futex, arguments) else {
                panic!("not cut")
            };
            kernel::take_cut(Handle::current());
            std::thread::sleep(Duration::from_millis(10));
            // SAFETY: the arguments of that call.
            unsafe { kernel::go_on(false, &arguments, rest) }
        });
        kernel::cut(party.handle);
        assert_eq!(party.join(), Outcome::Done(-(libc::ETIMEDOUT as isize)));
        let took = begun.elapsed().as_millis();
        assert!((30..2000).contains(&took), "{took} ms");
    });
}

#[test]
fn a_sleep_is_cut() {
    everywhere("sleep", |worker| {
        for deadline in [u64::MAX, u64::MAX - 1] {
            let party = Party::start(worker, move || kernel::sleep(deadline));
            kernel::cut(party.handle);
            assert!(!party.join());
        }
    });
}

/// Cancellation does not end such a wait: it is another program's frame.
#[test]
fn no_point_of_cancellation() {
    over("aborted", |runtime, kind| {
        let word = word();
        let worker = kind.spawn_on(runtime, move || wait(word, 7));
        eventually("it waits", || Side::Ours.waiting(word) == 1);
        worker.abort();
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(Side::Ours.waiting(word), 1);
        assert_eq!(Side::Ours.wake(word, 1), 1);
        assert!(worker.join().is_ok_and(|result| result == 0));
    });
}

/// Many cuts, wake-ups and moves: those that were woken are as many as the wake-ups that counted.
#[test]
fn storms() {
    everywhere("storm", |worker| {
        const WAITERS: usize = 4;
        const ROUNDS: usize = 300;
        let (here, there) = (word(), word());
        let alive = Arc::new(AtomicUsize::new(WAITERS));
        let stopped = Arc::new(AtomicBool::new(false));
        let waiters: Vec<_> = (0..WAITERS)
            .map(|number| {
                let (alive, stopped) = (alive.clone(), stopped.clone());
                Party::start(worker, move || {
                    let me = Handle::current();
                    let waits = waits(here);
                    let mut woken = 0;
                    for round in 0..ROUNDS {
                        let (call, arguments, _) = waits[(round + number) % waits.len()];
                        match ours(call, arguments) {
                            Outcome::Done(0 | 1) => woken += 1,
                            Outcome::Cut(_) => assert!(kernel::take_cut(me)),
                            other => panic!("{other:?}"),
                        }
                    }
                    alive.fetch_sub(1, SeqCst);
                    // Cuts would be another's, once it has ended.
                    eventually("all are done", || alive.load(SeqCst) == 0);
                    while !stopped.load(SeqCst) {
                        umcg::yield_now();
                    }
                    woken
                })
            })
            .collect();
        let mut counted = 0;
        let mut turn = 0;
        while alive.load(SeqCst) > 0 {
            turn += 1;
            match turn % 4 {
                0 => counted += Side::Ours.wake(here, 1),
                1 => counted += Side::Ours.wake(there, 1),
                2 => {
                    let moved = [at(here), REQUEUE | PRIVATE, 0, 1, at(there), 0];
                    Side::Ours.futex(moved);
                }
                _ => kernel::cut(waiters[turn / 4 % WAITERS].handle),
            }
            std::thread::yield_now();
        }
        stopped.store(true, SeqCst);
        let woken: isize = waiters.into_iter().map(Party::join).sum();
        // A list has two places of one word, and may have been woken at both.
        assert!(
            woken <= counted && counted <= 2 * woken,
            "{woken} {counted}"
        );
    });
}

/// A thread whose waits are cut by its own signal handler, at any moment.
#[test]
fn signals() {
    static HANDLE: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());
    static CUTS: AtomicU32 = AtomicU32::new(0);
    extern "C" fn handler(_: i32) {
        // SAFETY: a handle's word, or null before there is one.
        let handle = unsafe { Handle::from_raw(HANDLE.load(SeqCst)) };
        kernel::cut_here(handle);
        CUTS.fetch_add(1, SeqCst);
    }
    let action: *const () = handler as *const ();
    // SAFETY: it is async-signal-safe, and the signal is used nowhere else.
    unsafe { libc::signal(libc::SIGUSR2, action.addr()) };
    let (word, goes_on) = (word(), Arc::new(AtomicBool::new(true)));
    let stop = goes_on.clone();
    let thread = std::thread::spawn(move || {
        let me = Handle::current();
        // SAFETY: no memory is concerned.
        let tid = unsafe { libc::pthread_self() };
        HANDLE.store(me.into_raw().cast_mut(), SeqCst);
        word.store(tid as u32 | 1, SeqCst);
        TID.store(tid as usize, SeqCst);
        let mut seen = 0;
        while goes_on.load(SeqCst) {
            let (call, arguments, _) = waits(word)[0];
            let mut arguments = arguments;
            arguments[2] = word.load(SeqCst) as usize;
            if matches!(ours(call, arguments), Outcome::Cut(_)) {
                assert!(kernel::take_cut(me));
                seen += 1;
            }
        }
        seen
    });
    static TID: AtomicUsize = AtomicUsize::new(0);
    eventually("it tells its id", || TID.load(SeqCst) != 0);
    for _ in 0..3000 {
        let before = CUTS.load(SeqCst);
        // SAFETY: the thread runs until it is told to stop.
        unsafe { libc::pthread_kill(TID.load(SeqCst) as libc::pthread_t, libc::SIGUSR2) };
        eventually("the handler runs", || CUTS.load(SeqCst) > before);
        // A wait that was not cut would be here for ever.
    }
    stop.store(false, SeqCst);
    eventually("it ends", || {
        // SAFETY: as above; it is joined later.
        unsafe { libc::pthread_kill(TID.load(SeqCst) as libc::pthread_t, libc::SIGUSR2) };
        thread.is_finished()
    });
    let seen: u32 = thread.join().unwrap();
    println!("{seen} waits were cut");
    assert!(seen > 0);
}
