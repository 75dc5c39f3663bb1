//! Waiting for the first of several different things.

use crate::ledger::{Ledger, Message};
use crate::messages::{Line, Lines, Messages, receive_one};
use crate::party::Party;
use crate::takings::Hold;
use crate::world::Intents;
use std::sync::Arc;
use std::time::Duration;
use umcg::select::{Operation, Select, Selectable, after};
use umcg::sync::{Acquiring, Semaphore};
use umcg::tube::Sender;

/// One of the semaphores, perhaps.
fn semaphore<'a>(
    party: &mut Party,
    takings: &'a crate::takings::Takings,
) -> Option<(usize, &'a Semaphore)> {
    let index = party.rng.below(takings.0.len() as u64) as usize;
    Some((index, takings.0[index].semaphore()?))
}

/// Waits in one of some ways; without an end only where there is one.
fn wait(
    party: &mut Party,
    operations: &mut [&mut dyn Selectable],
    mask: u64,
    may_wait: bool,
) -> Option<usize> {
    let select = if party.rng.one_in(2) {
        Select::new()
    } else {
        Select::new().biased()
    };
    match party.rng.below(if may_wait { 3 } else { 2 }) {
        0 => select.try_wait(operations),
        1 => select.wait_timeout(operations, party.short()),
        _ => {
            let _intent = party.intends(Intents::takings(mask, 1, false));
            Some(select.wait(operations))
        }
    }
}

fn outcome(party: &mut Party, acquiring: Option<(usize, Acquiring<'_>)>) {
    let hold = acquiring.and_then(|(index, mut operation)| {
        operation
            .outcome()
            .is_ok()
            .then(|| Hold::new(party, index, 1))
    });
    party.step();
    drop(hold);
}

/// Comes by, and takes a message or a wakeup.
pub(crate) fn one(party: &mut Party) {
    if party.rng.one_in(2) {
        let _ = party.cut(receive::<1>);
    } else {
        let _ = party.cut(receive::<40>);
    }
}

fn receive<const N: usize>(party: &mut Party)
where
    Messages: Lines<N>,
{
    let world = party.world.clone();
    let lines: &[Line<N>] = world.messages.lines();
    if party.rng.one_in(4) {
        if let Some(line) = lines.first() {
            receive_one(party, line);
        }
        return;
    }
    let mut befores: Vec<_> = lines.iter().map(|line| line.ledger.before()).collect();
    let mut receiving: Vec<_> = lines.iter().map(|line| line.receiver.receiving()).collect();
    let mut acquiring =
        semaphore(party, &world.takings).map(|(index, semaphore)| (index, semaphore.acquiring()));
    let mask = acquiring.as_ref().map_or(0, |(index, _)| 1 << index);
    let mut timer = after(party.short() + Duration::from_micros(100));
    let at = {
        let mut operations: Vec<&mut dyn Selectable> = receiving
            .iter_mut()
            .map(|one| one as &mut dyn Selectable)
            .collect();
        if let Some((_, operation)) = &mut acquiring {
            operations.push(operation);
        }
        if operations.is_empty() || party.rng.one_in(4) {
            operations.push(&mut timer);
        }
        wait(party, &mut operations, mask, true)
    };
    match at {
        Some(at) if at < receiving.len() => {
            if let Ok(message) = receiving[at].outcome() {
                message.receive(&mut befores[at]);
            }
        }
        Some(at) if at == receiving.len() && acquiring.is_some() => {
            drop(receiving);
            outcome(party, acquiring);
        }
        _ => {}
    }
}

/// Sends a message, or does something else.
pub(crate) fn send<const N: usize>(
    party: &mut Party,
    ledger: &Arc<Ledger>,
    number: usize,
    sender: &Sender<Message<N>>,
) {
    let world = party.world.clone();
    let mut sending = sender.sending(ledger.make(number));
    let mut acquiring =
        semaphore(party, &world.takings).map(|(index, semaphore)| (index, semaphore.acquiring()));
    let mask = acquiring.as_ref().map_or(0, |(index, _)| 1 << index);
    let at = {
        let mut operations: Vec<&mut dyn Selectable> = vec![&mut sending];
        if let Some((_, operation)) = &mut acquiring {
            operations.push(operation);
        }
        wait(party, &mut operations, mask, true)
    };
    match at {
        Some(0) => ledger.sent(number, usize::from(sending.outcome().is_ok())),
        Some(_) => {
            assert!(sending.into_inner().is_some(), "not sent");
            outcome(party, acquiring);
        }
        None => assert!(sending.into_inner().is_some(), "not sent"),
    }
}
