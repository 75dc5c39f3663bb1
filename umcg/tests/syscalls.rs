//! The uncontended paths make no system call: counted by strace, between two writes to no file that
//! mark each operation.
//!
//! Where there is no strace, or it may not trace, the test says so and passes.

mod strace;

use std::ffi::c_void;
use std::hint::black_box;
use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use strace::{Trace, mark, measured, planted};
use umcg::ctl::{command, umcg_ctl};
use umcg::{Event, Ready, Server, Worker, WorkerId, uth};

/// Set for the process that is traced.
const TRACED: &str = "UMCG_TEST_TRACED";

fn light(index: u64, f: impl FnOnce() + Send + 'static) -> Ready {
    // SAFETY: no code run so keeps a reference into thread-local storage, or a value that is not
    // `Send`, across a call that switches.
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
    planted("planted");
    round_trips(&server);
    thread_round_trips(&server);
    by_tid(&server);
    switches_between_workers(&server);
    light_lives(&server);
    uths();
    mark("done\n");
    std::process::exit(0); // the workers that wait are not to be collected
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
    let patient = light(2, || {
        while umcg::wait_timeout(Duration::from_secs(3600)).is_ok() {}
    });
    let mut patient = Some(patient);
    measured("light round trip with a deadline", || {
        patient = Some(ready(server.switch_to(patient.take().unwrap())));
    });
    measured("try_wait with a deadline armed", || {
        assert!(server.try_wait().is_none())
    });
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
        // SAFETY: no events; nothing is kept across the call.
        while unsafe { umcg_ctl(0, command::WAIT, 0, 0, std::ptr::null_mut(), 0) }.is_ok() {}
    }
    // SAFETY: it only waits.
    let tid =
        unsafe { umcg::ctl::light_create(4 << 5, wait, std::ptr::null_mut(), 0, "") }.unwrap();
    let mut events = [0; 4];
    // SAFETY: four words.
    unsafe { umcg_ctl(0, command::WAIT, 0, 0, events.as_mut_ptr(), 4) }.unwrap();
    assert_eq!(events[..2], [4 << 5 | 2, 0]);
    measured("umcg_ctl round trip", || {
        // SAFETY: four words.
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
        // SAFETY: no other code knows it, and it comes back.
        unsafe { uth::switch_to(native, uth) }.unwrap();
        // SAFETY: it has finished.
        unsafe { uth::delete(uth) }.unwrap();
    });
}

fn say(words: &str) {
    let _ = writeln!(std::io::stderr(), "{words}");
}

#[test]
fn uncontended_operations_make_no_system_call() {
    match Trace::of(
        ["--exact", "traced", "--nocapture"],
        (TRACED, "1".to_owned()),
    ) {
        Ok(trace) => trace.assert_none(if trace.has_mark("stays") { 8 } else { 9 }),
        Err(why) => say(&why),
    }
}
