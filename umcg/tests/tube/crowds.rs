//! Many senders and many receivers.

use crate::support::over;
use crate::{large, number_of};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::*};
use umcg::tube::{Receiver, Sender, tube};

const EACH: u64 = 400;

/// Sends `EACH` messages that name their sender.
fn send_all<T: Send>(sender: &Sender<T>, who: u64, make: fn(u64) -> T) {
    for n in 0..EACH {
        sender.send(make(who * EACH + n)).map_err(drop).unwrap();
        if n % 97 == who {
            umcg::yield_now();
        }
    }
}

/// Receives until the end; messages of one sender come in its order.
fn receive_all<T: Send>(receiver: &Receiver<T>, number: fn(T) -> u64, sum: &AtomicU64) -> u64 {
    let mut last = [None; 8];
    let mut count = 0;
    for message in receiver {
        let message = number(message);
        let (who, n) = ((message / EACH) as usize, message % EACH);
        assert!(
            last[who].is_none_or(|last| last < n),
            "{n} of {who} after {:?}",
            last[who]
        );
        last[who] = Some(n);
        sum.fetch_add(message, Relaxed);
        count += 1;
    }
    count
}

fn crowd<T: Send + 'static>(
    name: &'static str,
    capacity: usize,
    make: fn(u64) -> T,
    number: fn(T) -> u64,
) {
    over(name, |runtime, kind| {
        let (sender, receiver) = tube::<T>(capacity);
        let sum = Arc::new(AtomicU64::new(0));
        let senders: Vec<_> = (0..6)
            .map(|who| {
                let sender = sender.clone();
                kind.spawn_on(runtime, move || send_all(&sender, who, make))
            })
            .collect();
        let receivers: Vec<_> = (0..3)
            .map(|_| {
                let (receiver, sum) = (receiver.clone(), sum.clone());
                kind.spawn_on(runtime, move || receive_all(&receiver, number, &sum))
            })
            .collect();
        // Kernel threads among them.
        let mut count = std::thread::scope(|scope| {
            for who in 6..8 {
                let sender = sender.clone();
                scope.spawn(move || send_all(&sender, who, make));
            }
            drop(sender);
            let taken = [0, 1].map(|_| scope.spawn(|| receive_all(&receiver, number, &sum)));
            taken
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .sum::<u64>()
        });
        senders
            .into_iter()
            .for_each(|worker| worker.join().unwrap());
        count += receivers
            .into_iter()
            .map(|worker| worker.join().unwrap())
            .sum::<u64>();
        assert_eq!((count, sum.load(Relaxed)), (8 * EACH, (0..8 * EACH).sum()));
    });
}

#[test]
fn small_messages() {
    crowd("small", 5, |n| n, |n| n);
    crowd("many small", 1000, |n| n, |n| n);
}

#[test]
fn from_hand_to_hand() {
    crowd("hand to hand", 0, |n| n, |n| n);
    crowd("large from hand to hand", 0, large, |message| {
        number_of(&message)
    });
}

#[test]
fn one_at_a_time() {
    crowd("one", 1, Box::new, |message| *message);
    crowd("one large", 1, large, |message| number_of(&message));
}

#[test]
fn large_messages() {
    crowd("large", 7, large, |message| number_of(&message));
}

/// A ring of tubes, around which a message goes.
#[test]
fn around_a_ring() {
    over("ring", |runtime, kind| {
        for capacity in [0, 1] {
            let tubes: Vec<_> = (0..20).map(|_| tube::<u64>(capacity)).collect();
            let workers: Vec<_> = (0..20)
                .map(|n| {
                    let (receiver, sender) = (tubes[n].1.clone(), tubes[(n + 1) % 20].0.clone());
                    kind.spawn_on(runtime, move || {
                        for message in &receiver {
                            if message == 0 || sender.send(message - 1).is_err() {
                                break;
                            }
                        }
                        sender.close();
                    })
                })
                .collect();
            tubes[0].0.send(2000).unwrap();
            drop(tubes);
            workers
                .into_iter()
                .for_each(|worker| worker.join().unwrap());
        }
    });
}
