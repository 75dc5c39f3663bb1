//! Rows of stages.

use super::World;
use super::amounts::{ITEMS, ROOM, ROW, STAGE, STAGES};
use crate::machine::{self, Access};
use crate::rt::task::{self, Leaves, Program, Task};
use std::cell::Cell;
use std::panic::Location;
use std::ptr::from_ref;
use std::rc::Rc;

/// Between a stage and the next one.
struct Channel {
    /// Items in it.
    count: Cell<u64>,
    sender: Cell<Option<&'static Task>>,
    receiver: Cell<Option<&'static Task>>,
    sender_waits: Cell<bool>,
    receiver_waits: Cell<bool>,
}

impl Channel {
    fn touch(&self) {
        machine::access(from_ref(self).addr(), Access::Locked, Location::caller());
    }

    /// False if it is full: the sender is woken when there is room.
    fn try_send(&self) -> bool {
        self.touch();
        if self.count.get() == ROOM as u64 {
            self.sender_waits.set(true);
            return false;
        }
        self.count.set(self.count.get() + 1);
        if self.receiver_waits.replace(false) {
            wake(&self.receiver);
        }
        true
    }

    fn try_receive(&self) -> bool {
        self.touch();
        if self.count.get() == 0 {
            self.receiver_waits.set(true);
            return false;
        }
        self.count.set(self.count.get() - 1);
        if self.sender_waits.replace(false) {
            wake(&self.sender);
        }
        true
    }
}

fn wake(task: &Cell<Option<&'static Task>>) {
    if let Some(task) = task.get() {
        task.unpark();
    }
}

struct Stage {
    world: Rc<World>,
    /// None before the first stage, and behind the last.
    from: Option<Rc<Channel>>,
    to: Option<Rc<Channel>>,
    left: u64,
    has_item: bool,
}

impl Program for Stage {
    fn turn(&mut self, me: &'static Task) -> Leaves {
        loop {
            if !self.has_item {
                if self.left == 0 {
                    return self.world.end(me);
                }
                if self.from.as_ref().is_some_and(|from| !from.try_receive()) {
                    return Leaves::Parks;
                }
                self.world.compute(STAGE);
                self.left -= 1;
                self.has_item = true;
            }
            if self.to.as_ref().is_some_and(|to| !to.try_send()) {
                return Leaves::Parks;
            }
            self.has_item = false;
            if self.world.note_done() {
                self.world.finish();
            }
        }
    }
}

pub(super) fn begin(world: &Rc<World>) {
    let stages = STAGES * world.servers;
    let items = world.sized(ITEMS);
    world.expected.set(items * stages as u64);
    let mut all = Vec::new();
    while all.len() < stages {
        let left = stages - all.len();
        all.extend(row(world, left.min(ROW), items));
    }
    all.into_iter().for_each(task::begin);
}

/// So many stages in a row.
fn row(world: &Rc<World>, stages: usize, items: u64) -> Vec<&'static Task> {
    let channel = |_| {
        Rc::new(Channel {
            count: Cell::new(0),
            sender: Cell::new(None),
            receiver: Cell::new(None),
            sender_waits: Cell::new(false),
            receiver_waits: Cell::new(false),
        })
    };
    let channels: Vec<Rc<Channel>> = (1..stages).map(channel).collect();
    let stage = |index: usize| {
        let from = index.checked_sub(1).map(|before| &channels[before]);
        let to = channels.get(index);
        let task = world.make(Stage {
            world: Rc::clone(world),
            from: from.cloned(),
            to: to.cloned(),
            left: items,
            has_item: false,
        });
        from.inspect(|from| from.receiver.set(Some(task)));
        to.inspect(|to| to.sender.set(Some(task)));
        task
    };
    (0..stages).map(stage).collect()
}
