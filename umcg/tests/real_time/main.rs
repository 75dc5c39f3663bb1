//! Real-time threads that want an object which a thread of lower priority has on their own
//! processor: the inner locks, and objects that are waited for as shortly. The other thread must
//! get the processor, or they wait for ever.
//!
//! The less urgent thread does an operation instruction by instruction, and before many of them the
//! urgent thread runs and does the same, as far as it gets.

#![cfg(target_arch = "x86_64")]

mod contest;
#[allow(dead_code, reason = "not all of it is used here")]
#[path = "../rt/support.rs"]
mod support;

use contest::{contend, stepped_often};
use std::collections::VecDeque;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, OnceLock};
use support::eventually;
use umcg::rt::scheduler::{Scheduler, Wake, Why};
use umcg::rt::{Here, Load, PerServer, Runnable, Runtime};
use umcg::sync::{Barrier, Event, Semaphore};
use umcg_core::context::lock::Lock;

/// Both do the same.
fn both(test: &str, operation: impl Fn() + Sync) {
    operation(); // for initialisation, once in a process
    contend(test, &operation, || stepped_often(&operation));
}

#[test]
fn the_lock_of_lists() {
    let count = Lock::new(0);
    both("the_lock_of_lists", || *count.lock() += 1);
}

#[test]
fn the_lock_of_an_object() {
    let barrier = Barrier::new(1);
    both("the_lock_of_an_object", || {
        assert!(barrier.wait().is_leader())
    });
}

#[test]
fn the_lock_in_a_word() {
    let event = Event::manual(false);
    both("the_lock_in_a_word", || event.pulse());
}

/// The waiter wants more than there ever is: each release looks at the queue.
#[test]
fn the_lock_of_a_semaphore() {
    const MANY: u32 = 1 << 30;
    let semaphore = Semaphore::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| semaphore.acquire_many(MANY).unwrap());
        // A waiter takes saved wakeups before later callers.
        eventually("somebody waits", || {
            semaphore.release(1).unwrap();
            semaphore.try_acquire().is_err()
        });
        both("the_lock_of_a_semaphore", || semaphore.release(1).unwrap());
        semaphore.release(MANY).unwrap();
    });
}

#[test]
fn a_tube() {
    let (sender, receiver) = umcg::tube::tube(4);
    both("a_tube", || {
        sender.try_send(7).unwrap();
        receiver.try_recv().unwrap();
    });
}

/// Their places are filled and read without the lock.
#[test]
fn a_tube_of_large_messages() {
    let (sender, receiver) = umcg::tube::tube(4);
    both("a_tube_of_large_messages", || {
        sender.try_send([7u64; 100]).unwrap();
        assert_eq!(receiver.try_recv().unwrap(), [7; 100]);
    });
}

#[test]
fn the_table_of_words() {
    let words = [const { AtomicU32::new(0) }; 2];
    both("the_table_of_words", || {
        umcg::futex::cmp_requeue(&words[0], 0, &words[1], 0, 0).unwrap();
    });
}

#[test]
fn a_segment() {
    let segment = umcg::segment::Segment::create().unwrap();
    let tube = segment.tube::<u64>("numbers", 4).unwrap();
    both("a_segment", || {
        tube.try_send(7).unwrap();
        tube.try_recv().unwrap();
    });
}

/// First in, first out, with a count for each server of how often it has asked.
#[derive(Default)]
struct Counting {
    ready: Mutex<VecDeque<Runnable>>,
    asked: Arc<OnceLock<PerServer<Asked>>>,
}

#[derive(Default)]
struct Asked(usize);

impl Load for Asked {
    fn load(&self) -> usize {
        self.0
    }
}

impl Scheduler for Counting {
    fn start(&mut self, servers: usize) {
        assert!(
            self.asked
                .set(PerServer::new(servers, |_| Asked::default()))
                .is_ok()
        );
    }

    fn ready(&self, worker: Runnable, _why: Why, _here: Option<&Here>) -> Wake {
        self.ready.lock().unwrap().push_back(worker);
        Wake::One
    }

    fn next(&self, here: &Here) -> Option<Runnable> {
        // For a while, so that others come meanwhile.
        self.asked.get()?.own(here, |asked| {
            (0..100).for_each(|n| asked.0 += std::hint::black_box(n))
        });
        self.ready.lock().unwrap().pop_front()
    }

    fn has_work(&self, _here: &Here) -> bool {
        !self.ready.lock().unwrap().is_empty()
    }
}

#[test]
fn what_belongs_to_a_server() {
    let scheduler = Counting::default();
    let asked = scheduler.asked.clone();
    let runtime = Runtime::builder()
        .servers(1)
        .scheduler(scheduler)
        .stack_size(256 << 10)
        .build()
        .unwrap();
    let high = || asked.get().unwrap().other(0, |asked| asked.0 += 1);
    let low = || {
        let yields = || stepped_often(umcg::yield_now);
        runtime.spawn(yields).join().unwrap();
    };
    high();
    contend("what_belongs_to_a_server", high, low);
}

/// A thread that serves a waiter waits until that has left its server.
#[test]
fn a_worker_that_is_about_to_wait() {
    let (sender, receiver) = umcg::tube::tube(0);
    let runtime = Runtime::builder()
        .servers(1)
        .stack_size(256 << 10)
        .build()
        .unwrap();
    let high = || _ = sender.try_send(7);
    let low = || {
        let receives = move || stepped_often(|| _ = receiver.recv().unwrap());
        runtime.spawn(receives).join().unwrap();
    };
    contend("a_worker_that_is_about_to_wait", high, low);
}
