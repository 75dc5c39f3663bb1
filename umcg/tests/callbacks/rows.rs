//! Tables of operations that are given code of the program's, or a value with a destructor: each
//! row is tried with each callback that is bad where it is called, or where it is dropped.

use crate::ledger::{Ledger, Thing};
use crate::parties::{each, forgive};
use crate::trap::{Bad, Point, Trap};

pub(crate) struct World {
    bad: Bad,
    pub(crate) ledger: &'static Ledger,
    pub(crate) trap: &'static Trap,
}

impl World {
    pub(crate) fn thing(&self) -> Thing {
        Thing::new(self.ledger, self.trap)
    }

    /// The program's code, which is given to the operation.
    pub(crate) fn call(&self) {
        self.trap.at(Point::Call);
    }

    /// Whether the bad callback is this one, each time or once.
    pub(crate) fn panics_at(&self, point: Point) -> bool {
        self.trap.is_at(point) && matches!(self.bad, Bad::Panics | Bad::Panic)
    }

    /// The operation. After it everything must be usable.
    pub(crate) fn forgive<R>(&self, f: impl FnOnce() -> R) -> Option<R> {
        self.trap.arm();
        let result = forgive(self.bad, f);
        self.trap.disarm();
        result
    }
}

/// Its name, its work and its checks.
pub(crate) type Row = (&'static str, fn(&World));

pub(crate) fn all(name: &'static str, rows: &[Row]) {
    each(
        name,
        |bad| {
            let points = [Point::Call, Point::Drop]
                .into_iter()
                .filter(move |point| point.may(bad));
            points
                .flat_map(|point| rows.iter().map(move |row| (*row, point)))
                .collect()
        },
        |((_, run), point), bad, ledger, myself| {
            run(&World {
                bad,
                ledger,
                trap: Trap::new(*point, bad, myself),
            })
        },
        |((row, _), point)| format!("{row}, {point:?}"),
    );
}
