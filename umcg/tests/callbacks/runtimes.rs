//! `rt`: the closures of workers, the polls of futures, and the values dropped with them; and
//! sections (`blocking`, `critical`, `shielded`, `timeout`). Functions that take no code of the
//! program's have no row: `park`, `sleep`, `yield_now`, `hand_over`, `checkpoint`, `abort`,
//! `Handle`, `RuntimeHandle::dump`, `trim`.

use crate::ledger::{Ledger, Thing};
use crate::parties::{each, forgive};
use crate::support::{HOUR, Kind};
use crate::trap::{Bad, Point, Trap};
use std::cell::Cell;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::Poll;
use std::time::{Duration, Instant};
use umcg::{Builder, JoinError, JoinHandle, Runtime, Scope};

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

    /// The worker's body: something of its own, and the bad callback.
    fn run(self) -> Thing {
        let own = self.thing();
        self.trap.at(Point::Call);
        // Not at the end: a function's result is lost if a destructor of its own unwinds.
        drop(own);
        self.thing()
    }
}

impl World {
    fn code(&self) -> Code {
        Code {
            ledger: self.ledger,
            trap: self.trap,
        }
    }
}

/// The result of a worker is dropped by the caller that joins it; its panic is that of the
/// callback.
fn join(worker: JoinHandle<Thing>) {
    drop(join_any(worker));
}

fn join_any<R>(worker: JoinHandle<R>) -> R {
    worker.join().unwrap_or_else(|error| error.resume_unwind())
}

/// A worker that is aborted, also if its maker unwinds before.
struct Aborted<R>(Option<JoinHandle<R>>);

impl<R> Aborted<R> {
    fn join(self) {
        drop(self.end());
    }

    fn end(mut self) -> Result<R, JoinError> {
        umcg::yield_now();
        let worker = self
            .0
            .take()
            .unwrap_or_else(|| unreachable!("it is taken once"));
        worker.abort();
        worker.join()
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
    static CODE: Cell<Option<Code>> = Cell::new(None);
    static MADE: Thing = CODE.with(Cell::get).map(Code::run).unwrap();
}

/// Another runtime than the parties'.
fn other() -> &'static Runtime {
    static OTHER: OnceLock<Runtime> = OnceLock::new();
    OTHER.get_or_init(|| Runtime::builder().servers(1).name("other").build().unwrap())
}

/// However a section ends, its caller is not left on a helper thread.
fn section(f: impl FnOnce()) {
    let ended = catch_unwind(AssertUnwindSafe(f));
    let name = std::fs::read_to_string("/proc/thread-self/comm").unwrap();
    assert_ne!(name.trim(), "umcg-helper");
    ended.unwrap_or_else(|panic| resume_unwind(panic));
}

/// A scope with a worker that is never joined: its panic is the scope's.
fn left_to_its_scope(code: Code, spawn: impl for<'s> FnOnce(&'s Scope<'s, '_>)) {
    let thing = code.thing();
    let ended = catch_unwind(AssertUnwindSafe(|| umcg::scope(spawn)));
    drop(thing);
    ended.unwrap_or_else(|panic| match panic.downcast_ref::<&str>() {
        Some(&"a worker of a scope panicked") => panic!("expected: by a worker"),
        _ => resume_unwind(panic),
    });
}

/// A worker of a runtime of its own, which the callback drops if that is the bad step.
fn in_a_runtime_that_goes(code: Code, kind: Kind) {
    let runtime = Runtime::builder().servers(1).name("own").build().unwrap();
    let go = Arc::new(AtomicBool::new(false));
    let seen = go.clone();
    let run = move || {
        while !seen.load(Relaxed) {
            umcg::yield_now();
        }
        code.run()
    };
    let worker = kind.spawn_on(&runtime, run);
    let kept = code.trap.lends(runtime);
    go.store(true, Relaxed);
    // Not while it unwinds, as that waits.
    let ended = catch_unwind(AssertUnwindSafe(|| join(worker)));
    drop(kept);
    ended.unwrap_or_else(|panic| resume_unwind(panic));
}

type Row = (&'static str, fn(Code));

const ROWS: &[Row] = &[
    ("spawn, join", |code| join(umcg::spawn(move || code.run()))),
    ("spawn_light, join", |code| {
        join(Kind::Light.spawn(move || code.run()))
    }),
    ("spawn, join_timeout", |code| {
        match umcg::spawn(move || code.run()).join_timeout(HOUR) {
            Ok(result) => drop(result.unwrap_or_else(|error| error.resume_unwind())),
            Err(_) => unreachable!("it ends"),
        }
    }),
    ("spawn, detached", |code| {
        drop(umcg::spawn(move || code.run()))
    }),
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
    ("Builder::spawn_light", |code| {
        let own = code.thing();
        let run = move || (code.run(), own).0;
        join(
            Kind::Light
                .build(&Builder::new().name("bad").stack_size(128 << 10), run)
                .unwrap(),
        );
    }),
    ("spawn, join_deadline", |code| {
        match umcg::spawn(move || code.run()).join_deadline(Instant::now() + HOUR) {
            Ok(result) => drop(result.unwrap_or_else(|error| error.resume_unwind())),
            Err(_) => unreachable!("it ends"),
        }
    }),
    ("spawn, join_deadline that passes", |code| {
        // Not for ever: an aborted party leaves it to itself.
        let worker = umcg::spawn(move || (code.run(), umcg::sleep(Duration::from_millis(20))).0);
        match worker.join_deadline(Instant::now() + Duration::from_millis(1)) {
            Ok(result) => drop(result.unwrap_or_else(|error| error.resume_unwind())),
            Err(worker) => Aborted(Some(worker)).join(),
        }
    }),
    ("spawn, try_join", |code| {
        let mut worker = umcg::spawn(move || code.run());
        loop {
            match worker.try_join() {
                Ok(result) => return drop(result.unwrap_or_else(|error| error.resume_unwind())),
                Err(again) => worker = again,
            }
            umcg::yield_now();
        }
    }),
    ("spawn, detached by itself", |code| {
        let own = Arc::new(Mutex::new(None::<JoinHandle<Thing>>));
        let mine = own.clone();
        let worker = umcg::spawn(move || {
            while mine.lock().unwrap().is_none() {
                umcg::yield_now();
            }
            let me = mine.lock().unwrap().take();
            drop(code.trap.lends(me));
            code.run()
        });
        *own.lock().unwrap() = Some(worker);
    }),
    ("Runtime::run", |code| {
        let things = [code.thing(), code.thing()];
        drop(other().run(|| {
            let _things = &things;
            code.run()
        }));
    }),
    ("RuntimeHandle::spawn, join", |code| {
        join(other().handle().spawn(move || code.run()))
    }),
    ("RuntimeHandle::spawn, detached", |code| {
        drop(other().handle().spawn(move || code.run()))
    }),
    ("RuntimeHandle::spawn_light, join", |code| {
        join(Kind::Light.spawn_on(other(), move || code.run()))
    }),
    ("RuntimeHandle::build, join", |code| {
        join(
            Kind::Full
                .build_on(other(), &Builder::new().name("bad"), move || code.run())
                .unwrap(),
        );
    }),
    ("spawn in a runtime that goes", |code| {
        in_a_runtime_that_goes(code, Kind::Full)
    }),
    ("spawn_light in a runtime that goes", |code| {
        in_a_runtime_that_goes(code, Kind::Light)
    }),
    ("blocking", |code| {
        section(|| drop(umcg::blocking(|| code.run())))
    }),
    ("blocking in blocking", |code| {
        section(|| {
            umcg::blocking(|| {
                let _own = code.thing();
                drop(umcg::blocking(|| code.run()));
            });
        });
    }),
    ("blocking, in a destructor", |code| {
        struct Last(Code);
        impl Drop for Last {
            fn drop(&mut self) {
                drop(umcg::blocking(|| self.0.thing()));
            }
        }
        // In a full worker: its panics go where it goes.
        join_any(umcg::spawn(move || {
            section(|| {
                let _last = Last(code);
                drop(code.run());
            });
        }));
    }),
    ("critical", |code| {
        section(|| drop(umcg::critical(|| code.run())))
    }),
    ("critical in blocking, blocking in critical", |code| {
        section(|| {
            umcg::blocking(|| {
                umcg::critical(|| {
                    let _own = code.thing();
                    umcg::blocking(|| drop(umcg::critical(|| code.run())));
                });
            });
        });
    }),
    ("shielded", |code| {
        section(|| {
            let is_whole = Cell::new(false);
            let ended = catch_unwind(AssertUnwindSafe(|| {
                umcg::shielded(|| {
                    let thing = code.run();
                    umcg::sleep(Duration::from_micros(20));
                    is_whole.set(true);
                    thing
                })
            }));
            // It was not cut short, but by itself.
            assert!(is_whole.get() || ended.as_ref().is_err_and(|panic| panic.is::<&str>()));
            drop(ended.unwrap_or_else(|panic| resume_unwind(panic)));
        });
    }),
    ("shielded, and no more afterwards", |code| {
        let worker = umcg::spawn(move || {
            let ended = catch_unwind(|| umcg::shielded(|| drop(code.run())));
            assert!(ended.is_ok() || code.trap.does(Bad::Panics) || code.trap.does(Bad::Panic));
            umcg::sleep(HOUR);
        });
        assert!(matches!(
            Aborted(Some(worker)).end(),
            Err(JoinError::Cancelled)
        ));
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
    ("scope, a light worker", |code| {
        let things = [code.thing(), code.thing()];
        let ended = umcg::scope(|scope| {
            let worker = Kind::Light.spawn_in(scope, || {
                let _things = &things;
                code.run()
            });
            code.trap.at(Point::Call);
            worker.join()
        });
        drop(ended);
    }),
    ("Scope::build", |code| {
        let own = code.thing();
        let ended = umcg::scope(|scope| {
            let _own = &own;
            let run = || {
                let _own = &own;
                code.run()
            };
            scope
                .build(&Builder::new().name("bad"), run)
                .unwrap()
                .join()
        });
        drop(ended.unwrap_or_else(|error| error.resume_unwind()));
    }),
    ("scope, a future", |code| {
        let own = code.thing();
        let ended = umcg::scope(|scope| {
            let future = async {
                let _own = &own;
                code.run()
            };
            scope.spawn(|| umcg::block_on(future)).join()
        });
        drop(ended.unwrap_or_else(|error| error.resume_unwind()));
    }),
    ("scope, a worker that nobody joins", |code| {
        left_to_its_scope(code, |scope| drop(scope.spawn(move || code.run())));
    }),
    ("scope, a light worker that nobody joins", |code| {
        left_to_its_scope(code, |scope| {
            drop(Kind::Light.spawn_in(scope, move || code.run()))
        });
    }),
    ("timeout", |code| {
        join_any(umcg::spawn(move || {
            drop(umcg::timeout(HOUR, || code.run()))
        }))
    }),
    ("timeout that passes", |code| {
        join_any(umcg::spawn(move || {
            let _ = umcg::timeout(Duration::from_millis(1), || {
                let thing = code.run();
                umcg::sleep(HOUR);
                thing
            });
        }));
    }),
    ("timeout_at", |code| {
        join_any(umcg::spawn(move || {
            drop(umcg::timeout_at(Instant::now() + HOUR, || code.run()))
        }))
    }),
    ("block_on", |code| {
        let mut polls = 0;
        let _own = code.thing();
        umcg::block_on(poll_fn(|context| {
            polls += 1;
            context.waker().wake_by_ref();
            if polls == 2 {
                drop(code.run())
            }
            if polls < 3 {
                Poll::Pending
            } else {
                Poll::Ready(())
            }
        }));
    }),
    ("spawn_future", |code| {
        join(umcg::spawn_future(async move { code.run() }))
    }),
    ("worker_local, with", |code| {
        LOCAL.with(|local| {
            *local.lock().unwrap() = None;
            drop(code.run());
        })
    }),
    ("worker_local, with in with", |code| {
        LOCAL.with(|local| {
            *local.lock().unwrap() = None;
            LOCAL.with(|same| {
                assert!(std::ptr::eq(local, same));
                drop(code.run());
            });
        })
    }),
    ("worker_local, made", |code| {
        join_any(umcg::spawn(move || {
            CODE.with(|own| own.set(Some(code)));
            let made = catch_unwind(|| MADE.with(|_| ()));
            // Whatever has become of the first, the next one can be made.
            MADE.with(|_| ());
            made.unwrap_or_else(|panic| resume_unwind(panic));
        }));
    }),
    ("worker_local, used by what makes it", |code| {
        code.trap.reenters(|| {
            let said = catch_unwind(|| MADE.with(|_| ())).unwrap_err();
            assert_eq!(
                said.downcast_ref(),
                Some(&"a worker-local is used while its value is being made")
            );
        });
        join_any(umcg::spawn(move || {
            CODE.with(|own| own.set(Some(code)));
            MADE.with(|_| LOCAL.with(|_| MADE.with(|_| ())));
        }));
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
const UNWIND: [&str; 5] = [
    "spawn, aborted",
    "spawn, aborted before it begins",
    "spawn, join_deadline that passes",
    "timeout that passes",
    "a worker that unwinds through what it has",
];

#[derive(Clone, Debug)]
struct Case(usize, &'static str, Point);

fn cases(bad: Bad) -> Vec<Case> {
    let points = [Point::Call, Point::Drop]
        .into_iter()
        .filter(move |point| point.may(bad));
    let all = points.flat_map(|point| {
        ROWS.iter()
            .enumerate()
            .map(move |(row, (name, _))| Case(row, name, point))
    });
    // A destructor that panics while its worker unwinds ends the process, as the language has it.
    let ends_it =
        |case: &Case| bad == Bad::Panics && case.2 == Point::Drop && UNWIND.contains(&case.1);
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
            // A detached worker ends by itself; a party that was aborted does not wait for it.
            ledger.settle();
        },
        |case| format!("{case:?}"),
    );
}
