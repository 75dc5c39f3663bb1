//! How long a party has waited for another one, measured by repeated checks.

/// The most that counts of the time between two checks, in nanoseconds. A caller that did not check
/// for longer had no processor. The other party may have had none either: the machine may have
/// stood still.
const BETWEEN_LOOKS: u64 = 10_000_000;

/// The time between the first check and the last, as far as the caller was able to check.
#[derive(Default)]
pub(super) struct Stopwatch {
    /// When it last checked.
    looked: Option<u64>,
    total: u64,
}

impl Stopwatch {
    /// One check, at time `now`. Returns how much of the time since the first check counts, in
    /// nanoseconds.
    pub(super) fn look(&mut self, now: u64) -> u64 {
        let since = self.looked.replace(now).unwrap_or(now);
        self.total += now.saturating_sub(since).min(BETWEEN_LOOKS);
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::{BETWEEN_LOOKS, Stopwatch};

    #[test]
    fn only_the_time_of_looks_counts() {
        let mut stopwatch = Stopwatch::default();
        let times = [
            5_000_000_000,
            5_000_200_000,
            5_001_000_000,
            15_001_000_000,
            15_001_300_000,
        ];
        let totals = [
            0,
            200_000,
            1_000_000,
            1_000_000 + BETWEEN_LOOKS,
            1_300_000 + BETWEEN_LOOKS,
        ];
        assert_eq!(times.map(|now| stopwatch.look(now)), totals);
        // A clock that goes back counts for nothing.
        assert_eq!(stopwatch.look(0), totals[4]);
    }
}
