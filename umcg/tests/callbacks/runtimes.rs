//! `rt`: what workers run, what futures do, what is dropped with them.

use crate::ledger::{Ledger, Thing};
use crate::parties::{each, forgive};
use crate::support::{HOUR, Kind};
use crate::trap::{Bad, Point, Trap};
use std::cell::Cell;
use std::future::poll_fn;
use std::sync::Mutex;
use std::task::Poll;
use std::time::{Duration, Instant};
use umcg::{Builder, JoinHandle};

struct World {
    ledger: &'static Ledger,
    trap: &'static Trap,
}

/// For closures that are to be `Send` and `'static`.
#[derive(Clone, Copy)]
struct Code {
    ledger: &'static Ledger,
    trap: &'static Trap,
}

impl Code {
    fn thing(self) -> Thing {
        Thing::new(self.ledger, self.trap)
    }

    /// What the worker runs: something of its own, and the bad callback.
    fn run(self) -> Thing {
        let own = self.thing();
        self.trap.at(Point::Call);
        // Not at the end: what a function returns is lost where a destructor of its own unwinds.
        drop(own);
        self.thing()
    }
}

impl World {
    fn code(&self) -> Code {
        Code { ledger: self.ledger, trap: self.trap }
    }
}

/// What came of a worker is dropped by who joins it; its panic is that of the callback.
fn join(worker: JoinHandle<Thing>) {
    drop(join_any(worker));
}

fn join_any<R>(worker: JoinHandle<R>) -> R {
    worker.join().unwrap_or_else(|error| error.resume_unwind())
}

/// A worker that is aborted, also if who made it unwinds before.
struct Aborted<R>(Option<JoinHandle<R>>);

impl<R> Aborted<R> {
    fn join(mut self) {
        umcg::yield_now();
        if let Some(worker) = self.0.take() {
            worker.abort();
            drop(worker.join());
        }
    }
}

impl<R> Drop for Aborted<R> {
    fn drop(&mut self) {
        if let Some(worker) = &self.0 {
            worker.abort();
        }
    }
}

umcg::worker_local! {
    static LOCAL: Mutex<Option<Thing>> = Mutex::new(None);
    static TRAP: Cell<Option<&'static Trap>> = Cell::new(None);
}

type Row = (&'static str, fn(Code));

const ROWS: &[Row] = &[
    ("spawn, join", |code| join(umcg::spawn(move || code.run()))),
    ("spawn_light, join", |code| join(Kind::Light.spawn(move || code.run()))),
    ("spawn, join_timeout", |code| match umcg::spawn(move || code.run()).join_timeout(HOUR) {
        Ok(result) => drop(result.unwrap_or_else(|error| error.resume_unwind())),
        Err(_) => unreachable!("it ends"),
    }),
    ("spawn, detached", |code| drop(umcg::spawn(move || code.run()))),
    ("spawn, detached when it has ended", |code| {
        let worker = umcg::spawn(move || code.run());
        while !worker.is_finished() {
            umcg::yield_now();
        }
        drop(worker);
    }),
    ("spawn, aborted", |code| {
        let worker = umcg::spawn(move || {
            let own = code.run();
            umcg::sleep(HOUR);
            own
        });
        Aborted(Some(worker)).join();
    }),
    ("spawn, aborted before it begins", |code| {
        let own = code.thing();
        let worker = umcg::spawn(move || (own, code.run()));
        worker.abort();
        drop(worker.join());
    }),
    ("Builder::spawn", |code| {
        let own = code.thing();
        join(
            Builder::new()
                .name("bad")
                .priority(200)
                .spawn(move || {
                    drop(own);
                    code.run()
                })
                .unwrap(),
        );
    }),
    ("scope", |code| {
        let things = [code.thing(), code.thing()];
        let ended = umcg::scope(|scope| {
            let worker = scope.spawn(|| {
                let _things = &things;
                code.run()
            });
            code.trap.at(Point::Call);
            worker.join()
        });
        drop(ended);
    }),
    ("timeout", |code| join_any(umcg::spawn(move || drop(umcg::timeout(HOUR, || code.run()))))),
    ("timeout that passes", |code| {
        join_any(umcg::spawn(move || {
            let _ = umcg::timeout(Duration::from_millis(1), || {
                let thing = code.run();
                umcg::sleep(HOUR);
                thing
            });
        }));
    }),
    ("timeout_at", |code| join_any(umcg::spawn(move || drop(umcg::timeout_at(Instant::now() + HOUR, || code.run()))))),
    ("block_on", |code| {
        let mut polls = 0;
        let _own = code.thing();
        umcg::block_on(poll_fn(|context| {
            polls += 1;
            context.waker().wake_by_ref();
            if polls == 2 {
                drop(code.run())
            }
            if polls < 3 { Poll::Pending } else { Poll::Ready(()) }
        }));
    }),
    ("spawn_future", |code| join(umcg::spawn_future(async move { code.run() }))),
    ("worker_local, with", |code| {
        LOCAL.with(|local| {
            *local.lock().unwrap() = None;
            drop(code.run());
        })
    }),
    ("worker_local, dropped with its worker", |code| {
        let worker = umcg::spawn(move || {
            LOCAL.with(|local| *local.lock().unwrap() = Some(code.thing()));
            TRAP.with(|trap| trap.set(Some(code.trap)));
        });
        drop(worker.join());
    }),
    ("a worker that unwinds through what it has", |code| {
        let worker = umcg::spawn(move || {
            let _things = (code.thing(), code.thing());
            umcg::sleep(HOUR);
        });
        Aborted(Some(worker)).join();
    }),
];

/// Those in which a worker unwinds that has something to drop.
const UNWIND: [&str; 4] =
    ["spawn, aborted", "spawn, aborted before it begins", "timeout that passes", "a worker that unwinds through what it has"];

#[derive(Clone, Debug)]
struct Case(usize, &'static str, Point);

fn cases(bad: Bad) -> Vec<Case> {
    let points = [Point::Call, Point::Drop].into_iter().filter(move |point| point.may(bad));
    let all = points.flat_map(|point| ROWS.iter().enumerate().map(move |(row, (name, _))| Case(row, name, point)));
    // A destructor that panics while its worker unwinds ends the process, as the language has it.
    let ends_it = |case: &Case| bad == Bad::Panics && case.2 == Point::Drop && UNWIND.contains(&case.1);
    all.filter(|case| !ends_it(case)).collect()
}

#[test]
fn what_workers_run() {
    each(
        "what workers run",
        cases,
        |case, bad, ledger, myself| {
            let trap = Trap::new(case.2, bad, myself);
            let world = World { ledger, trap };
            let again = world.code();
            trap.reenters(move || drop(umcg::spawn(move || again.thing()).join()));
            trap.arm();
            forgive(bad, || (ROWS[case.0].1)(world.code()));
            trap.disarm();
            // What was detached ends by itself; a party that was aborted does not wait for it.
            ledger.settle();
        },
        |case| format!("{case:?}"),
    );
}
