//! Two classes: urgent requests keep their latency while batch work saturates every processor;
//! beside it, the same load as plain threads.
//!
//! An urgent worker sleeps until its request is due; the latency is how much later it runs. Batch
//! workers compute. Most give way now and then; the *hogs* never do, and are taken off by
//! preemption. Three rules make this good for urgent requests:
//! - A server hears of a request when its batch worker gives way. So one server runs no hogs, and
//!   looks after every chunk of some 30 us.
//! - A hog shows itself: it was preempted when it ran last, or has not run yet. Preemption comes
//!   too late for a request: the kernel counts a thread's time in its own ticks, of 1 to 10 ms,
//!   whatever the interval asked for.
//! - One server beyond the number of processors runs urgent workers only. It sleeps until a request
//!   is due, and then competes for a processor with the other servers: for the case that the kernel
//!   has given the first one's to another program.
//!
//! Run it: `cargo run --release -p umcg --example priorities [milliseconds]`

mod load;

use load::{ALL, URGENT, load, measure};
use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};
use umcg::{Event, Ready, Server, WorkerId};

#[derive(Default)]
struct Queues {
    /// Urgent, polite, hogs.
    ready: [VecDeque<Ready>; 3],
    /// Urgent workers of which only WAIT or only TIMEOUT has been seen: two servers may have these,
    /// and get here in any order.
    asleep: HashMap<WorkerId, Option<Ready>>,
    ended: u64,
}

impl Queues {
    fn take(&mut self, event: Event) {
        let (id, urgent) = (event.id(), event.id().index() < URGENT);
        let ready = match event {
            Event::Wait(ready) if urgent => Some(ready),
            Event::Timeout(_) => None,
            Event::Wait(ready) => return self.ready[1].push_back(ready),
            Event::Wake(ready) | Event::Preempt(ready) => {
                return self.ready[if urgent { 0 } else { 2 }].push_back(ready);
            }
            Event::Exit(_) => return self.ended += 1,
            Event::Block(_) => return,
        };
        match self.asleep.remove(&id) {
            Some(other) => self.ready[0].extend(ready.or(other)),
            None => drop(self.asleep.insert(id, ready)),
        }
    }
}

/// A server, which looks for somebody to run in these classes, in this order.
fn serve(queues: &Mutex<Queues>, classes: &[usize]) {
    let server = Server::register().expect("a plain thread");
    while queues.lock().unwrap().ended < ALL {
        let next = classes
            .iter()
            .find_map(|&class| queues.lock().unwrap().ready[class].pop_front());
        let event = match next {
            Some(ready) => Some(server.switch_to(ready)),
            None => server.wait_timeout(Duration::from_millis(5)).ok(),
        };
        event
            .into_iter()
            .chain(server.events())
            .for_each(|event| queues.lock().unwrap().take(event));
    }
}

fn main() {
    let length = Duration::from_millis(
        std::env::args()
            .nth(1)
            .map_or(600, |argument| argument.parse().expect("milliseconds")),
    );
    umcg::set_preemption(Some(Duration::from_millis(1)))
        .expect("an interval that a timer can have");
    for index in 0..ALL {
        let work = move || {
            load(
                index,
                |due| umcg::wait_deadline(due).unwrap_or(()),
                || umcg::wait().expect("a worker"),
            )
        };
        // SAFETY: `load` keeps only numbers across a switch, and nothing of the thread's outside
        // its critical section.
        drop(
            unsafe { umcg::light(WorkerId::from_index(index)).spawn(work) }
                .expect("memory for a stack"),
        ); // a server gets it by WAKE
    }
    let (queues, classes) = (
        Mutex::new(Queues::default()),
        [&[0][..], &[0, 1], &[0, 2, 1]],
    );
    let servers = 1 + thread::available_parallelism().map_or(2, |count| count.get().max(2)) as u64;
    let ours = measure("umcg", length, servers, |server| {
        serve(&queues, classes[server.min(2) as usize])
    });

    let sleep_until = |due: Instant| thread::sleep(due.saturating_duration_since(Instant::now()));
    let plain = measure("threads", length, ALL, |index| {
        load(index, sleep_until, || ())
    });
    let yielding = measure("threads that yield", length, ALL, |index| {
        load(index, sleep_until, thread::yield_now)
    });
    println!(
        "p99 beside umcg's: threads {:.1} times, threads that yield {:.1} times",
        plain / ours,
        yielding / ours
    );
}
