//! Two ways to issue your own bootstrap tokens: an issuer from scratch with its mesh, and a wrapper around another issuer.

pub mod counted;
pub mod own;
