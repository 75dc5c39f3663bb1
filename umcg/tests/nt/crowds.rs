//! Many at once: nothing is lost or doubled, and objects for one at a time are held by one.

use crate::parties::{everywhere, join_all, waiters};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::*};
use std::time::Duration;
use umcg::nt::{BorrowedHandle, Event, Mutex, Owned, Semaphore, Wait, WaitError, Woken};

/// A xorshift generator.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

struct World {
    semaphores: [Semaphore; 3],
    mutexes: [Mutex; 2],
    inside: [AtomicU32; 2],
    bell: Event,
}

const TICKETS: u32 = 2;

impl World {
    /// That of one of the five.
    fn handle(&self, at: usize) -> BorrowedHandle<'_> {
        if at < 3 {
            self.semaphores[at].as_handle()
        } else {
            self.mutexes[at - 3].as_handle()
        }
    }

    /// Waits for any or all of some of the five, in any order, with a deadline or an alert at
    /// times; gives back what it has taken. Returns how much that was.
    fn visit(&self, random: &mut Random) -> usize {
        let mut order = [0, 1, 2, 3, 4];
        (1..5)
            .rev()
            .for_each(|n| order.swap(n, random.below(n as u64 + 1) as usize));
        let order = &order[..1 + random.below(4) as usize];
        let handles: Vec<_> = order.iter().map(|at| self.handle(*at)).collect();
        let is_all = random.below(2) == 0;
        let wait = if is_all {
            Wait::all(&handles)
        } else {
            Wait::any(&handles)
        };
        let wait = if random.below(4) == 0 {
            wait.alert(self.bell.as_handle())
        } else {
            wait
        };
        let woken = match random.below(4) {
            0 => wait.wait_timeout(Duration::from_micros(random.below(200))),
            _ => wait.wait(),
        };
        let taken = match woken {
            Ok(Woken::Object(_)) if is_all => order,
            Ok(Woken::Object(index)) => &order[index..=index],
            Ok(Woken::Alert) | Err(WaitError::TimedOut) => &[],
            other => panic!("{other:?}"),
        };
        for at in taken.iter().filter(|at| **at >= 3) {
            assert_eq!(
                self.inside[*at - 3].fetch_add(1, Relaxed),
                0,
                "one at a time"
            );
        }
        if random.below(4) == 0 {
            umcg::yield_now();
        }
        for at in taken {
            if *at < 3 {
                assert!(self.semaphores[*at].release(1).unwrap() < TICKETS);
            } else {
                self.inside[*at - 3].fetch_sub(1, Relaxed);
                self.mutexes[*at - 3].unlock().unwrap();
            }
        }
        if random.below(8) == 0 {
            if random.below(2) == 0 {
                self.bell.set()
            } else {
                self.bell.pulse()
            };
        }
        taken.len()
    }
}

#[test]
fn nothing_is_lost() {
    everywhere("crowds", |place| {
        let world = Arc::new(World {
            semaphores: [(); 3].map(|()| Semaphore::new(TICKETS, TICKETS).unwrap()),
            mutexes: [(); 2].map(|()| Mutex::new(false)),
            inside: [const { AtomicU32::new(0) }; 2],
            bell: Event::auto(false),
        });
        let parties = place.crowd(3, |n| {
            let world = world.clone();
            move || {
                let mut random = Random(0x9e37_79b9_7f4a_7c15 + n as u64);
                (0..150).map(|_| world.visit(&mut random)).sum::<usize>()
            }
        });
        assert!(join_all(parties).into_iter().all(|taken| taken > 0));
        for semaphore in &world.semaphores {
            assert_eq!((semaphore.count(), waiters(&**semaphore)), (TICKETS, 0));
        }
        for mutex in &world.mutexes {
            assert_eq!((mutex.owned(), waiters(&**mutex)), (Owned::Free, 0));
        }
    });
}

/// Of those that wait for either of two, each takes one: as many go on as there are to take.
#[test]
fn each_takes_one() {
    everywhere("each one", |place| {
        const EACH: u32 = 60;
        let pair = Arc::new([(); 2].map(|()| Semaphore::new(0, u32::MAX).unwrap()));
        let parties = place.crowd(2, |_| {
            let pair = pair.clone();
            move || {
                let mut taken = [0; 2];
                for _ in 0..EACH {
                    match Wait::any(&[pair[0].as_handle(), pair[1].as_handle()]).wait() {
                        Ok(Woken::Object(index)) => taken[index] += 1,
                        other => panic!("{other:?}"),
                    }
                }
                taken
            }
        });
        let total = parties.len() as u32 * EACH;
        for n in 0..total {
            pair[n as usize % 2].release(1).unwrap();
        }
        let taken = join_all(parties)
            .into_iter()
            .fold([0, 0], |sum, taken| [sum[0] + taken[0], sum[1] + taken[1]]);
        assert_eq!(taken, [total / 2, total / 2]);
        assert!(
            pair.iter()
                .all(|semaphore| semaphore.count() == 0 && waiters(&**semaphore) == 0)
        );
    });
}
