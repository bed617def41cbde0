//! A compact map from resource ids, for the state that one sweep keeps per row for the next.
//!
//! Rows arrive sorted by id, so appending to a sorted vector is enough: no tree or hash table is needed.

use broker_domain::ProvisionedResourceId;

use super::snapshot::Fingerprint;

/// One value per resource, sorted by id.
#[derive(Debug)]
pub(super) struct SortedById<T>(Vec<(ProvisionedResourceId, T)>);

pub(super) type Fingerprints = SortedById<Fingerprint>;

pub(super) type IdSet = SortedById<()>;

impl<T> Default for SortedById<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> SortedById<T> {
    /// Sets the value of a resource; returns `true` if it had none. Constant time for ids in ascending order.
    pub(super) fn insert(&mut self, id: ProvisionedResourceId, value: T) -> bool {
        if self.0.last().is_none_or(|(last, _)| *last < id) {
            self.0.push((id, value));
            return true;
        }
        match self.index_of(id) {
            Ok(index) => {
                self.0[index].1 = value;
                false
            }
            Err(index) => {
                self.0.insert(index, (id, value));
                true
            }
        }
    }

    pub(super) fn get(&self, id: ProvisionedResourceId) -> Option<&T> {
        self.index_of(id).ok().map(|index| &self.0[index].1)
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = ProvisionedResourceId> {
        self.0.iter().map(|(id, _)| *id)
    }

    /// Merges both; for an id in both, the value of `other`.
    pub(super) fn updated_by(self, other: Self) -> Self {
        let mut all = Vec::with_capacity(self.0.len() + other.0.len());
        let mut later = other.0.into_iter().peekable();
        for (id, value) in self.0 {
            while let Some(smaller) = later.next_if(|(other, _)| *other < id) {
                all.push(smaller);
            }
            all.push(later.next_if(|(other, _)| *other == id).unwrap_or((id, value)));
        }
        all.extend(later);
        Self(all)
    }

    fn index_of(&self, id: ProvisionedResourceId) -> Result<usize, usize> {
        self.0.binary_search_by(|(other, _)| other.cmp(&id))
    }
}

#[cfg(test)]
mod tests {
    use broker_testkit::builders::id;

    use super::*;

    fn filled(entries: &[(u128, char)]) -> SortedById<char> {
        let mut filled = SortedById::default();
        for (number, value) in entries {
            filled.insert(id(*number), *value);
        }
        filled
    }

    fn entries(map: &SortedById<char>) -> Vec<(u128, char)> {
        map.0.iter().map(|(id, value)| (id.as_uuid().as_u128(), *value)).collect()
    }

    #[test]
    fn unordered_inserts_are_all_found() {
        let filled = filled(&[(2, 'a'), (5, 'b'), (3, 'c'), (5, 'd'), (1, 'e')]);
        assert_eq!(entries(&filled), [(1, 'e'), (2, 'a'), (3, 'c'), (5, 'd')]);
        assert_eq!(filled.get(id(3)), Some(&'c'));
        assert_eq!(filled.get(id(4)), None);
    }

    #[test]
    fn later_entries_replace_earlier_ones() {
        let before = filled(&[(1, 'a'), (3, 'a'), (5, 'a')]);
        let later = filled(&[(2, 'b'), (3, 'b'), (6, 'b'), (7, 'b')]);
        let both = entries(&before.updated_by(later));
        assert_eq!(both, [(1, 'a'), (2, 'b'), (3, 'b'), (5, 'a'), (6, 'b'), (7, 'b')]);
    }
}
