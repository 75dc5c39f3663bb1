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
