//! What a launch may ask for: refused by numbers before CUDA sees it, so that no submit fails for it.

use rig_edge::Block;

use crate::code::Entry;
use crate::sys::abi::device_attribute as attribute;
use crate::sys::{Api, Result};

/// A GPU's limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// The most threads of a group.
    pub threads: u32,
    /// The most threads along x, y, z.
    pub threads_along: [u32; 3],
    /// The most groups along x, y, z.
    pub groups_along: [u32; 3],
    /// The most bytes of group memory, with those that a function declares.
    pub group_bytes: u32,
}

impl Limits {
    /// The limits of a GPU.
    pub fn of(api: &Api, device: i32) -> Result<Limits> {
        let ask = |attribute| api.device_attribute(device, attribute).map(i32::unsigned_abs);
        let along = |x| Ok([ask(x)?, ask(x + 1)?, ask(x + 2)?]);
        let plain = ask(attribute::MAX_SHARED_MEMORY_PER_BLOCK)?;
        Ok(Limits {
            threads: ask(attribute::MAX_THREADS_PER_BLOCK)?,
            threads_along: along(attribute::MAX_BLOCK_DIM_X)?,
            groups_along: along(attribute::MAX_GRID_DIM_X)?,
            group_bytes: ask(attribute::MAX_SHARED_MEMORY_PER_BLOCK_OPTIN).map_or(plain, |most| most.max(plain)),
        })
    }

    /// Why the launch can never run, if it cannot.
    #[inline]
    pub fn refuse(&self, entry: &Entry, block: &Block) -> Option<String> {
        let over = |is: [u32; 3], most: [u32; 3]| (0..3).any(|axis| is[axis] > most[axis]);
        // A product that wraps could look small: three axes of 32 bits do not fit in 64.
        let threads = block.threads.iter().fold(1_u64, |all, &along| all.saturating_mul(along.into()));
        let fits = !over(block.groups, self.groups_along)
            && !over(block.threads, self.threads_along)
            && threads <= entry.threads.into()
            && block.group_bytes <= entry.group_bytes
            && block.params_len as usize == entry.params;
        if fits { None } else { Some(self.why(entry, block, threads)) }
    }

    #[cold]
    fn why(&self, entry: &Entry, block: &Block, threads: u64) -> String {
        for (what, is, most) in
            [("groups", block.groups, self.groups_along), ("threads of a group", block.threads, self.threads_along)]
        {
            for axis in 0..3 {
                if is[axis] > most[axis] {
                    let name = ["x", "y", "z"][axis];
                    return format!("{} {what} along {name}: the GPU takes at most {}", is[axis], most[axis]);
                }
            }
        }
        if threads > entry.threads.into() {
            return format!("groups of {threads} threads: the function takes at most {}", entry.threads);
        }
        if block.group_bytes > entry.group_bytes {
            return format!(
                "{} bytes of group memory: at most {} are left beside what the function declares",
                block.group_bytes, entry.group_bytes
            );
        }
        format!("{} bytes of parameters: the function takes {}", block.params_len, entry.params)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        threads: 1024,
        threads_along: [1024, 1024, 64],
        groups_along: [2_147_483_647, 65_535, 65_535],
        group_bytes: 232_448,
    };

    fn refuse(groups: [u32; 3], threads: [u32; 3], group_bytes: u32) -> Option<String> {
        let entry = Entry { threads: 512, group_bytes: 1000, ..Entry::of_params(16) };
        LIMITS.refuse(&entry, &Block { groups, threads, group_bytes, params_at: 0, params_len: 16 })
    }

    #[test]
    fn what_stands_at_a_limit_runs_and_one_more_is_refused_with_both_numbers() {
        assert_eq!(refuse([2_147_483_647, 65_535, 65_535], [512, 1, 1], 1000), None);
        assert_eq!(refuse([1, 1, 1], [4, 2, 64], 0), None);
        for (groups, threads, bytes, words) in [
            ([2_147_483_648, 1, 1], [1, 1, 1], 0, ["2147483648 groups along x", "2147483647"]),
            ([1, 65_536, 1], [1, 1, 1], 0, ["65536 groups along y", "65535"]),
            ([1, 1, 65_536], [1, 1, 1], 0, ["65536 groups along z", "65535"]),
            ([1, 1, 1], [1, 1, 65], 0, ["65 threads of a group along z", "64"]),
            ([1, 1, 1], [513, 1, 1], 0, ["513 threads", "512"]),
            ([1, 1, 1], [u32::MAX, u32::MAX, 1], 0, ["4294967295 threads", "1024"]),
            // A product that 64 bits do not hold.
            ([1, 1, 1], [u32::MAX; 3], 0, ["4294967295 threads", "1024"]),
            ([1, 1, 1], [1, 1, 1], 1001, ["1001 bytes of group memory", "1000"]),
        ] {
            let why = refuse(groups, threads, bytes).unwrap();
            assert!(words.iter().all(|word| why.contains(word)), "{why}");
        }
    }

    #[test]
    fn parameters_of_another_length_are_refused() {
        let block = Block { groups: [1; 3], threads: [1; 3], group_bytes: 0, params_at: 0, params_len: 24 };
        let why = LIMITS.refuse(&Entry::of_params(16), &block).unwrap();
        assert!(why.contains("24 bytes") && why.contains("16"), "{why}");
    }
}
