//! A small map, kept in order: the search for an order copies the model thousands of times a history.

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Table<K, V>(Vec<(K, V)>);

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: Ord + Copy, V: Copy> Table<K, V> {
    fn place(&self, key: K) -> Result<usize, usize> {
        self.0.binary_search_by_key(&key, |(key, _)| *key)
    }

    pub(super) fn get(&self, key: K) -> Option<&V> {
        self.place(key).ok().map(|place| &self.0[place].1)
    }

    pub(super) fn get_mut(&mut self, key: K) -> Option<&mut V> {
        self.place(key).ok().map(|place| &mut self.0[place].1)
    }

    pub(super) fn insert(&mut self, key: K, value: V) {
        match self.place(key) {
            Ok(place) => self.0[place].1 = value,
            Err(place) => self.0.insert(place, (key, value)),
        }
    }

    pub(super) fn remove(&mut self, key: K) -> Option<V> {
        self.place(key).ok().map(|place| self.0.remove(place).1)
    }

    pub(super) fn retain(&mut self, keep: impl Fn(&V) -> bool) {
        self.0.retain(|(_, value)| keep(value));
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (K, &V)> {
        self.0.iter().map(|(key, value)| (*key, value))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (K, &mut V)> {
        self.0.iter_mut().map(|(key, value)| (*key, value))
    }
}
