//! Futures run by workers and threads.

use crate::support::{child_succeeds, counter, is_child, over, over_servers};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Ready after this many polls; wakes itself by `wake`.
struct Steps<W> {
    left: u32,
    wake: W,
}

impl<W: FnMut(Waker) + Unpin> Future for Steps<W> {
    type Output = &'static str;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<&'static str> {
        if self.left == 0 {
            return Poll::Ready("done");
        }
        self.left -= 1;
        (self.wake)(context.waker().clone());
        Poll::Pending
    }
}

/// Wakes at once, from a thread, from a worker, from several.
fn all_sorts() {
    let at_once = Steps {
        left: 100,
        wake: |waker: Waker| waker.wake(),
    };
    assert_eq!(umcg::block_on(at_once), "done");
    let by_ref = Steps {
        left: 100,
        wake: |waker: Waker| waker.wake_by_ref(),
    };
    assert_eq!(umcg::block_on(by_ref), "done");
    let by_thread = |waker: Waker| {
        drop(std::thread::spawn(move || {
            (std::thread::sleep(Duration::from_micros(50)), waker.wake())
        }))
    };
    assert_eq!(
        umcg::block_on(Steps {
            left: 10,
            wake: by_thread
        }),
        "done"
    );
    let by_worker = |waker: Waker| drop(umcg::spawn(move || (umcg::yield_now(), waker.wake())));
    assert_eq!(
        umcg::block_on(Steps {
            left: 50,
            wake: by_worker
        }),
        "done"
    );
    let by_many = |waker: Waker| {
        for _ in 0..5 {
            let waker = waker.clone();
            drop(umcg::spawn(move || waker.wake_by_ref()));
        }
    };
    assert_eq!(
        umcg::block_on(Steps {
            left: 50,
            wake: by_many
        }),
        "done"
    );
}

#[test]
fn wakers_of_all_sorts() {
    over("wakers", |runtime, kind| {
        kind.run(runtime, all_sorts);
        kind.run(runtime, || umcg::blocking(all_sorts));
    });
    all_sorts();
}

#[test]
fn await_in_await() {
    async fn sum(depth: u32, waits: Arc<AtomicUsize>) -> u32 {
        let count = waits.clone();
        let wake = move |waker: Waker| {
            count.fetch_add(1, Relaxed);
            waker.wake();
        };
        Steps { left: 1, wake }.await;
        if depth == 0 {
            1
        } else {
            1 + Box::pin(sum(depth - 1, waits)).await
        }
    }
    over_servers("spawn_future", |runtime| {
        let waits = counter();
        let count = waits.clone();
        runtime.run(move || {
            let futures: Vec<_> = (0..20)
                .map(|_| umcg::spawn_future(sum(20, count.clone())))
                .collect();
            assert_eq!(
                futures
                    .into_iter()
                    .map(|future| future.join().unwrap())
                    .sum::<u32>(),
                420
            );
        });
        assert_eq!(waits.load(Relaxed), 420);
    });
}

/// A waker outlives its worker, and the future that had it.
#[test]
fn stale_wakers() {
    over("stale wakers", |runtime, kind| {
        let kept: Arc<Mutex<Vec<Waker>>> = Arc::default();
        for _ in 0..50 {
            let keep = kept.clone();
            let wake = move |waker: Waker| {
                keep.lock().unwrap().push(waker.clone());
                waker.wake();
            };
            let future = Steps { left: 1, wake };
            kind.run(runtime, move || umcg::block_on(future));
            kept.lock().unwrap().iter().for_each(Waker::wake_by_ref);
        }
        kept.lock().unwrap().drain(..).for_each(Waker::wake);
    });
}

/// A channel of one value, by hand.
#[derive(Default)]
struct Shared {
    value: Mutex<(Option<u64>, Option<Waker>)>,
}

struct Receive(Arc<Shared>);

impl Future for Receive {
    type Output = u64;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<u64> {
        let mut state = self.0.value.lock().unwrap();
        match state.0.take() {
            Some(value) => Poll::Ready(value),
            None => {
                state.1 = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

#[test]
fn values_between_futures_and_threads() {
    over("channels", |runtime, kind| {
        for n in 0..100 {
            let shared = Arc::new(Shared::default());
            let future = Receive(shared.clone());
            let receiver = kind.spawn_on(runtime, move || umcg::block_on(future));
            let mut state = shared.value.lock().unwrap();
            state.0 = Some(n);
            let waker = state.1.take();
            drop(state);
            if let Some(waker) = waker {
                waker.wake();
            }
            assert_eq!(receiver.join().unwrap(), n);
        }
    });
}

/// Registers its waker, and then waits for something else in the same `poll`, as two futures do
/// that are polled together: the waker is called meanwhile.
struct Both {
    is_there: Arc<AtomicUsize>,
    registered: bool,
    waits: fn(),
}

impl Future for Both {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.is_there.load(Acquire) == 1 {
            return Poll::Ready(());
        }
        if !std::mem::replace(&mut self.registered, true) {
            let (is_there, waker) = (self.is_there.clone(), context.waker().clone());
            let caller = std::thread::spawn(move || {
                is_there.store(1, Release);
                waker.wake();
            });
            (self.waits)();
            caller.join().unwrap();
            (self.waits)();
        }
        Poll::Pending
    }
}

#[test]
fn a_waker_is_heard_while_poll_waits() {
    fn all() {
        let waits: [fn(); 4] = [
            || umcg::sleep(Duration::from_millis(2)),
            || assert!([true, false].contains(&umcg::park_timeout(Duration::from_millis(2)))),
            || drop(umcg::spawn(|| umcg::sleep(Duration::from_millis(1))).join()),
            || {
                let within = Steps {
                    left: 2,
                    wake: |waker: Waker| waker.wake(),
                };
                assert_eq!(umcg::block_on(within), "done");
            },
        ];
        for waits in waits {
            umcg::block_on(Both {
                is_there: counter(),
                registered: false,
                waits,
            });
        }
    }
    over("wakers in polls", |runtime, kind| {
        kind.run(runtime, all);
        kind.run(runtime, || umcg::blocking(all));
    });
    all();
}

/// A future that is not ready is polled when it was woken, and not in between. Alone in a process:
/// the stale wakers of other tests may wake it.
#[test]
fn a_future_that_waits_is_not_polled() {
    const TEST: &str = "futures::a_future_that_waits_is_not_polled";
    if !is_child(TEST) {
        return child_succeeds(TEST);
    }
    over("idle futures", |runtime, kind| {
        let polls = counter();
        let count = polls.clone();
        let shared = Arc::new(Shared::default());
        let mut receive = Receive(shared.clone());
        let waits = kind.spawn_on(runtime, move || {
            umcg::block_on(std::future::poll_fn(|context| {
                count.fetch_add(1, Relaxed);
                Pin::new(&mut receive).poll(context)
            }))
        });
        for n in 1..=10 {
            crate::support::eventually("it was polled", || polls.load(Relaxed) >= n);
            umcg::sleep(Duration::from_micros(300));
            let waker = loop {
                if let Some(waker) = shared.value.lock().unwrap().1.take() {
                    break waker;
                }
                umcg::yield_now();
            };
            if n == 10 {
                shared.value.lock().unwrap().0 = Some(7);
            }
            waker.wake();
        }
        assert_eq!(waits.join().unwrap(), 7);
        assert_eq!(polls.load(Relaxed), 11, "{kind:?}");
    });
}
