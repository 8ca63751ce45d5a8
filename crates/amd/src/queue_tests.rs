//! The memory of the rings, where no packet runs.

use rig_amd_model::Machine;

use super::*;
use crate::sdma;

/// A packet that straddled the end would be run as two, and what is left there is run as it stands.
#[test]
fn what_is_left_at_the_end_of_the_copy_ring_is_nops() {
    let machine = Machine::builder().build();
    machine.hang(true);
    let system = crate::on(&machine);
    let gpu = system.open(0).unwrap();
    let mut copier = Copier::new(&gpu).unwrap();
    // Whatever earlier rounds left there.
    copier.bytes.put(0, &vec![0xEE; COPY_BYTES]);
    let place = |copier: &mut Copier, words: &[u32]| {
        copier.packet(words);
        // As if the GPU had taken it.
        copier.ring.free_to(copier.ring.write());
    };
    let word = |copier: &Copier, at: usize| copier.bytes.load_long(at & !7).to_le_bytes()[at & 7..][..4].to_vec();
    for (words, left) in [(&sdma::copy(0, 4096, 64)[..], 4), (&sdma::fence(4096, 1), 8), (&sdma::copy(0, 4096, 64), 16)]
    {
        let end = (copier.ring.write() / COPY_BYTES as u64 + 1) * COPY_BYTES as u64;
        // Up to `left` bytes before the end, by packets of one word.
        while copier.ring.write() < end - left {
            place(&mut copier, &[0xEEEE_EEEE]);
        }
        place(&mut copier, words);
        assert_eq!(copier.ring.write(), end + 4 * words.len() as u64, "it starts at the ring's start");
        for at in (COPY_BYTES - left as usize..COPY_BYTES).step_by(4) {
            assert_eq!(word(&copier, at), [0; 4], "{at}");
        }
        assert_eq!(word(&copier, COPY_BYTES - left as usize - 4), [0xEE; 4], "the packet before it stays");
        assert_eq!(word(&copier, 0), words[0].to_le_bytes());
    }
    copier.end(&gpu).unwrap();
    machine.assert_clean();
}
