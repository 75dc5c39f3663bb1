//! The rows: by class, in three files.

mod home;
mod quick;
mod tried;

pub(super) use home::HOME;
pub(super) use quick::QUICK;
pub(super) use tried::TRIED;

/// Rows: class, for how long, the state that the calls depend on, maybe the state that they change,
/// and maybe a rule; then the reason, and numbers with names.
macro_rules! rows {
    ($(
        [$class:expr, $blocking:ident, reads $reads:expr
            $(, changes $changes:expr)? $(; by $rule:ident)?]
        $why:literal
        $($number:literal $name:ident),+;
    )+) => {
        &[$(Row {
            class: $class,
            rule: { let _rule = Rule::Never; $(let _rule = Rule::$rule;)? _rule },
            blocking: Blocking::$blocking,
            reads: $reads,
            changes: { let _state = State::NONE; $(let _state = $changes;)? _state },
            why: $why,
            calls: &[$(($number, stringify!($name))),+],
        }),+]
    };
}
use rows;
