//! Median, quartiles and spread of a few runs.

/// The summary of the values of several rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The middle value, or the mean of the two in the middle.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// A quarter of the values is below it.
    pub q1: f64,
    /// A quarter of the values is above it.
    pub q3: f64,
    /// How many there were.
    pub runs: usize,
}

impl Summary {
    /// Sums up `values`; `None` if there are none, or one that is not finite.
    pub fn of(values: &[f64]) -> Option<Self> {
        if values.is_empty() || values.iter().any(|value| !value.is_finite()) {
            return None;
        }
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        Some(Self {
            median: quantile(&sorted, 0.5),
            min: sorted[0],
            max: sorted[sorted.len() - 1],
            q1: quantile(&sorted, 0.25),
            q3: quantile(&sorted, 0.75),
            runs: sorted.len(),
        })
    }
}

/// The value below which this fraction of some sorted values is. Between two of them it is on the
/// line from one to the other (Hyndman and Fan's definition 7, which spreadsheets and R have too).
fn quantile(sorted: &[f64], fraction: f64) -> f64 {
    let place = fraction * (sorted.len() - 1) as f64;
    let (below, above) = (
        sorted[place.floor() as usize],
        sorted[place.ceil() as usize],
    );
    below + (above - below) * place.fract()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_and_even_counts() {
        assert_eq!(
            Summary::of(&[3.0, 1.0, 2.0]),
            Some(Summary {
                median: 2.0,
                min: 1.0,
                max: 3.0,
                q1: 1.5,
                q3: 2.5,
                runs: 3
            })
        );
        assert_eq!(
            Summary::of(&[4.0, 1.0, 2.0, 3.0]),
            Some(Summary {
                median: 2.5,
                min: 1.0,
                max: 4.0,
                q1: 1.75,
                q3: 3.25,
                runs: 4
            })
        );
        assert_eq!(
            Summary::of(&[7.0]),
            Some(Summary {
                median: 7.0,
                min: 7.0,
                max: 7.0,
                q1: 7.0,
                q3: 7.0,
                runs: 1
            })
        );
    }

    #[test]
    fn nothing_to_sum_up() {
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(Summary::of(&[1.0, f64::NAN]), None);
        assert_eq!(Summary::of(&[1.0, f64::INFINITY]), None);
    }
}
