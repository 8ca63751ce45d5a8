//! What collectives compute, over bytes.

use crate::wire::{Kind, Op};

/// The bytes of an element of `ncclDataType_t`; none for a type that is not modelled.
pub(crate) fn bytes(of: i32) -> Option<usize> {
    match of {
        0 | 1 => Some(1),
        2 | 3 | 7 => Some(4),
        4 | 5 | 8 => Some(8),
        _ => None,
    }
}

macro_rules! elements {
    ($type:ty, $into:expr, $other:expr, $add:expr, $multiply:expr, $with:expr) => {{
        const BYTES: usize = size_of::<$type>();
        for (into, other) in $into.chunks_exact_mut(BYTES).zip($other.chunks_exact(BYTES)) {
            // PANIC: chunks are of this length.
            let a = <$type>::from_le_bytes((&*into).try_into().expect("an element"));
            let b = <$type>::from_le_bytes(other.try_into().expect("an element"));
            let (add, multiply): (fn($type, $type) -> $type, fn($type, $type) -> $type) = ($add, $multiply);
            let c = match $with {
                1 => multiply(a, b),
                2 => a.max(b),
                3 => a.min(b),
                _ => add(a, b),
            };
            into.copy_from_slice(&c.to_le_bytes());
        }
    }};
}

/// Reduces `other` into `into`.
fn reduce(of: i32, with: i32, into: &mut [u8], other: &[u8]) {
    macro_rules! whole {
        ($type:ty) => {
            elements!($type, into, other, <$type>::wrapping_add, <$type>::wrapping_mul, with)
        };
    }
    match of {
        0 => whole!(i8),
        1 => whole!(u8),
        2 => whole!(i32),
        3 => whole!(u32),
        4 => whole!(i64),
        5 => whole!(u64),
        7 => elements!(f32, into, other, |a, b| a + b, |a, b| a * b, with),
        _ => elements!(f64, into, other, |a, b| a + b, |a, b| a * b, with),
    }
}

/// Divides floats by the number of ranks.
fn divide(of: i32, into: &mut [u8], by: usize) {
    macro_rules! floats {
        ($type:ty) => {
            for into in into.chunks_exact_mut(size_of::<$type>()) {
                // PANIC: chunks are of this length.
                let a = <$type>::from_le_bytes((&*into).try_into().expect("an element"));
                into.copy_from_slice(&(a / by as $type).to_le_bytes());
            }
        };
    }
    match of {
        7 => floats!(f32),
        8 => floats!(f64),
        _ => {}
    }
}

/// Each rank's result of a collective, by rank; none where what the ranks were given does not fit together.
pub(crate) fn collective(ops: &[Op]) -> Option<Vec<Vec<u8>>> {
    let first = ops.first()?;
    let same = |op: &Op| (op.kind, op.of, op.with, op.result) == (first.kind, first.of, first.with, first.result);
    if !ops.iter().all(same) {
        return None;
    }
    let reduced = || {
        let mut sum = first.data.clone();
        ops[1..].iter().for_each(|op| reduce(first.of, first.with, &mut sum, &op.data));
        if first.with == 4 {
            divide(first.of, &mut sum, ops.len());
        }
        sum
    };
    let len = first.result as usize;
    Some(match first.kind {
        Kind::AllReduce => vec![reduced(); ops.len()],
        Kind::Broadcast => vec![ops.get(first.with as usize)?.data.clone(); ops.len()],
        Kind::AllGather => {
            let all: Vec<u8> = ops.iter().flat_map(|op| op.data.iter().copied()).collect();
            vec![all; ops.len()]
        }
        Kind::ReduceScatter => {
            let sum = reduced();
            (0..ops.len()).map(|rank| sum[rank * len..][..len].to_vec()).collect()
        }
        Kind::Send | Kind::Receive => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op(kind: Kind, of: i32, with: i32, result: u64, data: &[f32]) -> Op {
        Op { kind, of, with, result, data: data.iter().flat_map(|x| x.to_le_bytes()).collect() }
    }

    fn floats(bytes: &[u8]) -> Vec<f32> {
        bytes.chunks_exact(4).map(|x| f32::from_le_bytes(x.try_into().unwrap())).collect()
    }

    #[test]
    fn collectives_give_each_rank_what_nccl_gives_it() {
        let of = |kind, with, result| {
            collective(&[op(kind, 7, with, result, &[1.0, 6.0]), op(kind, 7, with, result, &[3.0, 4.0])])
        };
        let sums = [(0, [4.0, 10.0]), (1, [3.0, 24.0]), (2, [3.0, 6.0]), (3, [1.0, 4.0]), (4, [2.0, 5.0])];
        for (with, due) in sums {
            let all = of(Kind::AllReduce, with, 8).unwrap();
            assert!(all.iter().all(|rank| floats(rank) == due), "{with}");
        }
        assert_eq!(floats(&of(Kind::Broadcast, 1, 8).unwrap()[0]), [3.0, 4.0]);
        assert_eq!(floats(&of(Kind::AllGather, 0, 16).unwrap()[1]), [1.0, 6.0, 3.0, 4.0]);
        let pieces = of(Kind::ReduceScatter, 0, 4).unwrap();
        assert_eq!((floats(&pieces[0]), floats(&pieces[1])), (vec![4.0], vec![10.0]));
    }

    #[test]
    fn what_does_not_fit_together_has_no_result() {
        let (a, b) = (op(Kind::AllReduce, 7, 0, 4, &[1.0]), op(Kind::AllReduce, 7, 0, 8, &[1.0, 2.0]));
        assert_eq!(collective(&[a.clone(), b]), None);
        assert_eq!(collective(&[a, op(Kind::AllReduce, 7, 2, 4, &[1.0])]), None);
    }
}
