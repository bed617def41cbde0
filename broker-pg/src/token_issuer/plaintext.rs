//! The plaintext of a token, and its digest. Only the digest is stored.

use std::fmt::Write;

use broker_ports::PortError;
use rand::TryRng;
use rand::rngs::SysRng;
use sha2::{Digest, Sha256};

/// 256 bits cannot be guessed, so the digest needs no salt.
const RANDOM_BYTES: usize = 32;

/// A plaintext from the operating system's randomness, in hexadecimal, which needs no escaping in shells and
/// templates.
pub(super) fn random_plaintext() -> Result<String, PortError> {
    let mut bytes = [0; RANDOM_BYTES];
    SysRng.try_fill_bytes(&mut bytes).map_err(|error| {
        PortError::transient("the operating system returned no randomness").with_source(error)
    })?;
    Ok(bytes.iter().fold(String::with_capacity(2 * RANDOM_BYTES), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    }))
}

pub(crate) fn digest(plaintext: &str) -> Vec<u8> {
    Sha256::digest(plaintext).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plaintext_is_long_printable_and_unique() {
        let (first, second) = (random_plaintext().unwrap(), random_plaintext().unwrap());
        assert_eq!(first.len(), 64);
        assert!(first.bytes().all(|byte| byte.is_ascii_hexdigit()), "{first}");
        assert_ne!(first, second);
        assert_ne!(digest(&first), digest(&second));
    }
}
