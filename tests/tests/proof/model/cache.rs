//! Memoised results, so that the model can call the product itself in every state.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, PoisonError, RwLock};

/// Distinct values, each with a number.
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

/// Memoised results of a pure function.
pub(super) struct Memoised<I, R>(RwLock<HashMap<I, R>>);

impl<I, R> Default for Memoised<I, R> {
    fn default() -> Self {
        Self(RwLock::default())
    }
}

impl<I: Copy + Eq + Hash, R: Copy> Memoised<I, R> {
    pub(super) fn get_or_compute(&self, input: I, compute: impl FnOnce() -> R) -> R {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner).get(&input).copied();
        known.unwrap_or_else(|| {
            let result = compute();
            self.0.write().unwrap_or_else(PoisonError::into_inner).insert(input, result);
            result
        })
    }
}

/// Memoised results of a pure function of numbered values.
pub(super) struct MemoisedByNumber<R>(RwLock<Vec<Option<R>>>);

impl<R> Default for MemoisedByNumber<R> {
    fn default() -> Self {
        Self(RwLock::default())
    }
}

impl<R: Copy> MemoisedByNumber<R> {
    pub(super) fn get(&self, number: u32, compute: impl FnOnce() -> R) -> R {
        let index = number as usize;
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner).get(index).copied();
        known.flatten().unwrap_or_else(|| {
            let result = compute();
            let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
            if all.len() <= index {
                all.resize(index + 1, None);
            }
            all[index] = Some(result);
            result
        })
    }
}
