//! The median of a sample, and an interval for the median of the population that the sample was
//! taken from.
//!
//! The interval is that of the sign test. Each of `n` independent values is below the true median
//! with probability one half, however the values are distributed. So the number below it is
//! binomial, and the true median lies between the k-th smallest and the k-th largest value unless
//! fewer than k values are below it, or fewer than k above:
//!
//! ```text
//! confidence = 1 - 2 * (C(n, 0) + ... + C(n, k - 1)) / 2^n
//! ```
//!
//! The largest k is taken that leaves at least 95 %; of 15 values it is 4, which gives 96.5 %.
//! Fewer than six values have no such interval. The method is W. R. Thompson's (On confidence
//! ranges for the median and other expectation distributions for populations of unknown
//! distribution form, Annals of Mathematical Statistics 7, 1936). K. R. Nair printed the table
//! (Sankhya 4, 1940). W. J. Conover, Practical Nonparametric Statistics, 1999, has it as the
//! interval for a quantile.
//!
//! Not chosen: the interval of Hodges and Lehmann, by Wilcoxon's signed ranks. It is narrower, but
//! asks for a symmetric distribution, and the times of a shared machine have a long tail on one
//! side.

use serde::Serialize;

/// The interval must hold the true median this often, or more often.
const CONFIDENCE: f64 = 0.95;

/// With fewer values there is no interval.
pub const FEWEST: usize = 6;

/// With more, the terms of the sum become too small for a float.
pub const MOST: usize = 1000;

/// Where the true median is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// The sample's median.
    pub median: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// How often such an interval holds the true median, at least.
    pub confidence: f64,
    /// The size of the sample.
    pub count: usize,
}

impl Interval {
    /// Of a sample; `None` if it is too small or too large, or if one of its values is not finite.
    pub fn of(values: &[f64]) -> Option<Self> {
        Self::with(values, CONFIDENCE)
    }

    /// The same with another confidence.
    pub(super) fn with(values: &[f64], least: f64) -> Option<Self> {
        if values.iter().any(|value| !value.is_finite()) {
            return None;
        }
        let (place, confidence) = place_with(values.len(), least)?;
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let count = sorted.len();
        let median = (sorted[(count - 1) / 2] + sorted[count / 2]) / 2.0;
        Some(Self {
            median,
            low: sorted[place - 1],
            high: sorted[count - place],
            confidence,
            count,
        })
    }
}

/// Which value from either end ends the interval, counted from 1, and the confidence.
pub fn place(count: usize) -> Option<(usize, f64)> {
    place_with(count, CONFIDENCE)
}

fn place_with(count: usize, least: f64) -> Option<(usize, f64)> {
    if count > MOST {
        return None;
    }
    let (mut term, mut tail, mut found) = (0.5_f64.powi(count as i32), 0.0, None);
    for below in 0..count / 2 {
        tail += term;
        if 1.0 - 2.0 * tail < least {
            break;
        }
        found = Some((below + 1, 1.0 - 2.0 * tail));
        term *= (count - below) as f64 / (below + 1) as f64;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values of the printed table.
    #[test]
    fn places_are_those_of_the_table() {
        let table = [
            (6, 1, 96.9),
            (9, 2, 96.1),
            (15, 4, 96.5),
            (17, 5, 95.1),
            (20, 6, 95.9),
            (30, 10, 95.7),
            (50, 18, 96.7),
        ];
        for (count, expected, percent) in table {
            let (place, confidence) = place(count).unwrap();
            assert_eq!(place, expected, "{count}");
            assert!(
                (confidence * 100.0 - percent).abs() < 0.06,
                "{count}: {confidence}"
            );
        }
        assert_eq!(place(FEWEST - 1), None, "1 - 2 / 32 is 93.75 %");
        assert_eq!(place(0), None);
        assert!(place(MOST).is_some() && place(MOST + 1).is_none());
    }

    /// By hand: of 15 the fourth smallest and the fourth largest; outside are 2 * 576 of 32,768.
    #[test]
    fn an_interval_is_made_of_values() {
        let values = [
            9.0, 1.0, 15.0, 3.0, 7.0, 11.0, 5.0, 13.0, 2.0, 14.0, 6.0, 10.0, 4.0, 12.0, 8.0,
        ];
        let interval = Interval::of(&values).unwrap();
        assert_eq!(
            (interval.median, interval.low, interval.high, interval.count),
            (8.0, 4.0, 12.0, 15)
        );
        assert!((interval.confidence - (1.0 - 1152.0 / 32768.0)).abs() < 1e-12);
    }

    /// By hand: of six the smallest and the largest; outside are 2 of 64.
    #[test]
    fn of_six_it_is_all() {
        let interval = Interval::of(&[6.0, 1.0, 5.0, 2.0, 4.0, 3.0]).unwrap();
        assert_eq!(
            (interval.median, interval.low, interval.high),
            (3.5, 1.0, 6.0)
        );
        assert_eq!(interval.confidence, 1.0 - 2.0 / 64.0);
        assert_eq!(Interval::of(&[1.0; 5]), None);
        assert_eq!(Interval::of(&[1.0, 1.0, 1.0, 1.0, 1.0, f64::NAN]), None);
    }
}
