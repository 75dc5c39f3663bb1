//! Every error, and the order in which errors are found: all combinations of a set of values for
//! each argument, with nobody else at the words. The results are compared, and the words after it.

use crate::side::{
    CMP_REQUEUE, Call, Item, PRIVATE, REALTIME, REQUEUE, Side, WAIT, WAIT_BITSET, WAKE,
    WAKE_BITSET, WAKE_OP, at, later, waitv,
};
use std::collections::BTreeMap;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

/// The value of the words.
const VALUE: u32 = 7;

/// Memory with good and bad addresses in it.
struct Memory {
    /// A page that can be written, one that can be read, one that cannot, and none.
    pages: usize,
}

const PAGE: usize = 4096;

impl Memory {
    fn new() -> Memory {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let both = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: new memory, wherever the kernel likes.
        let at = unsafe { libc::mmap(null_mut(), 4 * PAGE, both, flags, -1, 0) };
        assert_ne!(at, libc::MAP_FAILED);
        let memory = Memory {
            pages: at.expose_provenance(),
        };
        memory.word(1).store(VALUE, SeqCst);
        let page_of = |page: usize| at.wrapping_byte_add(page * PAGE);
        let protect = |page: usize, protection| {
            // SAFETY: pages of this memory, to which there are no references.
            let done = unsafe { libc::mprotect(page_of(page), PAGE, protection) };
            assert_eq!(done, 0);
        };
        protect(1, libc::PROT_READ);
        protect(2, libc::PROT_NONE);
        // SAFETY: as above.
        assert_eq!(unsafe { libc::munmap(page_of(3), PAGE) }, 0);
        memory
    }

    /// The first word of a page.
    fn word(&self, page: usize) -> &AtomicU32 {
        let at = std::ptr::with_exposed_provenance_mut(self.pages + page * PAGE);
        // SAFETY: it is mapped, and only accessed so.
        unsafe { AtomicU32::from_ptr(at) }
    }

    fn page(&self, page: usize) -> usize {
        self.pages + page * PAGE
    }

    /// Good and bad addresses of words.
    fn addresses(&self) -> Vec<usize> {
        let mut all: Vec<_> = (0..4).map(|page| self.page(page)).collect();
        all.extend([
            self.page(0) + 4,
            self.page(0) + 2,
            self.page(3) + 1,
            0,
            4,
            (1 << 47) - 4096,
            1 << 47,
            (1 << 62) + 1,
            1 << 62,
            usize::MAX - 3,
        ]);
        all
    }

    /// Puts the words back; calls; the result, and the words after it.
    fn try_call(&self, side: Side, call: Call, arguments: [usize; 6]) -> (isize, u32, u32) {
        // SAFETY: the second word of the page.
        let other = unsafe { AtomicU32::from_ptr(self.word(0).as_ptr().wrapping_add(1)) };
        self.word(0).store(VALUE, SeqCst);
        other.store(VALUE, SeqCst);
        let result = side.call(call, arguments);
        (result, self.word(0).load(SeqCst), other.load(SeqCst))
    }

    /// How often which result came.
    fn compare(&self, results: &mut BTreeMap<isize, u32>, call: Call, arguments: [usize; 6]) {
        let kernel = self.try_call(Side::Kernel, call, arguments);
        let ours = self.try_call(Side::Ours, call, arguments);
        assert_eq!(ours, kernel, "{call:?} with {arguments:x?}");
        *results.entry(kernel.0).or_default() += 1;
    }
}

/// Timeouts that end a wait at once, and bad ones.
fn times() -> Vec<[i64; 2]> {
    vec![
        [0, 0],
        [0, 50_000],
        [1, 0],
        [0, 1_000_000_000],
        [0, -1],
        [-1, 0],
        [i64::MAX, 1_000_000_000],
    ]
}

fn assert_found(results: &BTreeMap<isize, u32>, expected: &[i32]) {
    println!("{results:?}");
    for errno in expected {
        assert!(
            results.contains_key(&-(*errno as isize)),
            "no call gave {errno}: {results:?}"
        );
    }
}

#[test]
fn waits() {
    let memory = Memory::new();
    let mut results = BTreeMap::new();
    let times = times();
    let pointers = |command: usize| {
        let mut all: Vec<_> = times.iter().map(at).collect();
        if command == WAIT {
            // A relative second would be waited for.
            all.remove(2);
        }
        // Bad ones, and one that is not aligned.
        let bad = [
            memory.page(2),
            memory.page(3) - 8,
            1,
            usize::MAX - 3,
            1 << 63,
        ];
        all.extend(bad);
        all.push(at(&times[0]) + 1);
        all
    };
    for command in [WAIT, WAIT_BITSET] {
        for flags in [PRIVATE, PRIVATE | REALTIME] {
            for address in memory.addresses() {
                for value in [0, VALUE as usize, VALUE as usize | 1 << 32] {
                    for bits in [0, 1, u32::MAX as usize] {
                        for pointer in pointers(command) {
                            let arguments = [address, command | flags, value, pointer, 1, bits];
                            memory.compare(&mut results, Call::Futex, arguments);
                        }
                        // Never, where that does not wait.
                        if value == 0 || bits == 0 && command == WAIT_BITSET {
                            let arguments = [address, command | flags, value, 0, 1, bits];
                            memory.compare(&mut results, Call::Futex, arguments);
                        }
                    }
                }
            }
        }
    }
    let expected = [
        libc::EAGAIN,
        libc::EFAULT,
        libc::EINVAL,
        libc::ENOSYS,
        libc::ETIMEDOUT,
    ];
    assert_found(&results, &expected);
}

#[test]
fn wake_ups() {
    let memory = Memory::new();
    let mut results = BTreeMap::new();
    for command in [WAKE, WAKE_BITSET] {
        for flags in [PRIVATE, PRIVATE | REALTIME] {
            for address in memory.addresses() {
                for count in [0, 1, usize::MAX] {
                    for bits in [0, 1, u32::MAX as usize] {
                        let arguments = [address, command | flags, count, 1, 1, bits];
                        memory.compare(&mut results, Call::Futex, arguments);
                    }
                }
            }
        }
    }
    assert_found(&results, &[0, libc::EFAULT, libc::EINVAL, libc::ENOSYS]);
}

#[test]
fn moves() {
    let memory = Memory::new();
    let mut results = BTreeMap::new();
    for command in [REQUEUE, CMP_REQUEUE] {
        for flags in [PRIVATE, PRIVATE | REALTIME] {
            for from in memory.addresses() {
                for to in memory.addresses() {
                    for counts in [(0, 0), (1, 1), (usize::MAX, 0), (0, u32::MAX as usize)] {
                        for value in [0, VALUE as usize] {
                            let (wake, others) = counts;
                            let arguments = [from, command | flags, wake, others, to, value];
                            memory.compare(&mut results, Call::Futex, arguments);
                        }
                    }
                }
            }
        }
    }
    let expected = [0, libc::EAGAIN, libc::EFAULT, libc::EINVAL, libc::ENOSYS];
    assert_found(&results, &expected);
}

/// All operations and comparisons, with arguments of either sign, at good and bad words.
#[test]
fn operations() {
    let memory = Memory::new();
    let mut results = BTreeMap::new();
    let codes =
        (0..16u32).flat_map(|op| (0..16u32).map(move |comparison| op << 28 | comparison << 24));
    let arguments = [(0, 0), (5, 7), (7, 8), (0xfff, 6), (0x800, 0xfff)];
    let codes: Vec<_> = codes
        .flat_map(|code| arguments.map(|(argument, other)| code | argument << 12 | other))
        .collect();
    for flags in [PRIVATE, PRIVATE | REALTIME] {
        for first in memory.addresses() {
            for second in memory.addresses() {
                // All codes where all is well.
                let is_good = first == memory.page(0) && second == first + 4;
                for code in codes.iter().step_by(if is_good { 1 } else { 37 }) {
                    let arguments = [first, WAKE_OP | flags, 1, 1, second, *code as usize];
                    memory.compare(&mut results, Call::Futex, arguments);
                }
            }
        }
    }
    assert_found(&results, &[0, libc::EFAULT, libc::EINVAL, libc::ENOSYS]);
}

/// The kernel knows others. What it says of them is passed on.
#[test]
fn unknown_operations() {
    let memory = Memory::new();
    let mut results = BTreeMap::new();
    for command in [
        2,
        13,
        14,
        63,
        127,
        512,
        1 << 20 | 1,
        usize::MAX ^ (PRIVATE | REALTIME),
    ] {
        for flags in [PRIVATE, PRIVATE | REALTIME] {
            let arguments = [memory.page(0), command | flags, 0, 0, 0, 0];
            memory.compare(&mut results, Call::Futex, arguments);
        }
    }
    assert_found(&results, &[libc::ENOSYS]);
}

/// The words of a list, good and bad, at each place of a list of two.
fn items(memory: &Memory) -> Vec<Item> {
    let mut items: Vec<_> = memory
        .addresses()
        .into_iter()
        .flat_map(|address| [VALUE, 0].map(|value| Item::new(address, value)))
        .collect();
    let good = Item::new(memory.page(0), VALUE);
    items.extend([
        Item { flags: 0, ..good },
        Item { flags: 3, ..good },
        Item {
            flags: 1 << 10,
            ..good
        },
        Item {
            reserved: 1,
            ..good
        },
        Item {
            value: 1 << 32 | u64::from(VALUE),
            ..good
        },
    ]);
    items
}

#[test]
fn lists() {
    let memory = Memory::new();
    let mut results = BTreeMap::new();
    let past = [1i64, 0];
    for first in items(&memory) {
        for second in items(&memory) {
            let list = [first, second];
            for clock in [libc::CLOCK_MONOTONIC, libc::CLOCK_REALTIME] {
                let arguments = waitv(&list, at(&past), clock);
                memory.compare(&mut results, Call::Waitv, arguments);
            }
        }
    }
    let expected = [libc::EAGAIN, libc::EFAULT, libc::EINVAL, libc::ETIMEDOUT];
    assert_found(&results, &expected);
}

/// The other arguments of a wait for a list; lists that end where memory ends.
#[test]
fn lists_and_times() {
    let memory = Memory::new();
    let mut results = BTreeMap::new();
    let good = [Item::new(memory.page(0), VALUE); 129];
    let changed = [Item::new(memory.page(0), 0); 2];
    let past = [1i64, 0];
    let lists = [good.as_ptr(), changed.as_ptr()].map(|list| list.expose_provenance());
    let bad = [0, memory.page(2), memory.page(3) - 24, 1, 1 << 63];
    for list in lists.into_iter().chain(bad) {
        for count in [0, 1, 2, 9, 33, 128, 129, 1 << 32 | 1] {
            for (flags, clock) in [(0, 1), (1, 1), (0, 0), (0, 2), (0, 99)] {
                let pointers = times();
                // An absolute second has passed.
                let pointers = pointers
                    .iter()
                    .map(at)
                    .chain([at(&past), 1, memory.page(2)]);
                for pointer in pointers {
                    let arguments = [list, count, flags, pointer, clock, 0];
                    memory.compare(&mut results, Call::Waitv, arguments);
                }
            }
        }
    }
    assert_found(
        &results,
        &[libc::EAGAIN, libc::EFAULT, libc::EINVAL, libc::ETIMEDOUT],
    );
}

/// Whether the kernel has the calls of Linux 6.7.
fn has_newer_calls() -> bool {
    let nothing = [0, 1, 0, usize::MAX, 0, 0];
    let has = Side::Kernel.call(Call::Wake, nothing) != -(libc::ENOSYS as isize);
    if !has {
        println!("SKIPPED: no futex_wake(2)");
    }
    has
}

#[test]
fn newer_waits_and_wake_ups() {
    if !has_newer_calls() {
        return;
    }
    let memory = Memory::new();
    let mut results = BTreeMap::new();
    let times = times();
    let numbers = [0, 1, VALUE as usize, 1 << 32 | VALUE as usize];
    let flags = [2 | PRIVATE, PRIVATE, 3 | PRIVATE, 1 << 20 | 2 | PRIVATE];
    for address in memory.addresses() {
        for number in numbers {
            for (flag, bits) in flags
                .into_iter()
                .flat_map(|flag| numbers.map(|bits| (flag, bits)))
            {
                for count in [0, 1, usize::MAX] {
                    let arguments = [address, bits, count, flag, 0, 0];
                    memory.compare(&mut results, Call::Wake, arguments);
                }
                for clock in [libc::CLOCK_MONOTONIC, libc::CLOCK_REALTIME, 7] {
                    for pointer in times.iter().map(at).chain([1, memory.page(2)]) {
                        let arguments = [address, number, bits, flag, pointer, clock as usize];
                        memory.compare(&mut results, Call::Wait, arguments);
                    }
                }
            }
        }
    }
    let expected = [0, libc::EAGAIN, libc::EFAULT, libc::EINVAL, libc::ETIMEDOUT];
    assert_found(&results, &expected);
}

#[test]
fn newer_moves() {
    if !has_newer_calls() {
        return;
    }
    let memory = Memory::new();
    let mut results = BTreeMap::new();
    let counts = [(0, 0), (1, 1), (usize::MAX, 0), (0, u32::MAX as usize)];
    for from in items(&memory) {
        for to in items(&memory) {
            for (flags, (wake, others)) in counts
                .map(|counts| (0, counts))
                .into_iter()
                .chain([(1, (1, 1))])
            {
                let list = [from, to];
                let arguments = [at(&list), flags, wake, others, 0, 0];
                memory.compare(&mut results, Call::Requeue, arguments);
            }
        }
    }
    for list in [0, 1, memory.page(2), memory.page(3) - 24] {
        memory.compare(&mut results, Call::Requeue, [list, 0, 1, 1, 0, 0]);
    }
    assert_found(&results, &[0, libc::EAGAIN, libc::EFAULT, libc::EINVAL]);
}

/// Words of both kinds, for a thread: the kernel looks at the shared ones.
#[test]
fn lists_of_both_kinds() {
    let memory = Memory::new();
    let mut results = BTreeMap::new();
    let soon = later(libc::CLOCK_MONOTONIC, 1);
    for values in [[VALUE, VALUE], [0, VALUE], [VALUE, 0]] {
        for shared in 0..2 {
            let mut list = values.map(|value| Item::new(memory.page(0), value));
            list[shared] = list[shared].shared();
            let arguments = waitv(&list, at(&soon), libc::CLOCK_MONOTONIC);
            memory.compare(&mut results, Call::Waitv, arguments);
        }
    }
    assert_found(&results, &[libc::EAGAIN, libc::ETIMEDOUT]);
}

/// A wait ends in time, by each clock, and not before.
#[test]
fn in_time() {
    let word = AtomicU32::new(VALUE);
    let real = libc::CLOCK_REALTIME;
    for side in [Side::Kernel, Side::Ours] {
        let begun = std::time::Instant::now();
        let (relative, list) = ([0i64, 3_000_000], [Item::new(at(&word), VALUE)]);
        let wait = |operation, time: &[i64; 2]| {
            side.futex([
                at(&word),
                operation | PRIVATE,
                VALUE as usize,
                at(time),
                0,
                1,
            ])
        };
        let late = -(libc::ETIMEDOUT as isize);
        assert_eq!(wait(WAIT, &relative), late);
        assert_eq!(wait(WAIT_BITSET, &later(libc::CLOCK_MONOTONIC, 3)), late);
        assert_eq!(wait(WAIT_BITSET | REALTIME, &later(real, 3)), late);
        let until = later(real, 3);
        assert_eq!(side.call(Call::Waitv, waitv(&list, at(&until), real)), late);
        let took = begun.elapsed().as_millis();
        assert!((12..1000).contains(&took), "{side:?}: {took} ms");
    }
}

/// errno is the caller's.
#[test]
fn errno_stays() {
    let memory = Memory::new();
    let soon = [0i64, 1000];
    // SAFETY: the calling thread's.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    unsafe { errno.write(77) };
    for address in [memory.page(0), memory.page(2)] {
        for command in [WAIT, WAKE, WAKE_OP] {
            let arguments = [address, command | PRIVATE, 1, at(&soon), address, 0];
            crate::side::ours(Call::Futex, arguments);
        }
    }
    // SAFETY: as above.
    assert_eq!(unsafe { errno.read() }, 77);
}
