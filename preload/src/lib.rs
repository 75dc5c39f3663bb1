//! The library that `umcg run` loads into a program.
