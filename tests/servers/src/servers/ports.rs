//! Chooses free loopback ports. A port cannot be reserved for a program that does not run yet, so a start that finds
//! its port taken is retried with another one.

use std::{
    fs::File,
    io::{self, Read},
    net::{Ipv4Addr, TcpListener},
    ops::Range,
};

use anyhow::{Context as _, Result};

use crate::failure::cannot;

/// Above the well-known ports and below the ephemeral ones. A client of a stopped server could otherwise get the
/// server's own port as its source port and connect to itself.
const CANDIDATES: Range<u16> = 10_240..20_480;

/// How often a start is retried with other ports.
const ATTEMPTS: usize = 10;

/// A server found its port taken; the start is retried with another one.
#[derive(Debug, thiserror::Error)]
#[error("{server} found its port taken; its log ends: {tail}")]
pub(super) struct PortTaken {
    pub(super) server: &'static str,
    pub(super) tail: String,
}

/// Calls `start` with `N` ports, and retries with others while one of them is taken.
pub(super) fn with_free_ports<const N: usize, T>(
    mut start: impl FnMut([u16; N]) -> Result<T>,
) -> Result<T> {
    for _ in 1..ATTEMPTS {
        match start(free_ports()?) {
            Err(error) if error.is::<PortTaken>() => {}
            result => return result,
        }
    }
    start(free_ports()?)
}

/// Cryptographically random bytes.
pub(super) fn random<const N: usize>() -> Result<[u8; N]> {
    const SOURCE: &str = "/dev/urandom";
    let mut bytes = [0; N];
    File::open(SOURCE)
        .and_then(|mut source| source.read_exact(&mut bytes))
        .with_context(cannot("read", SOURCE))?;
    Ok(bytes)
}

fn free_ports<const N: usize>() -> Result<[u16; N]> {
    let mut listeners = Vec::with_capacity(N);
    // All listeners stay open until all ports are chosen, so that the ports differ.
    while listeners.len() < N {
        let random = u16::from_le_bytes(random()?) % (CANDIDATES.end - CANDIDATES.start);
        let port = CANDIDATES.start + random;
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            Ok(listener) => listeners.push((port, listener)),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(error).context("cannot bind a port of 127.0.0.1"),
        }
    }
    Ok(std::array::from_fn(|i| listeners[i].0))
}
