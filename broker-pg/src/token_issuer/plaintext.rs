//! What a token says, and the only trace that it leaves.

use std::fmt::Write;

use broker_ports::PortError;
use rand::TryRng;
use rand::rngs::SysRng;
use sha2::{Digest, Sha256};

/// 256 bits: nobody guesses it, so its plain digest needs no salt.
const RANDOM_BYTES: usize = 32;

/// A plaintext from the operating system's randomness, in hexadecimal digits: no agent, shell or template
/// reads anything into those.
pub(super) fn random() -> Result<String, PortError> {
    let mut bytes = [0; RANDOM_BYTES];
    SysRng.try_fill_bytes(&mut bytes).map_err(|error| {
        PortError::transient("the operating system gave no randomness").with_source(error)
    })?;
    Ok(bytes.iter().fold(String::with_capacity(2 * RANDOM_BYTES), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    }))
}

/// How a plaintext is known to the database.
pub(crate) fn digest(plaintext: &str) -> Vec<u8> {
    Sha256::digest(plaintext).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plaintext_is_long_printable_and_new() {
        let (one, other) = (random().unwrap(), random().unwrap());
        assert_eq!(one.len(), 64);
        assert!(one.bytes().all(|byte| byte.is_ascii_hexdigit()), "{one}");
        assert_ne!(one, other);
        assert_ne!(digest(&one), digest(&other));
    }
}
