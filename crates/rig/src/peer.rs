//! The first use of two devices as peers: do bytes really move between them?
//!
//! Some machines let one device map another's memory and then lose or divert what it reads and writes there: an IOMMU that
//! translates between devices, a switch that does not forward. The vendor's interface reports success. So the first mapping
//! of each pair is tried with real bytes, both ways, on the device's own queue; a pair that fails is never used as peers.

use std::sync::{Arc, Weak};

use crate::device::{Core, Handle};
use crate::mapped;
use crate::{Device, Result};

/// The bytes that are moved each way: more than any cache line or burst, and a page.
const PROBE_BYTES: usize = 4096;

/// What is known of a device as the peer of another, whose memory it maps.
pub(crate) struct Peer {
    home: Weak<Core>,
    verdict: Verdict,
}

/// Whether bytes move, or why the pair is not used.
pub(crate) type Verdict = std::result::Result<(), String>;

/// Whether bytes move between the memory of `home` and `device`, tried at the first question.
///
/// A device whose queues run no copies cannot try, and is believed.
pub(crate) fn check(home: &Arc<Handle>, device: &Device) -> Result<Verdict> {
    let core = &device.handle.core;
    let known = |peer: &&Peer| std::ptr::eq(peer.home.as_ptr(), Arc::as_ptr(&home.core));
    if let Some(peer) = core.peers.lock().iter().find(known) {
        return Ok(peer.verdict.clone());
    }
    let home_device = Device { handle: Arc::clone(home) };
    let verdict = if core.facts.kinds().copy { probe(&home_device, device)? } else { Ok(()) };
    let mut peers = core.peers.lock();
    peers.retain(|peer| peer.home.strong_count() > 0);
    if !peers.iter().any(|peer| known(&peer)) {
        peers.push(Peer { home: Arc::downgrade(&home.core), verdict: verdict.clone() });
    }
    Ok(verdict)
}

/// Whether bytes are known to move between the memory of `home` and `device`. Never tries.
pub(crate) fn moves(home: &Arc<Core>, device: &Core) -> bool {
    let peers = device.peers.lock();
    peers.iter().any(|peer| std::ptr::eq(peer.home.as_ptr(), Arc::as_ptr(home)) && peer.verdict.is_ok())
}

/// Moves bytes from `home` to `device` and back, by a mapping of a buffer of `home`.
fn probe(home: &Device, device: &Device) -> Result<Verdict> {
    let (there, here) = (home.buffer(PROBE_BYTES)?, device.buffer(PROBE_BYTES)?);
    let mapped = match mapped::map_peer_unchecked(&there, device)? {
        Ok(mapped) => mapped::through(&there, &mapped, device),
        Err(why) => return Ok(Err(why)),
    };
    let (forth, back): (Vec<u8>, Vec<u8>) = (0..PROBE_BYTES).map(|i| ((i * 7 + 1) as u8, (i * 11 + 3) as u8)).unzip();
    let mut seen = vec![0; PROBE_BYTES];
    there.copy_from_slice(&forth)?;
    mapped.copy_to(&here)?;
    here.copy_to_slice(&mut seen)?;
    if seen != forth {
        return Ok(Err(lost_on_the_way(device, "reads", home)));
    }
    here.copy_from_slice(&back)?;
    here.copy_to(&mapped)?;
    there.copy_to_slice(&mut seen)?;
    Ok(if seen == back { Ok(()) } else { Err(lost_on_the_way(device, "writes", home)) })
}

fn lost_on_the_way(device: &Device, what: &str, home: &Device) -> String {
    format!(
        "{device} maps the memory of {home} as a peer, but its {what} of it do not arrive: look at the IOMMU and the PCI \
         bridges between the two"
    )
}
