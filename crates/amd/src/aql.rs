//! Packets of the compute queue, in the Architected Queuing Language: 64 bytes each, as 16 words of 32 bits.
//!
//! Encoders are pure. The first word holds the header: whoever publishes a packet stores the other fifteen first, and this
//! one last with Release, since the GPU takes a packet once its header is not [`INVALID`].
//!
//! Sources: the HSA platform system architecture (packets and headers); AMD's packet of vendor format 1, which runs an
//! indirect buffer of PM4 commands, as ROCR-Runtime places it.

/// The words of a packet.
pub(crate) const WORDS: usize = 16;
/// The bytes of a packet.
pub(crate) const BYTES: u64 = 64;
/// A packet.
pub(crate) type Packet = [u32; WORDS];

/// The first word of a slot that holds no packet.
pub(crate) const INVALID: u32 = 1;

/// Format `PM4_IB` of AMD's vendor packets.
const FORMAT_PM4_IB: u32 = 1;
/// The command that runs an indirect buffer, `INDIRECT_BUFFER` of four words.
const INDIRECT_BUFFER: u32 = 0xC002_3F00;
/// The valid bit of the indirect buffer's length.
const IB_VALID: u32 = 1 << 23;
/// What follows the length in a packet of format `PM4_IB`: how many words of the packet are left.
const IB_REST: u32 = 10;

/// What kind of packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Vendor = 0,
    Dispatch = 2,
}

/// How far a fence reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The GPU.
    Agent = 1,
    /// The GPU, the host, and other devices.
    System = 2,
}

/// The header of a packet that starts once all before it are complete.
#[inline]
pub(crate) const fn header(kind: Kind, acquire: Scope, release: Scope) -> u32 {
    const BARRIER: u32 = 1 << 8;
    kind as u32 | BARRIER | (acquire as u32) << 9 | (release as u32) << 11
}

/// A launch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dispatch {
    /// The scope of the acquire before it.
    pub acquire: Scope,
    /// Threads of a group along x, y, z.
    pub workgroup: [u16; 3],
    /// Threads along x, y, z.
    pub grid: [u32; 3],
    /// The bytes of private memory of each thread.
    pub private_bytes: u32,
    /// The bytes of group memory, with what the function declares.
    pub group_bytes: u32,
    /// The address of the function's descriptor.
    pub kernel_object: u64,
    /// The address of its arguments.
    pub kernarg: u64,
}

/// The halves of an address, the low one first.
#[inline]
pub(crate) const fn halves(address: u64) -> [u32; 2] {
    [address as u32, (address >> 32) as u32]
}

/// The packet of a launch.
#[inline]
pub(crate) const fn dispatch(of: &Dispatch) -> Packet {
    // Three dimensions always: a length of one along an axis costs nothing.
    const SETUP: u32 = 3 << 16;
    let [x, y, z] = of.workgroup;
    let [object, object_high] = halves(of.kernel_object);
    let [kernarg, kernarg_high] = halves(of.kernarg);
    [
        header(Kind::Dispatch, of.acquire, Scope::Agent) | SETUP,
        x as u32 | (y as u32) << 16,
        z as u32,
        of.grid[0],
        of.grid[1],
        of.grid[2],
        of.private_bytes,
        of.group_bytes,
        object,
        object_high,
        kernarg,
        kernarg_high,
        0,
        0,
        0,
        0,
    ]
}

/// The packet that runs `words` words of PM4 commands at `address`, which must stay until it is complete.
#[inline]
pub(crate) const fn indirect(address: u64, words: u32) -> Packet {
    let [low, high] = halves(address);
    let mut packet = [0; WORDS];
    packet[0] = header(Kind::Vendor, Scope::System, Scope::System) | FORMAT_PM4_IB << 16;
    packet[1] = INDIRECT_BUFFER;
    packet[2] = low;
    packet[3] = high;
    packet[4] = words | IB_VALID;
    packet[5] = IB_REST;
    packet
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of a packet.
    fn bytes(packet: Packet) -> Vec<u8> {
        packet.into_iter().flat_map(u32::to_le_bytes).collect()
    }

    fn at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
        bytes[at..at + N].try_into().unwrap()
    }

    /// Promise A07.
    #[test]
    fn a_launch_has_its_fields_where_the_packet_processor_reads_them() {
        let bytes = bytes(dispatch(&Dispatch {
            acquire: Scope::System,
            workgroup: [0x0102, 0x0304, 0x0506],
            grid: [0x1112_1314, 0x2122_2324, 0x3132_3334],
            private_bytes: 0x3738_393a,
            group_bytes: 0x4142_4344,
            kernel_object: 0x5152_5354_5556_5758,
            kernarg: 0x6162_6364_6566_6768,
        }));
        // A dispatch of type 2 with the barrier, acquire at the system's scope and release at the GPU's.
        assert_eq!(u16::from_le_bytes(at(&bytes, 0)), 2 | 1 << 8 | 2 << 9 | 1 << 11);
        assert_eq!(u16::from_le_bytes(at(&bytes, 2)), 3, "setup: dimensions");
        assert_eq!(u16::from_le_bytes(at(&bytes, 4)), 0x0102);
        assert_eq!(u16::from_le_bytes(at(&bytes, 6)), 0x0304);
        assert_eq!(u16::from_le_bytes(at(&bytes, 8)), 0x0506);
        assert_eq!(u16::from_le_bytes(at(&bytes, 10)), 0, "reserved");
        assert_eq!(u32::from_le_bytes(at(&bytes, 12)), 0x1112_1314);
        assert_eq!(u32::from_le_bytes(at(&bytes, 16)), 0x2122_2324);
        assert_eq!(u32::from_le_bytes(at(&bytes, 20)), 0x3132_3334);
        assert_eq!(u32::from_le_bytes(at(&bytes, 24)), 0x3738_393a, "private");
        assert_eq!(u32::from_le_bytes(at(&bytes, 28)), 0x4142_4344);
        assert_eq!(u64::from_le_bytes(at(&bytes, 32)), 0x5152_5354_5556_5758);
        assert_eq!(u64::from_le_bytes(at(&bytes, 40)), 0x6162_6364_6566_6768);
        assert_eq!(bytes[48..], [0; 16], "reserved, and no completion signal");
    }

    #[test]
    fn headers_are_those_of_the_standard() {
        assert_eq!(header(Kind::Dispatch, Scope::System, Scope::System), 0x1502);
        assert_eq!(header(Kind::Vendor, Scope::System, Scope::System), 0x1500);
        assert_eq!(header(Kind::Dispatch, Scope::Agent, Scope::Agent), 0x0B02);
    }

    #[test]
    fn an_indirect_buffer_is_named_by_its_address_and_length() {
        let packet = indirect(0x7f12_3456_7840, 16);
        assert_eq!(packet[..6], [0x0001_1500, 0xC002_3F00, 0x3456_7840, 0x7f12, 16 | 1 << 23, 10]);
        assert_eq!(packet[6..], [0; 10]);
    }
}
