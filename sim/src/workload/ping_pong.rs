//! Pairs that wake each other in turn.

use super::World;
use super::amounts::{PAIRS, ROUNDS, STEP};
use crate::rt::task::{self, Leaves, Program, Task};
use std::cell::Cell;
use std::rc::Rc;

struct Player {
    world: Rc<World>,
    other: Rc<Cell<Option<&'static Task>>>,
    /// The first of a pair begins without being woken.
    serves: bool,
    left: u64,
}

impl Program for Player {
    fn turn(&mut self, me: &'static Task) -> Leaves {
        if !std::mem::take(&mut self.serves) && !me.take_ball() {
            return Leaves::Parks;
        }
        self.world.compute(STEP);
        self.left -= 1;
        let is_last = self.world.note_done();
        if let Some(other) = self.other.get() {
            other.throw_ball();
        }
        if is_last {
            self.world.finish();
        }
        match self.left {
            0 => Leaves::Ends,
            _ => Leaves::Parks,
        }
    }
}

pub(super) fn begin(world: &Rc<World>) {
    let (pairs, rounds) = (PAIRS * world.servers, world.sized(ROUNDS));
    world.expected.set(2 * rounds * pairs as u64);
    let mut all = Vec::new();
    for _ in 0..pairs {
        let names: [Rc<Cell<Option<&'static Task>>>; 2] = Default::default();
        for (index, name) in names.iter().enumerate() {
            let task = world.make(Player {
                world: Rc::clone(world),
                other: Rc::clone(&names[1 - index]),
                serves: index == 0,
                left: rounds,
            });
            name.set(Some(task));
            all.push(task);
        }
    }
    all.into_iter().for_each(task::begin);
}
