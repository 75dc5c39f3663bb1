//! A grant of the system that is asked for once. A grant is remembered; after a refusal the next
//! caller asks again. A moment's shortage does not decide for the life of the process.

use std::sync::OnceLock;
use umcg_context::lock::HoldLock;

/// See the module.
pub struct Granted<T> {
    value: OnceLock<T>,
    /// The asking thread holds it: two grants would be possible, but only one could be given back.
    /// A worker is not preempted meanwhile, because the others on its server would wait for it in
    /// vain.
    asking: HoldLock<()>,
}

impl<T> Granted<T> {
    /// Not asked for yet.
    pub const fn new() -> Granted<T> {
        Granted {
            value: OnceLock::new(),
            asking: HoldLock::new(()),
        }
    }

    /// The grant. Asks for it if there is none yet. Other callers wait meanwhile.
    ///
    /// # Errors
    /// That of `ask`. It is not remembered.
    #[inline]
    pub fn get_or_ask<E>(&self, ask: impl FnOnce() -> Result<T, E>) -> Result<&T, E> {
        match self.value.get() {
            Some(value) => Ok(value),
            None => self.ask(ask),
        }
    }

    #[cold]
    fn ask<E>(&self, ask: impl FnOnce() -> Result<T, E>) -> Result<&T, E> {
        let _asking = self.asking.lock();
        if let Some(value) = self.value.get() {
            return Ok(value);
        }
        let value = ask()?;
        Ok(self.value.get_or_init(|| value))
    }
}

impl<T> Default for Granted<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// Turns the number that functions of the pthread library return into a result.
///
/// # Errors
/// The number, unless it is zero.
pub fn granted(number: i32) -> Result<(), i32> {
    if number == 0 { Ok(()) } else { Err(number) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use umcg_context::local;

    #[test]
    fn a_refusal_is_not_remembered_and_a_grant_is() {
        let key = Granted::new();
        assert_eq!(key.get_or_ask(|| granted(11).map(|()| 1)), Err(11));
        assert_eq!(key.get_or_ask(|| Ok::<_, i32>(2)), Ok(&2));
        assert_eq!(key.get_or_ask(|| Err(12)), Ok(&2));
    }

    #[test]
    fn whoever_asks_is_not_preempted() {
        let key = Granted::new();
        assert_eq!(
            key.get_or_ask(|| Ok::<_, i32>(local::holds() > 0)),
            Ok(&true)
        );
        assert_eq!(local::holds(), 0);
    }

    #[test]
    fn of_many_that_ask_at_once_one_is_granted_it() {
        let key = Granted::new();
        let asked = std::sync::atomic::AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let got = key.get_or_ask(|| {
                        let before = asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        if before < 3 { Err(before) } else { Ok(before) }
                    });
                    assert!(matches!(got, Ok(3) | Err(0..3)), "{got:?}");
                });
            }
        });
        assert_eq!(asked.into_inner(), 4);
    }
}
