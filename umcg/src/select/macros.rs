//! The macro.

/// Waits for the first of some operations, and goes on with its outcome.
///
/// An arm is `pattern = operation => body`. With `default => body` as the last arm it does not
/// wait. With `biased;` before the first arm, of those that are ready at once the first is
/// preferred; otherwise none is. All operations are evaluated in their order, before any is tried.
/// A point of cancellation if it has to wait. Switches.
///
/// See [`select`](mod@crate::select) for operations.
#[macro_export]
macro_rules! select {
    (biased; $($arms:tt)+) => {
        $crate::__select!(@take [$crate::select::Select::new().biased()] [] [0usize] $($arms)+)
    };
    ($($arms:tt)+) => {
        $crate::__select!(
            @take [$crate::select::Select::new().at(line!(), column!())] [] [0usize] $($arms)+
        )
    };
}

/// The steps of [`select!`]: an arm at a time, each with a variable of its own.
#[doc(hidden)]
#[macro_export]
macro_rules! __select {
    (@take [$how:expr] [$($done:tt)*] [$index:expr] default => $default:expr $(,)?) => {
        $crate::__select!(@emit [$how] [$($done)*] $default)
    };
    (
        @take [$how:expr] [$($done:tt)*] [$index:expr]
        $pattern:pat = $operation:expr => $body:expr, $($rest:tt)+
    ) => {{
        let mut operation = $operation;
        $crate::__select!(
            @take [$how] [$($done)* { operation, $index, $pattern, $body }] [$index + 1] $($rest)+
        )
    }};
    (
        @take [$how:expr] [$($done:tt)*] [$index:expr]
        $pattern:pat = $operation:expr => $body:expr $(,)?
    ) => {{
        let mut operation = $operation;
        $crate::__select!(@emit [$how] [$($done)* { operation, $index, $pattern, $body }])
    }};
    (
        @take [$how:expr] [$($done:tt)*] [$index:expr]
        $pattern:pat = $operation:expr => $body:block $($rest:tt)+
    ) => {{
        let mut operation = $operation;
        $crate::__select!(
            @take [$how] [$($done)* { operation, $index, $pattern, $body }] [$index + 1] $($rest)+
        )
    }};
    (
        @emit [$how:expr] [$({ $operation:ident, $index:expr, $pattern:pat, $body:expr })+]
        $default:expr
    ) => {
        match $how.try_wait(&mut [$(&mut $operation as &mut dyn $crate::select::Selectable),+]) {
            $(Some(index) if index == $index => {
                let $pattern = $crate::select::Operation::outcome(&mut $operation);
                // As an arm, where braces are always allowed.
                match () { () => $body }
            })+
            _ => $default,
        }
    };
    (@emit [$how:expr] [$({ $operation:ident, $index:expr, $pattern:pat, $body:expr })+]) => {
        match $how.wait(&mut [$(&mut $operation as &mut dyn $crate::select::Selectable),+]) {
            $(index if index == $index => {
                let $pattern = $crate::select::Operation::outcome(&mut $operation);
                // As an arm, where braces are always allowed.
                match () { () => $body }
            })+
            _ => unreachable!("an index of an arm"),
        }
    };
}
