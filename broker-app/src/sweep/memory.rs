//! What one sweep remembers of rows for the next, in as few bytes as it takes.
//!
//! Rows come in the order of their ids, so that what is remembered of them is in order by itself: no tree and no table
//! is needed to find it again.

use broker_domain::ProvisionedResourceId;

use super::snapshot::Fingerprint;

/// Something for each of many resources, in the order of their ids.
#[derive(Debug)]
pub(super) struct InOrder<T>(Vec<(ProvisionedResourceId, T)>);

/// What a sweep saw of rows.
pub(super) type Memory = InOrder<Fingerprint>;

/// Rows that a sweep met.
pub(super) type Visited = InOrder<()>;

impl<T> Default for InOrder<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> InOrder<T> {
    /// Notes something for a resource; answers whether there was nothing yet. Next to free for whoever comes in order.
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

    /// Both, where the other knows better.
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

    fn noted(of: &[(u128, char)]) -> InOrder<char> {
        let mut noted = InOrder::default();
        for (number, it) in of {
            noted.insert(id(*number), *it);
        }
        noted
    }

    fn all(of: &InOrder<char>) -> Vec<(u128, char)> {
        of.0.iter().map(|(id, it)| (id.as_uuid().as_u128(), *it)).collect()
    }

    #[test]
    fn whatever_order_they_come_in_each_is_found() {
        let noted = noted(&[(2, 'a'), (5, 'b'), (3, 'c'), (5, 'd'), (1, 'e')]);
        assert_eq!(all(&noted), [(1, 'e'), (2, 'a'), (3, 'c'), (5, 'd')]);
        assert_eq!(noted.get(id(3)), Some(&'c'));
        assert_eq!(noted.get(id(4)), None);
    }

    #[test]
    fn what_is_known_better_replaces_what_was_known() {
        let before = noted(&[(1, 'a'), (3, 'a'), (5, 'a')]);
        let later = noted(&[(2, 'b'), (3, 'b'), (6, 'b'), (7, 'b')]);
        let both = all(&before.updated_by(later));
        assert_eq!(both, [(1, 'a'), (2, 'b'), (3, 'b'), (5, 'a'), (6, 'b'), (7, 'b')]);
    }
}
