//! Channels that are awaited: kanal's, flume's and tokio's, between tasks.

use super::super::channels::Message;
use super::super::request::{Answer, Clock, Request};
use super::super::tube::{CAPACITY, CLOCK, Rounds, STOP, Share, Tally, rate};
use super::{enter, measure, runtime};
use crate::harness::ticks;
use anyhow::{Context, Result};
use std::future::Future;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

trait Channel<const W: usize>: 'static {
    type Sender: Clone + Send + Sync + 'static;
    type Receiver: Send + Sync + 'static;

    fn new() -> (Self::Sender, Self::Receiver);
    fn send(sender: &Self::Sender, message: Message<W>) -> impl Future<Output = ()> + Send;
    fn receive(receiver: &mut Self::Receiver) -> impl Future<Output = Message<W>> + Send;
    /// None if there can be only one.
    fn another(receiver: &Self::Receiver) -> Option<Self::Receiver>;
}

/// For those whose ends are like those of tokio, in their crates.
macro_rules! channel {
    (
        $name:ident, $($path:ident)::+, $new:ident, $sender:ident, $receiver:ident, $send:ident,
        $receive:ident, $another:expr
    ) => {
        struct $name;

        impl<const W: usize> Channel<W> for $name {
            type Sender = $($path)::+::$sender<Message<W>>;
            type Receiver = $($path)::+::$receiver<Message<W>>;

            fn new() -> (Self::Sender, Self::Receiver) {
                $($path)::+::$new(CAPACITY)
            }

            #[inline(always)]
            async fn send(sender: &Self::Sender, message: Message<W>) {
                sender.$send(message).await.expect("both ends are there");
            }

            #[inline(always)]
            async fn receive(receiver: &mut Self::Receiver) -> Message<W> {
                receiver.$receive().await.expect("both ends are there")
            }

            fn another(receiver: &Self::Receiver) -> Option<Self::Receiver> {
                let another: fn(&Self::Receiver) -> Option<Self::Receiver> = $another;
                another(receiver)
            }
        }
    };
}

channel!(
    Kanal,
    kanal,
    bounded_async,
    AsyncSender,
    AsyncReceiver,
    send,
    recv,
    |receiver| Some(receiver.clone())
);
channel!(
    Flume,
    flume,
    bounded,
    Sender,
    Receiver,
    send_async,
    recv_async,
    |receiver| Some(receiver.clone())
);
channel!(
    Tokio,
    tokio::sync::mpsc,
    channel,
    Sender,
    Receiver,
    send,
    recv,
    |_| None
);

macro_rules! with_channel {
    ($work:ident, $request:expr) => {
        match &*$request.case {
            "kanal" => $work::<Kanal, W>($request),
            "flume" => $work::<Flume, W>($request),
            "tokio" => $work::<Tokio, W>($request),
            _ => $request.refuse(),
        }
    };
}

pub(in super::super) fn rounds<const W: usize>(request: &Request) -> Result<Answer> {
    with_channel!(rounds_over, request)
}

pub(in super::super) fn throughput<const W: usize>(request: &Request) -> Result<Answer> {
    with_channel!(throughput_over, request)
}

/// `count` ends to receive from.
fn receivers<C: Channel<W>, const W: usize>(
    first: C::Receiver,
    count: usize,
) -> Result<Vec<C::Receiver>> {
    let more: Option<Vec<_>> = (1..count).map(|_| C::another(&first)).collect();
    let mut all = more.context("it has one receiver")?;
    all.push(first);
    Ok(all)
}

fn all<T>(runtime: &Runtime, joins: Vec<JoinHandle<T>>) -> Result<Vec<T>> {
    Ok(joins
        .into_iter()
        .map(|join| runtime.block_on(join))
        .collect::<Result<_, _>>()?)
}

fn rounds_over<C: Channel<W>, const W: usize>(request: &Request) -> Result<Answer> {
    let (pongers, budget, times) = (request.number("pongers")?, request.budget(), request.times);
    let runtime = runtime(request.cpus()?)?;
    let ((pings, receiver), (reply, pongs)) = (C::new(), C::new());
    let start = |mut receiver: C::Receiver| {
        let reply = reply.clone();
        runtime.spawn(async move {
            loop {
                let message = C::receive(&mut receiver).await;
                if message[0] == STOP {
                    return receiver;
                }
                C::send(&reply, message).await;
            }
        })
    };
    let joins: Vec<_> = receivers::<C, W>(receiver, pongers)?
        .into_iter()
        .map(start)
        .collect();
    let found = enter(
        &runtime,
        pinger::<C, W>(pings, pongs, pongers, budget, times),
    )?;
    all(&runtime, joins)?;
    found.answer()
}

async fn pinger<C: Channel<W>, const W: usize>(
    sender: C::Sender,
    mut receiver: C::Receiver,
    pongers: usize,
    budget: Duration,
    times: u64,
) -> Rounds {
    let (mut tally, mut message) = (Tally::default(), [0; W]);
    for _ in 0..pongers {
        tally.ping(&mut message);
        C::send(&sender, message).await;
    }
    macro_rules! round {
        () => {
            tally.pong(&C::receive(&mut receiver).await);
            tally.ping(&mut message);
            C::send(&sender, message).await;
        };
    }
    let sample = measure!(budget, n => for _ in 0..n {
        round!();
    });
    let (clock, mut each) = (Clock::start(), Vec::with_capacity(times as usize));
    for _ in 0..times {
        let start = ticks();
        round!();
        each.push(ticks().wrapping_sub(start));
    }
    let each = clock.nanos(each);
    for _ in 0..pongers {
        tally.pong(&C::receive(&mut receiver).await);
    }
    for _ in 0..pongers {
        C::send(&sender, [STOP; W]).await;
    }
    Rounds {
        nanos: sample.nanos(),
        each,
        is_even: tally.is_even(),
    }
}

fn throughput_over<C: Channel<W>, const W: usize>(request: &Request) -> Result<Answer> {
    let (producers, consumers) = (request.number("producers")?, request.number("consumers")?);
    let (runtime, budget) = (runtime(request.cpus()?)?, request.budget());
    let (sender, receiver) = C::new();
    let (start, running) = (Instant::now(), Arc::new(AtomicUsize::new(producers)));
    let produce = || {
        let (sender, running) = (sender.clone(), Arc::clone(&running));
        runtime.spawn(async move {
            let (mut count, mut sum, mut message) = (0, 0_u64, [0; W]);
            while count == 0 || count % CLOCK != 0 || start.elapsed() < budget {
                count += 1;
                message[0] = count;
                sum = sum.wrapping_add(count);
                C::send(&sender, *black_box(&mut message)).await;
            }
            // ORDERING(bench-last.1): as in the bench of threads.
            if running.fetch_sub(1, AcqRel) == 1 {
                for _ in 0..consumers {
                    C::send(&sender, [STOP; W]).await;
                }
            }
            Share {
                count,
                sum,
                end: Instant::now(),
            }
        })
    };
    let consume = |mut receiver: C::Receiver| {
        runtime.spawn(async move {
            let (mut count, mut sum) = (0, 0_u64);
            loop {
                let message = C::receive(&mut receiver).await;
                if black_box(&message)[0] == STOP {
                    return (
                        Share {
                            count,
                            sum,
                            end: Instant::now(),
                        },
                        receiver,
                    );
                }
                count += 1;
                sum = sum.wrapping_add(message[0]);
            }
        })
    };
    let consuming: Vec<_> = receivers::<C, W>(receiver, consumers)?
        .into_iter()
        .map(consume)
        .collect();
    let producing: Vec<_> = (0..producers).map(|_| produce()).collect();
    let mut shares = all(&runtime, producing)?;
    let (consumed, _kept): (Vec<_>, Vec<_>) = all(&runtime, consuming)?.into_iter().unzip();
    shares.extend(consumed);
    rate(start, &shares, producers)
}
