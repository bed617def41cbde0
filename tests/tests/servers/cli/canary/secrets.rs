//! Secrets that stand nowhere until somebody puts them there.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// What makes them, and remembers all that it made.
pub(super) struct Secrets {
    random: StdRng,
    made: Vec<String>,
}

impl Secrets {
    /// Others for every seed.
    pub(super) fn seeded(seed: u64) -> Self {
        Self { random: StdRng::seed_from_u64(seed), made: Vec::new() }
    }

    /// One that stands in a URL and in a header as it is.
    pub(super) fn plain(&mut self) -> String {
        self.draw("")
    }

    /// One that JSON, Rust and base64 each write in another way.
    pub(super) fn odd(&mut self) -> String {
        self.draw("\"\\é/<& ")
    }

    /// Everything that was made.
    pub(super) fn made(self) -> Vec<String> {
        self.made
    }

    fn draw(&mut self, odd: &str) -> String {
        let letters: Vec<char> = ('a'..='z').chain('0'..='9').collect();
        let all: Vec<char> = letters.iter().copied().chain(odd.chars()).collect();
        let length = self.random.random_range(16..40);
        let middle: String =
            (0..length).map(|_| all[self.random.random_range(0..all.len())]).collect();
        // A letter at either end: so it is no number, and nobody trims it.
        let secret = format!("s{middle}t");
        self.made.push(secret.clone());
        secret
    }
}
