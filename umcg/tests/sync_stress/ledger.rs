//! The fate of each message: it is received, once, or dropped by the sender that could not send it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::*};

const RECEIVED: u8 = 1;
const DROPPED: u8 = 2;

/// The most that one sends.
const MOST: usize = 512;

/// Of one sender.
struct Account {
    fates: Box<[AtomicU8]>,
    made: AtomicU32,
    sent: AtomicU32,
    received: AtomicU32,
    /// The last that was received, and 1.
    last: AtomicU32,
}

/// Of one tube.
#[derive(Debug)]
pub(crate) struct Ledger(Vec<Account>);

/// A message, which knows its sender.
#[derive(Debug)]
pub(crate) struct Message<const N: usize> {
    ledger: Arc<Ledger>,
    sender: u32,
    number: u32,
    fate: u8,
    body: [u64; N],
}

/// The count that all had received of each sender at some moment.
pub(crate) struct Before(Vec<u32>);

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fates = &self.fates[..self.made.load(Relaxed) as usize];
        write!(
            f,
            "{:?} sent, {:?} received, {fates:?}",
            self.sent, self.received
        )
    }
}

impl Ledger {
    pub(crate) fn new(senders: usize) -> Ledger {
        let account = || Account {
            fates: (0..MOST).map(|_| AtomicU8::new(0)).collect(),
            made: AtomicU32::new(0),
            sent: AtomicU32::new(0),
            received: AtomicU32::new(0),
            last: AtomicU32::new(0),
        };
        Ledger((0..senders).map(|_| account()).collect())
    }

    /// The next of this sender, which alone asks.
    pub(crate) fn make<const N: usize>(self: &Arc<Ledger>, sender: usize) -> Message<N> {
        let number = self.0[sender].made.fetch_add(1, Relaxed);
        let mark = u64::from(number) << 32 | sender as u64;
        Message {
            ledger: self.clone(),
            sender: sender as u32,
            number,
            fate: DROPPED,
            body: [mark; N],
        }
    }

    pub(crate) fn may_make(&self, sender: usize) -> bool {
        (self.0[sender].made.load(Relaxed) as usize) < MOST - 16
    }

    /// This many were sent, as the tube said.
    pub(crate) fn sent(&self, sender: usize, count: usize) {
        self.0[sender].sent.fetch_add(count as u32, Relaxed);
    }

    /// Before a message is received. The message received then is not older than those that had
    /// been received of the same sender.
    pub(crate) fn before(&self) -> Before {
        Before(
            self.0
                .iter()
                .map(|account| account.last.load(SeqCst))
                .collect(),
        )
    }

    /// In the end. Every sent message was received.
    pub(crate) fn check(&self) {
        for (sender, account) in self.0.iter().enumerate() {
            let made = account.made.load(SeqCst) as usize;
            let (sent, received) = (account.sent.load(SeqCst), account.received.load(SeqCst));
            let lost = account.fates[..made]
                .iter()
                .position(|fate| fate.load(SeqCst) == 0);
            assert_eq!(
                (sent, lost),
                (received, None),
                "sender {sender}: sent and received, and a lost one"
            );
        }
    }
}

impl<const N: usize> Message<N> {
    /// It came out of the tube.
    pub(crate) fn receive(mut self, before: &mut Before) {
        self.receive_in_place(before);
    }

    /// The same, where it lies.
    pub(crate) fn receive_in_place(&mut self, before: &mut Before) {
        let mark = u64::from(self.number) << 32 | u64::from(self.sender);
        assert!(
            self.body.iter().all(|word| *word == mark),
            "a message was overwritten: {:x?}",
            self.body
        );
        let account = &self.ledger.0[self.sender as usize];
        let late = before.0[self.sender as usize];
        assert!(
            self.number >= late,
            "{} of sender {} comes after {}",
            self.number,
            self.sender,
            late - 1
        );
        before.0[self.sender as usize] = self.number + 1;
        account.received.fetch_add(1, SeqCst);
        account.last.fetch_max(self.number + 1, SeqCst);
        self.fate = RECEIVED;
    }
}

impl<const N: usize> Drop for Message<N> {
    fn drop(&mut self) {
        let before =
            self.ledger.0[self.sender as usize].fates[self.number as usize].swap(self.fate, SeqCst);
        assert_eq!(
            before, 0,
            "message {} of sender {}: {} and {before}",
            self.number, self.sender, self.fate
        );
    }
}
