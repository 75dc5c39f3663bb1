//! Masks that homes hear of late (`intercept/untold.rs`, `intercept/freed.rs`): in the end the home
//! of each guest that lasts looks for the signals that the guest lets through. A signal of another
//! process, which only the home can find, is lost otherwise.
//!
//! The list, the courier's pause and the changes of masks are the sources' own. Here are the homes,
//! and a state that is another guest's after its first one's end.

use crate::rt::time as clock;
use crate::{check, kernel};
use guest::Guest;
use home::next_called;
use shuttle::future;
use shuttle::thread::{spawn, yield_now};
use std::sync::atomic::Ordering::SeqCst;

#[allow(dead_code, reason = "no signal is sent here")]
#[path = "../../src/intercept/freed.rs"]
mod freed;
#[path = "../../src/intercept/untold.rs"]
mod untold;

/// As `intercept/guest.rs` and `intercept/notes.rs` have it.
mod guest {
    use super::home::{ALL, Adopted};
    use shuttle::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64};
    use std::cell::Cell;
    use std::sync::atomic::Ordering::SeqCst;

    #[derive(Default)]
    pub(super) struct Notes {
        pub(super) is_fresh: AtomicBool,
        pub(super) is_untold: AtomicBool,
        pub(super) is_new: AtomicBool,
        pub(super) is_listed: AtomicBool,
        pub(super) next_untold: AtomicPtr<Guest>,
        pub(super) sent: AtomicU64,
    }

    pub(super) struct Guest {
        tid: AtomicU32,
        pub(super) home: Notes,
    }

    shuttle::thread_local! {
        static CURRENT: Cell<Option<&'static Guest>> = const { Cell::new(None) };
    }

    impl Guest {
        pub(super) fn make() -> &'static Guest {
            Box::leak(Box::new(Guest {
                tid: AtomicU32::new(0),
                home: Notes::default(),
            }))
        }

        /// As `homes::make`: it begins at the home with this id, which was told of nothing.
        pub(super) fn begin(&'static self, tid: u32) {
            let home = &ALL[tid as usize];
            self.home.is_untold.store(false, SeqCst);
            self.home.is_fresh.store(true, SeqCst);
            self.home.is_new.store(true, SeqCst);
            home.begin();
            self.tid.store(tid, SeqCst);
            CURRENT.with(|current| current.set(Some(self)));
        }

        pub(super) fn current() -> Option<&'static Guest> {
            CURRENT.with(Cell::get)
        }

        pub(super) fn tid(&self) -> Option<u32> {
            Some(self.tid.load(SeqCst)).filter(|tid| *tid != 0)
        }
    }

    pub(super) fn adopted() -> Option<Adopted> {
        Guest::current()?.tid().map(Adopted)
    }
}

/// As `umcg_core` has it.
pub mod home {
    use crate::courier;
    use shuttle::lazy_static;
    use shuttle::sync::Mutex;
    use shuttle::sync::atomic::{AtomicU32, AtomicU64};
    use std::sync::atomic::Ordering::SeqCst;

    const NOTHING: u64 = u64::MAX;

    pub(super) struct Home {
        mask: AtomicU64,
        /// The mask that it goes by.
        told: Mutex<u64>,
    }

    lazy_static! {
        pub(super) static ref ALL: [Home; 4] = std::array::from_fn(|_| Home {
            mask: AtomicU64::new(NOTHING),
            told: Mutex::new(NOTHING),
        });
        /// How many rouses the courier has seen.
        static ref SEEN: AtomicU32 = AtomicU32::new(0);
    }

    impl Home {
        pub(super) fn begin(&self) {
            self.mask.store(NOTHING, SeqCst);
            *self.told.lock().unwrap() = NOTHING;
        }

        /// The last party that tells has the last mask, as with the library's.
        fn tell(&self) {
            let mut told = self.told.lock().unwrap();
            *told = self.mask.load(SeqCst);
        }

        pub(super) fn looks_for_all(&self) -> bool {
            *self.told.lock().unwrap() == 0
        }
    }

    /// As the library's.
    #[derive(Clone, Copy, Debug)]
    pub struct Adopted(pub(super) u32);

    impl Adopted {
        pub fn is_away(self) -> bool {
            true
        }

        pub fn tell(self) {
            ALL[self.0 as usize].tell();
        }

        pub fn set_mask_untold(self, mask: u64) {
            ALL[self.0 as usize].mask.store(mask, SeqCst);
        }

        pub fn may_have_come(self, _: u64) -> bool {
            false
        }
    }

    /// As the library's.
    pub fn tell_home(tid: u32) {
        ALL[tid as usize].tell();
    }

    /// Nobody is called.
    pub(super) fn next_called(deadline: u64) {
        let roused = courier::rouses();
        if SEEN.swap(roused, SeqCst) == roused {
            courier::sleep(roused, deadline);
        }
    }
}

/// What a guest does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Life {
    Waits,
    /// It waits before it has set its first mask.
    WaitsFirst,
    /// It blocks and frees all signals once more.
    BlocksAndFrees,
    /// It ends as soon as it has waited, and its state is the next one's.
    Ends,
}

/// A wait, as the hook makes it.
fn wait(guest: &'static Guest) {
    if guest.home.is_untold.load(SeqCst) {
        freed::tell(guest);
    }
    untold::note_pause(guest);
    yield_now();
}

fn set_mask(tid: u32, freed: u64, mask: u64) {
    assert!(freed::may_free(home::Adopted(tid), freed, mask));
}

fn live(guest: &'static Guest, tid: u32, life: Life) {
    guest.begin(tid);
    if life == Life::WaitsFirst {
        wait(guest);
    }
    set_mask(tid, u64::MAX, 0);
    if life == Life::BlocksAndFrees {
        wait(guest);
        set_mask(tid, 0, u64::MAX);
        set_mask(tid, u64::MAX, 0);
    }
    wait(guest);
    if life == Life::Ends {
        live(guest, tid + 1, Life::Waits);
    }
}

/// Lets the courier's pause be over.
fn pass_time() {
    kernel::advance(clock::now() + 10_000_000);
    yield_now();
}

/// Guests with these lives. One of which the home is not told is a model without an end.
fn told(lives: [Life; 2]) {
    drop(future::spawn(async {
        let mut pause = untold::Pause::none();
        loop {
            next_called(pause.deadline());
            pause.serve();
        }
    }));
    let states = lives.map(|_| Guest::make());
    let begin = |index: usize| {
        let (guest, life) = (states[index], lives[index]);
        // A life that ends leads to the next id.
        spawn(move || live(guest, [1, 3][index], life))
    };
    let threads = [begin(0), begin(1)];
    // The time goes on while they live.
    let timer = spawn(|| {
        for _ in 0..4 {
            pass_time();
        }
    });
    let is_told = |guest: &&'static Guest| {
        let tid = guest.tid().unwrap_or(0);
        !guest.home.is_listed.load(SeqCst) && home::ALL[tid as usize].looks_for_all()
    };
    for thread in threads {
        thread.join().unwrap();
    }
    while !states.iter().all(is_told) {
        pass_time();
    }
    timer.join().unwrap();
}

/// One test, since the list is a static.
#[test]
fn homes_of_new_guests_hear_of_their_masks() {
    check(|| told([Life::Waits, Life::WaitsFirst]));
    check(|| told([Life::Ends, Life::Waits]));
    check(|| told([Life::WaitsFirst, Life::BlocksAndFrees]));
}
