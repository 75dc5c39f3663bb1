//! The same with a server of the program's own: workers of all kinds, that wait for it, switch to
//! another one, block and end.

use super::flag;
use super::scene::{plays, watch};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use umcg::{Event, Ready, Server, Worker, WorkerId};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Light,
    Owning,
    Thread,
}

const KINDS: [Kind; 3] = [Kind::Light, Kind::Owning, Kind::Thread];

/// The worker that is stepped, and the one that is not.
const STEPPED: u64 = 1;
const COMPANION: u64 = 2;

/// Workers that may run, and whether one is to have the flag: of those that were taken off the
/// frame says it.
type Queue = Arc<Mutex<VecDeque<(Ready, bool)>>>;

/// Not taken off while it has the lock.
fn take(queue: &Queue) -> Option<Ready> {
    umcg::critical(|| queue.lock().unwrap().pop_front()).map(|(ready, _)| ready)
}

#[track_caller]
fn steps(test: &str, sequence: impl Fn(&Queue) + Copy + Send + Sync + 'static) {
    for kind in KINDS {
        if let (Kind::Owning, Err(why)) = (kind, umcg::storage::available()) {
            eprintln!("SKIPPED {test} {kind:?}: {why}");
            continue;
        }
        plays(test, &format!("{kind:?}"), || step(kind, sequence));
    }
}

fn step(kind: Kind, sequence: impl Fn(&Queue) + Copy + Send + Sync + 'static) {
    umcg::set_preemption(Some(Duration::from_secs(3600))).unwrap();
    let server = Server::register().unwrap();
    let (queue, over) = (Queue::default(), Arc::new(AtomicBool::new(false)));
    queue.lock().unwrap().reserve(8);
    let waiting = over.clone();
    let companion = move || {
        while !waiting.load(Relaxed) {
            flag::pause();
            umcg::wait().unwrap();
        }
        flag::pause();
    };
    // SAFETY: it keeps nothing of the thread's.
    let companion =
        unsafe { umcg::light(WorkerId::from_index(COMPANION)).spawn(companion) }.unwrap();
    let others = queue.clone();
    let body = move || {
        sequence(&others);
        flag::know_server();
        flag::begin();
        sequence(&others);
        // It is stepped to its end.
    };
    let id = WorkerId::from_index(STEPPED);
    let mut thread = None;
    let worker = match kind {
        // SAFETY: the sequences use no thread-local storage of the program's or the C library's.
        Kind::Light => Some(unsafe { umcg::light(id).stack_size(128 << 10).spawn(body) }.unwrap()),
        Kind::Owning => Some(
            umcg::light(id)
                .stack_size(128 << 10)
                .spawn_owning(body)
                .unwrap(),
        ),
        Kind::Thread => {
            let run = move || {
                let worker = Worker::register(id).unwrap();
                body();
                drop(worker);
            };
            thread = Some(std::thread::spawn(run));
            None
        }
    };
    let workers = worker.into_iter().chain([companion]);
    queue
        .lock()
        .unwrap()
        .extend(workers.map(|worker| (worker, false)));
    let done = over.clone();
    let name = || "a server of the program's own".to_owned();
    let watched = std::thread::spawn(move || watch(|| done.load(Relaxed), name));
    serve(&server, &queue, &over);
    thread.into_iter().for_each(|thread| thread.join().unwrap());
    watched.join().unwrap();
    drop(server);
}

/// Runs all workers to their ends.
fn serve(server: &Server, queue: &Queue, over: &AtomicBool) {
    let mut left = 2;
    while left > 0 {
        let next = server.try_wait().map_or_else(
            || queue.lock().unwrap().pop_front().ok_or(None),
            |event| Err(Some(event)),
        );
        let event = match next {
            Ok((ready, is_stepped)) => {
                if is_stepped {
                    flag::resume()
                } else {
                    flag::pause()
                }
                server.switch_to(ready)
            }
            Err(Some(event)) => event,
            Err(None) => server.wait().unwrap(),
        };
        match event {
            Event::Preempt(ready) => queue.lock().unwrap().push_back((ready, false)),
            Event::Wait(ready) | Event::Wake(ready) => {
                let is_stepped = ready.id() == WorkerId::from_index(STEPPED);
                queue.lock().unwrap().push_back((ready, is_stepped));
            }
            Event::Exit(id) => {
                left -= 1;
                if id == WorkerId::from_index(STEPPED) {
                    flag::end();
                    over.store(true, Relaxed);
                }
            }
            _ => {}
        }
    }
}

#[test]
fn waiting() {
    steps("stepped::own::waiting", |_| {
        for turn in 0..3u32 {
            let mine = std::hint::black_box([turn; 16]);
            umcg::wait().unwrap();
            assert_eq!(mine, [turn; 16]);
        }
    });
}

#[test]
fn switching() {
    steps("stepped::own::switching", |queue| {
        for turn in 0..3u32 {
            let mine = std::hint::black_box([turn; 16]);
            if let Some(next) = take(queue) {
                umcg::switch_to(next).unwrap();
            }
            assert_eq!(mine, [turn; 16]);
        }
    });
}

#[test]
fn blocking() {
    steps("stepped::own::blocking", |_| {
        let mine = std::hint::black_box([7u32; 16]);
        let process = umcg::blocking(|| {
            flag::resume();
            std::process::id()
        });
        assert_eq!(process, std::process::id());
        assert_eq!(mine, [7; 16]);
    });
}
