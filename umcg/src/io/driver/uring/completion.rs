//! Reaping: any thread that comes by takes the completions of all.

use super::{IoRing, NOBODY, UringOperation};
use crate::rt::Handle;
use std::ptr;

/// How many completions are taken in one hold of the lock.
const REAPED: usize = 32;

impl IoRing {
    /// Takes completions, and makes sure that the kernel keeps none back. `wake` gets the callers
    /// they belong to.
    pub(in super::super) fn reap(&self, wake: &mut dyn FnMut(Handle)) {
        self.take_all(None, wake);
        self.catch_up();
    }

    /// Takes completions. `wake` gets the callers they belong to, except that of the operation
    /// `own`, which is the caller of this. It gets them after the lock is released, because no
    /// party may be unparked under a hold.
    pub(super) fn take_all(&self, own: Option<&UringOperation>, wake: &mut dyn FnMut(Handle)) {
        let own = own.map_or(NOBODY, |own| ptr::from_ref(own).addr() as u64);
        loop {
            let mut handles = [None; REAPED];
            let taken = self.take_some(own, &mut handles);
            handles.into_iter().flatten().for_each(&mut *wake);
            if taken < REAPED {
                break;
            }
        }
    }

    /// Takes as many completions as there is room for; returns the number.
    fn take_some(&self, own: u64, handles: &mut [Option<Handle>; REAPED]) -> usize {
        let _lock = self.completion.lock();
        // SAFETY: the lock keeps other threads from this end of the ring.
        let mut queue = unsafe { self.ring.completion_shared() };
        for (taken, place) in handles.iter_mut().enumerate() {
            let Some(completion) = queue.next() else {
                return taken;
            };
            let key = completion.user_data();
            if key != NOBODY {
                *place = Some(self.settle(key, completion.result().into())).filter(|_| key != own);
            }
        }
        REAPED
    }
}
