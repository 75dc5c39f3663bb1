//! The layout of a segment. All of it follows from four numbers, which are read from the header
//! once and checked.

use super::error::OpenError;
use super::memory::Memory;
use crate::rt::sync::Ordering::*;

/// "umcgsegm", as a number in this machine's byte order: a file in another byte order is not a
/// segment.
const MAGIC: u64 = 0x6d67_6573_6763_6d75;
/// 2: with generations in the words of objects.
const VERSION: u64 = 2;

/// Offsets in the header, all of 64 bits.
const MAGIC_AT: usize = 0;
const VERSION_AT: usize = 8;
const OBJECTS_AT: usize = 16;
const RECORDS_AT: usize = 24;
const PARTIES_AT: usize = 32;
const BYTES_AT: usize = 40;
/// When a party last patrolled, in nanoseconds of CLOCK_MONOTONIC.
pub(super) const PATROLLED_AT: usize = 128;

const HEADER: usize = 256;
const PARTY: usize = 8;
pub(super) const RECORD: usize = 64;
pub(super) const OBJECT: usize = 256;

/// The most there may be of each: a holder has 16 bits, and a link 32.
const MOST_OBJECTS: u64 = 1 << 16;
const MOST_RECORDS: u64 = 1 << 20;
const MOST_PARTIES: u64 = 1 << 12;
const MOST_BYTES: u64 = 1 << 40;

/// How many there are of each, within their limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentLayout {
    pub(super) objects: u32,
    pub(super) records: u32,
    pub(super) parties: u32,
    /// For the messages of tubes.
    pub(super) bytes: u64,
}

impl SegmentLayout {
    pub(super) fn is_possible(self) -> bool {
        SegmentLayout::checked(
            self.objects.into(),
            self.records.into(),
            self.parties.into(),
            self.bytes,
        )
        .is_some()
    }

    fn checked(objects: u64, records: u64, parties: u64, bytes: u64) -> Option<SegmentLayout> {
        let fits = |number, most| (1..=most).contains(&number);
        let all = fits(objects, MOST_OBJECTS)
            && fits(records, MOST_RECORDS)
            && fits(parties, MOST_PARTIES)
            && bytes <= MOST_BYTES;
        let layout = SegmentLayout {
            objects: objects as u32,
            records: records as u32,
            parties: parties as u32,
            bytes,
        };
        (all && usize::try_from(layout.end()).is_ok_and(|size| size <= isize::MAX as usize))
            .then_some(layout)
    }

    /// The mark of a party: not 0 from when it begins until it has ended in order, or was buried.
    pub(super) fn party(self, number: u32) -> usize {
        HEADER + number as usize * PARTY
    }

    pub(super) fn record(self, number: u32) -> usize {
        self.party(self.parties).next_multiple_of(RECORD) + number as usize * RECORD
    }

    pub(super) fn object(self, number: u32) -> usize {
        self.record(self.records).next_multiple_of(OBJECT) + number as usize * OBJECT
    }

    /// The offset at which the messages begin.
    pub(super) fn messages(self) -> u64 {
        self.object(self.objects) as u64
    }

    /// The offset at which everything ends.
    pub(super) fn end(self) -> u64 {
        self.messages() + self.bytes
    }

    /// Writes the header of a new segment, whose memory is all 0. The last store makes it a
    /// segment.
    pub(super) fn write(self, memory: &Memory) {
        memory.u64(VERSION_AT).store(VERSION, Relaxed);
        memory.u64(OBJECTS_AT).store(self.objects.into(), Relaxed);
        memory.u64(RECORDS_AT).store(self.records.into(), Relaxed);
        memory.u64(PARTIES_AT).store(self.parties.into(), Relaxed);
        memory.u64(BYTES_AT).store(self.bytes, Relaxed);
        // ORDERING(seg-magic.1): Release, pairs with seg-magic.2: a process that sees it sees the
        // header.
        memory.u64(MAGIC_AT).store(MAGIC, Release);
    }

    /// Reads and checks the header of a segment. `memory` holds at least the header.
    pub(super) fn read(memory: &Memory) -> Result<SegmentLayout, OpenError> {
        // ORDERING(seg-magic.2): Acquire, pairs with seg-magic.1.
        if memory.u64(MAGIC_AT).load(Acquire) != MAGIC {
            return Err(OpenError::NotASegment);
        }
        let number = |at| memory.u64(at).load(Relaxed);
        if number(VERSION_AT) != VERSION {
            return Err(OpenError::OtherVersion);
        }
        SegmentLayout::checked(
            number(OBJECTS_AT),
            number(RECORDS_AT),
            number(PARTIES_AT),
            number(BYTES_AT),
        )
        .filter(|layout| layout.end() <= memory.len() as u64)
        .ok_or(OpenError::Corrupt)
    }

    /// The least size of a file that can be a segment.
    pub(super) const LEAST: u64 = HEADER as u64;
}
