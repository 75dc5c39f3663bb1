//! Messages in place: written where they will lie, and read where they lie.
//!
//! A large message has its place in the tube's store, which the guard holds. A small one lies in
//! the guard itself, or beside it, and the guard holds room for it; copying it costs less than
//! holding a place would.

use super::core::Core;
use super::ends::{Receiver, Sender, TubeState};
use super::error::{
    RecvError, RecvTimeoutError, SendError, SendTimeoutError, TryRecvError, TrySendError,
};
use super::layout::Typed;
use super::waiting::TransferError;
use crate::rt::timed;
use crate::rt::wait;
use std::fmt;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ops::{Deref, DerefMut};

/// The most bytes that a guard has room for.
const SMALL: usize = 256;

/// A small message, of any type that a guard has room for.
#[repr(C, align(64))]
struct Small([MaybeUninit<u8>; SMALL]);

impl Small {
    const fn new() -> Small {
        Small([MaybeUninit::uninit(); SMALL])
    }

    const fn has_room_for<T>() -> bool {
        !Typed::<T>::IS_LARGE && size_of::<T>() <= SMALL
    }

    fn of<T>(&mut self) -> &mut MaybeUninit<T> {
        const {
            assert!(
                size_of::<T>() <= size_of::<Small>() && align_of::<T>() <= align_of::<Small>()
                    || !Small::has_room_for::<T>()
            )
        };
        // SAFETY: large and aligned enough, as it is used only for messages that it has room for.
        unsafe { &mut *(&raw mut self.0).cast() }
    }
}

/// Where a message lies.
#[allow(clippy::large_enum_variant, reason = "the large one is the usual one")]
enum Spot<T> {
    /// In this place of the store.
    Slot(usize),
    /// In the guard.
    Own(Small),
    /// In memory of its own: a large one of a tube that has no store, or a small one that is too
    /// large for a guard.
    Apart(Box<MaybeUninit<T>>),
}

impl<T> Spot<T> {
    fn at(&mut self, tube: &TubeState<T>) -> *mut T {
        match self {
            Spot::Slot(slot) => tube.core.at(*slot).cast(),
            Spot::Own(small) => small.of().as_mut_ptr(),
            Spot::Apart(message) => message.as_mut_ptr(),
        }
    }

    /// The same, to read.
    fn at_to_read(&self, tube: &TubeState<T>) -> *const T {
        match self {
            Spot::Slot(slot) => tube.core.at(*slot).cast_const().cast(),
            Spot::Own(small) => (&raw const small.0).cast(),
            Spot::Apart(message) => message.as_ptr(),
        }
    }
}

/// Room for a message, which is written into it and then sent: by [`Sender::reserve`]. Sending does
/// not wait any more. Dropped, it gives the room back.
///
/// ```
/// let (sender, receiver) = umcg::tube::tube::<[u8; 4096]>(4);
/// let mut message = sender.reserve().unwrap().write([0; 4096]);
/// message[17] = 1;
/// message.commit().unwrap();
/// assert_eq!(receiver.recv_ref().unwrap()[17], 1);
/// ```
#[must_use = "dropped, it sends nothing"]
pub struct Reserved<'a, T> {
    tube: &'a TubeState<T>,
    spot: Spot<T>,
}

/// A message in its place, which [`commit`](Filled::commit) sends. Dropped, it sends nothing, and
/// drops the message.
#[must_use = "dropped, it sends nothing"]
pub struct Filled<'a, T>(Reserved<'a, T>);

/// A message that was received, in its place: by [`Receiver::recv_ref`]. That is free again when
/// this is dropped, and the message with it.
#[must_use = "dropped, it drops the message"]
pub struct Received<'a, T> {
    tube: &'a TubeState<T>,
    spot: Spot<T>,
}

// SAFETY: it owns a message, or the room for one, and refers to a tube that threads share.
unsafe impl<T: Send> Send for Reserved<'_, T> {}
// SAFETY: shared, it gives access to a message and nothing else.
unsafe impl<T: Sync> Sync for Reserved<'_, T> {}
// SAFETY: as for `Reserved`.
unsafe impl<T: Send> Send for Received<'_, T> {}
// SAFETY: as for `Reserved`.
unsafe impl<T: Sync> Sync for Received<'_, T> {}

impl<'a, T> Reserved<'a, T> {
    fn new(tube: &'a TubeState<T>, slot: usize) -> Reserved<'a, T> {
        let spot = if Typed::<T>::IS_LARGE {
            Spot::Slot(slot)
        } else if Small::has_room_for::<T>() {
            Spot::Own(Small::new())
        } else {
            Spot::Apart(Box::new_uninit())
        };
        Reserved { tube, spot }
    }

    /// The place, to be written to.
    pub fn as_uninit(&mut self) -> &mut MaybeUninit<T> {
        // SAFETY: the guard holds it, and is borrowed.
        unsafe { &mut *self.spot.at(self.tube).cast() }
    }

    /// Writes the message.
    pub fn write(mut self, message: T) -> Filled<'a, T> {
        self.as_uninit().write(message);
        Filled(self)
    }

    /// Writes the message, and sends it. Does not wait.
    ///
    /// # Errors
    /// [`SendError`]: the tube was closed meanwhile.
    pub fn send(self, message: T) -> Result<(), SendError<T>> {
        self.write(message).commit()
    }

    /// There is a message in the place.
    ///
    /// # Safety
    /// There is.
    pub unsafe fn assume_init(self) -> Filled<'a, T> {
        Filled(self)
    }
}

impl<T> Drop for Reserved<'_, T> {
    fn drop(&mut self) {
        self.tube.operate(|core| give_room_back(core, &self.spot));
    }
}

/// The room that was held for a message.
fn give_room_back<T>(core: &Core<Typed<T>>, spot: &Spot<T>) {
    let slot = if let Spot::Slot(slot) = spot {
        *slot
    } else {
        0
    };
    wait::undisturbed(|served| core.release(slot, served));
}

impl<T> Filled<'_, T> {
    /// Sends the message. Does not wait.
    ///
    /// # Errors
    /// [`SendError`]: the tube was closed meanwhile.
    pub fn commit(self) -> Result<(), SendError<T>> {
        let filled = ManuallyDrop::new(self);
        let tube = filled.0.tube;
        // SAFETY: the value is not used any more.
        let mut spot = unsafe { std::ptr::read(&filled.0.spot) };
        tube.operate(|core| {
            let sent = match &mut spot {
                Spot::Slot(slot) => wait::undisturbed(|served| core.commit(*slot, served)),
                spot => {
                    let from = spot.at(tube).cast_const().cast();
                    // SAFETY: a small message, whose room is held.
                    wait::undisturbed(|served| unsafe { core.commit_from(from, served) })
                }
            };
            if sent {
                return Ok(());
            }
            // SAFETY: it is there still, and is not used in its place after this.
            let message = unsafe { spot.at(tube).read() };
            give_room_back(core, &spot);
            Err(SendError(message))
        })
    }
}

impl<T> Deref for Filled<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the message is there.
        unsafe { &*self.0.spot.at_to_read(self.0.tube) }
    }
}

impl<T> DerefMut for Filled<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the message is there.
        unsafe { &mut *self.0.spot.at(self.0.tube) }
    }
}

impl<T> Drop for Filled<'_, T> {
    fn drop(&mut self) {
        // SAFETY: the message is there, and is not used after this; the place goes back when
        // `Reserved` is dropped, also if this panics.
        unsafe { self.0.spot.at(self.0.tube).drop_in_place() };
    }
}

impl<'a, T> Received<'a, T> {
    /// Receives by `receive`, which is given a place for a small message, or by `receive_slot`,
    /// which returns the place of a large one.
    fn new(
        tube: &'a TubeState<T>,
        receive: impl FnOnce(*mut u8) -> Result<(), TransferError>,
        receive_slot: impl FnOnce() -> Result<usize, TransferError>,
    ) -> Result<Received<'a, T>, TransferError> {
        tube.operate(|core| {
            let spot = if Small::has_room_for::<T>() {
                let mut small = Small::new();
                receive(small.of::<T>().as_mut_ptr().cast())?;
                Spot::Own(small)
            } else if Typed::<T>::IS_LARGE && core.capacity() > 0 {
                Spot::Slot(receive_slot()?)
            } else {
                let mut message = Box::<T>::new_uninit();
                receive(message.as_mut_ptr().cast())?;
                Spot::Apart(message)
            };
            Ok(Received { tube, spot })
        })
    }

    /// Takes the message out.
    pub fn into_inner(self) -> T {
        let received = ManuallyDrop::new(self);
        let tube = received.tube;
        // SAFETY: the value is not used any more.
        let mut spot = unsafe { std::ptr::read(&received.spot) };
        tube.operate(|core| {
            // SAFETY: the message is there, and is not used in its place after this.
            let message = unsafe { spot.at(tube).read() };
            give_back(core, &spot);
            message
        })
    }
}

/// The place of a message that was received, if that is in the store.
fn give_back<T>(core: &Core<Typed<T>>, spot: &Spot<T>) {
    if let Spot::Slot(slot) = spot {
        wait::undisturbed(|served| core.release(*slot, served));
    }
}

impl<T> Deref for Received<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the message is there.
        unsafe { &*self.spot.at_to_read(self.tube) }
    }
}

impl<T> DerefMut for Received<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the message is there.
        unsafe { &mut *self.spot.at(self.tube) }
    }
}

impl<T> Drop for Received<'_, T> {
    fn drop(&mut self) {
        /// Gives the place back where the message's drop panics.
        struct FreePlace<'a, 'b, T>(&'a Received<'b, T>);
        impl<T> Drop for FreePlace<'_, '_, T> {
            fn drop(&mut self) {
                self.0.tube.operate(|core| give_back(core, &self.0.spot));
            }
        }
        let message = self.spot.at(self.tube);
        let _place = FreePlace(self);
        // SAFETY: the message is there, and is not used after this.
        unsafe { message.drop_in_place() };
    }
}

impl<T: fmt::Debug> fmt::Debug for Filled<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: fmt::Debug> fmt::Debug for Received<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T> fmt::Debug for Reserved<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reserved").finish_non_exhaustive()
    }
}

impl<T> Sender<T> {
    /// Takes room for a message; waits until there is some, behind the senders that wait with
    /// messages. A point of cancellation if it has to wait. Switches.
    ///
    /// A message gets its place in the order when it is committed. A sender that is slow to write
    /// it keeps room from others, but does not hold up their messages.
    ///
    /// # Errors
    /// [`SendError`]: the tube is closed.
    ///
    /// # Panics
    /// In a tube of capacity 0, which has no room.
    pub fn reserve(&self) -> Result<Reserved<'_, T>, SendError<()>> {
        self.reserve_until(u64::MAX).map_err(|_| SendError(()))
    }

    /// Takes room for a message if there is some. Never waits.
    ///
    /// # Errors
    /// [`TrySendError`].
    ///
    /// # Panics
    /// As [`Sender::reserve`].
    pub fn try_reserve(&self) -> Result<Reserved<'_, T>, TrySendError<()>> {
        self.has_room_at_all();
        let slot = self
            .tube
            .core
            .try_reserve()
            .map_err(|why| TrySendError::new(why, ()))?;
        Ok(Reserved::new(&self.tube, slot))
    }

    timed! {
        "Sender::reserve";
        /// # Errors
        /// [`SendTimeoutError`].
        ///
        /// # Panics
        /// As [`Sender::reserve`].
        pub fn reserve_deadline, reserve_timeout(&self)
            -> Result<Reserved<'_, T>, SendTimeoutError<()>>;
        |deadline| self.reserve_until(deadline).map_err(|why| SendTimeoutError::new(why, ()))
    }

    fn reserve_until(&self, deadline: u64) -> Result<Reserved<'_, T>, TransferError> {
        self.has_room_at_all();
        Ok(Reserved::new(&self.tube, self.tube.core.reserve(deadline)?))
    }

    fn has_room_at_all(&self) {
        assert!(
            self.capacity() > 0,
            "reserve: a tube of capacity 0 has no room"
        );
    }
}

impl<T> Receiver<T> {
    /// Receives a message in place: a large one is not copied, and its place in the tube is not
    /// free before the value is dropped. Otherwise as [`Receiver::recv`].
    ///
    /// # Errors
    /// [`RecvError`]: the tube is closed, and empty.
    pub fn recv_ref(&self) -> Result<Received<'_, T>, RecvError> {
        self.recv_ref_until(u64::MAX).map_err(|_| RecvError)
    }

    /// Like [`Receiver::recv_ref`], if there is a message. Never waits.
    ///
    /// # Errors
    /// [`TryRecvError`].
    pub fn try_recv_ref(&self) -> Result<Received<'_, T>, TryRecvError> {
        let tube = &*self.tube;
        // SAFETY: `Received` has a place for it.
        Ok(Received::new(
            tube,
            |into| unsafe { tube.core.try_receive(into) },
            || tube.core.try_receive_slot(),
        )?)
    }

    timed! {
        "Receiver::recv_ref";
        /// # Errors
        /// [`RecvTimeoutError`].
        pub fn recv_ref_deadline, recv_ref_timeout(&self)
            -> Result<Received<'_, T>, RecvTimeoutError>;
        |deadline| Ok(self.recv_ref_until(deadline)?)
    }

    fn recv_ref_until(&self, deadline: u64) -> Result<Received<'_, T>, TransferError> {
        let tube = &*self.tube;
        // SAFETY: `Received` has a place for it.
        Received::new(
            tube,
            |into| unsafe { tube.core.receive_until(into, deadline) },
            || tube.core.receive_slot(deadline),
        )
    }
}
