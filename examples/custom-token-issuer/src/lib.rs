//! Two ways to bring your own bootstrap tokens: an issuer from scratch, and a wrapper around another one.

pub mod counted;
pub mod own;
