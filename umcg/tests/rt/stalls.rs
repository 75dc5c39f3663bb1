//! Reports of workers that keep their server.

use crate::support::{self, PanicsAgain, eventually, is_child, say, with};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use umcg::rt::{Stall, StallCause};
use umcg::{Builder, Runtime};

/// Short, so that the tests are; far longer than the watch's ticks.
const AFTER: Duration = Duration::from_millis(200);

/// What a runtime told.
type Told = Arc<Mutex<Vec<Stall>>>;

fn telling(told: &Told) -> umcg::rt::RuntimeBuilder {
    let told = told.clone();
    Runtime::builder().on_stall(AFTER, move |stall| told.lock().unwrap().push(stall.clone()))
}

/// A worker holds a lock of the standard library across a wait, and another one wants it: the second one blocks the server.
#[test]
fn a_lock_held_across_a_wait() {
    let told = Told::default();
    with("stall", 1, telling(&told), |runtime| {
        static LOCK: Mutex<()> = Mutex::new(());
        let held = Arc::new(AtomicBool::new(false));
        let holder = {
            let (held, told) = (held.clone(), told.clone());
            // A thread lets it go, as the only server cannot.
            std::thread::spawn(move || {
                let guard = LOCK.lock().unwrap();
                held.store(true, Relaxed);
                eventually("it is told", || !told.lock().unwrap().is_empty());
                drop(guard);
            })
        };
        eventually("the lock is held", || held.load(Relaxed));
        let wants = runtime.build(&Builder::new().name("wants it"), || drop(LOCK.lock().unwrap())).unwrap();
        let other = runtime.spawn(|| ());
        holder.join().unwrap();
        wants.join().unwrap();
        other.join().unwrap();
    });
    let told = told.lock().unwrap();
    let stall = &told[0];
    let StallCause::Blocks(call) = &stall.cause else { panic!("{stall:?}") };
    assert!(call.starts_with("futex(0x") || call == "the kernel", "{call}");
    assert_eq!((stall.server, &*stall.name, stall.worker.is_some()), (0, "wants it", true));
    assert!(stall.lasted >= AFTER, "{stall:?}");
    let text = stall.to_string();
    assert!(text.starts_with("worker `wants it` has kept server 0 of runtime `"), "{text}");
    assert!(text.ends_with(&format!(" s and blocks it in {call}")), "{text}");
}

/// One that computes is told of once, and a function that panics has no effect on the next report.
#[test]
fn workers_that_compute_once_each() {
    let count = Arc::new(AtomicUsize::new(0));
    let builder = {
        let count = count.clone();
        Runtime::builder().on_stall(AFTER, move |stall| {
            assert_eq!(stall.cause, StallCause::Computes);
            count.fetch_add(1, Relaxed);
            std::panic::resume_unwind(Box::new(PanicsAgain));
        })
    };
    with("stall", 1, builder, |runtime| {
        for stays in 1..=2 {
            let over = Arc::new(AtomicBool::new(false));
            let computes = {
                let over = over.clone();
                runtime.spawn(move || while !over.load(Relaxed) {})
            };
            let other = runtime.spawn(|| ());
            eventually("it is told", || count.load(Relaxed) == stays);
            // Not again for the same stay.
            std::thread::sleep(2 * AFTER);
            assert_eq!(count.load(Relaxed), stays);
            over.store(true, Relaxed);
            computes.join().unwrap();
            other.join().unwrap();
        }
    });
}

/// Nobody waits for the server where another one is idle.
#[test]
fn none_while_another_server_is_idle() {
    let told = Told::default();
    with("stall", 2, telling(&told), |runtime| {
        runtime.spawn(|| std::thread::sleep(3 * AFTER)).join().unwrap();
    });
    assert_eq!(told.lock().unwrap().len(), 0);
}

#[test]
fn a_dump_says_what_keeps_a_server() {
    with("stall", 1, Runtime::builder(), |runtime| {
        let (reader, writer) = std::io::pipe().unwrap();
        let read = format!(" s, in read({}, …) (so no backtrace)", reader.as_raw_fd());
        let kept = runtime.spawn(move || drop(std::io::Read::read(&mut &reader, &mut [0])));
        eventually("the dump names the call", || {
            let dump = runtime.dump();
            let line = dump.lines().find(|line| line.contains("runs on server 0 for ")).unwrap_or_default();
            line.ends_with(&read) || line.ends_with(" s, in the kernel (so no backtrace)")
        });
        drop(writer);
        kept.join().unwrap();
    });
}

/// Without a word of the program's: a line on standard error, once for each name and call.
#[test]
fn a_line_by_itself() {
    const TEST: &str = "stalls::a_line_by_itself";
    if is_child(TEST) {
        let runtime = Runtime::builder().servers(1).name("hamlet").build().unwrap();
        let blocks = |name| {
            let worker = runtime.build(&Builder::new().name(name), || std::thread::sleep(Duration::from_millis(1500)));
            (worker.unwrap(), runtime.spawn(|| ()))
        };
        for (worker, other) in [blocks("sleepy"), blocks("sleepy"), blocks("dozy")] {
            worker.join().unwrap();
            other.join().unwrap();
        }
        return;
    }
    let lines = |stalls: Option<&str>| {
        let mut command = support::child_command(TEST);
        command.env_remove("UMCG_STALLS");
        if let Some(stalls) = stalls {
            command.env("UMCG_STALLS", stalls);
        }
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{text}");
        text.lines()
            .filter(|line| line.contains(" has kept server 0 of runtime `hamlet` for "))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let by_default = lines(None);
    say(&by_default.join("\n"));
    assert_eq!(by_default.len(), 2, "{by_default:?}");
    assert!(by_default[0].starts_with("umcg: worker `sleepy` has kept "), "{by_default:?}");
    assert!(by_default[1].starts_with("umcg: worker `dozy` has kept "), "{by_default:?}");
    assert!(by_default.iter().all(|line| line.contains("nanosleep(") || line.ends_with("the kernel")), "{by_default:?}");
    assert_eq!(lines(Some("0")), [""; 0]);
}
