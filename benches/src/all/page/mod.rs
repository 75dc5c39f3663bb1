//! The page: one file of HTML without scripts that fetches nothing, for a screen of any width and
//! for paper.
//!
//! It is written as well-formed XML too, so that a test can read it with a few lines. Every text
//! goes through [`escaped`]; tags are literals of this module and of `plot`.

mod plot;

use super::tally::{Beside, Tally, beside, unmet};
use super::text::time;
use super::{All, Done};
use crate::harness::{Grid, Report, Section, judge, words};
use std::fmt::Write;

/// Text between tags, or the value of an attribute.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            // Others have no place in a page.
            letter if letter.is_control() && letter != '\n' => safe.push(' '),
            letter => safe.push(letter),
        }
    }
    safe
}

/// A tag around some text.
fn tagged(tag: &str, text: &str) -> String {
    format!("<{tag}>{}</{tag}>\n", escaped(text))
}

/// The name of a section's place in the page.
fn place(bench: &str, section: &Section) -> String {
    format!("{bench}-{}", section.metric)
}

/// The sections that a report has rows for.
fn shown<'a>(report: &'a Report, done: &Done) -> impl Iterator<Item = &'static Section> + 'a {
    let has_rows = |section: &&Section| {
        let is_its = |row: &crate::harness::Row| row.metric == section.metric;
        report.rows.iter().any(is_its)
    };
    done.about.sections.iter().filter(has_rows)
}

impl All {
    /// The page as far as it has come.
    pub fn to_html(&self) -> String {
        let mut page = String::from(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
             <meta name=\"color-scheme\" content=\"light dark\"/>\n\
             <title>umcg bench</title>\n<style>\n",
        );
        page += include_str!("style.css");
        page += "</style>\n</head>\n<body>\n<main>\n";
        page += &self.header();
        page += &self.contents();
        page += &self.verdicts();
        self.done.iter().for_each(|done| page += &done.section());
        page += "</main>\n</body>\n</html>\n";
        page
    }

    fn header(&self) -> String {
        let mut text = tagged("h1", "umcg bench");
        let (done, wanted) = (self.done.len(), self.wanted);
        if done < wanted {
            text += &format!("<p class=\"warning\">Unfinished: {done} of {wanted} benches.</p>\n");
        }
        text += &tagged(
            "p",
            &format!(
                "Each bench sets ours beside the peers in one run: the sides take turns, in up to \
                 {} rounds after one that only warms up. {} It all took {}.",
                self.rounds,
                judge::RULE,
                time(self.took)
            ),
        );
        text += "<dl class=\"facts\">\n";
        for (name, value) in &self.facts.0 {
            text += &tagged("dt", name);
            text += &tagged("dd", value);
        }
        text + "</dl>\n"
    }

    fn contents(&self) -> String {
        let mut text = "<nav>\n<h2>Contents</h2>\n<ul>\n\
                        <li><a href=\"#verdicts\">Verdicts</a></li>\n"
            .to_owned();
        for done in &self.done {
            let name = escaped(done.about.name);
            let title = escaped(done.about.title);
            let words = escaped(&done.words());
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "<li><a href=\"#{name}\">{name}</a>: {title} <small>({words})</small>"
            );
            if let Ok(report) = &done.report {
                text += "<ul>\n";
                for section in shown(report, done) {
                    let place = escaped(&place(done.about.name, section));
                    let title = escaped(section.title);
                    let _ = writeln!(text, "<li><a href=\"#{place}\">{title}</a></li>");
                }
                text += "</ul>\n";
            }
            text += "</li>\n";
        }
        text + "</ul>\n</nav>\n"
    }

    /// What is asked of ours, all in one place.
    fn verdicts(&self) -> String {
        let mut text = "<section id=\"verdicts\">\n<h2>Verdicts</h2>\n".to_owned();
        let (mut sum, mut list) = (Tally::default(), String::new());
        for done in &self.done {
            let report = match &done.report {
                Ok(report) => report,
                Err(reason) => {
                    let name = escaped(done.about.name);
                    let reason = escaped(reason);
                    list += &format!("<li class=\"missed\"><b>{name} failed</b>: {reason}</li>\n");
                    continue;
                }
            };
            sum = sum.and(Tally::sum(report, &done.about));
            for section in done.about.sections {
                let place = escaped(&place(done.about.name, section));
                for it in unmet(report, section) {
                    let (class, words) = (it.outcome.to_string(), escaped(&it.text));
                    list += &format!(
                        "<li class=\"{class}\"><b>{class}</b>: <a href=\"#{place}\">{}</a> \
                         {words}</li>\n",
                        escaped(done.about.name)
                    );
                }
            }
        }
        let words = match sum.words() {
            words if words.is_empty() => "No bar has been looked at.".to_owned(),
            words => format!("Of what is asked of ours: {words}."),
        };
        text += &tagged("p", &words);
        if !list.is_empty() {
            text += &format!("<ul>\n{list}</ul>\n");
        }
        text + "</section>\n"
    }
}

impl Done {
    fn section(&self) -> String {
        let name = escaped(self.about.name);
        let mut text = format!("<section id=\"{name}\">\n");
        text += &tagged("h2", &format!("{}: {}", self.about.name, self.about.title));
        match &self.report {
            Err(reason) => {
                let reason = escaped(reason);
                text += &format!("<p class=\"warning\">Nothing was measured: {reason}</p>\n");
            }
            Ok(report) => {
                text += &notes(report);
                for section in shown(report, self) {
                    text += &self.article(report, section);
                }
            }
        }
        text + "</section>\n"
    }

    fn article(&self, report: &Report, section: &Section) -> String {
        let place = escaped(&place(self.about.name, section));
        let mut text = format!("<article id=\"{place}\">\n");
        text += &tagged("h3", section.title);
        let tally = Tally::of(report, section).words();
        let beside = beside(report, &self.about, section);
        if let Some(words) = verdict(&tally, &beside) {
            text += &format!("<p class=\"verdict\">{}</p>\n", escaped(&words));
        }
        if let Some(words) = few_rounds(report, section) {
            text += &tagged("p", &words);
        }
        if let Some(plot) = plot::plot(report, section, self.about.ours) {
            let caption = escaped(&plot.caption);
            text += &format!(
                "<figure>\n{}<figcaption>{caption}</figcaption>\n</figure>\n",
                plot.svg
            );
        }
        text += &table(report, section);
        text += &key(report, section);
        text + "</article>\n"
    }
}

/// The rows that are missing, and why.
fn notes(report: &Report) -> String {
    if report.notes.is_empty() {
        return String::new();
    }
    let lines: String = report.notes.iter().map(|it| tagged("li", it)).collect();
    let count = report.notes.len();
    format!(
        "<details>\n<summary>{count} notes on missing rows</summary>\n<ul>\n{lines}</ul>\n\
         </details>\n"
    )
}

/// A line where some rows have too few rounds for a verdict.
fn few_rounds(report: &Report, section: &Section) -> Option<String> {
    let rows = report
        .rows
        .iter()
        .filter(|row| row.metric == section.metric);
    let (few, most) = rows.fold((usize::MAX, 0), |(few, most), row| {
        (few.min(row.runs), most.max(row.runs))
    });
    let rounds = if few == most {
        few.to_string()
    } else {
        format!("{few} to {most}")
    };
    (few < judge::ROUNDS).then(|| format!("There was time for {rounds} rounds only."))
}

fn verdict(tally: &str, beside: &[Beside]) -> Option<String> {
    let bars = (!tally.is_empty()).then(|| format!("Bars: {tally}."));
    let of = |it: &Beside| format!("Ours beside {}: {}.", it.reference, it.words());
    let words: Vec<String> = bars.into_iter().chain(beside.iter().map(of)).collect();
    (!words.is_empty()).then(|| words.join(" "))
}

fn table(report: &Report, section: &Section) -> String {
    let Some(Grid { header, lines }) = Grid::new(report, section) else {
        return String::new();
    };
    let cells = |tag: &str, line: &[String]| -> String {
        let cells = line.iter().map(|cell| {
            let class = match cell {
                cell if cell.contains("missed") => " class=\"missed\"",
                cell if cell.contains("met") => " class=\"met\"",
                _ => "",
            };
            format!("<{tag}{class}>{}</{tag}>", escaped(cell))
        });
        format!("<tr>{}</tr>\n", cells.collect::<String>())
    };
    let rows: String = lines.iter().map(|line| cells("td", line)).collect();
    format!(
        "<div class=\"table\" tabindex=\"0\">\n<table>\n<thead>\n{}</thead>\n<tbody>\n{rows}\
         </tbody>\n</table>\n</div>\n",
        cells("th", &header)
    )
}

/// The names of the table.
fn key(report: &Report, section: &Section) -> String {
    let fixed = [
        (
            "spread",
            "largest less smallest of the rounds, in medians".to_owned(),
        ),
        (
            "x NAME",
            "how many times as good as NAME; a = before it says that the two are equal".to_owned(),
        ),
    ];
    let names = words::key(report, section)
        .into_iter()
        .map(|(name, meaning)| (name, meaning.to_owned()))
        .chain(fixed.map(|(name, meaning)| (name.to_owned(), meaning)));
    let items: String = names
        .map(|(name, meaning)| tagged("dt", &name) + &tagged("dd", &meaning))
        .collect();
    format!("<details>\n<summary>Names in this table</summary>\n<dl>\n{items}</dl>\n</details>\n")
}

#[cfg(test)]
mod tests;
