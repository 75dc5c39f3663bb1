//! Leads the system calls of a running process to a hook.
