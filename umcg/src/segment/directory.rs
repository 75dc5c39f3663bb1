//! The objects of a segment, by their numbers and names.

use super::error::{Fault, NameError};
use super::kernel;
use super::object::{FIRST, MessageRing, SENDERS, SegmentObject, SegmentObjectKind};
use super::shared::{DIRECTORY, OpenSegment};
use super::stopwatch::Stopwatch;
use crate::rt::sync::Ordering::*;
use crate::rt::time;

/// Offsets in an object; [`SegmentObject`] has the others.
const KIND_AT: usize = 8;
const CAPACITY_AT: usize = 12;
const SIZE_AT: usize = 16;
const MESSAGES_AT: usize = 24;
const NAME_AT: usize = 128;

/// Kinds, as stored in an object; 0 for none yet.
const SEMAPHORE: u32 = 1;
const AUTO: u32 = 2;
const MANUAL: u32 = 3;
const TUBE: u32 = 4;

/// The ring of a tube begins at a multiple of this.
const ALIGNED: u64 = 64;

/// The most bytes of a name.
const NAME: usize = 64;
type Name = [u64; NAME / 8];

/// The kind of object that a caller wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Semaphore(u32),
    Auto(bool),
    Manual(bool),
    /// With this capacity, and messages of this size.
    Tube(u32, u32),
}

impl Wanted {
    fn is(self, kind: SegmentObjectKind) -> bool {
        match (self, kind) {
            (Wanted::Semaphore(_), SegmentObjectKind::Semaphore)
            | (Wanted::Auto(_), SegmentObjectKind::Auto)
            | (Wanted::Manual(_), SegmentObjectKind::Manual) => true,
            (Wanted::Tube(capacity, size), SegmentObjectKind::Tube(ring)) => {
                (capacity, size) == (ring.capacity, ring.size)
            }
            _ => false,
        }
    }
}

/// All objects of the segment.
pub(super) fn objects(shared: &OpenSegment) -> impl Iterator<Item = SegmentObject<'_>> {
    (0..shared.layout.objects).filter_map(|number| object(shared, number))
}

/// The object with this number, which may come from the segment. None if there is no such object,
/// or its contents cannot be valid.
pub(super) fn object(shared: &OpenSegment, number: u32) -> Option<SegmentObject<'_>> {
    let kind = match kind_of(shared, number)? {
        SEMAPHORE => SegmentObjectKind::Semaphore,
        AUTO => SegmentObjectKind::Auto,
        MANUAL => SegmentObjectKind::Manual,
        TUBE => SegmentObjectKind::Tube(ring(shared, shared.layout.object(number))?),
        _ => return None,
    };
    Some(SegmentObject::new(shared, number, kind))
}

fn kind_of(shared: &OpenSegment, number: u32) -> Option<u32> {
    let is_there = number < shared.layout.objects;
    // ORDERING(seg-kind.1): Acquire, pairs with seg-kind.2: an object that has a kind is complete.
    is_there.then(|| {
        shared
            .memory
            .u32(shared.layout.object(number) + KIND_AT)
            .load(Acquire)
    })
}

fn ring(shared: &OpenSegment, at: usize) -> Option<MessageRing> {
    let memory = &shared.memory;
    let (capacity, size) = (
        memory.u32(at + CAPACITY_AT).load(Relaxed),
        memory.u32(at + SIZE_AT).load(Relaxed),
    );
    let messages = memory.u64(at + MESSAGES_AT).load(Relaxed);
    let ring = MessageRing {
        capacity,
        size,
        at: usize::try_from(messages).ok()?,
    };
    let end = messages.checked_add(bytes(capacity, size)?)?;
    let layout = shared.layout;
    (messages % ALIGNED == 0 && messages >= layout.messages() && end <= layout.end())
        .then_some(ring)
}

/// The bytes that a ring needs; none if that is impossible.
fn bytes(capacity: u32, size: u32) -> Option<u64> {
    (capacity > 0 && size > 0).then(|| {
        u64::from(size)
            .next_multiple_of(8)
            .checked_mul(capacity.into())
    })?
}

/// The object that has this name. Made if there is none.
pub(super) fn named<'a>(
    shared: &'a OpenSegment,
    name: &str,
    wanted: Wanted,
) -> Result<SegmentObject<'a>, NameError> {
    let name = words_of(name)?;
    if let Wanted::Tube(capacity, size) = wanted {
        bytes(capacity, size)
            .filter(|bytes| *bytes <= shared.layout.bytes)
            .ok_or(NameError::Size)?;
    }
    match find(shared, name, wanted)? {
        Some(object) => Ok(object),
        None => exclusively(shared, || match find(shared, name, wanted)? {
            Some(object) => Ok(object),
            None => make(shared, name, wanted),
        })?,
    }
}

fn words_of(name: &str) -> Result<Name, NameError> {
    let bytes = name.as_bytes();
    if bytes.is_empty() || bytes.len() > NAME || bytes.contains(&0) {
        return Err(NameError::Name);
    }
    let mut words = [0; NAME / 8];
    for (at, byte) in bytes.iter().enumerate() {
        words[at / 8] |= u64::from(*byte) << (at % 8 * 8);
    }
    Ok(words)
}

fn find(
    shared: &OpenSegment,
    name: Name,
    wanted: Wanted,
) -> Result<Option<SegmentObject<'_>>, NameError> {
    match number_of(shared, name).map(|number| object(shared, number)) {
        None => Ok(None),
        Some(Some(object)) if wanted.is(object.kind) => Ok(Some(object)),
        Some(_) => Err(NameError::Mismatch),
    }
}

/// The number of the object that has this name.
fn number_of(shared: &OpenSegment, name: Name) -> Option<u32> {
    let has_name = |number: &u32| {
        let at = shared.layout.object(*number) + NAME_AT;
        kind_of(shared, *number) != Some(0)
            && name
                .iter()
                .enumerate()
                .all(|(index, word)| shared.memory.u64(at + 8 * index).load(Relaxed) == *word)
    };
    (0..shared.layout.objects).find(has_name)
}

/// Takes the name from an object that is dead or corrupt. False if there is none. One store is
/// enough, as no name begins with a 0.
pub(super) fn forget(shared: &OpenSegment, name: &str) -> Result<bool, NameError> {
    let name = words_of(name)?;
    exclusively(shared, || match number_of(shared, name) {
        Some(number) if object(shared, number).is_none_or(|object| object.fault().is_some()) => {
            shared
                .memory
                .u64(shared.layout.object(number) + NAME_AT)
                .store(0, Relaxed);
            true
        }
        _ => false,
    })
}

/// Makes an object. Called by one process at a time. An object that a dying process left unfinished
/// has no kind, and is overwritten.
fn make(shared: &OpenSegment, name: Name, wanted: Wanted) -> Result<SegmentObject<'_>, NameError> {
    let number = (0..shared.layout.objects)
        .find(|number| kind_of(shared, *number) == Some(0))
        .ok_or(NameError::Full)?;
    let at = shared.layout.object(number);
    let memory = &shared.memory;
    let (code, kind, word) = match wanted {
        Wanted::Semaphore(wakeups) => (SEMAPHORE, SegmentObjectKind::Semaphore, wakeups),
        Wanted::Auto(is_set) => (AUTO, SegmentObjectKind::Auto, is_set.into()),
        Wanted::Manual(is_set) => (MANUAL, SegmentObjectKind::Manual, is_set.into()),
        Wanted::Tube(capacity, size) => {
            let messages = room(shared, capacity, size).ok_or(NameError::Full)?;
            memory.u32(at + CAPACITY_AT).store(capacity, Relaxed);
            memory.u32(at + SIZE_AT).store(size, Relaxed);
            memory.u64(at + MESSAGES_AT).store(messages, Relaxed);
            (
                TUBE,
                SegmentObjectKind::Tube(MessageRing {
                    capacity,
                    size,
                    at: messages as usize,
                }),
                0,
            )
        }
    };
    let object = SegmentObject::new(shared, number, kind);
    object.word().store(word.into(), Relaxed);
    for queue in [FIRST, SENDERS] {
        for word in [
            object.first(queue),
            object.last(queue),
            object.promised(queue),
        ] {
            word.store(0, Relaxed);
        }
    }
    for word in [object.head(), object.len(), object.closed()] {
        word.store(0, Relaxed);
    }
    for (index, word) in name.iter().enumerate() {
        memory.u64(at + NAME_AT + 8 * index).store(*word, Relaxed);
    }
    // ORDERING(seg-kind.2): Release, pairs with seg-kind.1.
    memory.u32(at + KIND_AT).store(code, Release);
    Ok(object)
}

/// The place where a ring fits: behind all others.
fn room(shared: &OpenSegment, capacity: u32, size: u32) -> Option<u64> {
    let ends = objects(shared).filter_map(|object| match object.kind {
        SegmentObjectKind::Tube(ring) => Some(ring.at as u64 + bytes(ring.capacity, ring.size)?),
        _ => None,
    });
    let at = ends
        .fold(shared.layout.messages(), u64::max)
        .next_multiple_of(ALIGNED);
    (at.checked_add(bytes(capacity, size)?)? <= shared.layout.end()).then_some(at)
}

/// Calls `f` while no other thread of any process is in here: under a lock that the kernel frees if
/// this process dies.
fn exclusively<R>(shared: &OpenSegment, f: impl FnOnce() -> R) -> Result<R, NameError> {
    let party = shared.party().map_err(|_: Fault| NameError::Full)?;
    let (mut stopwatch, mut f) = (Stopwatch::default(), Some(f));
    loop {
        // ORDERING(seg-busy.1): Acquire, pairs with seg-busy.2.
        if !party.is_busy.swap(true, Acquire) {
            let f = if party.liveness.try_lock(DIRECTORY) {
                f.take()
            } else {
                None
            };
            let result = f.map(|f| {
                let result = f();
                party.liveness.unlock(DIRECTORY);
                result
            });
            // ORDERING(seg-busy.2): Release, pairs with seg-busy.1.
            party.is_busy.store(false, Release);
            if let Some(result) = result {
                return Ok(result);
            }
        }
        if stopwatch.look(time::now()) >= shared.patience.load(Relaxed) {
            return Err(NameError::Busy);
        }
        kernel::pause();
    }
}
