//! The figures that the UthLib paper itself gives, to look at beside ours.

use comfy_table::{CellAlignment, Table, presets::UTF8_FULL_CONDENSED};

/// Machine, operating system, compiler; then for Tables 2 to 5 the figures of sjlj and of mcsc. The
/// library had no sjlj for 64-bit AIX.
type Line = (
    &'static str,
    &'static str,
    &'static str,
    [[Option<f64>; 2]; 4],
);

const fn both(sjlj: f64, mcsc: f64) -> [Option<f64>; 2] {
    [Some(sjlj), Some(mcsc)]
}

const fn mcsc(mcsc: f64) -> [Option<f64>; 2] {
    [None, Some(mcsc)]
}

const LINES: [Line; 7] = [
    (
        "Pentium III 866 MHz",
        "Windows 2000",
        "MSVC 6.0",
        [
            both(201.0, 3012.0),
            both(9.1, 15.1),
            both(0.5, 2.6),
            both(117.0, 1731.0),
        ],
    ),
    (
        "Pentium III 866 MHz",
        "Linux 2.4.18",
        "GCC 3.2",
        [
            both(129.0, 644.0),
            both(12.7, 13.2),
            both(0.5, 0.7),
            both(69.0, 577.0),
        ],
    ),
    (
        "UltraSparc 296 MHz",
        "Solaris 8",
        "UCBCC 5.0",
        [
            both(336.0, 6823.0),
            both(165.5, 183.7),
            both(0.9, 13.2),
            both(118.0, 3448.0),
        ],
    ),
    (
        "MIPS R10000 250 MHz",
        "IRIX 6.5 n32",
        "CC 7.30",
        [
            both(101.0, 4846.0),
            both(148.6, 195.8),
            both(2.1, 13.2),
            both(233.0, 3165.0),
        ],
    ),
    (
        "MIPS R10000 250 MHz",
        "IRIX 6.5 n32",
        "CC 7.30",
        [
            both(118.0, 5030.0),
            both(171.7, 200.8),
            both(2.6, 14.3),
            both(280.0, 3320.0),
        ],
    ),
    (
        "POWER3 375 MHz",
        "AIX 5.3 32 bit",
        "XLC",
        [
            both(163.0, 3196.0),
            both(30.7, 33.1),
            both(1.2, 3.5),
            both(158.0, 983.0),
        ],
    ),
    (
        "POWER3 375 MHz",
        "AIX 5.3 64 bit",
        "XLC",
        [mcsc(4343.0), mcsc(36.9), mcsc(4.9), mcsc(1538.0)],
    ),
];

/// Tables 2 to 5 of the paper in one.
pub fn paper_tables() -> String {
    let mut table = Table::new();
    table.load_preset(UTF8_FULL_CONDENSED);
    let what = [
        "switch, cycles",
        "create, us",
        "recycle, us",
        "reinit, cycles",
    ];
    let figures = what
        .iter()
        .flat_map(|what| ["sjlj", "mcsc"].map(|method| format!("{what}\n{method}")));
    table.set_header(
        ["machine", "system", "compiler"]
            .map(str::to_owned)
            .into_iter()
            .chain(figures),
    );
    for (machine, system, compiler, tables) in LINES {
        let figures = tables
            .into_iter()
            .flatten()
            .map(|figure| figure.map_or_else(|| "-".to_owned(), |value| value.to_string()));
        table.add_row(
            [machine, system, compiler]
                .map(str::to_owned)
                .into_iter()
                .chain(figures),
        );
    }
    table
        .column_iter_mut()
        .skip(3)
        .for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    format!("As the UthLib paper measured it (Tables 2 to 5)\n{table}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_there() {
        let text = paper_tables();
        assert_eq!(text.matches("Pentium III").count(), 2);
        assert!(text.contains("5030") && text.contains("1538") && text.contains("165.5"));
    }
}
