//! Timeouts: from a structure in the caller's memory to a deadline of the library's.

use super::{Outcome, failed, memory};
use crate::rt::time::now;
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

const SECOND: u64 = 1_000_000_000;

/// The kernel's last moment, which never comes.
const LAST: u64 = i64::MAX as u64;

/// The end of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FutexTimeout {
    /// In nanoseconds of CLOCK_MONOTONIC.
    deadline: u64,
    /// The same as it was given, if that was in CLOCK_REALTIME; else 0, which has passed.
    real: u64,
}

impl FutexTimeout {
    pub(super) const NEVER: FutexTimeout = FutexTimeout {
        deadline: u64::MAX,
        real: 0,
    };

    pub(super) fn into_words(self) -> [usize; 2] {
        [self.deadline as usize, self.real as usize]
    }

    pub(super) fn from_words([deadline, real]: [usize; 2]) -> FutexTimeout {
        FutexTimeout {
            deadline: deadline as u64,
            real: real as u64,
        }
    }

    pub(super) fn deadline(self) -> u64 {
        self.deadline
    }

    /// The result of a wait that ends by this. If the clock was set back meanwhile, it is too
    /// early: then the wait ends without a reason.
    pub(super) fn passed(self) -> Outcome {
        if realtime() >= self.real {
            failed(Errno::TIMEDOUT)
        } else {
            Outcome::Done(0)
        }
    }
}

/// The end of a wait whose timeout is at this address; null for never. EFAULT and EINVAL as the
/// kernel's.
pub(super) fn until(
    address: usize,
    is_relative: bool,
    is_real: bool,
) -> Result<FutexTimeout, Errno> {
    if address == 0 {
        return Ok(FutexTimeout::NEVER);
    }
    let words: [u32; 4] = memory::read(address).ok_or(Errno::FAULT)?;
    let seconds = memory::long(words[0], words[1]);
    let nanos = memory::long(words[2], words[3]);
    if seconds > LAST || nanos >= SECOND {
        return Err(Errno::INVAL);
    }
    let given = seconds.saturating_mul(SECOND).saturating_add(nanos);
    let deadline = if is_relative {
        given.saturating_add(now())
    } else if is_real {
        given.saturating_sub(realtime()).saturating_add(now())
    } else {
        given
    };
    Ok(FutexTimeout {
        deadline: if given >= LAST || deadline >= LAST {
            u64::MAX
        } else {
            deadline
        },
        real: if is_real && !is_relative { given } else { 0 },
    })
}

fn realtime() -> u64 {
    let now = clock_gettime(ClockId::Realtime);
    (now.tv_sec as u64)
        .saturating_mul(SECOND)
        .saturating_add(now.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(at: &[i64; 2], is_relative: bool, is_real: bool) -> Result<FutexTimeout, Errno> {
        until(
            std::ptr::from_ref(at).expose_provenance(),
            is_relative,
            is_real,
        )
    }

    #[test]
    fn times_are_read() {
        let second = SECOND as i64;
        assert_eq!(until(0, true, false), Ok(FutexTimeout::NEVER));
        assert_eq!(until(8, true, false), Err(Errno::FAULT));
        for bad in [[-1, 0], [0, -1], [0, second], [i64::MIN, 0]] {
            assert_eq!(read(&bad, true, false), Err(Errno::INVAL));
        }
        assert_eq!(
            read(&[2, 3], false, false).unwrap().deadline,
            2 * SECOND + 3
        );
        let far = read(&[i64::MAX, second - 1], true, false).unwrap();
        assert_eq!(far.deadline, u64::MAX);
        let before = now();
        let soon = read(&[1, 0], true, false).unwrap().deadline;
        assert!(soon >= before + SECOND && soon <= now() + SECOND);
    }

    #[test]
    fn a_time_of_the_wall_clock() {
        let at = (realtime() / SECOND + 100) as i64;
        let until = read(&[at, 0], false, true).unwrap();
        let left = until.deadline - now();
        assert!(left > 98 * SECOND && left <= 100 * SECOND);
        // The clock has not come to it: as if it had been set back.
        assert_eq!(until.passed(), Outcome::Done(0));
        let past = read(&[1, 0], false, true).unwrap();
        assert!(past.deadline <= now());
        assert_eq!(past.passed(), failed(Errno::TIMEDOUT));
    }
}
