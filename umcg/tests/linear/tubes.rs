//! Tubes.

use crate::checker::{Specification, assert_linear};
use crate::harness::Rng;
use crate::record::{Party, history, runtimes, waiting};
use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;
use umcg::tube::{
    Receiver, RecvError, RecvTimeoutError, SendError, SendTimeoutError, Sender, TryRecvError,
    TrySendError, tube,
};

/// The question. Messages are numbers.
#[derive(Clone, Debug)]
pub(crate) enum Asked {
    TrySend(u64),
    /// Waits, until a deadline at most.
    Send(u64),
    /// All of these, as far as possible without waiting.
    SendMany(Vec<u64>),
    /// As a future, which is given up after some time.
    SendAsync(u64),
    TryReceive,
    Receive,
    ReceiveAsync,
    /// As many as are there, but no more than that.
    ReceiveMany(usize),
    Close,
    /// How many stand in the queues: a waiter that is seen there has come.
    Look,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Told {
    Done,
    /// This many were sent. A batch has no order of its own with others, but each of its messages
    /// has.
    Sent(usize),
    Received(Vec<u64>),
    /// Full, or empty.
    Nothing,
    Late,
    Closed,
    /// Senders, and receivers.
    Waiting(usize, usize),
}

pub(crate) type Operation = (Asked, Told);

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct State {
    messages: VecDeque<u64>,
    is_closed: bool,
    senders: VecDeque<(usize, u64)>,
    /// And whether it is a future.
    receivers: VecDeque<(usize, bool)>,
    answers: BTreeMap<usize, Told>,
    /// Futures that were given messages and do not know it yet, in the order in which they were.
    given: Vec<usize>,
    /// Of batches: how far they are.
    progress: BTreeMap<usize, usize>,
}

pub(crate) struct Tubes {
    pub(crate) capacity: usize,
}

impl Tubes {
    /// One message, if that needs no wait.
    fn send(&self, state: &mut State, message: u64) -> Told {
        if state.is_closed {
            return Told::Closed;
        }
        if let Some((receiver, is_future)) = state.receivers.pop_front() {
            state
                .answers
                .insert(receiver, Told::Received(vec![message]));
            state.given.extend(is_future.then_some(receiver));
        } else if state.messages.len() < self.capacity {
            state.messages.push_back(message);
        } else {
            return Told::Nothing;
        }
        Told::Done
    }

    /// The same. A waiting sender gets the room then, if there is any: there may be more messages
    /// than that, as some come back.
    fn receive(&self, state: &mut State) -> Result<u64, Told> {
        let first = state.messages.pop_front();
        if first.is_none() || state.messages.len() < self.capacity {
            if let Some((sender, message)) = state.senders.pop_front() {
                state.answers.insert(sender, Told::Done);
                state.messages.push_back(message);
            }
        }
        first
            .or_else(|| state.messages.pop_front())
            .ok_or(if state.is_closed {
                Told::Closed
            } else {
                Told::Nothing
            })
    }

    /// A future that was served is polled, or given up: then the messages of those that were served
    /// after it are passed on, and the last one comes back.
    fn know(&self, state: &mut State, number: usize, told: &Told) -> Option<()> {
        match (told, state.answers.get(&number)?) {
            (Told::Late, Told::Closed) => {}
            (_, Told::Received(_)) => {
                let at = state.given.iter().position(|given| *given == number)?;
                if *told == Told::Late {
                    let mut left = state.answers.remove(&number)?;
                    for other in &state.given[at + 1..] {
                        left = state.answers.insert(*other, left)?;
                    }
                    let Told::Received(left) = left else {
                        return None;
                    };
                    if let Some((receiver, is_future)) = state.receivers.pop_front() {
                        state.answers.insert(receiver, Told::Received(left));
                        state.given.extend(is_future.then_some(receiver));
                    } else {
                        state.messages.push_front(left[0]);
                    }
                }
                state.given.remove(at);
            }
            _ => return None,
        }
        state.answers.insert(number, told.clone());
        Some(())
    }

    /// A message of a batch; or the last look, if it ends before its time.
    fn next_of_batch(
        &self,
        state: &mut State,
        number: usize,
        (asked, told): &Operation,
    ) -> Option<()> {
        let so_far = state.progress.get(&number).copied().unwrap_or(0);
        match (asked, told) {
            (Asked::SendMany(batch), Told::Sent(count)) if so_far < *count => {
                (self.send(state, batch[so_far]) == Told::Done).then_some(())?;
            }
            (Asked::SendMany(batch), Told::Sent(count)) if *count < batch.len() => {
                (self.send(state, 0) != Told::Done).then_some(())?;
            }
            (Asked::ReceiveMany(_), Told::Received(received)) if so_far < received.len() => {
                (self.receive(state) == Ok(received[so_far])).then_some(())?;
            }
            (Asked::ReceiveMany(most), Told::Received(received)) if received.len() < *most => {
                self.receive(state).err()?;
            }
            // Nothing at all, and why.
            (Asked::SendMany(_), told) => (self.send(state, 0) == *told).then_some(())?,
            (Asked::ReceiveMany(_), told) => {
                (self.receive(state).err().as_ref() == Some(told)).then_some(())?
            }
            _ => return None,
        }
        let (all, wanted) = match (asked, told) {
            (Asked::SendMany(batch), Told::Sent(count)) => (*count, batch.len()),
            (Asked::ReceiveMany(most), Told::Received(received)) => (received.len(), *most),
            _ => (0, 1),
        };
        // The last look, where there is one, is a step more.
        if so_far + 1 == if all < wanted { all + 1 } else { all } {
            state.progress.remove(&number);
            state.answers.insert(number, told.clone());
        } else {
            state.progress.insert(number, so_far + 1);
        }
        Some(())
    }

    /// Its first step: the answer, if there is one at once.
    fn begin(&self, state: &mut State, number: usize, asked: &Asked) -> Option<Told> {
        match asked {
            Asked::TrySend(message) => Some(self.send(state, *message)),
            Asked::Send(message) | Asked::SendAsync(message) => {
                let told = self.send(state, *message);
                if told == Told::Nothing {
                    state.senders.push_back((number, *message));
                    return None;
                }
                Some(told)
            }
            Asked::TryReceive => Some(
                self.receive(state)
                    .map_or_else(|told| told, |message| Told::Received(vec![message])),
            ),
            Asked::Receive | Asked::ReceiveAsync => match self.receive(state) {
                Ok(message) => Some(Told::Received(vec![message])),
                Err(Told::Nothing) => {
                    state
                        .receivers
                        .push_back((number, matches!(asked, Asked::ReceiveAsync)));
                    None
                }
                Err(told) => Some(told),
            },
            // A message that came back and has no room stands there as if it waited.
            Asked::Look => {
                let back = state.messages.len().saturating_sub(self.capacity);
                Some(Told::Waiting(
                    state.senders.len() + back,
                    state.receivers.len(),
                ))
            }
            _ => {
                state.is_closed = true;
                let senders = std::mem::take(&mut state.senders)
                    .into_iter()
                    .map(|(number, _)| number);
                let all = senders.chain(
                    std::mem::take(&mut state.receivers)
                        .into_iter()
                        .map(|(number, _)| number),
                );
                state
                    .answers
                    .extend(all.map(|number| (number, Told::Closed)));
                Some(Told::Done)
            }
        }
    }
}

impl Specification for Tubes {
    type State = State;
    type Operation = Operation;

    fn start(&self) -> State {
        State::default()
    }

    fn steps(&self, state: &State, number: usize, operation: &Operation) -> Vec<State> {
        let (asked, told) = operation;
        let mut next = state.clone();
        if state.answers.contains_key(&number) {
            let is_future = matches!(asked, Asked::SendAsync(_) | Asked::ReceiveAsync);
            return is_future
                .then(|| self.know(&mut next, number, told))
                .flatten()
                .map(|()| next)
                .into_iter()
                .collect();
        }
        if matches!(asked, Asked::SendMany(_) | Asked::ReceiveMany(_)) {
            return self
                .next_of_batch(&mut next, number, operation)
                .map(|()| next)
                .into_iter()
                .collect();
        }
        next.senders.retain(|(sender, _)| *sender != number);
        next.receivers.retain(|(receiver, _)| *receiver != number);
        if next != *state {
            // It waits, and may give up.
            next.answers.insert(number, Told::Late);
            return if *told == Told::Late {
                vec![next]
            } else {
                Vec::new()
            };
        }
        if let Some(answer) = self.begin(&mut next, number, asked) {
            next.answers.insert(number, answer);
        }
        vec![next]
    }

    fn end(&self, state: &State, number: usize, (_, told): &Operation) -> Option<State> {
        let mut next = state.clone();
        (next.answers.remove(&number).as_ref() == Some(told) && !next.given.contains(&number))
            .then_some(next)
    }
}

/// A message that contains more than a number, and of a size that has or has not a place of its
/// own.
#[derive(Clone, Copy)]
struct Message<const N: usize>([u64; N]);

impl<const N: usize> Message<N> {
    fn new(number: u64) -> Message<N> {
        Message([number; N])
    }

    fn number(self) -> u64 {
        assert!(
            self.0.iter().all(|word| *word == self.0[0]),
            "overwritten: {:?}",
            self.0
        );
        self.0[0]
    }
}

fn look<const N: usize>(receiver: &Receiver<Message<N>>) -> Told {
    let text = format!("{receiver:?}");
    Told::Waiting(
        waiting(&text, "waiting_senders"),
        waiting(&text, "waiting_receivers"),
    )
}

type Ends<const N: usize> = (Sender<Message<N>>, Receiver<Message<N>>);

/// Polls for that long; the future remains if it was not ready by then.
fn until<F: Future + Unpin>(future: &mut F, deadline: Instant) -> Option<F::Output> {
    loop {
        if let Poll::Ready(output) =
            Pin::new(&mut *future).poll(&mut Context::from_waker(Waker::noop()))
        {
            return Some(output);
        }
        if Instant::now() >= deadline {
            return None;
        }
        umcg::yield_now();
    }
}

fn send_async<const N: usize>(sender: &Sender<Message<N>>, message: u64, soon: Instant) -> Told {
    let mut future = sender.send_async(Message::new(message));
    match until(&mut future, soon) {
        Some(Ok(())) => Told::Done,
        Some(Err(SendError(_))) => Told::Closed,
        None if future.into_inner().is_none() => Told::Done,
        None => Told::Late,
    }
}

fn ask<const N: usize>(party: &mut Party<Operation>, (sender, receiver): &Ends<N>, asked: Asked) {
    let soon = party.soon();
    party.record(|| {
        let told = match &asked {
            Asked::TrySend(message) => match sender.try_send(Message::new(*message)) {
                Ok(()) => Told::Done,
                Err(TrySendError::Full(_)) => Told::Nothing,
                Err(TrySendError::Disconnected(_)) => Told::Closed,
            },
            Asked::Send(message) => match sender.send_deadline(Message::new(*message), soon) {
                Ok(()) => Told::Done,
                Err(SendTimeoutError::Timeout(_)) => Told::Late,
                Err(SendTimeoutError::Disconnected(_)) => Told::Closed,
            },
            Asked::SendAsync(message) => send_async(sender, *message, soon),
            Asked::SendMany(batch) => {
                let mut batch: VecDeque<_> =
                    batch.iter().map(|message| Message::new(*message)).collect();
                match sender.try_send_batch(&mut batch) {
                    Ok(count) => Told::Sent(count),
                    Err(TrySendError::Full(())) => Told::Nothing,
                    Err(TrySendError::Disconnected(())) => Told::Closed,
                }
            }
            Asked::TryReceive => match receiver.try_recv() {
                Ok(message) => Told::Received(vec![message.number()]),
                Err(TryRecvError::Empty) => Told::Nothing,
                Err(TryRecvError::Disconnected) => Told::Closed,
            },
            Asked::Receive => match receiver.recv_deadline(soon) {
                Ok(message) => Told::Received(vec![message.number()]),
                Err(RecvTimeoutError::Timeout) => Told::Late,
                Err(RecvTimeoutError::Disconnected) => Told::Closed,
            },
            Asked::ReceiveAsync => match until(&mut receiver.recv_async(), soon) {
                Some(Ok(message)) => Told::Received(vec![message.number()]),
                Some(Err(RecvError)) => Told::Closed,
                None => Told::Late,
            },
            Asked::ReceiveMany(most) => {
                let mut messages = Vec::new();
                match receiver.try_recv_batch(&mut messages, *most) {
                    Ok(_) => Told::Received(messages.into_iter().map(Message::number).collect()),
                    Err(TryRecvError::Empty) => Told::Nothing,
                    Err(TryRecvError::Disconnected) => Told::Closed,
                }
            }
            Asked::Close => {
                sender.close();
                Told::Done
            }
            Asked::Look => look(receiver),
        };
        (asked, told)
    });
}

fn body<const N: usize>(party: &mut Party<Operation>, ends: &Ends<N>, is_async: bool) {
    // Different for all of them.
    let mut message = party.rng.next() >> 32 << 8;
    let mut new = || {
        message += 1;
        message
    };
    for _ in 0..3 + party.rng.below(4) {
        let asked = match party.rng.below(22) {
            0..=3 => Asked::TrySend(new()),
            4..=7 if is_async && party.rng.one_in(2) => Asked::SendAsync(new()),
            13..=16 if is_async && party.rng.one_in(2) => Asked::ReceiveAsync,
            4..=7 => Asked::Send(new()),
            8 => Asked::SendMany((0..2 + party.rng.below(2)).map(|_| new()).collect()),
            9..=12 => Asked::TryReceive,
            13..=16 => Asked::Receive,
            17 | 18 => Asked::ReceiveMany(2 + party.rng.below(2) as usize),
            19 | 20 => Asked::Look,
            _ if party.rng.one_in(3) => Asked::Close,
            _ => Asked::Send(new()),
        };
        ask(party, ends, asked);
    }
}

fn record_and_check<const N: usize>(capacity: usize, histories: usize, is_async: bool) {
    let (runtimes, mut rng) = (runtimes(), Rng::new(u64::from(std::process::id()), 19));
    for round in 0..histories {
        let ends = Arc::new(tube::<Message<N>>(capacity));
        let inside = ends.clone();
        let mut history = history(&runtimes[round % runtimes.len()], &mut rng, move |party| {
            body(party, &inside, is_async)
        });
        assert_linear(&Tubes { capacity }, &mut history, "a tube");
        // The message that came back last may stand there still.
        ends.1.try_iter().for_each(drop);
        assert_eq!(look(&ends.1), Told::Waiting(0, 0), "{ends:?}");
    }
}

#[test]
fn from_hand_to_hand() {
    record_and_check::<1>(0, 200, false);
    record_and_check::<150>(0, 100, false);
}

#[test]
fn with_room_for_one() {
    record_and_check::<1>(1, 200, false);
}

#[test]
fn with_room_for_some() {
    record_and_check::<1>(3, 200, false);
}

/// Futures among them, which are given up after some time: the messages they were given come back.
#[test]
fn futures_from_hand_to_hand() {
    record_and_check::<1>(0, 200, true);
    record_and_check::<150>(0, 100, true);
}

#[test]
fn futures_with_room() {
    record_and_check::<1>(1, 200, true);
    record_and_check::<1>(2, 200, true);
}
