//! Objects by index that are waited for together: the list under altsems, `wait_any` and the waits
//! of NT. It has a place for each, on the stack if they are few.

use super::engine::Alternatives;
use crate::rt::wait::{Place, SelectQueue};
use std::cell::Cell;
use std::marker::PhantomData;

/// Up to so many places lie on the stack.
const FEW: usize = 8;

/// A list in a frame. `member` returns the queue of an index, and the note with which the caller
/// enters it.
pub(crate) struct List<'o, 'p, M> {
    member: M,
    places: &'p [Place],
    note: Cell<usize>,
    of_objects: PhantomData<&'o ()>,
}

/// Calls `f` with a list of so many.
#[inline(never)]
pub(crate) fn with_list<'o, M: Fn(usize) -> (&'o dyn SelectQueue, usize), R>(
    len: usize,
    member: M,
    f: impl FnOnce(&List<'o, '_, M>) -> R,
) -> R {
    let (few, many);
    let places = if len <= FEW {
        few = [const { Place::new() }; FEW];
        &few[..len]
    } else {
        many = (0..len).map(|_| Place::new()).collect::<Box<[Place]>>();
        &many
    };
    f(&List {
        member,
        places,
        note: Cell::new(0),
        of_objects: PhantomData,
    })
}

impl<M> List<'_, '_, M> {
    /// The note of the member with which the wait has ended.
    pub(crate) fn served(&self) -> usize {
        self.note.get()
    }
}

impl<'o, M: Fn(usize) -> (&'o dyn SelectQueue, usize)> Alternatives for List<'o, '_, M> {
    fn len(&self) -> usize {
        self.places.len()
    }

    fn queue(&self, index: usize) -> Option<&dyn SelectQueue> {
        Some((self.member)(index).0)
    }

    fn place(&self, index: usize) -> &Place {
        &self.places[index]
    }

    fn note(&self, index: usize) -> usize {
        (self.member)(index).1
    }

    fn finish(&self, _: usize, note: usize) -> bool {
        self.note.set(note);
        true
    }
}
