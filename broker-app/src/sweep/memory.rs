//! State that one sweep keeps per row for the next, in little memory.
//!
//! Rows arrive in the order of their ids, so a sorted vector needs neither tree nor hash table.

use broker_domain::ProvisionedResourceId;

use super::snapshot::Fingerprint;

/// One value per resource, sorted by id.
#[derive(Debug)]
pub(super) struct InOrder<T>(Vec<(ProvisionedResourceId, T)>);

pub(super) type Memory = InOrder<Fingerprint>;

pub(super) type Visited = InOrder<()>;

impl<T> Default for InOrder<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> InOrder<T> {
    /// Sets the value of a resource; returns whether it had none. Constant time for ids in ascending order.
    pub(super) fn insert(&mut self, id: ProvisionedResourceId, it: T) -> bool {
        if self.0.last().is_none_or(|(last, _)| *last < id) {
            self.0.push((id, it));
            return true;
        }
        match self.place(id) {
            Ok(place) => {
                self.0[place].1 = it;
                false
            }
            Err(place) => {
                self.0.insert(place, (id, it));
                true
            }
        }
    }

    pub(super) fn get(&self, id: ProvisionedResourceId) -> Option<&T> {
        self.place(id).ok().map(|place| &self.0[place].1)
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = ProvisionedResourceId> {
        self.0.iter().map(|(id, _)| *id)
    }

    /// Merges both; `other` wins.
    pub(super) fn updated_by(self, other: Self) -> Self {
        let mut all = Vec::with_capacity(self.0.len() + other.0.len());
        let mut later = other.0.into_iter().peekable();
        for (id, it) in self.0 {
            while let Some(before) = later.next_if(|(other, _)| *other < id) {
                all.push(before);
            }
            all.push(later.next_if(|(other, _)| *other == id).unwrap_or((id, it)));
        }
        all.extend(later);
        Self(all)
    }

    fn place(&self, id: ProvisionedResourceId) -> Result<usize, usize> {
        self.0.binary_search_by(|(other, _)| other.cmp(&id))
    }
}

#[cfg(test)]
mod tests {
    use broker_testkit::builders::id;

    use super::*;

    fn filled(of: &[(u128, char)]) -> InOrder<char> {
        let mut filled = InOrder::default();
        for (number, it) in of {
            filled.insert(id(*number), *it);
        }
        filled
    }

    fn all(of: &InOrder<char>) -> Vec<(u128, char)> {
        of.0.iter().map(|(id, it)| (id.as_uuid().as_u128(), *it)).collect()
    }

    #[test]
    fn unordered_inserts_are_all_found() {
        let filled = filled(&[(2, 'a'), (5, 'b'), (3, 'c'), (5, 'd'), (1, 'e')]);
        assert_eq!(all(&filled), [(1, 'e'), (2, 'a'), (3, 'c'), (5, 'd')]);
        assert_eq!(filled.get(id(3)), Some(&'c'));
        assert_eq!(filled.get(id(4)), None);
    }

    #[test]
    fn later_entries_replace_earlier_ones() {
        let before = filled(&[(1, 'a'), (3, 'a'), (5, 'a')]);
        let later = filled(&[(2, 'b'), (3, 'b'), (6, 'b'), (7, 'b')]);
        let both = all(&before.updated_by(later));
        assert_eq!(both, [(1, 'a'), (2, 'b'), (3, 'b'), (5, 'a'), (6, 'b'), (7, 'b')]);
    }
}
