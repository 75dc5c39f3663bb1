//! The callbacks that the threads of a runtime call: a scheduler, `on_stall`, `on_deadlock`; values
//! kept per server; and the workers of a program's own servers.
//!
//! Not everything can be bad here:
//!
//! - A scheduler's function that panics ends the process, as does a worker of a program's own
//!   servers (`rt/faulty_schedulers.rs`, `planted.rs`).
//! - `Scheduler::ready` may be called by any thread. A thread that dropped the runtime there would
//!   wait for the very worker that the scheduler is given, so this is not tried.
//! - A function given to `PerServer::own`, `other` and `try_other` may not wait, and each keeps
//!   others from the value meanwhile: to come back to it by `other` would be to wait for itself.
//! - `start`, `has_slots` and `is_ranked` are called before there is a runtime.

use crate::ledger::Thing;
use crate::rows::{self, Row, World};
use crate::trap::{Bad, Point, Trap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::time::{Duration, Instant};
use umcg::rt::scheduler::Fifo;
use umcg::rt::{
    Here, Load, PerServer, Runnable, RuntimeBuilder, RuntimeHandle, Scheduler, Wake, Why,
};
use umcg::{Builder, Event, LightBuilder, Ready, Runtime, Server, WorkerId};

/// In the kernel, as the party may be one that was aborted.
fn until(so: impl Fn() -> bool) {
    let start = Instant::now();
    while !so() {
        assert!(
            start.elapsed() < Duration::from_secs(100),
            "it does not come to that"
        );
        umcg::blocking(|| std::thread::sleep(Duration::from_micros(100)));
    }
}

/// A flag that is up when the callback has been called, whatever it has done.
#[derive(Clone, Default)]
struct Called(Arc<AtomicBool>);

impl Called {
    fn is_up(&self) -> bool {
        self.0.load(SeqCst)
    }

    fn call(&self, trap: &Trap) {
        struct Up<'a>(&'a Called);
        impl Drop for Up<'_> {
            fn drop(&mut self) {
                self.0.0.store(true, SeqCst);
            }
        }
        let _up = Up(self);
        trap.at(Point::Call);
    }
}

/// A runtime of one server, to which `work` is given, and which is dropped then, or by the
/// callback.
fn with_runtime(
    w: &World,
    builder: RuntimeBuilder,
    may_drop: bool,
    work: impl FnOnce(&RuntimeHandle),
) {
    w.forgive(|| {
        let runtime = builder.servers(1).name("own").build().unwrap();
        let handle = runtime.handle();
        let again = runtime.handle();
        w.trap.reenters(move || {
            assert!(!again.dump().is_empty() && again.servers() == 1);
            drop(again.build(&Builder::new(), || ()));
        });
        let kept = if may_drop {
            w.trap.lends(runtime)
        } else {
            Some(runtime)
        };
        let worked = catch_unwind(AssertUnwindSafe(|| work(&handle)));
        // Not while it unwinds, as that waits.
        drop(kept);
        worked.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    w.ledger.settle();
}

/// Which function of a scheduler's is bad.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Function {
    Ready,
    Next,
    LookAround,
    HasWork,
    Rank,
    MostUrgent,
    /// One that another function of the scheduler's gives to `PerServer::own`, and catches.
    Own,
}

/// First in, first out, and bad once it is let go.
struct Asked {
    queue: Fifo,
    function: Function,
    goes: Called,
    called: Called,
    trap: &'static Trap,
    own: PerServer<Value>,
    _own: Thing,
}

impl Asked {
    fn new(w: &World, function: Function, goes: &Called, called: &Called) -> Asked {
        Asked {
            queue: Fifo::new(),
            function,
            goes: goes.clone(),
            called: called.clone(),
            trap: w.trap,
            own: PerServer::new(1, |_| Value::new(w)),
            _own: w.thing(),
        }
    }

    fn at(&self, function: Function) {
        if self.function == function && self.goes.is_up() {
            self.called.call(self.trap);
        }
    }

    /// Comes to the server's own value, and to that again from within.
    fn at_own(&self, here: &Here) {
        if self.function != Function::Own || !self.goes.is_up() {
            return;
        }
        let ended = catch_unwind(AssertUnwindSafe(|| {
            self.own.own(here, |_| {
                let again = catch_unwind(AssertUnwindSafe(|| self.own.own(here, |_| ())));
                assert!(again.is_err() && self.own.try_other(0, |_| ()).is_none());
                self.called.call(self.trap);
            });
        }));
        assert!(ended.is_ok() || self.trap.does(Bad::Panics) || self.trap.does(Bad::Panic));
        assert!(
            self.own.own(here, |value| value.load()) == 1
                && self.own.try_other(0, |_| ()).is_some()
        );
    }
}

impl Scheduler for Asked {
    fn start(&mut self, servers: usize) {
        self.queue.start(servers);
    }

    fn ready(&self, worker: Runnable, why: Why, here: Option<&Here>) -> Wake {
        self.at(Function::Ready);
        self.queue.ready(worker, why, here)
    }

    fn next(&self, here: &Here) -> Option<Runnable> {
        self.at(Function::Next);
        self.at_own(here);
        self.queue.next(here)
    }

    fn look_around(&self, here: &Here) {
        self.at(Function::LookAround);
        self.queue.look_around(here);
    }

    fn has_work(&self, here: &Here) -> bool {
        self.at(Function::HasWork);
        self.queue.has_work(here)
    }

    fn is_ranked(&self) -> bool {
        matches!(self.function, Function::Rank | Function::MostUrgent)
    }

    fn rank(&self, _: &Runnable) -> u64 {
        self.at(Function::Rank);
        1
    }

    fn most_urgent(&self, _: Option<usize>) -> u64 {
        self.at(Function::MostUrgent);
        u64::MAX
    }
}

/// Workers of a runtime with that scheduler do a little of everything.
fn scheduled(w: &World, function: Function) {
    // It would end the process.
    if w.panics_at(Point::Call) && function != Function::Own {
        return;
    }
    // A callback there may not wait.
    if w.trap.does(Bad::Waits) && function == Function::Own {
        return;
    }
    let (goes, called) = (Called::default(), Called::default());
    let builder = Runtime::builder().scheduler(Asked::new(w, function, &goes, &called));
    let is_ranked = matches!(function, Function::Rank | Function::MostUrgent);
    let builder = builder.preemption(is_ranked.then_some(Duration::from_millis(1)));
    with_runtime(w, builder, function != Function::Ready, |handle| {
        let seen = called.clone();
        // It is there already if the runtime goes.
        let working = handle.spawn(move || {
            while !seen.is_up() {
                let _ = Builder::new()
                    .spawn(umcg::yield_now)
                    .map(|other| other.join());
                umcg::sleep(Duration::from_micros(20));
            }
        });
        goes.0.store(true, SeqCst);
        until(|| called.is_up() && working.is_finished());
        working.join().unwrap();
    });
}

/// A value kept for a server. Its size is asked of it, and that may be the bad callback.
struct Value {
    bad: Option<&'static Trap>,
    _own: Thing,
}

impl Value {
    fn new(w: &World) -> Value {
        Value {
            bad: None,
            _own: w.thing(),
        }
    }
}

impl Load for Value {
    fn load(&self) -> usize {
        if let Some(trap) = self.bad {
            trap.at(Point::Call);
        }
        1
    }
}

/// An operation on a value of another server: the function given to it is bad, or the value.
fn others(w: &World, enters: impl Fn(&PerServer<Value>, &mut dyn FnMut())) {
    // A callback there may not wait.
    if w.trap.does(Bad::Waits) {
        return;
    }
    for is_value_bad in [false, true] {
        others_with(w, is_value_bad, &enters);
    }
}

fn others_with(
    w: &World,
    is_value_bad: bool,
    enters: impl Fn(&PerServer<Value>, &mut dyn FnMut()),
) {
    let bad = is_value_bad.then_some(w.trap);
    let values = Arc::new(PerServer::new(2, |_| Value {
        bad,
        ..Value::new(w)
    }));
    let again = values.clone();
    w.trap
        .reenters(move || assert!(again.try_other(0, |_| ()).is_none() && again.hint(0) == 1));
    w.trap.holds(values.clone());
    w.forgive(|| {
        enters(&values, &mut || {
            if !is_value_bad {
                w.call();
            }
        })
    });
    assert!(values.try_other(0, |_| ()).is_some() && values.other(0, |value| value.load()) == 1);
}

type Body = Box<dyn FnOnce() + Send>;

fn spawn_light(builder: LightBuilder<'static>, body: Body) -> Ready {
    // SAFETY: it keeps nothing of its thread's where it waits.
    unsafe { builder.spawn(body) }.unwrap()
}

/// A program's own server, on a thread of its own, that runs one worker to its end.
fn served(w: &World, spawn: fn(LightBuilder<'static>, Body) -> Ready) {
    // A panic that leaves the worker ends the process.
    let (trap, thing, is_loud) = (
        w.trap,
        w.thing(),
        w.panics_at(Point::Call) || w.panics_at(Point::Drop),
    );
    w.trap.reenters(|| {
        umcg::blocking(|| umcg::critical(|| ()));
        let _ = umcg::wait();
    });
    w.forgive(|| {
        let serves = std::thread::spawn(move || {
            let body = move || {
                let ended = catch_unwind(AssertUnwindSafe(|| {
                    umcg::blocking(|| umcg::critical(|| trap.at(Point::Call)));
                    drop(thing);
                }));
                assert!(ended.is_ok() || is_loud);
            };
            let server = Server::register().unwrap();
            let mut ready = Some(spawn(umcg::light(WorkerId::from_index(1)), Box::new(body)));
            loop {
                let event = ready
                    .take()
                    .map_or_else(|| server.wait().unwrap(), |ready| server.switch_to(ready));
                match event {
                    Event::Exit(_) => return,
                    other => ready = other.into_ready(),
                }
            }
        });
        until(|| serves.is_finished());
        serves.join().unwrap();
    });
}

const ROWS: &[Row] = &[
    ("RuntimeBuilder::on_stall", |w| {
        let (called, trap, own) = (Called::default(), w.trap, w.thing());
        let tells = called.clone();
        let builder = Runtime::builder().on_stall(Duration::from_millis(1), move |_| {
            let _own = &own;
            tells.call(trap);
        });
        with_runtime(w, builder, true, |handle| {
            let seen = called.clone();
            let computes = move || {
                let waits = umcg::spawn(|| ());
                while !seen.is_up() {
                    std::thread::yield_now();
                }
                waits
            };
            let worker = handle.spawn(computes);
            until(|| worker.is_finished());
            let waits = worker.join().unwrap();
            until(|| waits.is_finished());
            waits.join().unwrap();
        });
    }),
    ("RuntimeBuilder::on_deadlock", |w| {
        let (called, trap, own) = (Called::default(), w.trap, w.thing());
        let tells = called.clone();
        let builder = Runtime::builder().on_deadlock(move |_| {
            let _own = &own;
            tells.call(trap);
        });
        with_runtime(w, builder, true, |handle| {
            let seen = called.clone();
            let worker = handle.spawn(move || {
                while !seen.is_up() {
                    umcg::park();
                }
            });
            until(|| called.is_up());
            worker.handle().unpark();
            until(|| worker.is_finished());
            worker.join().unwrap();
        });
    }),
    ("Scheduler::ready", |w| scheduled(w, Function::Ready)),
    ("Scheduler::next", |w| scheduled(w, Function::Next)),
    ("Scheduler::look_around", |w| {
        scheduled(w, Function::LookAround)
    }),
    ("Scheduler::has_work", |w| scheduled(w, Function::HasWork)),
    ("Scheduler::rank", |w| scheduled(w, Function::Rank)),
    ("Scheduler::most_urgent", |w| {
        scheduled(w, Function::MostUrgent)
    }),
    ("PerServer::own", |w| scheduled(w, Function::Own)),
    ("PerServer::new", |w| {
        let new = || {
            PerServer::new(3, |index| {
                let value = Value::new(w);
                if index == 1 {
                    w.call();
                }
                value
            })
        };
        w.forgive(|| drop(new()));
        assert_eq!(new().servers(), 3);
    }),
    ("PerServer::other", |w| {
        others(w, |values, call| values.other(0, |_| call()))
    }),
    ("PerServer::try_other", |w| {
        others(w, |values, call| values.try_other(0, |_| call()).unwrap())
    }),
    ("light, spawn", |w| served(w, spawn_light)),
    ("light, spawn_owning", |w| {
        if umcg::storage::available().is_ok() {
            served(w, |builder, body| builder.spawn_owning(body).unwrap());
        }
    }),
];

#[test]
fn what_threads_of_a_runtime_call() {
    rows::all("threads of a runtime", ROWS);
}
