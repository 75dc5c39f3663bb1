//! The numbers of a Tukey diagram, from many measurements.

use serde::{Deserialize, Serialize};

/// How many steps a [`Spread`] has from the smallest to the largest.
const STEPS: usize = 200;

/// Many measurements in short, as one turn reports them: evenly spaced quantiles, the smallest and
/// the largest among them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    quantiles: Vec<f64>,
    mean: f64,
    samples: u64,
}

impl Spread {
    /// Of this many measurements; `None` if there are none.
    pub fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let last = values.len().checked_sub(1)?;
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let quantiles = (0..=STEPS)
            .map(|step| values[(step * last + STEPS / 2) / STEPS])
            .collect();
        Some(Self {
            quantiles,
            mean,
            samples: values.len() as u64,
        })
    }

    /// The same where a clock with this step has measured.
    ///
    /// An operation of 13 ns is 10 ns in seven of ten times and 20 ns in three, if that is the
    /// step. So a measurement stands for all times within half a step of it, evenly, and quantiles
    /// are taken of these: the median of grouped data. The smallest and the largest stay what they
    /// are.
    #[must_use]
    pub fn smoothed(mut self, step: f64) -> Self {
        let all = self.quantiles.clone();
        let last = all.len().saturating_sub(1);
        for place in 1..last {
            let (from, to) = (all[place] - step / 2.0, all[place] + step / 2.0);
            let below = all.partition_point(|value| *value <= from);
            let inside = all.partition_point(|value| *value <= to) - below;
            let part = (place as f64 + 0.5 - below as f64) / inside as f64;
            self.quantiles[place] = (from + part * step).clamp(all[0].max(0.0), all[last]);
        }
        self
    }

    /// The middle one.
    pub fn median(&self) -> f64 {
        self.quantiles
            .get(self.quantiles.len() / 2)
            .copied()
            .unwrap_or(f64::NAN)
    }
}

/// A box with whiskers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Tukey {
    /// The smallest of all.
    pub min: f64,
    /// The smallest that is not further from the box than one and a half times its height.
    pub low: f64,
    /// The box: a quarter is below it.
    pub q1: f64,
    /// The line in the box.
    pub median: f64,
    /// A quarter is above the box.
    pub q3: f64,
    /// As `low`, above the box.
    pub high: f64,
    /// The largest of all.
    pub max: f64,
    /// The mean of all.
    pub mean: f64,
    /// How many.
    pub samples: u64,
}

impl Tukey {
    /// Of the measurements of several turns, which all count the same.
    pub fn of(turns: &[Spread]) -> Option<Self> {
        let mut all: Vec<f64> = turns
            .iter()
            .flat_map(|turn| turn.quantiles.iter().copied())
            .collect();
        if all.is_empty() || all.iter().any(|value| !value.is_finite()) {
            return None;
        }
        all.sort_by(f64::total_cmp);
        let quantile = |quarter: usize| {
            let place = (all.len() - 1) as f64 * quarter as f64 / 4.0;
            let (below, above) = (all[place.floor() as usize], all[place.ceil() as usize]);
            below + (above - below) * place.fract()
        };
        let [q1, median, q3] = [1, 2, 3].map(quantile);
        let reach = 1.5 * (q3 - q1);
        Some(Self {
            min: all[0],
            low: all
                .iter()
                .copied()
                .find(|value| *value >= q1 - reach)?
                .min(q1),
            q1,
            median,
            q3,
            high: all
                .iter()
                .rev()
                .copied()
                .find(|value| *value <= q3 + reach)?
                .max(q3),
            max: all[all.len() - 1],
            mean: turns.iter().map(|turn| turn.mean).sum::<f64>() / turns.len() as f64,
            samples: turns.iter().map(|turn| turn.samples).sum(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quarters_and_whiskers() {
        let one = Spread::of((0..=400).map(f64::from).collect()).unwrap();
        assert_eq!(one.median(), 200.0);
        let all = Tukey::of(std::slice::from_ref(&one)).unwrap();
        assert_eq!(
            (all.min, all.low, all.q1, all.median),
            (0.0, 0.0, 100.0, 200.0)
        );
        assert_eq!(
            (all.q3, all.high, all.max, all.mean, all.samples),
            (300.0, 400.0, 400.0, 200.0, 401)
        );
        let far = Spread::of(
            (0..=400)
                .map(|at| if at == 400 { 9000.0 } else { f64::from(at) })
                .collect(),
        )
        .unwrap();
        let both = Tukey::of(&[one, far]).unwrap();
        assert_eq!(
            (both.high, both.max, both.samples),
            (400.0, 9000.0, 802),
            "what is far away is beyond the whisker"
        );
    }

    /// Times of operations, as a clock with a step of 10 ns has them that goes on by itself.
    fn stepped(nanos: f64) -> Spread {
        let read = |time: f64| (time / 10.0).floor() * 10.0;
        let values = (0..1000).map(|place| {
            let start = f64::from(place) * 0.37;
            read(start + nanos) - read(start)
        });
        Spread::of(values.collect()).unwrap()
    }

    #[test]
    fn steps_of_the_clock_are_no_figures() {
        for nanos in [6.0, 13.0, 17.0, 34.0, 45.0] {
            let spread = stepped(nanos);
            assert_eq!(spread.median() % 10.0, 0.0, "a step");
            let smooth = spread.smoothed(10.0).median();
            assert!((smooth - nanos).abs() < 2.6, "{nanos}: {smooth}");
        }
        let fine = Spread::of((100..=500).map(f64::from).collect()).unwrap();
        let smooth = fine.clone().smoothed(10.0);
        let pairs = fine.quantiles.iter().zip(&smooth.quantiles);
        let far = pairs.map(|(one, other)| (one - other).abs());
        assert!(far.fold(0.0, f64::max) <= 5.0, "{smooth:?}");
        assert_eq!(stepped(0.0).smoothed(10.0).median(), 0.0);
    }

    #[test]
    fn one_value_and_none() {
        let one = Tukey::of(&[Spread::of(vec![7.0]).unwrap()]).unwrap();
        assert_eq!(
            (one.min, one.q1, one.median, one.high, one.samples),
            (7.0, 7.0, 7.0, 7.0, 1)
        );
        assert_eq!(Spread::of(Vec::new()), None);
        assert_eq!(Tukey::of(&[]), None);
        assert_eq!(Tukey::of(&[Spread::of(vec![f64::NAN]).unwrap()]), None);
    }
}
