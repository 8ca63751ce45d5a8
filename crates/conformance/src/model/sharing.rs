//! Memory that others reach: mappings of host memory and of other devices', and PCI functions.

use rig_edge::{Dma, Fault, Mapping};

use super::bytes::{Block, Span};
use super::control::ModelDevice;
use super::driver::{ModelDriver, ModelRegion};
use super::options::DmaAnswer;
use super::state::{Backing, Device, State};
use super::{Call, Violation};

/// The bytes of a page, which `map_host` maps whole ones of, and whose bus addresses do not follow one another.
const PAGE: usize = 4096;

/// The first bus address of a model's memory: like no host address, and no device address.
pub(crate) const FIRST_BUS: u64 = 0xB5_0000_0000;

impl ModelDriver {
    /// Memory for a region, of the kind that the model's `dma` can give away.
    pub(super) fn block(&self, state: &State, len: usize) -> Option<Block> {
        #[cfg(target_os = "linux")]
        if state.options.dma == DmaAnswer::Buf {
            return Block::in_file(len);
        }
        let _ = state;
        Block::new(len, self.facts.alignment)
    }

    /// What the test, or a seed, has the next map answer instead of a mapping.
    fn no_mapping(&self, state: &mut State, call: Call) -> Option<Mapping<ModelRegion>> {
        let scripted = &mut state.devices[self.id].script.maps;
        if let Some(at) = scripted.iter().position(|(of, _)| *of == call) {
            return Some(scripted.remove(at).1.map_or(Mapping::NoMemory, Mapping::Never));
        }
        Self::unlucky(state, self.id).then_some(Mapping::NoMemory)
    }

    pub(super) fn map_host_now(&self, address: *mut u8, len: usize) -> Result<Mapping<ModelRegion>, Fault> {
        let why = match (self.facts.maps_host, len, address.addr().is_multiple_of(PAGE)) {
            (false, ..) => Some("the facts do not offer it"),
            (_, 0, _) => Some("no bytes"),
            (.., false) => Some("no start of a page"),
            _ => None,
        };
        if let Some(why) = why {
            return Err(self.violate(Violation::MapHost { device: self.id, at: address.addr(), len, why }));
        }
        let mut state = self.lock();
        if let Some(answer) = self.no_mapping(&mut state, Call::MapHost) {
            return Ok(answer);
        }
        let pages = len.next_multiple_of(PAGE);
        let span = Span::of_host(address, pages);
        Ok(Mapping::Mapped(self.add_region(&mut state, pages, true, Backing::Host(span))))
    }

    pub(super) fn map_peer_now(
        &self,
        other: &ModelDriver,
        region: &ModelRegion,
    ) -> Result<Mapping<ModelRegion>, Fault> {
        if !rig_edge::Driver::peer(self, other) {
            return Err(self.violate(Violation::NoPeer { device: self.id, other: other.id }));
        }
        other.own(Call::MapPeer, region)?;
        let mut state = self.lock();
        let origin = state.devices[other.id].memory.get(&region.at);
        let Some((span, host)) = origin.and_then(|origin| Some((origin.span()?, origin.host))) else {
            let gone = Violation::UseAfterFree { device: self.id, call: Call::MapPeer, at: region.at };
            return Err(Fault::new(state.violate(gone)));
        };
        if let Some(answer) = self.no_mapping(&mut state, Call::MapPeer) {
            return Ok(answer);
        }
        if let Some(origin) = state.devices[other.id].memory.get_mut(&region.at) {
            origin.mapped += 1;
        }
        let backing = Backing::Peer(other.id, region.at, span.losing(state.options.peers_lose));
        Ok(Mapping::Mapped(self.add_region(&mut state, span.len(), host, backing)))
    }

    pub(super) fn dma_now(&self, at: u64, function: &str) -> Result<Result<Dma, String>, Fault> {
        let mut state = self.lock();
        let State { devices, options, next_bus, .. } = &mut *state;
        let region = devices[self.id].memory.get_mut(&at);
        let (block, len, bus) = match region.map(|region| (&region.backing, region.len, &mut region.bus)) {
            Some((Backing::Owned(block), len, bus)) => (block, len, bus),
            Some((Backing::Freed, ..)) | None => {
                let gone = Violation::UseAfterFree { device: self.id, call: Call::Dma, at };
                return Err(Fault::new(state.violate(gone)));
            }
            Some((Backing::Host(_) | Backing::Peer(..), ..)) => {
                return Err(Fault::new(state.violate(Violation::DmaOfMapping { device: self.id, at })));
            }
        };
        if !is_function(function) {
            return Ok(Err(format!("{function:?} is the bus address of no PCI function, such as 0000:41:00.0")));
        }
        Ok(match options.dma {
            DmaAnswer::Refused => Err(format!("the model has no bus that the PCI function {function} is on")),
            DmaAnswer::Buf => block.descriptor().map(|descriptor| Dma::DmaBuf { descriptor, offset: 0 }),
            DmaAnswer::Bus => {
                if bus.is_empty() {
                    *bus = bus_of(len, next_bus);
                }
                let ranges = bus.clone();
                state.bus_given.get_or_insert_with(|| function.into());
                Ok(Dma::Bus(ranges))
            }
        })
    }
}

/// Bus addresses for the pages of `len` bytes: the first page, then all others, none next to one before.
fn bus_of(len: usize, next: &mut u64) -> Vec<(u64, u64)> {
    let first = len.min(PAGE);
    let rest = (*next, (len - first) as u64);
    let first = ((rest.0 + rest.1).next_multiple_of(PAGE as u64) + PAGE as u64, first as u64);
    *next = first.0 + 2 * PAGE as u64;
    if rest.1 == 0 { vec![first] } else { vec![first, rest] }
}

/// Whether the text is a bus address as PCI writes them: domain, bus, device, function.
fn is_function(text: &str) -> bool {
    let hex = |text: &str, digits: usize| text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let Some((rest, function)) = text.rsplit_once('.') else { return false };
    let parts: Vec<&str> = rest.split(':').collect();
    matches!(parts[..], [domain, bus, device] if hex(domain, 4) && hex(bus, 2) && hex(device, 2))
        && matches!(function.as_bytes(), [b'0'..=b'7'])
}

impl Device {
    /// The memory behind `len` bus addresses from `address`, in its pieces.
    fn behind(&self, address: u64, len: usize) -> Option<Vec<Span>> {
        let mut spans = Vec::new();
        let (mut address, mut left) = (address, len as u64);
        while left > 0 {
            let (span, taken) = self.memory.values().find_map(|region| {
                let mut before = 0;
                for &(start, bytes) in &region.bus {
                    if (start..start + bytes).contains(&address) {
                        let skip = address - start;
                        let taken = left.min(bytes - skip);
                        return Some((region.span()?.part((before + skip) as usize, taken as usize)?, taken));
                    }
                    before += bytes;
                }
                None
            })?;
            spans.push(span);
            (address, left) = (address + taken, left - taken);
        }
        Some(spans)
    }
}

impl ModelDevice {
    /// The next `n` calls of this kind, [`Call::MapHost`] or [`Call::MapPeer`], answer that there is no memory.
    pub fn map_no_memory_next(&self, call: Call, n: usize) {
        self.with(|device| device.script.maps.extend(std::iter::repeat_n((call, None), n)));
    }

    /// The next call of this kind, [`Call::MapHost`] or [`Call::MapPeer`], answers that the memory can never be mapped.
    pub fn map_never_next(&self, call: Call, why: &str) {
        self.with(|device| device.script.maps.push((call, Some(why.into()))));
    }

    /// Reads `len` bytes at a bus address, as the PCI function does that `dma` gave it to: also after the device is gone.
    ///
    /// # Panics
    ///
    /// If bytes of them were given to no function.
    pub fn dma_read(&self, address: u64, len: usize) -> Vec<u8> {
        self.behind(address, len).into_iter().flat_map(Span::read).collect()
    }

    /// Writes bytes at a bus address, as the PCI function does that `dma` gave it to: also after the device is gone.
    ///
    /// # Panics
    ///
    /// If some of the addresses were given to no function.
    pub fn dma_write(&self, address: u64, bytes: &[u8]) {
        let mut bytes = bytes;
        for span in self.behind(address, bytes.len()) {
            let (now, later) = bytes.split_at(span.len());
            span.write(now);
            bytes = later;
        }
    }

    fn behind(&self, address: u64, len: usize) -> Vec<Span> {
        let spans = self.with(|device| device.behind(address, len));
        spans.unwrap_or_else(|| panic!("no PCI function was given all of the {len} bytes at {address:#x}"))
    }
}
