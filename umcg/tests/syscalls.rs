//! The uncontended paths make no system call: counted by strace, between two writes to no file that mark each operation.
//!
//! Where there is no strace, or it may not trace, the test says so and passes.

#![allow(clippy::undocumented_unsafe_blocks, reason = "the light workers here keep nothing across a switch that they must not")]

use std::collections::BTreeMap;
use std::ffi::{c_int, c_long, c_void};
use std::hint::black_box;
use std::io::Write;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use umcg::ctl::{command, umcg_ctl};
use umcg::{Event, Ready, Server, Worker, WorkerId, uth};

const TIMES: usize = 100_000;
/// Of any sort, in all of the repetitions: room for what the process does besides.
const ALLOWED: usize = 10;
/// Set for the process that is traced.
const TRACED: &str = "UMCG_TEST_TRACED";

unsafe extern "C" {
    fn write(file: c_int, data: *const c_void, len: usize) -> isize;
    fn syscall(number: c_long, ...) -> c_long;
}

fn mark(words: &str) {
    unsafe { write(-1, words.as_ptr().cast(), words.len()) };
}

/// Does something many times, between marks.
fn measured(name: &str, mut operation: impl FnMut()) {
    (0..300).for_each(|_| operation()); // what happens once only
    mark(&format!("begin {name}\n"));
    (0..TIMES).for_each(|_| operation());
    mark(&format!("end {name}\n"));
}

fn light(index: u64, f: impl FnOnce() + Send + 'static) -> Ready {
    unsafe { umcg::light(WorkerId::from_index(index)).spawn(f) }.unwrap()
}

fn ready(event: Event) -> Ready {
    match event {
        Event::Wait(ready) | Event::Wake(ready) => ready,
        other => panic!("{other:?}"),
    }
}

/// The process that is traced. On its own this is no test.
#[test]
fn traced() {
    if std::env::var_os(TRACED).is_none() {
        return;
    }
    let server = Server::register().unwrap();
    measured("planted", || {
        black_box(unsafe { syscall(getppid_number()) });
    });
    round_trips(&server);
    thread_round_trips(&server);
    by_tid(&server);
    switches_between_workers(&server);
    light_lives(&server);
    uths();
    mark("done\n");
    std::process::exit(0); // the workers that wait are not to be collected
}

/// The number of a system call that does nothing.
fn getppid_number() -> c_long {
    if cfg!(target_arch = "x86_64") { 110 } else { 173 }
}

fn round_trips(server: &Server) {
    let worker = light(1, || {
        while umcg::wait().is_ok() {
            umcg::critical(|| black_box(umcg::current_id()));
        }
    });
    let mut worker = Some(worker);
    measured("light round trip, critical section", || {
        worker = Some(ready(server.switch_to(worker.take().unwrap())));
    });
    let patient = light(2, || while umcg::wait_timeout(Duration::from_secs(3600)).is_ok() {});
    let mut patient = Some(patient);
    measured("light round trip with a deadline", || {
        patient = Some(ready(server.switch_to(patient.take().unwrap())));
    });
    measured("try_wait with a deadline armed", || assert!(server.try_wait().is_none()));
    std::mem::forget((worker, patient));
}

fn thread_round_trips(server: &Server) {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let _worker = Worker::register(WorkerId::from_index(3)).unwrap();
        sender.send(rustix::thread::gettid()).unwrap();
        while umcg::wait().is_ok() {}
    });
    let mut worker = Some(ready(server.wait().unwrap()));
    worker = Some(ready(server.switch_to(worker.take().unwrap())));
    if receiver.recv().unwrap() == rustix::thread::gettid() {
        measured("thread round trip", || {
            worker = Some(ready(server.switch_to(worker.take().unwrap())));
        });
    } else {
        mark("stays\n"); // a thread worker that stays on its own thread is run by futexes
    }
    std::mem::forget(worker);
}

/// A light worker by the call of the kernel interface.
fn by_tid(_server: &Server) {
    extern "C-unwind" fn wait(_: *mut c_void) {
        while unsafe { umcg_ctl(0, command::WAIT, 0, 0, std::ptr::null_mut(), 0) }.is_ok() {}
    }
    let tid = unsafe { umcg::ctl::light_create(4 << 5, wait, std::ptr::null_mut(), 0, "") }.unwrap();
    let mut events = [0; 4];
    unsafe { umcg_ctl(0, command::WAIT, 0, 0, events.as_mut_ptr(), 4) }.unwrap();
    assert_eq!(events[..2], [4 << 5 | 2, 0]);
    measured("umcg_ctl round trip", || {
        unsafe { umcg_ctl(0, command::CTX_SWITCH, tid, 0, events.as_mut_ptr(), 4) }.unwrap();
        assert_eq!(events[..2], [4 << 5 | 3, 0]);
    });
}

fn switches_between_workers(server: &Server) {
    let next: Arc<Mutex<Option<Ready>>> = Arc::new(Mutex::new(None));
    let theirs = next.clone();
    let from = light(5, move || {
        loop {
            let next = theirs.lock().unwrap().take().unwrap();
            umcg::switch_to(next).unwrap();
        }
    });
    let mut from = Some(from);
    *next.lock().unwrap() = Some(light(6, || while umcg::wait().is_ok() {}));
    measured("switch from worker to worker", || {
        let to = ready(server.switch_to(from.take().unwrap()));
        from = Some(ready(server.try_wait().unwrap()));
        *next.lock().unwrap() = Some(to);
    });
    std::mem::forget((from, next));
}

fn light_lives(server: &Server) {
    measured("light worker's life", || {
        let worker = light(7, || ());
        assert!(matches!(server.switch_to(worker), Event::Exit(_)));
    });
}

fn uths() {
    extern "C-unwind" fn entry(_: *mut c_void) {}
    let native = uth::current();
    measured("uth's life", || {
        let uth = uth::create(entry, std::ptr::null_mut()).unwrap();
        unsafe { uth::switch_to(native, uth) }.unwrap();
        unsafe { uth::delete(uth) }.unwrap();
    });
}

fn say(words: &str) {
    let _ = writeln!(std::io::stderr(), "{words}");
}

/// The system calls of each measured operation, by name.
fn count(trace: &str) -> BTreeMap<String, BTreeMap<String, usize>> {
    let mut counts: BTreeMap<String, BTreeMap<String, usize>> = BTreeMap::new();
    let mut now: Option<String> = None;
    for line in trace.lines() {
        let call = line.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ');
        if let Some(words) = call.strip_prefix("write(-1, \"") {
            let words = words.split("\\n").next().unwrap_or_default();
            now = words.strip_prefix("begin ").map(str::to_owned);
            if let Some(name) = &now {
                counts.entry(name.clone()).or_default();
            }
            continue;
        }
        let name: String = call.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        if let (Some(now), false) = (&now, name.is_empty()) {
            *counts.entry(now.clone()).or_default().entry(name).or_default() += 1;
        }
    }
    counts
}

#[test]
fn uncontended_operations_make_no_system_call() {
    let file = std::env::temp_dir().join(format!("umcg-syscalls-{}", std::process::id()));
    let mut strace = Command::new("strace");
    strace.args(["-f", "-s", "100", "-o"]).arg(&file).arg(std::env::current_exe().unwrap());
    strace.args(["--exact", "traced", "--nocapture"]).env(TRACED, "1");
    let output = strace.output();
    let trace = std::fs::read_to_string(&file).unwrap_or_default();
    let _ = std::fs::remove_file(&file);
    match output {
        Err(error) => return say(&format!("SKIPPED: no strace ({error}), so no system calls were counted")),
        Ok(output) if trace.is_empty() => {
            return say(&format!("SKIPPED: strace may not trace here: {}", String::from_utf8_lossy(&output.stderr)));
        }
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
    }
    let counts = count(&trace);
    assert!(trace.contains("write(-1, \"done"), "the traced process did not come to its end");
    assert!(counts["planted"].values().sum::<usize>() >= TIMES, "strace did not see the planted calls");
    for (name, calls) in counts.iter().filter(|(name, _)| *name != "planted") {
        let calls_in_all: usize = calls.values().sum();
        assert!(calls_in_all <= ALLOWED, "{name}, {TIMES} times: {calls:?}");
        println!("{name}, {TIMES} times: {calls_in_all} system calls");
    }
    let expected = if trace.contains("write(-1, \"stays") { 8 } else { 9 };
    assert_eq!(counts.len(), expected, "{:?}", counts.keys());
}
