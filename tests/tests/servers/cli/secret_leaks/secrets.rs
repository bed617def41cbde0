//! Random secrets that occur nowhere until the test places them.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

pub(super) struct Secrets {
    random: StdRng,
    generated: Vec<String>,
}

impl Secrets {
    /// Different secrets per seed.
    pub(super) fn seeded(seed: u64) -> Self {
        Self { random: StdRng::seed_from_u64(seed), generated: Vec::new() }
    }

    /// A secret that URLs and headers do not escape.
    pub(super) fn plain(&mut self) -> String {
        self.generate("")
    }

    /// A secret that JSON, Rust and base64 each escape differently.
    pub(super) fn special_characters(&mut self) -> String {
        self.generate("\"\\é/<& ")
    }

    pub(super) fn into_all(self) -> Vec<String> {
        self.generated
    }

    fn generate(&mut self, special: &str) -> String {
        let letters: Vec<char> = ('a'..='z').chain('0'..='9').collect();
        let all: Vec<char> = letters.iter().copied().chain(special.chars()).collect();
        let length = self.random.random_range(16..40);
        let middle: String =
            (0..length).map(|_| all[self.random.random_range(0..all.len())]).collect();
        // With a letter at either end, the secret is not a number and cannot be trimmed.
        let secret = format!("s{middle}t");
        self.generated.push(secret.clone());
        secret
    }
}
