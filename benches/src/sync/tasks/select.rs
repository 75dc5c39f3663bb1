//! tokio's macro `select!` over its channels.

use super::super::choice::{BATCH, Batches, Order};
use super::super::request::{Answer, Request};
use super::{enter, measure, runtime};
use crate::harness::ticks;
use anyhow::{Result, ensure};
use std::array;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use tokio::sync::mpsc::{Receiver, Sender, channel};

macro_rules! any_of {
    ($($receiver:ident)+) => {
        tokio::select! { $(message = $receiver.recv() => message),+ }
    };
}

struct Ends<const K: usize> {
    senders: [Sender<usize>; K],
    receivers: [Receiver<usize>; K],
}

impl<const K: usize> Ends<K> {
    fn new() -> Ends<K> {
        let mut receivers = Vec::with_capacity(K);
        let senders = array::from_fn(|_| {
            let (sender, receiver) = channel(BATCH as usize);
            receivers.push(receiver);
            sender
        });
        Ends {
            senders,
            receivers: receivers.try_into().expect("as many"),
        }
    }
}

#[inline(always)]
async fn take<const K: usize>(receivers: &mut [Receiver<usize>; K]) -> usize {
    let message = match &mut receivers[..] {
        [a, b] => any_of!(a b),
        [a, b, c, d, e, f, g, h, i, j] => any_of!(a b c d e f g h i j),
        _ => unreachable!("arms are written out"),
    };
    message.expect("both ends are there")
}

pub(in super::super) fn ready(request: &Request) -> Result<Answer> {
    match request.number("k")? {
        2 => one_ready::<2>(request),
        10 => one_ready::<10>(request),
        _ => request.refuse(),
    }
}

pub(in super::super) fn blocking(request: &Request) -> Result<Answer> {
    match request.number("k")? {
        2 => answering::<2>(request),
        10 => answering::<10>(request),
        _ => request.refuse(),
    }
}

fn one_ready<const K: usize>(request: &Request) -> Result<Answer> {
    let budget = request.budget();
    let body = async move {
        let Ends::<K> {
            senders,
            mut receivers,
        } = Ends::new();
        let (mut order, mut batches) = (Order::of(K), Batches::new(budget));
        while batches.go_on() {
            let index = order.next();
            for _ in 0..BATCH {
                senders[index]
                    .send(index)
                    .await
                    .expect("both ends are there");
            }
            let (start, mut all_right) = (ticks(), true);
            for _ in 0..BATCH {
                all_right &= take(&mut receivers).await == index;
            }
            batches.add(ticks().wrapping_sub(start), all_right);
        }
        batches
    };
    enter(&runtime(1)?, body)?.answer()
}

fn answering<const K: usize>(request: &Request) -> Result<Answer> {
    let (runtime, budget) = (runtime(request.cpus()?)?, request.budget());
    let (mut here, mut there) = (Ends::<K>::new(), Ends::<K>::new());
    let stop = Arc::new(AtomicBool::new(false));
    let is_over = Arc::clone(&stop);
    let answering = runtime.spawn(async move {
        loop {
            let index = take(&mut there.receivers).await;
            // The data that came with it are seen.
            if is_over.load(Relaxed) {
                return there.receivers;
            }
            here.senders[index]
                .send(index)
                .await
                .expect("both ends are there");
        }
    });
    let asking = async move {
        let (mut order, mut all_right) = (Order::of(K), true);
        let sample = measure!(budget, n => for _ in 0..n {
            let index = order.next();
            there.senders[index].send(index).await.expect("both ends are there");
            all_right &= take(&mut here.receivers).await == index;
        });
        stop.store(true, Relaxed);
        there.senders[0].send(0).await.expect("both ends are there");
        // None is closed before the other task is done.
        (sample, all_right, there.senders)
    };
    let (sample, all_right, senders) = enter(&runtime, asking)?;
    drop((runtime.block_on(answering)?, senders));
    ensure!(all_right, "an answer came by the wrong one");
    Answer::of(sample.nanos())
}
