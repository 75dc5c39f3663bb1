//! Bursts of workers from a plain thread.

use super::World;
use super::amounts::{BURSTS, PAUSE, WORK, WORKERS};
use crate::machine;
use crate::rt::task::{Leaves, Program, Task};
use std::cell::Cell;
use std::rc::Rc;

struct Burst {
    world: Rc<World>,
    left: Cell<u64>,
    /// The thread that makes them.
    thread: Option<usize>,
}

struct One(Rc<Burst>);

impl Program for One {
    fn turn(&mut self, me: &'static Task) -> Leaves {
        let burst = &self.0;
        let world = &burst.world;
        world.compute(WORK);
        let is_last = world.note_done();
        let leaves = world.end(me);
        burst.left.set(burst.left.get() - 1);
        if is_last {
            world.finish();
        } else if burst.left.get() == 0 {
            world.end_part();
            if let Some(thread) = burst.thread {
                machine::rouse(thread, |costs| costs.wake_latency);
            }
        }
        leaves
    }
}

pub(super) fn begin(world: &Rc<World>) {
    let count = world.sized(WORKERS) * world.servers as u64;
    world.expected.set(BURSTS * count);
    for _ in 0..BURSTS {
        world.begin_part();
        let burst = Rc::new(Burst {
            world: Rc::clone(world),
            left: Cell::new(count),
            thread: machine::current(),
        });
        for _ in 0..count {
            world.spawn(One(Rc::clone(&burst)));
        }
        while burst.left.get() > 0 && !world.shared.is_over() {
            machine::sleep(None);
        }
        if world.shared.is_over() {
            return;
        }
        machine::sleep(Some(machine::now() + PAUSE));
    }
}
