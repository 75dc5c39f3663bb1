//! The texts of errors, in a table.

/// Makes a type an error. For each pattern it prints a text or another error.
macro_rules! texts {
    ($($error:ty $(where $generic:ident)? { $($pattern:pat => $text:expr,)+ })+) => {$(
        impl $(<$generic>)? std::fmt::Display for $error {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self {
                    $($pattern => std::fmt::Display::fmt($text, f),)+
                }
            }
        }

        impl $(<$generic>)? std::error::Error for $error {}
    )+};
}
pub(crate) use texts;
