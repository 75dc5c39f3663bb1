//! What errors say, in a table.

/// Makes an error of a type, by what it says: a text or an error for each pattern.
macro_rules! texts {
    ($($error:ty { $($pattern:pat => $text:expr,)+ })+) => {$(
        impl std::fmt::Display for $error {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self {
                    $($pattern => std::fmt::Display::fmt($text, f),)+
                }
            }
        }

        impl std::error::Error for $error {}
    )+};
}
pub(crate) use texts;
