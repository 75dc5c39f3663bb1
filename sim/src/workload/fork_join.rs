//! A tree of workers.

use super::World;
use super::amounts::{LEAF, LEAVES, NODE};
use crate::rt::task::{self, Leaves, Program, Task};
use std::rc::Rc;

struct Node {
    world: Rc<World>,
    /// How many leaves there are below.
    leaves: u64,
    parent: Option<&'static Task>,
    waits: bool,
}

impl Node {
    fn child(&self, me: &'static Task, leaves: u64) -> Node {
        Node {
            world: Rc::clone(&self.world),
            leaves,
            parent: Some(me),
            waits: false,
        }
    }
}

impl Program for Node {
    fn turn(&mut self, me: &'static Task) -> Leaves {
        let world = &self.world;
        if self.leaves == 1 {
            world.compute(LEAF);
        } else if !self.waits {
            world.compute(NODE);
            me.expect(2);
            let half = self.leaves / 2;
            let others =
                [half, self.leaves - half].map(|leaves| world.make(self.child(me, leaves)));
            self.waits = true;
            others.into_iter().for_each(task::begin);
            return Leaves::Parks;
        } else if !me.has_all() {
            return Leaves::Parks;
        } else {
            world.compute(NODE);
        }
        let is_last = world.note_done();
        let leaves = world.end(me);
        match self.parent {
            Some(parent) => parent.count_down(),
            None => assert!(is_last, "the root ended before its tree"),
        }
        if is_last {
            world.finish();
        }
        leaves
    }
}

pub(super) fn begin(world: &Rc<World>) {
    let leaves = world.sized(LEAVES) * world.servers as u64;
    world.expected.set(2 * leaves - 1);
    world.spawn(Node {
        world: Rc::clone(world),
        leaves,
        parent: None,
        waits: false,
    });
}
