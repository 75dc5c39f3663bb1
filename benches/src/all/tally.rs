//! Counts the verdicts of a report.

use crate::About;
use crate::harness::{Outcome, Relation, Report, Row, Section, describe};

/// How many demands have which outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) met: usize,
    pub(super) equal: usize,
    pub(super) missed: usize,
    /// Without a verdict, for want of rounds.
    pub(super) none: usize,
}

/// How many rows of ours stand how beside a reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Beside {
    pub(super) reference: &'static str,
    pub(super) better: usize,
    pub(super) equal: usize,
    pub(super) worse: usize,
}

/// A demand that is not met, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unmet {
    pub(super) outcome: Outcome,
    pub(super) text: String,
}

impl Tally {
    pub(super) fn of(report: &Report, section: &Section) -> Self {
        let mut tally = Self::default();
        for (_, finding) in findings(report, section) {
            *match finding.outcome {
                Outcome::Met => &mut tally.met,
                Outcome::Equal => &mut tally.equal,
                Outcome::Missed => &mut tally.missed,
                Outcome::TooFew(_) => &mut tally.none,
            } += 1;
        }
        tally
    }

    /// Of all sections of a bench.
    pub(super) fn sum(report: &Report, about: &About) -> Self {
        let all = about.sections.iter();
        all.map(|section| Self::of(report, section))
            .fold(Self::default(), Self::and)
    }

    pub(super) fn and(self, other: Self) -> Self {
        Self {
            met: self.met + other.met,
            equal: self.equal + other.equal,
            missed: self.missed + other.missed,
            none: self.none + other.none,
        }
    }

    /// `3 met, 1 missed`; empty if nothing is asked.
    pub(super) fn words(self) -> String {
        listed(&[
            (self.met, "met"),
            (self.equal, "equal"),
            (self.missed, "missed"),
            (self.none, "without a verdict"),
        ])
    }
}

impl Beside {
    /// `2 better, 1 equal`; empty if there is no verdict.
    pub(super) fn words(&self) -> String {
        listed(&[
            (self.better, "better"),
            (self.equal, "equal"),
            (self.worse, "worse"),
        ])
    }
}

fn listed(counts: &[(usize, &str)]) -> String {
    let some = counts.iter().filter(|(count, _)| *count > 0);
    let words: Vec<String> = some
        .map(|(count, word)| format!("{count} {word}"))
        .collect();
    words.join(", ")
}

/// The rows of ours beside each reference of a section.
pub(super) fn beside(report: &Report, about: &About, section: &Section) -> Vec<Beside> {
    let of = |reference: &&'static str| {
        let relations: Vec<Relation> = rows(report, section)
            .filter(|row| about.ours.contains(&row.case))
            .filter_map(|row| report.relation(row, reference))
            .collect();
        let count = |wanted| relations.iter().filter(|it| **it == wanted).count();
        Beside {
            reference,
            better: count(Relation::Better),
            equal: count(Relation::Equal),
            worse: count(Relation::Worse),
        }
    };
    let all = section.references.iter().map(of);
    all.filter(|it| !it.words().is_empty()).collect()
}

/// The demands that are missed, or just equal.
pub(super) fn unmet(report: &Report, section: &Section) -> Vec<Unmet> {
    let all = findings(report, section)
        .filter(|(_, finding)| matches!(finding.outcome, Outcome::Equal | Outcome::Missed));
    all.map(|(row, finding)| Unmet {
        outcome: finding.outcome,
        text: format!(
            "{}, {} ({}): {}, and the median is {} {}",
            section.metric,
            row.case,
            describe(&row.params),
            finding.demand,
            crate::harness::number(row.median),
            row.unit
        ),
    })
    .collect()
}

fn rows<'a>(report: &'a Report, section: &'a Section) -> impl Iterator<Item = &'a Row> {
    let is_its = |row: &&Row| row.metric == section.metric;
    report.rows.iter().filter(is_its)
}

fn findings<'a>(
    report: &'a Report,
    section: &'a Section,
) -> impl Iterator<Item = (&'a Row, crate::harness::Finding)> {
    let of = |row| section.bar.map_or(Vec::new(), |bar| bar(report, row));
    rows(report, section).flat_map(move |row| of(row).into_iter().map(move |it| (row, it)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_are_counted() {
        let all = super::super::tests::run(&["good"], 15);
        let done = &all.done[0];
        let (report, sections) = (done.report.as_ref().unwrap(), done.about.sections);
        let tally = Tally::sum(report, &done.about);
        assert_eq!(tally.words(), "1 met, 1 missed");
        assert_eq!(Tally::of(report, &sections[1]).words(), "");
        let words: Vec<String> = sections
            .iter()
            .flat_map(|section| beside(report, &done.about, section))
            .map(|it| format!("{}: {}", it.reference, it.words()))
            .collect();
        assert_eq!(words, ["peer: 1 better, 1 equal", "peer: 1 worse"]);
        let unmet = unmet(report, &sections[0]);
        assert_eq!(unmet.len(), 1);
        assert!(
            unmet[0].text.starts_with("cost, umcg (cpus 2): at most 10"),
            "{unmet:?}"
        );
    }

    #[test]
    fn few_rounds_make_no_verdict() {
        let all = super::super::tests::run(&["good"], 14);
        let done = &all.done[0];
        let report = done.report.as_ref().unwrap();
        let tally = Tally::sum(report, &done.about);
        assert_eq!(tally.words(), "2 without a verdict");
        assert!(beside(report, &done.about, &done.about.sections[0]).is_empty());
    }
}
