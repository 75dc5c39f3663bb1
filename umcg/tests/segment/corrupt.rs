//! With any contents in a segment, all operations end: with a result, or with an error.

use crate::support::{child_succeeds, is_child};
use crate::{Random, again};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};
use umcg::segment::{Segment, acquire_any_deadline};

/// Some of each operation, within a time.
fn do_all(segment: &Segment, random: &mut Random, turns: usize) {
    for _ in 0..turns {
        let soon = Instant::now() + Duration::from_micros(200);
        let names = ["a", "b"].map(|name| segment.semaphore(name, 1).ok());
        let event = if random.below(2) == 0 {
            segment.auto_event("e", true)
        } else {
            segment.manual_event("m", false)
        };
        if let [Some(a), Some(b)] = &names {
            let _ = (
                a.acquire_deadline(soon),
                acquire_any_deadline(&[a, b, a], soon),
                b.acquire_many_deadline(2, soon),
            );
            let _ = (
                a.release(1),
                b.release(2),
                a.try_acquire(),
                b.waiters(),
                a.fault(),
            );
        }
        if let Ok(event) = event {
            let _ = (
                event.wait_deadline(soon),
                event.set(),
                event.pulse(),
                event.reset(),
                event.waiters(),
                event.set(),
            );
        }
        if let Ok(tube) = segment.tube::<[u64; 3]>("t", 3) {
            let _ = (
                tube.send_deadline([1; 3], soon),
                tube.recv_deadline(soon),
                tube.try_recv(),
                tube.try_send([2; 3]),
            );
            let _ = (tube.as_bytes().waiters(), tube.as_bytes().len());
            if random.below(20) == 0 {
                let _ = tube.close();
            }
        }
        let _ = format!("{segment:?}");
    }
}

/// A few bytes anywhere in the used part are overwritten, again and again, while threads of two
/// openings use every operation.
fn corrupt(seed: u64) {
    let mut random = Random::new(seed);
    let segment = Segment::options()
        .objects(8)
        .waiters(16)
        .processes(4)
        .bytes(4096)
        .create()
        .unwrap();
    let file = std::fs::File::from(segment.as_fd().try_clone_to_owned().unwrap());
    let size = file.metadata().unwrap().len() - 4096 + 200;
    let other = again(&segment);
    for segment in [&segment, &other] {
        segment.set_patience(Duration::from_millis(20));
        do_all(segment, &mut random, 1);
    }
    std::thread::scope(|scope| {
        for (number, segment) in [&segment, &other, &segment].into_iter().enumerate() {
            scope.spawn(move || do_all(segment, &mut Random(seed + number as u64 + 1), 60));
        }
        for _ in 0..1 + random.below(40) {
            std::thread::sleep(Duration::from_micros(random.below(500)));
            let at = random.below(size);
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).unwrap();
            // A bit, or a byte, or a small number: the wrong one that is likeliest to be believed.
            byte[0] = [
                byte[0] ^ 1 << random.below(8),
                random.below(256) as u8,
                random.below(5) as u8,
            ][random.below(3) as usize];
            file.write_all_at(&byte, at).unwrap();
        }
    });
}

#[test]
fn any_byte() {
    const TEST: &str = "corrupt::any_byte";
    if !is_child(TEST) {
        // In a process of its own, which has two minutes, and the segments of no other test.
        return child_succeeds(TEST);
    }
    let seed = u64::from(std::process::id()) << 8;
    let until = Instant::now() + Duration::from_secs(5);
    // A few at least, however slow the machine is.
    (0..)
        .take_while(|turn| *turn < 4 || Instant::now() < until)
        .for_each(|turn| corrupt(seed + turn));
}

/// All of it at once.
#[test]
fn noise() {
    const TEST: &str = "corrupt::noise";
    if !is_child(TEST) {
        return child_succeeds(TEST);
    }
    for seed in 0..20 {
        let mut random = Random::new(seed);
        let segment = Segment::options()
            .objects(8)
            .waiters(16)
            .processes(4)
            .bytes(4096)
            .create()
            .unwrap();
        segment.set_patience(Duration::from_millis(20));
        do_all(&segment, &mut random, 2);
        let file = std::fs::File::from(segment.as_fd().try_clone_to_owned().unwrap());
        let noise: Vec<u8> = (0..file.metadata().unwrap().len())
            .map(|_| random.below(256) as u8)
            .collect();
        let values = [
            noise.clone(),
            vec![0xff; noise.len()],
            vec![1; noise.len()],
            vec![0; noise.len()],
        ];
        // Behind the header, which is not read again.
        file.write_all_at(&values[seed as usize % 4][64..], 64)
            .unwrap();
        do_all(&segment, &mut random, 3);
        drop(segment);
    }
}
