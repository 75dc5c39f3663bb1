//! Connections that answer messages.

use super::World;
use super::amounts::{CONNECTIONS, MESSAGES, SERVICE, THINK};
use crate::machine;
use crate::rt::task::{self, Leaves, Program, Task};
use std::cell::Cell;
use std::rc::Rc;

struct Connection {
    world: Rc<World>,
    /// Its number in the driver.
    number: Rc<Cell<u64>>,
    /// When the message came that it waits for.
    due: u64,
    left: u64,
}

impl Connection {
    /// The next message is sent.
    fn send(&mut self) {
        self.due = machine::now() + wait();
        self.world
            .shared
            .messages()
            .send(self.number.get(), self.due);
    }
}

/// An exponential time.
fn wait() -> u64 {
    let uniform = (machine::random() >> 11) as f64 / (1u64 << 53) as f64;
    (-(1.0 - uniform).ln() * THINK as f64) as u64
}

impl Program for Connection {
    fn turn(&mut self, me: &'static Task) -> Leaves {
        if self.due == 0 {
            self.send();
            return Leaves::Parks;
        }
        if machine::now() < self.due {
            return Leaves::Parks;
        }
        self.world.compute(SERVICE);
        let latency = machine::now() - self.due;
        self.world.latencies.borrow_mut().push(latency);
        self.left -= 1;
        if self.world.note_done() {
            self.world.finish();
        }
        if self.left == 0 {
            return self.world.end(me);
        }
        self.send();
        Leaves::Parks
    }
}

pub(super) fn begin(world: &Rc<World>) {
    let (connections, messages) = (CONNECTIONS * world.servers, world.sized(MESSAGES));
    world.expected.set(connections as u64 * messages);
    let connection = |_| {
        let number = Rc::new(Cell::new(0));
        let task = world.make(Connection {
            world: Rc::clone(world),
            number: Rc::clone(&number),
            due: 0,
            left: messages,
        });
        number.set(world.shared.messages().add_waiter(task));
        task
    };
    let all: Vec<&'static Task> = (0..connections).map(connection).collect();
    all.into_iter().for_each(task::begin);
}
