//! What a launch may ask for: refused by numbers before a value is taken.

use rig_edge::Block;

use crate::code::Entry;
use crate::hal::Chip;

/// A GPU's limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// The most threads of a group.
    pub threads: u32,
    /// The most bytes of group memory, with those that a function declares.
    pub group_bytes: u32,
}

impl Limits {
    pub fn of(chip: &dyn Chip) -> Limits {
        Limits { threads: chip.threads_most(), group_bytes: chip.group_bytes_most() }
    }

    /// Why the launch can never run, if it cannot.
    #[inline]
    pub fn refuse(&self, entry: &Entry, block: &Block) -> Option<String> {
        // A product that wraps could look small: three axes of 32 bits do not fit in 64.
        let threads = block.threads.iter().fold(1_u64, |all, &along| all.saturating_mul(along.into()));
        let most = self.threads.min(entry.threads);
        let grid = (0..3).all(|axis| block.groups[axis].checked_mul(block.threads[axis]).is_some_and(|all| all > 0));
        let fits = threads <= most.into()
            && grid
            && u64::from(block.group_bytes) + u64::from(entry.group) <= self.group_bytes.into()
            && block.params_len == entry.params
            && entry.fixed.is_none_or(|fixed| fixed == block.threads);
        if fits { None } else { Some(self.why(entry, block, threads)) }
    }

    #[cold]
    fn why(&self, entry: &Entry, block: &Block, threads: u64) -> String {
        let most = self.threads.min(entry.threads);
        if threads > most.into() {
            return format!("groups of {threads} threads: the function takes at most {most}");
        }
        if let Some(fixed) = entry.fixed.filter(|&fixed| fixed != block.threads) {
            return format!("groups of {:?} threads: the function was compiled for {fixed:?}", block.threads);
        }
        for axis in 0..3 {
            let (groups, threads) = (block.groups[axis], block.threads[axis]);
            if groups.checked_mul(threads).is_none_or(|all| all == 0) {
                let name = ["x", "y", "z"][axis];
                return format!(
                    "{groups} groups of {threads} threads along {name}: the GPU takes from 1 to {} threads",
                    u32::MAX
                );
            }
        }
        if u64::from(block.group_bytes) + u64::from(entry.group) > self.group_bytes.into() {
            return format!(
                "{} bytes of group memory beside the {} that the function declares: the GPU has {}",
                block.group_bytes, entry.group, self.group_bytes
            );
        }
        format!("{} bytes of parameters: the function takes {}", block.params_len, entry.params)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refuse(groups: [u32; 3], threads: [u32; 3], group_bytes: u32, params_len: u32) -> Option<String> {
        let entry = Entry::of_params(16, 512, 1000);
        let limits = Limits { threads: 1024, group_bytes: 65_536 };
        limits.refuse(&entry, &Block { groups, threads, group_bytes, params_at: 0, params_len })
    }

    #[test]
    fn what_stands_at_a_limit_runs_and_one_more_is_refused_with_both_numbers() {
        assert_eq!(refuse([1 << 22, 1, 1], [512, 1, 1], 64_536, 16), None);
        assert_eq!(refuse([8_388_607, 65_536, 65_536], [512, 1, 1], 0, 16), None);
        for (groups, threads, bytes, params, words) in [
            ([8_388_608, 1, 1], [512, 1, 1], 0, 16, ["8388608 groups of 512", "along x"]),
            ([1, 1 << 31, 1], [1, 2, 1], 0, 16, ["2147483648 groups of 2", "along y"]),
            ([1, 1, 0], [1, 1, 1], 0, 16, ["0 groups of 1", "along z"]),
            ([1, 1, 1], [513, 1, 1], 0, 16, ["513 threads", "512"]),
            ([1, 1, 1], [u32::MAX, u32::MAX, 1], 0, 16, ["threads", "512"]),
            // Products that 64 bits do not hold: one that would wrap to a large number, and one to none.
            ([1, 1, 1], [u32::MAX; 3], 0, 16, ["threads", "512"]),
            ([1, 1, 1], [1 << 31, 1 << 31, 4], 0, 16, ["threads", "512"]),
            ([1, 1, 1], [1, 1, 1], 64_537, 16, ["64537 bytes", "65536"]),
            ([1, 1, 1], [1, 1, 1], 0, 24, ["24 bytes of parameters", "16"]),
        ] {
            let why = refuse(groups, threads, bytes, params).unwrap();
            assert!(words.iter().all(|word| why.contains(word)), "{why}");
        }
    }

    #[test]
    fn a_function_compiled_for_one_size_of_group_takes_no_other() {
        let entry = Entry { fixed: Some([64, 2, 1]), ..Entry::of_params(0, 512, 0) };
        let limits = Limits { threads: 1024, group_bytes: 65_536 };
        let block = |threads| Block { groups: [1; 3], threads, group_bytes: 0, params_at: 0, params_len: 0 };
        assert_eq!(limits.refuse(&entry, &block([64, 2, 1])), None);
        assert!(limits.refuse(&entry, &block([128, 1, 1])).unwrap().contains("[64, 2, 1]"));
    }
}
