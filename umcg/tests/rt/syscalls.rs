//! Operations that make no system call: counted by strace, between two writes to no file that mark
//! each operation.
//!
//! Where there is no strace, or it may not trace, the test says so and passes.

use crate::strace::{Trace, mark, measured, planted};
use crate::support::{Kind, child_arguments, child_variable, is_child, say};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use umcg::{Handle, Runtime};

const NAME: &str = "syscalls::uncontended_operations_make_none";

fn operations(kind: Kind) {
    planted(&format!("planted {kind:?}"));
    let over = Arc::new(AtomicUsize::new(0));
    let seen = over.clone();
    let yielder = kind.spawn(move || {
        while seen.load(Relaxed) == 0 {
            umcg::yield_now();
        }
    });
    measured(&format!("yield {kind:?}"), umcg::yield_now);
    over.store(1, Relaxed);
    yielder.join().unwrap();
    let me = Handle::current();
    measured(&format!("unpark and park oneself {kind:?}"), || {
        me.unpark();
        umcg::park();
    });
    let turn = Arc::new(AtomicUsize::new(0));
    let theirs = turn.clone();
    let partner = kind.spawn(move || {
        while theirs.load(Relaxed) < 2 {
            while theirs.load(Relaxed) == 0 {
                umcg::park();
            }
            if theirs.load(Relaxed) == 1 {
                theirs.store(0, Relaxed);
                me.unpark();
            }
        }
    });
    let other = partner.handle();
    measured(&format!("unpark another and park {kind:?}"), || {
        turn.store(1, Relaxed);
        other.unpark();
        while turn.load(Relaxed) == 1 {
            umcg::park();
        }
    });
    turn.store(2, Relaxed);
    other.unpark();
    partner.join().unwrap();
    measured(&format!("spawn and join {kind:?}"), || {
        kind.spawn(|| ()).join().unwrap()
    });
    measured(&format!("scope {kind:?}"), || {
        umcg::scope(|scope| {
            kind.spawn_in(scope, || ());
        });
    });
    measured(&format!("spawn and detach {kind:?}"), || {
        drop(kind.spawn(|| ()));
        umcg::yield_now();
    });
}

/// The process that is traced.
fn traced() {
    let runtime = Runtime::builder().servers(1).build().unwrap();
    for kind in [Kind::Full, Kind::Light] {
        kind.run(&runtime, move || operations(kind));
    }
    mark("done\n");
}

#[test]
fn uncontended_operations_make_none() {
    if is_child(NAME) {
        return traced();
    }
    match Trace::of(child_arguments(NAME), child_variable(NAME)) {
        Ok(trace) => trace.assert_none(14),
        Err(why) => say(&why),
    }
}
