//! The search for an order, after Wing and Gong: take any call that nothing else has to precede, see whether
//! the model answers it the same way, and go on with the rest. What was tried once from the same point is
//! not tried again.

use std::collections::HashSet;

use super::model::{Answer, Call, Model};

/// One call, from before it was made until after it was answered.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) called: u64,
    pub(super) returned: u64,
    pub(super) call: Call,
    pub(super) answer: Answer,
}

/// An order that explains a history.
pub(super) struct Order {
    /// How many of its calls changed anything.
    pub(super) changes: u64,
}

/// Which calls of a history have their place already: a bit for each.
type Placed = u128;

/// How many pairs of calls were under way at the same time.
pub(super) fn overlaps(history: &[Entry]) -> u64 {
    let pairs = history
        .iter()
        .enumerate()
        .flat_map(|(index, one)| history[index + 1..].iter().map(move |other| (one, other)));
    let together =
        |one: &Entry, other: &Entry| one.called < other.returned && other.called < one.returned;
    pairs.filter(|(one, other)| together(one, other)).count() as u64
}

/// An order that explains the history of a store that began like this, if there is one.
pub(super) fn order(history: &[Entry], beginning: &Model) -> Option<Order> {
    assert!(history.len() <= Placed::BITS as usize, "a history has at most 128 calls");
    let mut tried = HashSet::new();
    search(history, 0, beginning, 0, &mut tried)
}

fn search(
    history: &[Entry],
    mut placed: Placed,
    model: &Model,
    changes: u64,
    tried: &mut HashSet<(Placed, Model)>,
) -> Option<Order> {
    place_what_changes_nothing(history, &mut placed, model);
    if placed.count_ones() as usize == history.len() {
        return Some(Order { changes });
    }
    if !tried.insert((placed, model.clone())) {
        return None;
    }
    for (index, entry) in next(history, placed) {
        let mut after = model.clone();
        if entry.answer.is_quiet() || !after.explains(&entry.call, &entry.answer) {
            continue;
        }
        let so_far = changes + u64::from(after != *model);
        let found = search(history, placed | 1 << index, &after, so_far, tried);
        if found.is_some() {
            return found;
        }
    }
    None
}

/// A call that may come next, and whose right answer says that it changes nothing, can always come at once:
/// in any order that explains the rest, moving it to the front of the rest alters no other answer.
fn place_what_changes_nothing(history: &[Entry], placed: &mut Placed, model: &Model) {
    loop {
        let quiet = next(history, *placed).find(|(_, entry)| {
            entry.answer.is_quiet() && model.clone().explains(&entry.call, &entry.answer)
        });
        match quiet {
            Some((index, _)) => *placed |= 1 << index,
            None => return,
        }
    }
}

/// The calls that nothing unplaced has to precede: made before any other of the rest had returned.
fn next(history: &[Entry], placed: Placed) -> impl Iterator<Item = (usize, &Entry)> {
    let rest =
        move || history.iter().enumerate().filter(move |(index, _)| placed & (1 << index) == 0);
    let first_return = rest().map(|(_, entry)| entry.returned).min().unwrap_or(u64::MAX);
    rest().filter(move |(_, entry)| entry.called < first_return)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(called: u64, returned: u64, call: Call, answer: Answer) -> Entry {
        Entry { called, returned, call, answer }
    }

    fn declared(called: u64, returned: u64, number: u128, answer: Answer) -> Entry {
        entry(called, returned, Call::Create { slot: 0, number, wording: 0 }, answer)
    }

    #[test]
    fn what_overlaps_may_come_in_either_order() {
        let replayed = Answer::Replayed { number: 2, version: 1 };
        let history = [declared(0, 10, 1, replayed), declared(1, 9, 2, Answer::Stored)];
        assert_eq!(order(&history, &Model::default()).map(|order| order.changes), Some(1));
    }

    #[test]
    fn what_came_later_cannot_be_seen_before() {
        let replayed = Answer::Replayed { number: 2, version: 1 };
        let history = [declared(0, 1, 1, replayed), declared(2, 3, 2, Answer::Stored)];
        assert!(order(&history, &Model::default()).is_none());
    }

    #[test]
    fn a_change_does_not_happen_twice() {
        let history = [declared(0, 10, 1, Answer::Stored), declared(1, 9, 2, Answer::Stored)];
        assert!(order(&history, &Model::default()).is_none());
    }

    #[test]
    fn a_read_does_not_go_back_in_time() {
        let history = [
            declared(0, 10, 1, Answer::Stored),
            entry(1, 2, Call::List, Answer::Listed(vec![(1, 1)])),
            entry(3, 4, Call::List, Answer::Listed(vec![])),
        ];
        assert!(order(&history, &Model::default()).is_none());
    }
}
