//! Tubes: senders of their own, which close them by their end; receivers that stay to the end, and
//! others that come by.

use crate::harness::Rng;
use crate::ledger::{Ledger, Message};
use crate::party::Party;
use crate::world::{World, told};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use umcg::tube::{Receiver, RecvTimeoutError, Sender, TryRecvError, tube};

/// The work of a party, and whether it may be aborted.
pub(crate) type Body = (Box<dyn FnOnce(Party) + Send>, bool);

/// One tube.
#[derive(Debug)]
pub(crate) struct Line<const N: usize> {
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) receiver: Receiver<Message<N>>,
    /// For the senders; no other party has it afterwards.
    sender: Mutex<Option<Sender<Message<N>>>>,
    senders: usize,
}

/// The tubes: of messages that are copied under the lock, and of those that have a place in the
/// tube.
#[derive(Debug)]
pub(crate) struct Messages {
    pub(crate) small: Vec<Line<1>>,
    pub(crate) large: Vec<Line<40>>,
}

/// Where messages of one size are.
pub(crate) trait Lines<const N: usize> {
    fn lines(&self) -> &[Line<N>];
}

impl Lines<1> for Messages {
    fn lines(&self) -> &[Line<1>] {
        &self.small
    }
}

impl Lines<40> for Messages {
    fn lines(&self) -> &[Line<40>] {
        &self.large
    }
}

impl<const N: usize> Line<N> {
    fn new(rng: &mut Rng) -> Line<N> {
        let senders = 1 + rng.below(3) as usize;
        let (sender, receiver) = tube(rng.pick(&[0, 0, 1, 2, 3, 7, 40]));
        Line {
            ledger: Arc::new(Ledger::new(senders)),
            receiver,
            sender: Mutex::new(Some(sender)),
            senders,
        }
    }

    /// A receiver waits for a message that is there.
    fn stranded(&self) -> bool {
        let tube = &self.receiver;
        let (senders, receivers) = (
            told(tube, "waiting_senders"),
            told(tube, "waiting_receivers"),
        );
        let is_closed = tube.is_closed();
        (receivers > 0 && (senders > 0 || is_closed || !tube.is_empty()))
            || (senders > 0 && (is_closed || tube.len() < tube.capacity()))
    }

    fn check(&self) {
        self.ledger.check();
        let tube = &self.receiver;
        assert_eq!(
            (
                told(tube, "waiting_senders"),
                told(tube, "waiting_receivers"),
                tube.len()
            ),
            (0, 0, 0),
            "{tube:?}"
        );
    }
}

impl Messages {
    pub(crate) fn new(rng: &mut Rng) -> Messages {
        let small = (0..rng.below(3)).map(|_| Line::new(rng)).collect();
        Messages {
            small,
            large: (0..rng.below(2)).map(|_| Line::new(rng)).collect(),
        }
    }

    pub(crate) fn close_one(&self, rng: &mut Rng) {
        let count = (self.small.len() + self.large.len()).max(1) as u64;
        let index = rng.below(count) as usize;
        if let Some(line) = self.small.get(index) {
            line.receiver.close();
        } else if let Some(line) = self.large.get(index - self.small.len()) {
            line.receiver.close();
        }
    }

    pub(crate) fn stranded(&self) -> Option<String> {
        let small = self
            .small
            .iter()
            .find(|line| line.stranded())
            .map(|line| format!("{:?}", line.receiver));
        let large = || {
            self.large
                .iter()
                .find(|line| line.stranded())
                .map(|line| format!("{:?}", line.receiver))
        };
        small
            .or_else(large)
            .map(|tube| format!("somebody waits at {tube}"))
    }

    pub(crate) fn check(&self) {
        self.small.iter().for_each(Line::check);
        self.large.iter().for_each(Line::check);
    }
}

/// All senders, and the receivers that stay to the end.
pub(crate) fn bodies(world: &World, rng: &mut Rng) -> Vec<Body> {
    let mut bodies = Vec::new();
    bodies_of::<1>(&world.messages, rng, &mut bodies);
    bodies_of::<40>(&world.messages, rng, &mut bodies);
    bodies
}

fn bodies_of<const N: usize>(messages: &Messages, rng: &mut Rng, bodies: &mut Vec<Body>)
where
    Messages: Lines<N>,
{
    for (index, line) in messages.lines().iter().enumerate() {
        let sender = line
            .sender
            .lock()
            .unwrap()
            .take()
            .expect("for those who send");
        for number in 0..line.senders {
            let sender = sender.clone();
            bodies.push((
                Box::new(move |party| send::<N>(party, index, number, &sender)),
                rng.one_in(3),
            ));
        }
        bodies.push((
            Box::new(move |party| receive_to_the_end::<N>(party, index)),
            false,
        ));
    }
}

fn send<const N: usize>(mut party: Party, index: usize, number: usize, sender: &Sender<Message<N>>)
where
    Messages: Lines<N>,
{
    let ledger = party.world.messages.lines()[index].ledger.clone();
    for _ in 0..party.rng.below(60) {
        party.step();
        if !ledger.may_make(number) || sender.is_closed() {
            return;
        }
        party.cut(|party| send_one(party, &ledger, number, sender));
    }
}

fn send_one<const N: usize>(
    party: &mut Party,
    ledger: &Arc<Ledger>,
    number: usize,
    sender: &Sender<Message<N>>,
) {
    let message = || ledger.make(number);
    let (short, soon) = (party.short(), party.soon());
    let sent = match party.rng.below(if sender.capacity() > 0 { 12 } else { 9 }) {
        0 | 1 => sender.send(message()).is_ok(),
        2 => sender.try_send(message()).is_ok(),
        3 => send_stubbornly(party, sender, message()),
        4 => sender.send_deadline(message(), soon).is_ok(),
        5 | 6 => return send_batch(party, ledger, number, sender),
        7 | 8 => return crate::select::send(party, ledger, number, sender),
        9 => sender
            .try_reserve()
            .is_ok_and(|reserved| reserved.send(message()).is_ok()),
        10 => sender
            .reserve_timeout(short)
            .is_ok_and(|reserved| reserved.write(message()).commit().is_ok()),
        _ => {
            let Ok(reserved) = sender.reserve() else {
                return;
            };
            let pause = party.short() / 4;
            umcg::sleep(pause);
            reserved.write(message()).commit().is_ok()
        }
    };
    ledger.sent(number, usize::from(sent));
}

/// The same message again and again, as long as it comes back.
fn send_stubbornly<const N: usize>(
    party: &mut Party,
    sender: &Sender<Message<N>>,
    mut message: Message<N>,
) -> bool {
    for _ in 0..5 {
        message = match sender.send_timeout(message, party.short()) {
            Ok(()) => return true,
            Err(error) if error.is_disconnected() => return false,
            Err(error) => error.into_inner(),
        };
    }
    sender.send(message).is_ok()
}

/// Messages to send, and how many of them were: also when the wait is cancelled, which drops the
/// message that it waited with.
struct Batch<'a, const N: usize> {
    messages: VecDeque<Message<N>>,
    before: usize,
    has_returned: bool,
    ledger: &'a Ledger,
    number: usize,
}

impl<const N: usize> Drop for Batch<'_, N> {
    fn drop(&mut self) {
        let dropped = usize::from(!self.has_returned);
        self.ledger
            .sent(self.number, self.before - self.messages.len() - dropped);
    }
}

fn send_batch<const N: usize>(
    party: &mut Party,
    ledger: &Arc<Ledger>,
    number: usize,
    sender: &Sender<Message<N>>,
) {
    let before = party.rng.below(10) as usize;
    let messages = (0..before).map(|_| ledger.make(number)).collect();
    let mut batch = Batch {
        messages,
        before,
        has_returned: false,
        ledger,
        number,
    };
    let short = party.short();
    match party.rng.below(3) {
        0 => drop(sender.send_batch(&mut batch.messages)),
        1 => drop(sender.try_send_batch(&mut batch.messages)),
        _ => drop(sender.send_batch_timeout(&mut batch.messages, short)),
    }
    batch.has_returned = true;
}

fn receive_to_the_end<const N: usize>(mut party: Party, index: usize)
where
    Messages: Lines<N>,
{
    let world = party.world.clone();
    let line = &world.messages.lines()[index];
    while !party.cut(|party| receive_one(party, line)).unwrap_or(false) {
        party.step();
    }
}

/// True when the tube is closed and empty.
pub(crate) fn receive_one<const N: usize>(party: &mut Party, line: &Line<N>) -> bool {
    let (short, soon) = (party.short(), party.soon());
    let (tube, mut before) = (&line.receiver, line.ledger.before());
    match party.rng.below(9) {
        0 | 1 => tube
            .recv()
            .map(|message| message.receive(&mut before))
            .is_err(),
        2 => matches!(
            tube.try_recv().map(|message| message.receive(&mut before)),
            Err(TryRecvError::Disconnected)
        ),
        3 => is_over(
            tube.recv_timeout(short)
                .map(|message| message.receive(&mut before)),
        ),
        4 => is_over(
            tube.recv_deadline(soon)
                .map(|message| message.receive(&mut before)),
        ),
        5 | 6 => {
            let (mut messages, most) = (Vec::new(), 1 + party.rng.below(12) as usize);
            let received = match party.rng.below(2) {
                0 => tube
                    .recv_batch(&mut messages, most)
                    .map_err(|_| RecvTimeoutError::Disconnected),
                _ => tube.recv_batch_timeout(&mut messages, most, short),
            };
            messages
                .into_iter()
                .for_each(|message| message.receive(&mut before));
            is_over(received)
        }
        7 => {
            let received = tube
                .recv_ref_timeout(short)
                .map(|mut message| message.receive_in_place(&mut before));
            is_over(received)
        }
        _ => match tube.recv_ref() {
            Err(_) => true,
            Ok(mut message) => {
                message.receive_in_place(&mut before);
                umcg::sleep(short / 4);
                false
            }
        },
    }
}

fn is_over<R>(received: Result<R, RecvTimeoutError>) -> bool {
    matches!(received, Err(RecvTimeoutError::Disconnected))
}
