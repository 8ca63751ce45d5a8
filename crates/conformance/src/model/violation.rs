//! What a caller can do wrong, as the model saw it.

use super::Call;

/// A debt to the driver that its caller did not pay. `device` is the number of the device, in the order of opening.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    // ---- when calls come ----
    /// A call came after stop that may not (E03, E20).
    #[error("device {device}: {call:?} after stop")]
    AfterStop {
        /// The device.
        device: usize,
        /// The call.
        call: Call,
    },
    /// A counted call came while stop ran (E03).
    #[error("device {device}: {call:?} during stop")]
    DuringStop {
        /// The device.
        device: usize,
        /// The call.
        call: Call,
    },
    /// Stop came while counted calls were in flight (E03).
    #[error("device {device}: stop during {calls} counted calls")]
    StopDuring {
        /// The device.
        device: usize,
        /// How many.
        calls: u32,
    },
    /// Stop came a second time (E20).
    #[error("device {device}: stop twice")]
    StopTwice {
        /// The device.
        device: usize,
    },
    /// Stop was told a reason, and nothing had faulted (E20).
    #[error("device {device}: stop was given the reason {given:?}, and nothing had faulted")]
    StopReason {
        /// The device.
        device: usize,
        /// The reason.
        given: String,
    },
    /// Two hot calls at one time (E17).
    #[error("device {device}: {call:?} during {other:?}")]
    HotOverlap {
        /// The device.
        device: usize,
        /// The later one.
        call: Call,
        /// The one that ran.
        other: Call,
    },
    /// `free` or `unload` after stop, while the word does not show the last value (E22).
    #[error("device {device}: {call:?} after stop while the word shows {shown} of {last}")]
    BeforeWord {
        /// The device.
        device: usize,
        /// The call.
        call: Call,
        /// What the word shows.
        shown: u64,
        /// The last value given to submit.
        last: u64,
    },
    /// `grow` on a thread to which no room answered Grow (E28).
    #[error("device {device}: grow on a thread whose room did not ask for it")]
    GrowUnasked {
        /// The device.
        device: usize,
    },
    /// The driver was dropped before stop, or before something of it was given back (C02).
    #[error("device {device}: dropped {what}")]
    Dropped {
        /// The device.
        device: usize,
        /// What was missing.
        what: String,
    },

    // ---- values ----
    /// A value out of order, twice, or after a gap (E09).
    #[error("device {device}: submit of {got} where {expected} was due")]
    ValueOrder {
        /// The device.
        device: usize,
        /// The last value plus one.
        expected: u64,
        /// The value that came.
        got: u64,
    },
    /// A commit of a value that submit never got (E10).
    #[error("device {device}: commit of {value} with {submitted} submitted")]
    CommitUnknown {
        /// The device.
        device: usize,
        /// The value.
        value: u64,
        /// The last value given to submit.
        submitted: u64,
    },
    /// A submit with no Ok of room since the last hot call (S04).
    #[error("device {device}: submit of {value} without room")]
    RoomNotAsked {
        /// The device.
        device: usize,
        /// The value.
        value: u64,
    },
    /// A submit of other work than room was asked for.
    #[error("device {device}: submit of {value} with other {what} than room was asked for")]
    RoomForOther {
        /// The device.
        device: usize,
        /// The value.
        value: u64,
        /// What differs.
        what: &'static str,
    },
    /// A part's scratch is neither zero nor what the driver wrote last (E37).
    #[error("device {device}: the scratch of part {part} is not what the driver wrote")]
    Scratch {
        /// The device.
        device: usize,
        /// The part.
        part: usize,
    },

    // ---- waits ----
    /// More waits than the facts allow (S03).
    #[error("device {device}: {waits} queue waits of at most {most}")]
    TooManyWaits {
        /// The device.
        device: usize,
        /// How many.
        waits: usize,
        /// `facts.waits.most`.
        most: usize,
    },
    /// A wait for a word that the device's queues cannot wait for (S03).
    #[error("device {device}: a queue wait for word {word}, which its facts do not allow")]
    WaitNotAllowed {
        /// The device.
        device: usize,
        /// The word's index.
        word: usize,
    },
    /// A wait for a value that its device has not committed (S03).
    #[error("device {device}: a queue wait for value {value} of word {word}, committed to {committed}")]
    WaitUncommitted {
        /// The device.
        device: usize,
        /// The word's index.
        word: usize,
        /// The value.
        value: u64,
        /// What is committed.
        committed: u64,
    },

    // ---- memory ----
    /// `alloc` of zero bytes or of no multiple of a word (E04).
    #[error("device {device}: alloc of {len} bytes, no positive multiple of 4")]
    AllocLength {
        /// The device.
        device: usize,
        /// The bytes.
        len: usize,
    },
    /// A region of another device.
    #[error("device {device}: {call:?} of a region of device {owner}")]
    RegionOfOther {
        /// The device.
        device: usize,
        /// The call.
        call: Call,
        /// Whose region it is.
        owner: usize,
    },
    /// A region after it was freed.
    #[error("device {device}: {call:?} of a freed region at {at:#x}")]
    UseAfterFree {
        /// The device.
        device: usize,
        /// The call.
        call: Call,
        /// The device address.
        at: u64,
    },
    /// A region freed twice (E27).
    #[error("device {device}: the region at {at:#x} freed twice")]
    DoubleFree {
        /// The device.
        device: usize,
        /// The device address.
        at: u64,
    },
    /// A region freed while unfinished work uses it.
    #[error("device {device}: the region at {at:#x} freed while value {value} uses it")]
    FreeInUse {
        /// The device.
        device: usize,
        /// The device address.
        at: u64,
        /// The value.
        value: u64,
    },
    /// A region freed while another device maps it, or while it holds the code of a loaded image.
    #[error("device {device}: the region at {at:#x} freed under {what}")]
    FreeUnder {
        /// The device.
        device: usize,
        /// The device address.
        at: u64,
        /// What still needs it.
        what: &'static str,
    },
    /// `map_host` of no page or no bytes, or where the facts do not offer it (E14, E26).
    #[error("device {device}: map_host of {len} bytes at {at:#x}: {why}")]
    MapHost {
        /// The device.
        device: usize,
        /// The address.
        at: usize,
        /// The bytes.
        len: usize,
        /// What is wrong.
        why: &'static str,
    },
    /// `map_peer` where `peer` answers no (E14).
    #[error("device {device}: map_peer of device {other}, which is no peer")]
    NoPeer {
        /// The device.
        device: usize,
        /// The other device.
        other: usize,
    },
    /// `dma` of a mapping: only memory that the driver made is its own to give (E34).
    #[error("device {device}: dma of the mapping at {at:#x}, which is no memory of the device's own")]
    DmaOfMapping {
        /// The device.
        device: usize,
        /// The device address.
        at: u64,
    },
    /// A region freed whose bus addresses a PCI function has (E36).
    #[error("device {device}: the region at {at:#x} freed, and a PCI function has its bus addresses")]
    FreeExported {
        /// The device.
        device: usize,
        /// The device address.
        at: u64,
    },
    /// A slot that is no memory of the device's, or whose addresses do not belong together.
    #[error("device {device}: {call:?} with slot {slot}: {why}")]
    Slot {
        /// The device.
        device: usize,
        /// The call.
        call: Call,
        /// The slot.
        slot: usize,
        /// What is wrong.
        why: &'static str,
    },

    // ---- parts and code ----
    /// A part, its block or its parameters are wrong.
    #[error("device {device}: part {part}: {why}")]
    Part {
        /// The device.
        device: usize,
        /// The part.
        part: usize,
        /// What is wrong.
        why: String,
    },
    /// An entry of an unloaded image.
    #[error("device {device}: {call:?} with an entry of {function} after its image was unloaded")]
    EntryAfterUnload {
        /// The device.
        device: usize,
        /// The call.
        call: Call,
        /// The function.
        function: String,
    },
    /// An image or entry of another device.
    #[error("device {device}: {call:?} of an image of device {owner}")]
    ImageOfOther {
        /// The device.
        device: usize,
        /// The call.
        call: Call,
        /// Whose image it is.
        owner: usize,
    },
    /// An image used after, or unloaded twice.
    #[error("device {device}: {call:?} of an unloaded image")]
    ImageUnloaded {
        /// The device.
        device: usize,
        /// The call.
        call: Call,
    },
    /// An image unloaded while unfinished work runs it (E32).
    #[error("device {device}: an image unloaded while value {value} runs it")]
    UnloadInUse {
        /// The device.
        device: usize,
        /// The value.
        value: u64,
    },
    /// The bytes of placed code are not in its region when a launch runs it (E05).
    #[error("device {device}: {function} was launched, and its code is not where it was placed")]
    CodeNotStored {
        /// The device.
        device: usize,
        /// The function.
        function: String,
    },
    /// A plan of another device.
    #[error("device {device}: {call:?} with a plan of device {owner}")]
    PlanOfOther {
        /// The device.
        device: usize,
        /// The call.
        call: Call,
        /// Whose plan it is.
        owner: usize,
    },
    /// A plan dropped while unfinished work uses it.
    #[error("device {device}: a plan dropped while value {value} uses it")]
    PlanInUse {
        /// The device.
        device: usize,
        /// The value.
        value: u64,
    },

    // ---- the driver's own word ----
    /// `signaled` or `free_word` where the word is not the driver's own, or after it was freed, or too early (E23, E27).
    #[error("device {device}: {call:?} {why}")]
    Word {
        /// The device.
        device: usize,
        /// The call.
        call: Call,
        /// What is wrong.
        why: &'static str,
    },
}

impl Violation {
    /// The number of the device.
    pub fn device(&self) -> usize {
        match self {
            Violation::AfterStop { device, .. }
            | Violation::DuringStop { device, .. }
            | Violation::StopDuring { device, .. }
            | Violation::StopTwice { device, .. }
            | Violation::StopReason { device, .. }
            | Violation::HotOverlap { device, .. }
            | Violation::BeforeWord { device, .. }
            | Violation::GrowUnasked { device, .. }
            | Violation::Dropped { device, .. }
            | Violation::ValueOrder { device, .. }
            | Violation::CommitUnknown { device, .. }
            | Violation::RoomNotAsked { device, .. }
            | Violation::RoomForOther { device, .. }
            | Violation::Scratch { device, .. }
            | Violation::TooManyWaits { device, .. }
            | Violation::WaitNotAllowed { device, .. }
            | Violation::WaitUncommitted { device, .. }
            | Violation::AllocLength { device, .. }
            | Violation::RegionOfOther { device, .. }
            | Violation::UseAfterFree { device, .. }
            | Violation::DoubleFree { device, .. }
            | Violation::FreeInUse { device, .. }
            | Violation::FreeUnder { device, .. }
            | Violation::MapHost { device, .. }
            | Violation::NoPeer { device, .. }
            | Violation::DmaOfMapping { device, .. }
            | Violation::FreeExported { device, .. }
            | Violation::Slot { device, .. }
            | Violation::Part { device, .. }
            | Violation::EntryAfterUnload { device, .. }
            | Violation::ImageOfOther { device, .. }
            | Violation::ImageUnloaded { device, .. }
            | Violation::UnloadInUse { device, .. }
            | Violation::CodeNotStored { device, .. }
            | Violation::PlanOfOther { device, .. }
            | Violation::PlanInUse { device, .. }
            | Violation::Word { device, .. } => *device,
        }
    }
}
