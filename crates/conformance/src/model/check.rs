//! What the model checks of the work that it is given, and what it makes of it.
//!
//! `room` and `submit` check all of it, so that a caller that is wrong is caught at the first call that shows it.

use rig_edge::{Kinds, Part, Slot, WaitFacts, WordSource, Work};

use super::bytes::Span;
use super::driver::{ModelDriver, ModelEntry};
use super::kernel::{Grid, Resolved};
use super::state::{Backing, Device, Op, Phase, State, Ticket};
use super::{Call, Violation};

/// The mark in a scratch that the model wrote.
const SCRATCH_MARK: u64 = 0x7269_675F_6D6F_6465;

/// The threads that a group of the model may have, in all.
const GROUP_THREADS: u64 = 1024;

type Checked<T> = Result<T, Violation>;

/// A part as the model takes it.
pub(crate) type ModelPart = Part<ModelDriver>;

/// What checked work came to: its steps (none for a fill, whose code runs first), and what it uses.
pub(crate) struct Taken {
    pub(crate) ops: Vec<Option<Op>>,
    pub(crate) regions: Vec<u64>,
    pub(crate) images: Vec<u64>,
}

impl State {
    /// Checks the waits of a submit.
    pub(crate) fn check_waits(&self, device: &Device, work: &Work<'_>) -> Checked<()> {
        let WaitFacts { stores, hosts, most } = device.facts.waits;
        let id = device.id;
        if work.waits.len() > most {
            return Err(Violation::TooManyWaits { device: id, waits: work.waits.len(), most });
        }
        for wait in work.waits {
            let word = wait.word.get();
            // A later value of a stopped device's word is of another driver's device, which has the word by now; one from before the
            // device was opened, of one that had it then.
            let of_word = self.of_word(wait.word);
            let still = |of: &&Device| wait.value > of.start && (of.phase == Phase::Open || wait.value <= of.submitted);
            let Some(producer) = of_word.filter(still) else { continue };
            let allowed = match producer.facts.completion {
                rig_edge::Completion::Store => stores,
                rig_edge::Completion::Host => hosts,
            };
            if !allowed || producer.facts.word == WordSource::Own || producer.id == id {
                return Err(Violation::WaitNotAllowed { device: id, word });
            }
            if wait.value > producer.committed && producer.phase == Phase::Open {
                let (value, committed) = (wait.value, producer.committed);
                return Err(Violation::WaitUncommitted { device: id, word, value, committed });
            }
        }
        Ok(())
    }
}

impl Device {
    /// Checks slots, blocks, scratch and parts.
    pub(crate) fn take(&self, call: Call, parts: &[ModelPart], work: &Work<'_>) -> Checked<Taken> {
        let (parts_len, blocks, scratch) = (parts.len(), work.blocks.len(), work.scratch.len());
        if blocks != parts_len || scratch != parts_len {
            let why = format!("{parts_len} parts come with {blocks} blocks and {scratch} scratches");
            return Err(Violation::Part { device: self.id, part: 0, why });
        }
        let mut regions = Vec::new();
        let mut spans = Vec::new();
        for (index, slot) in work.slots.iter().enumerate() {
            let (span, base) = self.slot(call, index, slot)?;
            spans.push(span);
            regions.extend(base);
        }
        if work.apart {
            self.check_apart(call, work.slots)?;
        }
        for (part, scratch) in work.scratch.iter().enumerate() {
            let ours = scratch[0] == SCRATCH_MARK && scratch[1] == part as u64 && scratch[2] == self.id as u64;
            if *scratch != [0; 4] && !ours {
                return Err(Violation::Scratch { device: self.id, part });
            }
        }
        let mut images = Vec::new();
        let mut ops = Vec::new();
        for (index, part) in parts.iter().enumerate() {
            ops.push(self.part(call, index, part, work, &spans, &mut images)?);
        }
        Ok(Taken { ops, regions, images })
    }

    /// Checks that no two slots share a byte.
    fn check_apart(&self, call: Call, slots: &[Slot]) -> Checked<()> {
        let mut order: Vec<usize> = (0..slots.len()).filter(|&index| slots[index].len > 0).collect();
        order.sort_by_key(|&index| slots[index].device);
        let shared = order.windows(2).find(|two| slots[two[0]].device + slots[two[0]].len > slots[two[1]].device);
        shared.map_or(Ok(()), |two| {
            let why = "it is said to be apart from another slot, and shares memory with it";
            Err(Violation::Slot { device: self.id, call, slot: two[1], why })
        })
    }

    /// Where a slot's bytes are, and the region that they are in; none for a slot of no bytes.
    fn slot(&self, call: Call, index: usize, slot: &Slot) -> Checked<(Span, Option<u64>)> {
        let wrong = |why| Violation::Slot { device: self.id, call, slot: index, why };
        if slot.len == 0 {
            return Ok((Span::empty(), None));
        }
        let Some((base, region, offset)) = self.region_at(slot.device, slot.len) else {
            return Err(wrong("it is no memory of the device"));
        };
        let Some(span) = region.span() else {
            return Err(Violation::UseAfterFree { device: self.id, call, at: base });
        };
        let span = span.part(offset, slot.len as usize).ok_or_else(|| wrong("it leaves its region"))?;
        let host = if region.host { span.start() } else { std::ptr::null_mut() };
        if slot.host != host {
            return Err(wrong("its host address is not where its device address lies"));
        }
        Ok((span, Some(base)))
    }

    fn part(
        &self,
        call: Call,
        index: usize,
        part: &ModelPart,
        work: &Work<'_>,
        spans: &[Span],
        images: &mut Vec<u64>,
    ) -> Checked<Option<Op>> {
        let wrong = |why: String| Violation::Part { device: self.id, part: index, why };
        let span = |slot: u32| {
            let none = || wrong(format!("slot {slot} of {}", spans.len()));
            spans.get(slot as usize).copied().ok_or_else(none)
        };
        if !runs(self.facts.kinds(), part) {
            return Err(wrong("no queue of the device runs parts of its kind".into()));
        }
        Ok(Some(match part {
            Part::Launch(launch) => {
                self.entry(call, &launch.entry)?;
                images.push(launch.entry.image);
                self.launch(index, launch, work, spans)?
            }
            Part::Copy(copy) => {
                let (from, to) = (span(copy.from)?, span(copy.to)?);
                if from.len() != to.len() {
                    return Err(wrong(format!("a copy of {} bytes to {}", from.len(), to.len())));
                }
                if from.len() > 0 && from.start().addr().abs_diff(to.start().addr()) < from.len() {
                    return Err(wrong("a copy between ranges that overlap".into()));
                }
                Op::Copy { from, to }
            }
            Part::Memset(memset) => Op::Fill { to: span(memset.slot)?, byte: memset.byte },
            Part::Fill(_) => return Ok(None),
        }))
    }

    /// Checks an entry: of this device, of a loaded image.
    pub(crate) fn entry(&self, call: Call, entry: &ModelEntry) -> Checked<()> {
        if entry.device != self.id {
            return Err(Violation::ImageOfOther { device: self.id, call, owner: entry.device });
        }
        let loaded = self.images.get(&entry.image);
        let function = || entry.function.name.to_string();
        let Some(image) = loaded else {
            return Err(Violation::EntryAfterUnload { device: self.id, call, function: function() });
        };
        if let Some((at, bytes)) = image.place.as_ref().filter(|_| call == Call::Submit) {
            let stored = self
                .region_at(*at, bytes.len() as u64)
                .and_then(|(_, region, offset)| Some(region.span()?.part(offset, bytes.len())?.read()));
            if stored.as_ref() != Some(bytes) {
                return Err(Violation::CodeNotStored { device: self.id, function: function() });
            }
        }
        Ok(())
    }

    fn launch(
        &self,
        index: usize,
        launch: &rig_edge::Launch<ModelEntry>,
        work: &Work<'_>,
        spans: &[Span],
    ) -> Checked<Op> {
        let wrong = |why: String| Violation::Part { device: self.id, part: index, why };
        let block = &work.blocks[index];
        let (at, len) = (block.params_at as usize, block.params_len as usize);
        if !at.is_multiple_of(8) || !work.params.as_ptr().addr().is_multiple_of(8) || at + len > work.params.len() {
            return Err(wrong(format!("parameters of {len} bytes at {at} of {}", work.params.len())));
        }
        if let Some(known) = launch.entry.function.facts.params.filter(|&known| known != len) {
            return Err(wrong(format!("{len} bytes of parameters where the function has {known}")));
        }
        let mut params = work.params_of(block).to_vec();
        let mut refs = Vec::new();
        let mut free = 0;
        for r in &launch.refs {
            let place = r.at as usize;
            if place < free || place + 8 > len {
                return Err(wrong(format!("a ref at {place} of {len} bytes, free from {free}")));
            }
            free = place + 8;
            let none = || wrong(format!("a ref of slot {} of {}", r.slot, spans.len()));
            let span = *spans.get(r.slot as usize).ok_or_else(none)?;
            // PANIC: the place is inside the parameters by the check above, and 8 bytes are 8 bytes.
            let offset = u64::from_ne_bytes(params[place..place + 8].try_into().expect("8 bytes"));
            let rest = usize::try_from(offset).ok().and_then(|at| span.part(at, span.len().checked_sub(at)?));
            let Some(rest) = rest else {
                return Err(wrong(format!("a ref at offset {offset} of {} bytes", span.len())));
            };
            let address = work.slots[r.slot as usize].device + offset;
            params[place..place + 8].copy_from_slice(&address.to_ne_bytes());
            // A function may touch its buffer's last bytes by whole words (C04).
            refs.push(Resolved { access: r.access, span: rest.by_words() });
        }
        let grid = Grid { groups: block.groups, threads: block.threads, group_bytes: block.group_bytes };
        Ok(Op::Launch { function: launch.entry.function.clone(), grid, params, refs })
    }

    /// Why the device itself refuses the work.
    pub(crate) fn refuses(&self, parts: &[ModelPart], work: &Work<'_>) -> Option<String> {
        parts.iter().zip(work.blocks).enumerate().find_map(|(index, (part, block))| {
            let Part::Launch(launch) = part else { return None };
            let threads = block.threads.iter().fold(1_u64, |all, &n| all.saturating_mul(n.into()));
            let most = launch.entry.function.facts.threads.map_or(GROUP_THREADS, u64::from);
            if block.groups.iter().chain(&block.threads).any(|&n| n == 0) {
                return Some(format!("part {index} has a grid with a zero axis"));
            }
            (threads > most).then(|| format!("part {index} has groups of {threads} threads, of at most {most}"))
        })
    }

    /// What `room` writes into the scratches.
    pub(crate) fn write_scratch(&self, ticket: u64, work: &mut Work<'_>) {
        for (part, scratch) in work.scratch.iter_mut().enumerate() {
            *scratch = [SCRATCH_MARK, part as u64, self.id as u64, ticket];
        }
    }

    /// Checks that this submit is what the last room was asked for.
    pub(crate) fn check_ticket(&self, value: u64, plan: u64, work: &Work<'_>) -> Checked<()> {
        let device = self.id;
        let Some(ticket) = &self.ticket else { return Err(Violation::RoomNotAsked { device, value }) };
        let now = ticket_of(ticket.number, plan, work);
        let differs = [
            ("a plan", now.plan != ticket.plan),
            ("blocks", now.blocks != ticket.blocks),
            ("parameters", now.params != ticket.params),
            ("slots", now.slots != ticket.slots),
            ("whether slots are apart", now.apart != ticket.apart),
            ("waits", now.waits != ticket.waits),
        ];
        if let Some((what, _)) = differs.into_iter().find(|(_, differs)| *differs) {
            return Err(Violation::RoomForOther { device, value, what });
        }
        match work.scratch.iter().position(|scratch| scratch[3] != ticket.number) {
            Some(part) => Err(Violation::Scratch { device, part }),
            None => Ok(()),
        }
    }

    /// Checks that a region may be freed now.
    pub(crate) fn check_free(&self, at: u64) -> Checked<()> {
        let device = self.id;
        let region = self.memory.get(&at).filter(|region| !matches!(region.backing, Backing::Freed));
        let Some(region) = region else { return Err(Violation::DoubleFree { device, at }) };
        if let Some(value) = self.in_use(|job| job.regions.contains(&at)) {
            return Err(Violation::FreeInUse { device, at, value });
        }
        if !region.bus.is_empty() {
            return Err(Violation::FreeExported { device, at });
        }
        if region.mapped > 0 {
            return Err(Violation::FreeUnder { device, at, what: "a mapping of another device's" });
        }
        let mut images = self.images.values();
        match images.find(|image| image.place.as_ref().is_some_and(|(place, _)| *place == at)) {
            Some(_) => Err(Violation::FreeUnder { device, at, what: "a loaded image" }),
            None => Ok(()),
        }
    }
}

/// What work is, to compare a submit with its room.
pub(crate) fn ticket_of(number: u64, plan: u64, work: &Work<'_>) -> Ticket {
    Ticket {
        number,
        plan,
        blocks: work.blocks.to_vec(),
        params: work.params.to_vec(),
        slots: work.slots.iter().map(|slot| (slot.device, slot.host.addr(), slot.len)).collect(),
        apart: work.apart,
        waits: work.waits.to_vec(),
    }
}

fn runs(kinds: Kinds, part: &ModelPart) -> bool {
    match part {
        Part::Launch(_) => kinds.launch,
        Part::Copy(_) => kinds.copy,
        Part::Memset(_) => kinds.memset,
        Part::Fill(_) => kinds.fill,
    }
}
