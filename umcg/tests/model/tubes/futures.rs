//! Futures of tubes, among those that wait in other ways.

use super::*;

/// A task that polls when it is called, and only then.
#[derive(Default)]
struct Called(AtomicBool);

impl Wake for Called {
    fn wake(self: Arc<Self>) {
        self.0.store(true, SeqCst);
    }
}

fn poll<F: Future + Unpin>(future: &mut F, called: &Arc<Called>) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(&Waker::from(called.clone())))
}

fn run<F: Future + Unpin>(mut future: F) -> F::Output {
    let called = Arc::<Called>::default();
    loop {
        if let Poll::Ready(output) = poll(&mut future, &called) {
            return output;
        }
        while !called.0.swap(false, SeqCst) {
            thread::yield_now();
        }
    }
}

/// Ends for ever, so that a task that is forgotten by a failure finds them.
fn ends<T: Send + 'static>(capacity: usize) -> (&'static Sender<T>, &'static Receiver<T>) {
    let (sender, receiver) = Box::leak(Box::new(ends::tube(capacity)));
    (sender, receiver)
}

/// Polls until this many polls were in vain, as it is called or before: the rest of it is the
/// future's end.
fn some_polls<F: Future + Unpin>(future: &mut F, polls: usize) -> Option<F::Output> {
    let called = Arc::<Called>::default();
    for _ in 0..polls {
        if let Poll::Ready(output) = poll(future, &called) {
            return Some(output);
        }
        thread::yield_now();
    }
    None
}

/// The ways to wait.
#[derive(Clone, Copy, PartialEq)]
enum How {
    Plainly,
    Future,
    Select,
}

use How::{Future as AsFuture, Plainly, Select};

/// One operation, waited for as one of many.
struct Alone<'a>(&'a dyn OperationParts);

impl engine::Alternatives for Alone<'_> {
    fn len(&self) -> usize {
        1
    }

    fn queue(&self, _: usize) -> Option<&dyn SelectQueue> {
        self.0.queue()
    }

    fn place(&self, _: usize) -> &Place {
        self.0.place()
    }

    fn note(&self, _: usize) -> usize {
        self.0.note()
    }

    fn finish(&self, _: usize, note: usize) -> bool {
        self.0.finish(note)
    }
}

fn send_by<T: Send>(sender: &Sender<T>, message: T, how: How) -> bool {
    match how {
        Plainly => sender.send(message).is_ok(),
        AsFuture => run(sender.send_async(message)).is_ok(),
        Select => {
            let mut sending = sender.sending(message);
            engine::any(&Alone(&sending), LookOrder::in_turn(1), &"test", NEVER);
            sending.outcome().is_ok()
        }
    }
}

fn receive_by<T: Send>(receiver: &Receiver<T>, how: How) -> Option<T> {
    match how {
        Plainly => receiver.recv().ok(),
        AsFuture => run(receiver.recv_async()).ok(),
        Select => {
            let mut receiving = receiver.receiving();
            engine::any(&Alone(&receiving), LookOrder::in_turn(1), &"test", NEVER);
            receiving.outcome().ok()
        }
    }
}

/// Futures on both sides, and beside them other kinds of waiters: everything comes through.
fn futures_among_others(capacity: usize, senders: [How; 2], receivers: [How; 2]) {
    let (sender, receiver) = ends::tube::<u64>(capacity);
    let senders = [0, 1].map(|n: usize| {
        let sender = sender.clone();
        worker(move || assert!(send_by(&sender, n as u64 + 1, senders[n])))
    });
    let receivers = [0, 1].map(|n: usize| {
        let receiver = receiver.clone();
        worker(move || receive_by(&receiver, receivers[n]).unwrap())
    });
    join_all(senders);
    let mut taken = join_all(receivers);
    taken.sort_unstable();
    assert_eq!(taken, [1, 2]);
    on_a_task_of(move || drop((sender, receiver)));
}

#[test]
fn futures_are_called() {
    check(|| futures_among_others(1, [AsFuture; 2], [AsFuture; 2]));
    check(|| futures_among_others(1, [Plainly, AsFuture], [AsFuture; 2]));
    check(|| futures_among_others(1, [AsFuture; 2], [Plainly, AsFuture]));
    check(|| futures_among_others(1, [Select, AsFuture], [AsFuture, Select]));
}

#[test]
fn futures_meet_without_room() {
    check(|| futures_among_others(0, [AsFuture; 2], [AsFuture; 2]));
    check(|| futures_among_others(0, [Plainly, AsFuture], [AsFuture, Plainly]));
    check(|| futures_among_others(0, [Select, AsFuture], [AsFuture, Select]));
}

/// A receiver that is given up after some polls leaves the message to the other, whatever it was
/// told.
fn a_receiver_is_given_up<T: Send + From<u8> + PartialEq + Debug + 'static>(
    capacity: usize,
    how: How,
) {
    let (sender, receiver) = ends::<T>(capacity);
    let fickle = worker(|| some_polls(&mut receiver.recv_async(), 2).is_some());
    let faithful = worker(move || receive_by(receiver, how).unwrap());
    join_all([worker(|| sender.send(T::from(1)).unwrap())]);
    if fickle.join().unwrap() {
        join_all([worker(|| sender.send(T::from(1)).unwrap())]);
    }
    assert_eq!(faithful.join().unwrap(), T::from(1));
    assert_eq!(receiver.len(), 0);
}

/// A message that is copied outside of the lock.
#[derive(PartialEq, Debug)]
struct Large([u8; 1100]);

impl From<u8> for Large {
    fn from(number: u8) -> Large {
        Large([number; 1100])
    }
}

#[test]
fn a_future_that_is_dropped_takes_no_message_along() {
    check(|| a_receiver_is_given_up::<u64>(0, AsFuture));
    check(|| a_receiver_is_given_up::<u64>(0, Plainly));
    check(|| a_receiver_is_given_up::<u64>(1, AsFuture));
    check(|| a_receiver_is_given_up::<u64>(1, Select));
    check(|| a_receiver_is_given_up::<Large>(0, AsFuture));
    check(|| a_receiver_is_given_up::<Large>(1, AsFuture));
}

/// A sender that is given up has sent its message, or has it.
fn a_sender_is_given_up<T: Send + From<u8> + 'static>(capacity: usize) {
    let (sender, receiver) = ends::<T>(capacity);
    (0..capacity).for_each(|_| on_a_task(|| sender.send(T::from(1)).unwrap()));
    let fickle = worker(|| {
        let mut future = sender.send_async(T::from(2));
        some_polls(&mut future, 2);
        future.into_inner().is_none()
    });
    let faithful = worker(|| run(sender.send_async(T::from(3))).is_ok());
    let taker = worker(move || (0..=capacity).for_each(|_| drop(receiver.recv().unwrap())));
    taker.join().unwrap();
    if fickle.join().unwrap() {
        on_a_task(|| drop(receiver.recv().unwrap()));
    }
    assert!(faithful.join().unwrap());
    assert!(on_a_task_of(|| receiver.try_recv().is_err()));
}

#[test]
fn a_sending_future_that_is_dropped_has_sent_or_not() {
    check(|| a_sender_is_given_up::<u64>(0));
    check(|| a_sender_is_given_up::<u64>(1));
    check(|| a_sender_is_given_up::<Large>(1));
}

/// Two futures of one receiver, of which it drops the first at some time: it has the messages in
/// their order nevertheless.
fn in_order_without_the_first(capacity: usize) {
    let (sender, receiver) = ends::<u64>(capacity);
    let [first, mut second] = on_a_task_of(|| {
        [(); 2].map(|()| {
            let mut future = receiver.recv_async();
            assert!(some_polls(&mut future, 1).is_none());
            future
        })
    });
    let taken = worker(move || {
        drop(first);
        let mut taken: Vec<_> = some_polls(&mut second, 2).into_iter().collect();
        drop(second);
        taken.extend(
            (taken.len()..3)
                .map(|_| receiver.recv())
                .collect::<Vec<_>>(),
        );
        taken.into_iter().map(Result::unwrap).collect::<Vec<_>>()
    });
    join_all([worker(|| {
        (1..=3).for_each(|number| sender.send(number).unwrap())
    })]);
    assert_eq!(taken.join().unwrap(), [1, 2, 3]);
}

#[test]
fn messages_of_dropped_futures_come_back_in_order() {
    check(|| in_order_without_the_first(0));
    check(|| in_order_without_the_first(1));
    check(|| in_order_without_the_first(3));
}

/// A message that comes back from a future while all room is held comes before one that is
/// committed later; a waiting sender comes after both.
fn committed_after_what_comes_back() {
    let (sender, receiver) = ends::<u64>(1);
    let room = on_a_task_of(|| sender.reserve().unwrap());
    let future = on_a_task_of(|| {
        let mut future = receiver.recv_async();
        assert!(some_polls(&mut future, 1).is_none());
        future
    });
    let gives_up = worker(move || drop(future));
    let sends = worker(move || {
        sender.send(1).unwrap();
        room.send(2).unwrap();
        sender.send(3).unwrap();
    });
    // Before that a later message may be received.
    gives_up.join().unwrap();
    let taken = worker(|| [(); 3].map(|()| receiver.recv().unwrap()));
    sends.join().unwrap();
    assert_eq!(taken.join().unwrap(), [1, 2, 3]);
}

#[test]
fn what_comes_back_is_before_what_is_committed_later() {
    check(committed_after_what_comes_back);
}

/// A message sent to futures is received or left, and a failed send is reported, when the tube is
/// closed meanwhile.
fn closed_with_futures(capacity: usize) {
    let (sender, receiver) = ends::<u64>(capacity);
    let senders = [1, 2].map(|number| {
        worker(move || {
            let mut future = sender.send_async(number);
            let told = some_polls(&mut future, 2);
            let is_sent = future.into_inner().is_none();
            assert!(told != Some(Ok(())) || is_sent);
            if let Some(Err(SendError(message))) = told {
                assert_eq!(message, number);
                return false;
            }
            is_sent
        })
    });
    let receivers =
        [0, 1].map(|_| worker(|| some_polls(&mut receiver.recv_async(), 2).and_then(Result::ok)));
    let closer = worker(|| sender.close());
    let sent = join_all(senders).into_iter().filter(|sent| *sent).count();
    closer.join().unwrap();
    let received: Vec<_> = join_all(receivers).into_iter().flatten().collect();
    let left: Vec<_> = on_a_task_of(|| receiver.iter().collect());
    assert_eq!(sent, received.len() + left.len());
    assert!(!received.iter().any(|message| left.contains(message)));
}

#[test]
fn a_tube_is_closed_while_futures_wait() {
    check(|| closed_with_futures(0));
    check(|| closed_with_futures(1));
}
