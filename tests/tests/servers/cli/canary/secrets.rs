//! Random secrets that occur nowhere until the test places them.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

pub(super) struct Secrets {
    random: StdRng,
    made: Vec<String>,
}

impl Secrets {
    /// Different secrets per seed.
    pub(super) fn seeded(seed: u64) -> Self {
        Self { random: StdRng::seed_from_u64(seed), made: Vec::new() }
    }

    /// A secret that URLs and headers do not escape.
    pub(super) fn plain(&mut self) -> String {
        self.draw("")
    }

    /// A secret that JSON, Rust and base64 each escape differently.
    pub(super) fn odd(&mut self) -> String {
        self.draw("\"\\é/<& ")
    }

    pub(super) fn made(self) -> Vec<String> {
        self.made
    }

    fn draw(&mut self, odd: &str) -> String {
        let letters: Vec<char> = ('a'..='z').chain('0'..='9').collect();
        let all: Vec<char> = letters.iter().copied().chain(odd.chars()).collect();
        let length = self.random.random_range(16..40);
        let middle: String =
            (0..length).map(|_| all[self.random.random_range(0..all.len())]).collect();
        // A letter at either end: it is no number and cannot be trimmed.
        let secret = format!("s{middle}t");
        self.made.push(secret.clone());
        secret
    }
}
