//! Reports of workers that keep their server.

use crate::support::{self, HOUR, PanicsAgain, eventually, is_child, say, with};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use umcg::rt::{Stall, StallCause};
use umcg::{Builder, Runtime};

/// Short, so that the tests are; far longer than the watch's ticks.
const AFTER: Duration = Duration::from_millis(200);

/// The reports of a runtime.
type Told = Arc<Mutex<Vec<Stall>>>;

fn telling(told: &Told) -> umcg::rt::RuntimeBuilder {
    let told = told.clone();
    Runtime::builder().on_stall(AFTER, move |stall| told.lock().unwrap().push(stall.clone()))
}

/// A worker holds a lock of the standard library across a wait, and another one wants it: the
/// second one blocks the server.
#[test]
fn a_lock_held_across_a_wait() {
    let told = Told::default();
    with("stall", 1, telling(&told), |runtime| {
        static LOCK: Mutex<()> = Mutex::new(());
        let held = Arc::new(AtomicBool::new(false));
        let holder = {
            let (held, told) = (held.clone(), told.clone());
            // A thread unlocks it, as the only server cannot.
            std::thread::spawn(move || {
                let guard = LOCK.lock().unwrap();
                held.store(true, Relaxed);
                eventually("it is told", || !told.lock().unwrap().is_empty());
                drop(guard);
            })
        };
        eventually("the lock is held", || held.load(Relaxed));
        let wants = runtime
            .build(&Builder::new().name("wants it"), || {
                drop(LOCK.lock().unwrap())
            })
            .unwrap();
        let other = runtime.spawn(|| ());
        holder.join().unwrap();
        wants.join().unwrap();
        other.join().unwrap();
    });
    let told = told.lock().unwrap();
    let stall = &told[0];
    let StallCause::Blocks(call) = &stall.cause else {
        panic!("{stall:?}")
    };
    assert!(
        call.starts_with("futex(0x") || call == "the kernel",
        "{call}"
    );
    assert_eq!(
        (stall.server, &*stall.name, stall.worker.is_some()),
        (Some(0), "wants it", true)
    );
    assert!(stall.lasted >= AFTER, "{stall:?}");
    let text = stall.to_string();
    assert!(
        text.starts_with("worker `wants it` has kept server 0 of runtime `"),
        "{text}"
    );
    assert!(
        text.ends_with(&format!(" s and blocks it in {call}")),
        "{text}"
    );
}

/// A worker that computes is reported once, and a function that panics has no effect on the next
/// report.
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

/// No worker waits for the server where another one is idle.
#[test]
fn none_while_another_server_is_idle() {
    let told = Told::default();
    with("stall", 2, telling(&told), |runtime| {
        // It waits meanwhile, and for no server.
        let other = runtime.spawn(|| umcg::sleep(HOUR));
        eventually("both servers sleep", || {
            // A dump wakes them.
            std::thread::sleep(Duration::from_millis(5));
            runtime.dump().contains("2 servers (2 asleep), 1 deadlines")
        });
        runtime
            .spawn(|| std::thread::sleep(3 * AFTER))
            .join()
            .unwrap();
        other.abort();
        other.join().unwrap_err();
    });
    assert_eq!(told.lock().unwrap().len(), 0);
}

#[test]
fn a_dump_says_what_keeps_a_server() {
    with("stall", 1, Runtime::builder(), |runtime| {
        let (reader, writer) = std::io::pipe().unwrap();
        let read = format!(" s, in read({}, …) (so no backtrace)", reader.as_raw_fd());
        let kept = runtime.spawn(move || drop((&reader).read(&mut [0])));
        eventually("the dump names the call", || {
            let dump = runtime.dump();
            let line = dump
                .lines()
                .find(|line| line.contains("runs on server 0 for "))
                .unwrap_or_default();
            line.ends_with(&read) || line.ends_with(" s, in the kernel (so no backtrace)")
        });
        drop(writer);
        kept.join().unwrap();
    });
}

/// The child's report of servers that are held up, with this setting; for each of its workers there
/// is a name that is reported, or none.
fn lines_of_child(test: &str, stalls: Option<&str>, told: &[Option<&str>]) -> Vec<String> {
    let mut command = support::child_command(test);
    command.env_remove("UMCG_STALLS");
    if let Some(stalls) = stalls {
        command.env("UMCG_STALLS", stalls);
    }
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap())
        .lines()
        .map(Result::unwrap);
    let (mut said, mut go_on) = (Vec::<String>::new(), child.stdin.take().unwrap());
    for name in told {
        match name {
            Some(name) => {
                while !said.last().is_some_and(|line| line.contains(name)) {
                    said.push(
                        lines
                            .next()
                            .unwrap_or_else(|| panic!("no {name}: {said:#?}")),
                    );
                }
            }
            // Nothing is told of that one.
            None => std::thread::sleep(Duration::from_millis(1500)),
        }
        go_on.write_all(b"x").unwrap();
    }
    said.extend(lines);
    assert!(child.wait().unwrap().success(), "{said:#?}");
    said.retain(|line| line.contains(" has kept server 0 of runtime `hamlet` for "));
    said
}

/// Without a function of the program's: a line on standard error, once for each name and call.
#[test]
fn a_line_by_itself() {
    const TEST: &str = "stalls::a_line_by_itself";
    if is_child(TEST) {
        let runtime = Runtime::builder()
            .servers(1)
            .name("hamlet")
            .build()
            .unwrap();
        // Each computes for some milliseconds, and blocks until the parent lets it go on.
        let blocks = |name, computes| {
            let worker = runtime.build(&Builder::new().name(name), move || {
                let start = Instant::now();
                while start.elapsed() < Duration::from_millis(computes) {}
                std::io::stdin().read_exact(&mut [0]).unwrap()
            });
            worker.unwrap()
        };
        // Nothing is told of a worker that keeps no other from running.
        let other = runtime.spawn(umcg::park);
        // The last one computes for more than half of the time until it would be reported.
        for (name, computes) in [("sleepy", 0), ("sleepy", 0), ("dozy", 700)] {
            blocks(name, computes).join().unwrap();
        }
        other.handle().unpark();
        other.join().unwrap();
        return;
    }
    let run = |stalls, told: &[_]| lines_of_child(TEST, stalls, told);
    let by_default = run(None, &[Some("sleepy"), None, Some("dozy")]);
    say(&by_default.join("\n"));
    assert_eq!(by_default.len(), 2, "{by_default:?}");
    assert!(
        by_default[0].starts_with("umcg: worker `sleepy` has kept "),
        "{by_default:?}"
    );
    assert!(
        by_default[1].starts_with("umcg: worker `dozy` has kept "),
        "{by_default:?}"
    );
    assert!(
        by_default
            .iter()
            .all(|line| line.contains("read(0, ") || line.ends_with("the kernel")),
        "{by_default:?}"
    );
    assert_eq!(run(Some("0"), &[None; 3]), [""; 0]);
}

/// A runtime that has printed as many lines as it may still reports a lack of helpers, which no
/// other one will.
#[test]
fn a_lack_of_helpers_beyond_the_last_line() {
    const TEST: &str = "stalls::a_lack_of_helpers_beyond_the_last_line";
    const LINES: usize = 10;
    if is_child(TEST) {
        let runtime = Runtime::builder().servers(1).helpers(1).build().unwrap();
        // Until the parent has read the line.
        for name in 0..LINES {
            let kept = Builder::new().name(format!("keeper {name} of the server"));
            let kept = runtime
                .build(&kept, || std::io::stdin().read_exact(&mut [0]).unwrap())
                .unwrap();
            let other = runtime.spawn(|| ());
            kept.join().unwrap();
            other.join().unwrap();
        }
        let (reader, writer) = std::io::pipe().unwrap();
        let reader = Arc::new(reader);
        let workers: Vec<_> = (0..3)
            .map(|_| {
                let reader = reader.clone();
                runtime.spawn(move || umcg::blocking(|| (&*reader).read(&mut [0]).unwrap()))
            })
            .collect();
        // Its end, if the line does not come.
        let is_told = Arc::new(AtomicBool::new(false));
        let told = is_told.clone();
        std::thread::spawn(move || {
            told.store(std::io::stdin().read_exact(&mut [0]).is_ok(), Relaxed)
        });
        eventually("the parent has read the line", || is_told.load(Relaxed));
        drop(writer);
        workers
            .into_iter()
            .for_each(|worker| assert_eq!(worker.join().unwrap(), 0));
        return;
    }
    let mut command = support::child_command(TEST);
    command
        .env("UMCG_STALLS", "30")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap())
        .lines()
        .map(Result::unwrap);
    let mut go_on = child.stdin.take().unwrap();
    let keepers =
        (0..LINES).map(|name| format!("worker `keeper {name} of the server` has kept server 0"));
    for told in keepers.chain(["umcg: all ".to_owned()]) {
        assert!(lines.any(|line| line.contains(&told)), "not told: {told}");
        go_on.write_all(b"x").unwrap();
    }
    assert!(child.wait().unwrap().success());
}

/// All runtimes report workers that wait for a helper thread: here the one that they are of, whose
/// servers sleep, and another one, which has nothing to do.
#[test]
fn a_lack_of_helpers() {
    const TEST: &str = "stalls::a_lack_of_helpers";
    const MOST: usize = 2;
    if !is_child(TEST) {
        return support::child_succeeds(TEST);
    }
    let (told, elsewhere) = (Told::default(), Told::default());
    let builders = [
        telling(&told).helpers(MOST).name("hamlet"),
        telling(&elsewhere).helpers(MOST).name("polonius"),
    ];
    let [runtime, _other] = builders.map(|builder| builder.servers(1).build().unwrap());
    let (reader, writer) = std::io::pipe().unwrap();
    let reader = Arc::new(reader);
    let workers: Vec<_> = (0..MOST + 3)
        .map(|_| {
            let reader = reader.clone();
            runtime.spawn(move || umcg::blocking(|| (&*reader).read(&mut [0]).unwrap()))
        })
        .collect();
    // A server that is slow to get a processor is reported besides.
    let lack = |told: &Told| {
        let is_lack = |stall: &&Stall| matches!(stall.cause, StallCause::NoHelper { .. });
        told.lock().unwrap().iter().find(is_lack).cloned()
    };
    eventually("both tell", || {
        [&told, &elsewhere]
            .into_iter()
            .all(|told| lack(told).is_some())
    });
    drop(writer);
    workers
        .into_iter()
        .for_each(|worker| assert_eq!(worker.join().unwrap(), 0));
    for (told, name) in [(&told, "hamlet"), (&elsewhere, "polonius")] {
        let stall = lack(told).unwrap();
        let StallCause::NoHelper { helpers, workers } = stall.cause else {
            unreachable!()
        };
        assert!(
            (MOST..MOST + 3).contains(&helpers) && (1..=3).contains(&workers),
            "{stall:?}"
        );
        assert_eq!(
            (stall.server, stall.worker, &*stall.runtime),
            (None, None, name)
        );
        assert!(stall.to_string().starts_with(&format!(
            "all {helpers} helper threads block, and workers wait for one"
        )));
    }
}
