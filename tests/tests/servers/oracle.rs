//! The differential oracle: the same random history through an in-memory adapter and through the real one.
//!
//! A seed makes a history of calls. Each world plays it by itself and writes down what it was answered, in words that
//! leave out what an adapter is free to choose: uids, versions of objects, the store's times. The two transcripts have
//! to be equal, line by line. What the simulation proves about in-memory adapters is worth as much as this is true.

mod cluster;
mod mesh;
mod store;

/// How many histories.
fn histories(normal: u64, many: u64) -> std::ops::Range<u64> {
    let nightly = broker_tests::is_nightly();
    0..if nightly { many } else { normal }
}

fn compare(seed: u64, memory: &[String], real: &[String]) {
    if let Some(difference) = difference(memory, real) {
        panic!("seed {seed}, {difference}");
    }
}

/// The first line in which two transcripts differ, with what led there.
fn difference(memory: &[String], real: &[String]) -> Option<String> {
    let same = memory.iter().zip(real).take_while(|(one, other)| one == other).count();
    if same == memory.len() && same == real.len() {
        return None;
    }
    let told = memory[..same].join("\n");
    let nothing = String::from("(nothing)");
    let (one, other) = (memory.get(same).unwrap_or(&nothing), real.get(same).unwrap_or(&nothing));
    Some(format!("after\n{told}\nin memory:\n{one}\non the server:\n{other}"))
}
