//! Free loopback ports. Nothing can reserve a port for a program that is not running yet, so a port
//! is only probably free, and a start that finds it taken is tried again with another one.

use std::{
    fs::{self, File},
    io::{self, Read},
    net::{Ipv4Addr, TcpListener},
    ops::Range,
};

use anyhow::{Context as _, Result};

use crate::failure::cannot;

/// Below are the ports that well-known services use.
const LOWEST: u16 = 10_240;

/// What Linux uses for outgoing connections unless it was told otherwise.
const FIRST_EPHEMERAL: u16 = 32_768;

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
        let port = below_ephemeral(&candidates(), u16::from_le_bytes(random()?));
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            Ok(listener) => held.push((port, listener)),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(error).context("cannot bind a port of 127.0.0.1"),
        }
    }
    Ok(std::array::from_fn(|i| held[i].0))
}

/// Ports that the system does not give to outgoing connections. Otherwise a client that tries to
/// reach a stopped server may get the server's own port as its source, and with it be connected to
/// itself.
fn candidates() -> Range<u16> {
    let first_ephemeral = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range")
        .ok()
        .and_then(|range| range.split_whitespace().next()?.parse().ok())
        .unwrap_or(FIRST_EPHEMERAL);
    // A machine that was told to use almost everything for outgoing connections has no better ones.
    LOWEST..if first_ephemeral > 2 * LOWEST { first_ephemeral } else { FIRST_EPHEMERAL }
}

fn below_ephemeral(candidates: &Range<u16>, random: u16) -> u16 {
    candidates.start + random % (candidates.end - candidates.start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_ports_differ_and_are_no_source_of_outgoing_connections() {
        let ports: [u16; 8] = free_ports().unwrap();
        let bind = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).unwrap();
        assert_eq!(ports.iter().map(bind).collect::<Vec<_>>().len(), 8);
        let candidates = candidates();
        for random in 0..=u16::MAX {
            assert!(candidates.contains(&below_ephemeral(&candidates, random)));
        }
    }

    #[test]
    fn start_is_tried_again_after_a_taken_port_and_after_no_other_failure() {
        let start = |failures: usize, error: fn() -> anyhow::Error| {
            let mut calls = 0;
            let started = with_free_ports(|[_port]| {
                calls += 1;
                if calls > failures { Ok(()) } else { Err(error()) }
            });
            (started.is_ok(), calls)
        };
        let taken = || PortTaken { server: "fake", tail: String::new() }.into();
        assert_eq!(start(2, taken), (true, 3));
        assert_eq!(start(2, || anyhow::anyhow!("another failure")), (false, 1));
    }
}
