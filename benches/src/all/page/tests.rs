use super::super::tests::run;
use super::*;

/// The opening tags of a page: names, with attributes. Fails on anything that is not well-formed.
fn tags(page: &str) -> Vec<(String, Vec<(String, String)>)> {
    let (mut tags, mut open, mut rest) = (Vec::new(), Vec::new(), page);
    while let Some(start) = rest.find('<') {
        check_text(&rest[..start]);
        let end = start + rest[start..].find('>').expect("a tag ends");
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        if tag.starts_with('!') {
            continue;
        }
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name), "tags are nested");
            continue;
        }
        let (tag, is_empty) = match tag.strip_suffix('/') {
            Some(tag) => (tag, true),
            None => (tag, false),
        };
        let (name, attributes) = parts(tag);
        if !is_empty {
            open.push(name.clone());
        }
        if name == "style" {
            let end = rest.find("</style>").expect("a style sheet ends");
            rest = &rest[end..];
        }
        tags.push((name, attributes));
    }
    assert!(open.is_empty(), "{open:?}");
    tags
}

fn parts(tag: &str) -> (String, Vec<(String, String)>) {
    let (name, mut rest) = tag.split_once(' ').unwrap_or((tag, ""));
    let mut attributes = Vec::new();
    while !rest.is_empty() {
        let (key, value) = rest.split_once("=\"").expect("a value in quotes");
        let (value, more) = value.split_once('"').expect("an end of the value");
        check_text(value);
        attributes.push((key.trim().to_owned(), value.to_owned()));
        rest = more;
    }
    (name.to_owned(), attributes)
}

/// Entities are those that [`escaped`] writes.
fn check_text(text: &str) {
    for entity in text.split('&').skip(1) {
        let name = entity.split(';').next().unwrap();
        assert!(
            ["amp", "lt", "gt", "quot", "#39"].contains(&name),
            "&{name}"
        );
    }
}

fn values<'a>(
    tags: &'a [(String, Vec<(String, String)>)],
    key: &'a str,
) -> impl Iterator<Item = &'a str> {
    let all = tags.iter().flat_map(|(_, attributes)| attributes);
    all.filter(move |(name, _)| name == key)
        .map(|(_, value)| &**value)
}

#[test]
fn the_page_is_well_formed_and_has_every_plot() {
    let all = run(&["good", "bad"], 15);
    let page = all.to_html();
    let tags = tags(&page);
    let count = |wanted: &str| tags.iter().filter(|(name, _)| name == wanted).count();
    assert_eq!(
        (count("svg"), count("figcaption"), count("table")),
        (2, 2, 2)
    );
    assert_eq!(count("circle"), 6 * 15, "a dot for each round");
    assert_eq!(count("script"), 0);
    let places: Vec<&str> = values(&tags, "id").collect();
    assert_eq!(
        places,
        ["verdicts", "good", "good-cost", "good-rate", "bad"]
    );
    for target in values(&tags, "href") {
        let place = target.strip_prefix('#').expect("inside the page");
        assert!(places.contains(&place), "{target}");
    }
}

#[test]
fn the_page_fetches_nothing() {
    let page = run(&["good", "bad"], 15).to_html().to_lowercase();
    for outside in [
        "http", "src=", "@import", "url(", "<link", "<script", "<iframe",
    ] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn texts_are_escaped() {
    assert_eq!(
        escaped("<a href=\"x\">&'\u{7}"),
        "&lt;a href=&quot;x&quot;&gt;&amp;&#39; "
    );
    let page = run(&["good", "bad"], 15).to_html();
    for part in [
        "Costs of &lt;this&gt; &amp; &quot;that&quot;",
        "&lt;peer&gt;: no row for more",
        "it cannot be &amp; will not be",
    ] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn the_page_says_what_was_found() {
    let page = run(&["good", "bad"], 15).to_html();
    for part in [
        "Of what is asked of ours: 1 met, 1 missed.",
        "Bars: 1 met, 1 missed. Ours beside peer: 1 better, 1 equal.",
        "<b>bad failed</b>",
        "Nothing was measured: it cannot be",
        "at most 10: missed",
        "<dt>Kernel</dt>",
        "A dot is a round.",
        "<td>= 1.00</td>",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("Unfinished") && !page.contains("There was time"));
    let mut all = run(&["good"], 3);
    all.wanted = 2;
    let page = all.to_html();
    assert!(page.contains("Unfinished: 1 of 2 benches."));
    assert!(page.contains("no verdict of 3 rounds"));
    assert!(page.contains("There was time for 3 rounds only."));
}
