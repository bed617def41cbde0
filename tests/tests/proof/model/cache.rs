//! Memoised answers, which make it affordable to ask the product itself in every state.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, PoisonError, RwLock};

/// Values with a number each.
pub(super) struct Numbered<T>(RwLock<Values<T>>);

struct Values<T> {
    numbers: HashMap<Arc<T>, u32>,
    values: Vec<Arc<T>>,
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Self(RwLock::new(Values { numbers: HashMap::new(), values: Vec::new() }))
    }
}

impl<T: Eq + Hash> Numbered<T> {
    pub(super) fn number(&self, value: T) -> u32 {
        if let Some(number) =
            self.0.read().unwrap_or_else(PoisonError::into_inner).numbers.get(&value)
        {
            return *number;
        }
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let Values { numbers, values } = &mut *all;
        let value = Arc::new(value);
        *numbers.entry(Arc::clone(&value)).or_insert_with(|| {
            values.push(value);
            u32::try_from(values.len() - 1).unwrap()
        })
    }

    pub(super) fn get(&self, number: u32) -> Arc<T> {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&all.values[number as usize])
    }
}

/// Memoised answers of a pure function.
pub(super) struct Asked<Q, A>(RwLock<HashMap<Q, A>>);

impl<Q, A> Default for Asked<Q, A> {
    fn default() -> Self {
        Self(RwLock::default())
    }
}

impl<Q: Copy + Eq + Hash, A: Copy> Asked<Q, A> {
    pub(super) fn ask(&self, question: Q, answer: impl FnOnce() -> A) -> A {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner).get(&question).copied();
        known.unwrap_or_else(|| {
            let answer = answer();
            self.0.write().unwrap_or_else(PoisonError::into_inner).insert(question, answer);
            answer
        })
    }
}

/// Memoised answers about numbered values.
pub(super) struct Listed<A>(RwLock<Vec<Option<A>>>);

impl<A> Default for Listed<A> {
    fn default() -> Self {
        Self(RwLock::default())
    }
}

impl<A: Copy> Listed<A> {
    pub(super) fn get(&self, number: u32, answer: impl FnOnce() -> A) -> A {
        let place = number as usize;
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner).get(place).copied();
        known.flatten().unwrap_or_else(|| {
            let answer = answer();
            let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
            if all.len() <= place {
                all.resize(place + 1, None);
            }
            all[place] = Some(answer);
            answer
        })
    }
}
