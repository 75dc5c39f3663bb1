//! Tubes, by their public interface: over numbers of servers and both kinds of workers, and between
//! kernel threads.

mod batches;
mod cancels;
mod closes;
mod crowds;
mod futures;
mod in_place;
mod orders;
mod plain;
mod selects;
#[allow(dead_code, reason = "shared with the tests of the runtime")]
#[path = "../rt/support.rs"]
mod support;

use umcg::tube::{Receiver, Sender};

/// A message that is copied outside of the lock.
type Large = [u64; 150];

fn large(number: u64) -> Large {
    [number; 150]
}

/// The number of a large message that is whole.
#[track_caller]
fn number_of(message: &Large) -> u64 {
    assert!(
        message.iter().all(|word| *word == message[0]),
        "torn: {message:?}"
    );
    message[0]
}

/// A number that a debug print of an end has.
fn field(end: &impl std::fmt::Debug, name: &str) -> usize {
    let text = format!("{end:?}");
    let (_, after) = text.split_once(&format!("{name}: ")).unwrap();
    after
        .split(|letter: char| !letter.is_ascii_digit())
        .next()
        .unwrap()
        .parse()
        .unwrap()
}

/// Until this many wait to send.
#[track_caller]
fn until_senders_wait<T>(sender: &Sender<T>, count: usize) {
    support::eventually("senders wait", || field(sender, "waiting_senders") == count);
}

/// Until this many wait to receive.
#[track_caller]
fn until_receivers_wait<T>(receiver: &Receiver<T>, count: usize) {
    support::eventually("receivers wait", || {
        field(receiver, "waiting_receivers") == count
    });
}
