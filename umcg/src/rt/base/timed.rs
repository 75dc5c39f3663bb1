//! The forms of a call that waits: until a deadline, and for a timeout. They are written once, by
//! `timed!`, over an expression of the deadline in nanoseconds of the [`clock`](super::clock).

/// Makes the function that takes an `Instant` and the one that takes a `Duration`, of a call whose
/// name is the first argument. Comments follow it that both have, then the names, the parameters
/// and the result, and last the expression.
macro_rules! timed {
    (
        $like:literal;
        $(#[$more:meta])*
        $visibility:vis fn $([$($generics:tt)*])? $at:ident, $after:ident($($parameters:tt)*)
            -> $result:ty;
        |$deadline:ident| $wait:expr
    ) => {
        #[doc = concat!("Like [`", $like, "`], until `deadline` at most.")]
        #[doc = ""]
        $(#[$more])*
        $visibility fn $at$(<$($generics)*>)?(
            $($parameters)*, deadline: std::time::Instant
        ) -> $result {
            let $deadline = crate::rt::time::nanos(deadline);
            $wait
        }

        #[doc = concat!("Like [`", $like, "`], for `timeout` at most.")]
        #[doc = ""]
        $(#[$more])*
        $visibility fn $after$(<$($generics)*>)?(
            $($parameters)*, timeout: std::time::Duration
        ) -> $result {
            let $deadline = crate::rt::time::after(timeout);
            $wait
        }
    };
}
pub(crate) use timed;
