//! Free loopback ports. Nothing can reserve a port for a program that is not running yet, so a port
//! is only probably free, and a start that finds it taken is tried again with another one.

use std::{
    fs::File,
    io::{self, Read},
    net::{Ipv4Addr, TcpListener},
    ops::Range,
};

use anyhow::{Context as _, Result};

use crate::failure::cannot;

/// Above the ports of well-known services, and below those that the system gives to outgoing connections. Otherwise a client
/// that tries to reach a stopped server may get the server's own port as its source, and with it be connected to itself.
const CANDIDATES: Range<u16> = 10_240..20_480;

/// How often a start is tried with other ports.
const ATTEMPTS: usize = 10;

/// A server found its port taken. The start is tried again with another one.
#[derive(Debug, thiserror::Error)]
#[error("{server} found its port taken; its log ends: {tail}")]
pub(super) struct PortTaken {
    pub(super) server: &'static str,
    pub(super) tail: String,
}

/// Calls `start` with `N` ports, again with others as long as it finds one of them taken.
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

/// Bytes that nobody else can guess.
pub(super) fn random<const N: usize>() -> Result<[u8; N]> {
    const SOURCE: &str = "/dev/urandom";
    let mut bytes = [0; N];
    File::open(SOURCE)
        .and_then(|mut source| source.read_exact(&mut bytes))
        .with_context(cannot("read", SOURCE))?;
    Ok(bytes)
}

fn free_ports<const N: usize>() -> Result<[u16; N]> {
    let mut held = Vec::with_capacity(N);
    // All are held until all are chosen, so that they differ.
    while held.len() < N {
        let random = u16::from_le_bytes(random()?) % (CANDIDATES.end - CANDIDATES.start);
        let port = CANDIDATES.start + random;
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            Ok(listener) => held.push((port, listener)),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(error).context("cannot bind a port of 127.0.0.1"),
        }
    }
    Ok(std::array::from_fn(|i| held[i].0))
}
