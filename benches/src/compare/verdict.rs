//! The verdict of the pairs of a row.

use super::interval::Interval;
use crate::harness::Better;
use serde::Serialize;

/// Where the interval lies, seen from one and the tolerance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The whole interval is beyond the tolerance: B costs more.
    Worse,
    /// The same on the other side.
    Better,
    /// The whole interval is within the tolerance.
    Same,
    /// It is on both sides of a limit: more pairs would tell.
    Unclear,
}

impl Verdict {
    /// Of an interval for the cost of B relative to A. The tolerance is a fraction.
    pub fn of(interval: &Interval, tolerance: f64) -> Self {
        let (above, below) = limits(tolerance);
        match interval {
            Interval { low, .. } if *low > above => Self::Worse,
            Interval { high, .. } if *high < below => Self::Better,
            Interval { low, high, .. } if *low >= below && *high <= above => Self::Same,
            _ => Self::Unclear,
        }
    }

    /// For people.
    pub fn word(self) -> &'static str {
        match self {
            Self::Worse => "worse",
            Self::Better => "better",
            Self::Same => "same",
            Self::Unclear => "unclear",
        }
    }
}

/// Above the first B is worse, below the second it is better. As factors, both are as far from one.
pub(super) fn limits(tolerance: f64) -> (f64, f64) {
    (1.0 + tolerance, 1.0 / (1.0 + tolerance))
}

/// The cost of B relative to A: above one B is worse, in either direction of the metric. `None` if
/// one of the figures is not above zero.
pub(super) fn cost([a, b]: [f64; 2], better: Better) -> Option<f64> {
    let ratio = match better {
        Better::Lower => b / a,
        Better::Higher => a / b,
    };
    (a > 0.0 && b > 0.0 && ratio.is_finite()).then_some(ratio)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(low: f64, high: f64) -> Verdict {
        Verdict::of(
            &Interval {
                median: (low + high) / 2.0,
                low,
                high,
                confidence: 0.96,
                count: 15,
            },
            0.03,
        )
    }

    #[test]
    fn the_whole_interval_has_to_be_beyond() {
        assert_eq!(verdict(1.031, 1.2), Verdict::Worse);
        assert_eq!(
            verdict(1.029, 1.2),
            Verdict::Unclear,
            "it may be less than the tolerance"
        );
        assert_eq!(verdict(0.99, 1.02), Verdict::Same);
        assert_eq!(verdict(0.8, 0.9), Verdict::Better);
        assert_eq!(verdict(0.8, 0.98), Verdict::Unclear);
        assert_eq!(verdict(0.5, 2.0), Verdict::Unclear);
    }

    #[test]
    fn each_metric_has_its_direction() {
        assert_eq!(cost([100.0, 110.0], Better::Lower), Some(1.1));
        assert_eq!(cost([110.0, 100.0], Better::Higher), Some(1.1));
        assert_eq!(cost([0.0, 1.0], Better::Lower), None);
        assert_eq!(cost([1.0, 0.0], Better::Higher), None);
        assert_eq!(cost([1.0, f64::NAN], Better::Lower), None);
    }

    /// Figures without chance, from a seed.
    struct Noise(u64);

    impl Noise {
        /// From -1 to 1, mostly around 0; now and then far above.
        fn next(&mut self) -> f64 {
            let mut uniform = || {
                self.0 ^= self.0 << 13;
                self.0 ^= self.0 >> 7;
                self.0 ^= self.0 << 17;
                (self.0 >> 11) as f64 / (1_u64 << 53) as f64
            };
            let (sum, outlier) = (uniform() + uniform() - 1.0, uniform());
            if outlier < 0.1 { sum + 5.0 } else { sum }
        }
    }

    /// Of 15 pairs on a machine that drifts, where B costs this many times as much as A.
    fn judged(noise: &mut Noise, size: f64, factor: f64) -> Verdict {
        let ratios: Vec<f64> = (0..15)
            .map(|pair| {
                let drift = 100.0 + 3.0 * f64::from(pair);
                let figures = [
                    drift * (1.0 + size * noise.next()),
                    drift * factor * (1.0 + size * noise.next()),
                ];
                cost(figures, Better::Lower).unwrap()
            })
            .collect();
        Verdict::of(&Interval::of(&ratios).unwrap(), 0.03)
    }

    #[test]
    fn noise_gives_no_verdict_and_a_slower_build_is_found() {
        let mut noise = Noise(0x9e37_79b9_7f4a_7c15);
        let first: Vec<bool> = (0..2000)
            .map(|_| judged(&mut noise, 0.2, 1.0) == Verdict::Worse)
            .collect();
        let flagged = first.iter().filter(|is_worse| **is_worse).count();
        assert!(
            flagged <= 50,
            "the interval is wrong on that side 2.5 % of the time at most: {flagged}"
        );
        let confirmed = first
            .iter()
            .filter(|is_worse| **is_worse && judged(&mut noise, 0.2, 1.0) == Verdict::Worse)
            .count();
        assert!(confirmed <= 1, "{confirmed}");
        // Where four of 15 pairs have an outlier on one side, the interval ends in one: of a
        // hundred comparisons in some four.
        let found = (0..1000)
            .filter(|_| judged(&mut noise, 0.02, 1.1) == Verdict::Worse)
            .count();
        assert!(found >= 930, "{found}");
        let same = (0..1000)
            .filter(|_| judged(&mut noise, 0.01, 1.0) == Verdict::Same)
            .count();
        assert!(same >= 880, "{same}");
    }
}
