//! The trace of `umcg run --trace`: which guest ran on which server when, and why it stopped.
//!
//! A server notes each switch in a ring of its own: one record and one look at the clock. Its loop
//! takes the records of all rings to the file when its own is half full, or when some time has
//! passed; so does a guest that ends the process or calls exec. A switch from guest to guest that
//! finds the ring half full makes the next one go through the loop. So no guest's stack is used,
//! and no record is lost, but the last of a process that a signal ends.
//!
//! Names are asked for when the records are taken: for a thread that has ended, it has left the
//! name itself ([`note_end`]).
//!
//! Rejected: a thread that writes. With as many servers as CPUs it would come too late, or take a
//! CPU from the program all the same.

mod perfetto;
mod ring;

use super::guest::{self, Guest};
use super::stand::LeaveReason;
use super::turn::{self, Follower};
use super::{list, out, text};
use crate::io::driver::place;
use crate::rt::engine::turns::ServerTurn;
use crate::rt::time as clock;
use perfetto::Packets;
use ring::{Record, Ring};
use rustix::fd::{AsRawFd, OwnedFd};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::OpenOptionsExt;
use std::ptr::{from_ref, null_mut};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering::*};
use umcg_core::call;
use umcg_core::context::lock::HoldLock;
use umcg_core::raw::{Event, EventKind, Worker};

/// The most bytes of a process's trace.
const MOST: u64 = 1 << 28;
/// The most bytes that are kept before they are written.
const PART: usize = 1 << 18;
/// Nanoseconds after which records are taken though no ring is half full.
const OFTEN: u64 = 200_000_000;

static IS_ON: AtomicBool = AtomicBool::new(false);
static RINGS: [AtomicPtr<Ring>; turn::SERVERS] =
    [const { AtomicPtr::new(null_mut()) }; turn::SERVERS];
static WRITER: HoldLock<Option<Writer>> = HoldLock::new(None);
/// When records were taken last.
static TAKEN: AtomicU64 = AtomicU64::new(0);
/// Threads that have ended, and not been named in the file yet.
static ENDED: HoldLock<Vec<(u32, String)>> = HoldLock::new(Vec::new());

/// Why a guest has stopped: one of these, with the number of a call above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
enum Stop {
    /// None has run.
    None = 0,
    Word,
    Sleep,
    Yield,
    Home,
    Preempted,
    Signal,
}

const STOPS: [Stop; 7] = [
    Stop::None,
    Stop::Word,
    Stop::Sleep,
    Stop::Yield,
    Stop::Home,
    Stop::Preempted,
    Stop::Signal,
];

const NUMBER: u32 = 8;

impl Stop {
    /// The reason of a guest that leaves by a call, or by a signal that came in the program's code.
    fn of(guest: &Guest) -> u32 {
        let number = guest.stand.number() << NUMBER;
        match guest.stand.why() {
            _ if !guest.is_inside() => Stop::Signal as u32,
            LeaveReason::Word => Stop::Word as u32,
            LeaveReason::Sleep => Stop::Sleep as u32,
            LeaveReason::Yield => Stop::Yield as u32,
            LeaveReason::Home => Stop::Home as u32 | number,
            LeaveReason::None => Stop::Signal as u32,
        }
    }

    fn text(code: u32) -> String {
        let number = (code >> NUMBER) as usize;
        let kind = (code & ((1 << NUMBER) - 1)) as usize;
        match STOPS.get(kind).copied().unwrap_or(Stop::None) {
            Stop::None => "unknown".to_owned(),
            Stop::Word => "waits for a word".to_owned(),
            Stop::Sleep => "sleeps".to_owned(),
            Stop::Yield => "yields".to_owned(),
            Stop::Home => match text::name(number) {
                Some("exit") => "ended".to_owned(),
                Some(name) => format!("goes home for {name}"),
                None => format!("goes home for call {number}"),
            },
            Stop::Preempted => "preempted".to_owned(),
            Stop::Signal => "goes home for a signal".to_owned(),
        }
    }
}

/// Begins to trace to this file, which is added to. Called before there are servers. Returns false
/// if the file cannot be opened.
pub(super) fn begin(path: &str) -> bool {
    let file = std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .custom_flags(libc::O_CLOEXEC | libc::O_NOCTTY)
        .open(path);
    let Some(file) = file.ok().and_then(|file| place::place(file.into()).ok()) else {
        return false;
    };
    *WRITER.lock() = Some(Writer::new(file));
    IS_ON.store(true, Relaxed);
    turn::follow(Follower::Trace, note_turn);
    true
}

/// The ring of this server, whose loop makes it.
fn ring(server: usize) -> &'static Ring {
    let place = &RINGS[server];
    // ORDERING(rings.2): Acquire, pairs with rings.1.
    // SAFETY: null, or a ring, which is never freed.
    if let Some(ring) = unsafe { place.load(Acquire).as_ref() } {
        return ring;
    }
    let ring: &'static Ring = Box::leak(Box::new(Ring::new()));
    // ORDERING(rings.1): Release, pairs with rings.2: the ring is seen whole.
    place.store(from_ref(ring).cast_mut(), Release);
    ring
}

fn guest_of(worker: Worker) -> *mut Guest {
    // SAFETY: the caller of `note_turn` has the right to run it.
    unsafe { worker.guest() }.cast()
}

/// A server's turn, on its thread. True if the loop is to go on soon.
fn note_turn(server: usize, turn: ServerTurn) -> bool {
    if !IS_ON.load(Relaxed) {
        return false;
    }
    let ring = ring(server);
    // SAFETY: null, or a state, which is never freed.
    let before = unsafe { ring.running.load(Relaxed).cast::<Guest>().as_ref() };
    let (next, stop) = match turn {
        ServerTurn::Begins(worker) => (guest_of(worker), Stop::None as u32),
        ServerTurn::Switches(worker) => (guest_of(worker), before.map_or(0, Stop::of)),
        ServerTurn::Ends(Event::Ready(EventKind::Preempt, _)) => {
            (null_mut(), Stop::Preempted as u32)
        }
        ServerTurn::Ends(_) => (null_mut(), before.map_or(0, Stop::of)),
    };
    ring.running.store(next.cast(), Relaxed);
    // SAFETY: as above.
    let serial = unsafe { next.as_ref() }.map_or(0, |guest| guest.serial.load(Relaxed));
    let time = clock::now();
    ring.add(Record { time, serial, stop });
    let is_full = ring.is_half_full();
    let is_late = time >= TAKEN.load(Relaxed).saturating_add(OFTEN);
    if matches!(turn, ServerTurn::Ends(_)) && (is_full || is_late) {
        flush();
    }
    is_full
}

/// Takes all records to the file.
pub(super) fn flush() {
    if IS_ON.load(Relaxed) {
        TAKEN.store(clock::now(), Relaxed);
        if let Some(writer) = &mut *WRITER.lock() {
            writer.take_all();
        }
    }
}

/// The calling guest, at home, ends its thread.
pub(super) fn note_end(guest: &Guest) {
    if !IS_ON.load(Relaxed) {
        return;
    }
    guest.note_tid();
    let name = full_name(guest);
    ENDED.lock().push((guest.serial.load(Relaxed), name));
}

/// Of a thread that lives.
fn full_name(guest: &Guest) -> String {
    let tid = guest.tid().unwrap_or(0);
    format!("{} {tid}", list::name(tid).unwrap_or_default())
}

struct Writer {
    file: OwnedFd,
    packets: Packets,
    written: u64,
    /// Names in the file.
    threads: BTreeSet<u32>,
    stops: BTreeSet<u32>,
    /// By server: whether a thread runs there. A server without an entry is not in the file yet.
    runs: BTreeMap<usize, bool>,
}

impl Writer {
    fn new(file: OwnedFd) -> Writer {
        // SAFETY: no arguments.
        let process = unsafe { call(libc::SYS_getpid, [0; 6]) } as u32;
        let name = list::name(process).unwrap_or_default();
        Writer {
            file,
            packets: Packets::new(process, &name),
            written: 0,
            threads: BTreeSet::new(),
            stops: BTreeSet::new(),
            runs: BTreeMap::new(),
        }
    }

    fn take_all(&mut self) {
        let mut records = Vec::new();
        for (server, ring) in RINGS.iter().enumerate() {
            // ORDERING(rings.2): Acquire, pairs with rings.1.
            // SAFETY: null, or a ring, which is never freed.
            if let Some(ring) = unsafe { ring.load(Acquire).as_ref() } {
                ring.take(&mut |record| records.push((server, record)));
            }
        }
        // After the records: their threads live, or have left their names.
        let names = Names::gather();
        for (server, record) in records {
            self.put(server, record, &names);
        }
        self.write();
    }

    fn put(&mut self, server: usize, record: Record, names: &Names) {
        let Record { time, serial, stop } = record;
        if serial != 0 && self.threads.insert(serial) {
            self.packets.name_thread(serial, names.of(serial));
        }
        if !self.runs.contains_key(&server) {
            self.packets.add_server(server);
        }
        let is_running = self.runs.insert(server, serial != 0).unwrap_or(false);
        if is_running {
            if self.stops.insert(stop) {
                self.packets.name_stop(stop + 1, &Stop::text(stop));
            }
            self.packets.end(time, server, stop + 1);
        }
        if serial != 0 {
            self.packets.begin(time, server, serial);
        }
        if self.packets.bytes().len() > PART {
            self.write();
        }
    }

    fn write(&mut self) {
        let bytes = self.packets.bytes();
        let is_written = out::write(self.file.as_raw_fd(), bytes, None);
        self.written += bytes.len() as u64;
        self.packets.clear();
        if (!is_written || self.written > MOST) && IS_ON.swap(false, Relaxed) {
            super::tell(format_args!(
                "run: the trace ends here: {}",
                if is_written {
                    "it is large enough"
                } else {
                    "the file cannot be written"
                }
            ));
        }
    }
}

/// The names of threads whose records are taken.
struct Names(BTreeMap<u32, String>);

impl Names {
    fn gather() -> Names {
        let mut names = BTreeMap::new();
        guest::each(&mut |guest| {
            let serial = guest.serial.load(Relaxed);
            names.insert(serial, full_name(guest));
        });
        // A thread that ends just now is in both.
        names.extend(ENDED.lock().drain(..));
        Names(names)
    }

    fn of(&self, serial: u32) -> &str {
        self.0.get(&serial).map_or("?", String::as_str)
    }
}
