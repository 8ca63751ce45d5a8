//! The checkers over a whole run: the order of overlapping uses, the bytes, and what is lost.
//!
//! # How bytes are checked
//!
//! The model tells when each value's work ran, and closures note when they had the bytes. So a run says in which order the
//! uses of an allocation really came. That order is checked against the program's own (a use whose call returned before
//! another was called comes first, and no two that conflict overlap), and then replayed one after the other over plain
//! vectors: what kernels and the host found must be what the replay has at that place.
//!
//! Where the order is not known, what was written is unknown in the replay until it is written anew: a host's copy that overlaps
//! work, a call that was Lost and may have run.

use std::collections::HashMap;

use crate::log::{Inner, Log, Op, Outcome, Part, Place};

const UNKNOWN: u16 = 256;
const NEVER: u64 = u64::MAX;

/// When an operation touched the bytes.
#[derive(Clone, Copy, Debug)]
struct When {
    from: u64,
    to: u64,
    /// Whether it surely was then, all of it.
    sure: bool,
}

pub fn check(log: &Log) {
    let inner = std::mem::take(&mut *log.lock());
    let result = check_all(&inner);
    let history = |allocation: usize| {
        let whens = whens(&inner);
        let mut lines: Vec<(u64, String)> = Vec::new();
        for (index, op) in inner.ops.iter().enumerate() {
            let Some(when) = whens[index].filter(|_| op.uses.iter().any(|of| of.allocation == allocation)) else {
                continue;
            };
            let sure = if when.sure { "" } else { " at most" };
            lines.push((when.to, format!("  #{index} {}..{}{sure}: {} {:?}", when.from, when.to, op.what, op.parts)));
        }
        lines.sort();
        lines.into_iter().map(|line| line.1).collect::<Vec<_>>().join("\n")
    };
    let result = result.map_err(|(promise, how, of)| match of {
        Some(allocation) => (promise, format!("{how}\n{}", history(allocation))),
        None => (promise, how),
    });
    *log.lock() = inner;
    if let Err((promise, how)) = result {
        log.broken(promise, &how);
    }
}

/// The promise, how it was broken, and the allocation whose uses tell more.
type Broken = (&'static str, String, Option<usize>);

fn check_all(inner: &Inner) -> Result<(), Broken> {
    let whens = whens(inner);
    let users = users(inner, &whens);
    order(inner, &whens, &users)?;
    after(inner, &whens)?;
    owners(inner, &whens, &users)?;
    bytes(inner, &whens, &users)?;
    let plain = |(promise, how)| (promise, how, None);
    crate::losses::check(inner).map_err(plain)?;
    crate::losses::consumed(inner).map_err(plain)
}

/// The operations that may have touched each allocation.
fn users(inner: &Inner, whens: &[Option<When>]) -> HashMap<usize, Vec<(usize, bool)>> {
    let mut users: HashMap<usize, Vec<(usize, bool)>> = HashMap::new();
    for (index, op) in inner.ops.iter().enumerate().filter(|(index, _)| whens[*index].is_some()) {
        for of in &op.uses {
            let list = users.entry(of.allocation).or_default();
            match list.last_mut() {
                Some((last, write)) if *last == index => *write |= of.write,
                _ => list.push((index, of.write)),
            }
        }
    }
    users
}

/// When each operation touched the bytes; `None` if it never did.
fn whens(inner: &Inner) -> Vec<Option<When>> {
    let mut whens: Vec<Option<When>> = inner.ops.iter().map(|op| known_when(inner, op)).collect();
    // What may run at any time from its call on has ended where a later use of the memory that surely ran begins.
    for index in 0..whens.len() {
        let op = &inner.ops[index];
        if whens[index].is_none_or(|when| when.to != NEVER) {
            continue;
        }
        let later = inner.ops.iter().enumerate().filter(|(_, other)| other.call > op.ret && conflict(op, other));
        let begins = later.filter_map(|(other, _)| whens[other].filter(|when| when.sure).map(|when| when.from));
        if let (Some(first), Some(when)) = (begins.min(), &mut whens[index]) {
            when.to = first.max(when.from);
        }
    }
    whens
}

fn conflict(a: &Op, b: &Op) -> bool {
    a.uses.iter().any(|a| b.uses.iter().any(|b| a.allocation == b.allocation && (a.write || b.write)))
}

fn known_when(inner: &Inner, op: &Op) -> Option<When> {
    match &op.outcome {
        Outcome::Invalid(_) => None,
        Outcome::Point(key) => match inner.ran.get(key) {
            Some(&(from, Some(to))) => Some(When { from, to, sure: true }),
            Some(&(from, None)) => Some(When { from, to: NEVER, sure: false }),
            None => None,
        },
        Outcome::Done if op.blind => Some(When { from: op.call, to: NEVER, sure: false }),
        Outcome::Done => Some(match op.window {
            Some((from, to)) => When { from, to, sure: true },
            None => When { from: op.call, to: op.ret, sure: false },
        }),
        // What waits behind a lost device has been submitted, and may run once somebody closes that.
        Outcome::Refused(why) if why.contains(" stands behind work that waits for ") => {
            Some(When { from: op.call, to: NEVER, sure: false })
        }
        // A submit that finds no memory or is refused has changed nothing; a host's call may have.
        Outcome::OutOfMemory | Outcome::Refused(_) if op.window.is_none() && !op.blind => None,
        _ => Some(When { from: op.call, to: NEVER, sure: false }),
    }
}

/// Uses that conflict come in the program's order, and one at a time.
fn order(inner: &Inner, whens: &[Option<When>], users: &HashMap<usize, Vec<(usize, bool)>>) -> Result<(), Broken> {
    for (allocation, list) in users {
        for (at, &(a, a_writes)) in list.iter().enumerate() {
            for &(b, b_writes) in list[at + 1..].iter().filter(|(_, b_writes)| a_writes || *b_writes) {
                pair(inner, whens, *allocation, (a, a_writes), (b, b_writes))?;
            }
        }
    }
    Ok(())
}

fn pair(
    inner: &Inner,
    whens: &[Option<When>],
    allocation: usize,
    (a, a_writes): (usize, bool),
    (b, b_writes): (usize, bool),
) -> Result<(), Broken> {
    let (Some(when_a), Some(when_b)) = (whens[a], whens[b]) else { return Ok(()) };
    let (first, second, early, late) =
        if inner.ops[a].call <= inner.ops[b].call { (a, b, when_a, when_b) } else { (b, a, when_b, when_a) };
    let (of, other) = (&inner.ops[first], &inner.ops[second]);
    let uses = |writes: bool| if writes { "writes" } else { "reads" };
    let told = |how: &str| {
        let (x, y) = if first == a { (a_writes, b_writes) } else { (b_writes, a_writes) };
        format!(
            "m{allocation}: {how}\n  {} {} it, called {}, returned {}, at work {}..{}\n  {} {} it, called {}, returned {}, \
             at work {}..{}",
            of.what,
            uses(x),
            of.call,
            of.ret,
            early.from,
            early.to,
            other.what,
            uses(y),
            other.call,
            other.ret,
            late.from,
            late.to
        )
    };
    if early.sure && late.sure && early.from < late.to && late.from < early.to {
        let closure = of.window.is_some() || other.window.is_some();
        return Err((if closure { "C30" } else { "C14" }, told("two uses that conflict at one time"), None));
    }
    // Of a host's copy that has returned it is known when it ended; of what may have run nothing is.
    if !late.sure && (other.blind || other.outcome != Outcome::Done) {
        return Ok(());
    }
    let begins = if late.sure { late.from } else { late.to };
    if of.ret < other.call && early.sure && early.to > begins && begins != NEVER {
        return Err(("C14", told("a use did not follow one that was there before it"), None));
    }
    Ok(())
}

/// Work comes after the points that were named (C14, 4).
fn after(inner: &Inner, whens: &[Option<When>]) -> Result<(), Broken> {
    for (op, when) in inner.ops.iter().zip(whens) {
        let Some(when) = when.filter(|when| when.sure) else { continue };
        // What has failed runs when the lost device's word is raised, on nobody's behalf.
        let failed = |key: &crate::log::Key| matches!(inner.answers.get(key), Some(Outcome::Lost { .. }));
        if matches!(&op.outcome, Outcome::Point(key) if failed(key)) {
            continue;
        }
        for key in &op.after {
            let ended = inner.ran.get(key).and_then(|ran| ran.1);
            if ended.is_none_or(|ended| ended > when.from) {
                let how = format!(
                    "{} ran at {}, after point {}:{}, whose end was {ended:?}",
                    op.what, when.from, key.0, key.1
                );
                return Err(("C14", how, None));
            }
        }
    }
    Ok(())
}

/// The owner of wrapped memory stays until no work uses the memory (C08).
fn owners(inner: &Inner, whens: &[Option<When>], users: &HashMap<usize, Vec<(usize, bool)>>) -> Result<(), Broken> {
    for (allocation, dropped) in &inner.owners {
        for (user, _) in users.get(allocation).into_iter().flatten() {
            if let Some(when) = whens[*user].filter(|when| when.sure && when.to > *dropped) {
                let op = &inner.ops[*user];
                let how = format!(
                    "the owner of m{allocation} went at {dropped}; {} was at work {}..{}",
                    op.what, when.from, when.to
                );
                return Err(("C08", how, None));
            }
        }
    }
    Ok(())
}

/// Which operations' order is not known, for each operation and allocation.
fn doubtful(whens: &[Option<When>], users: &HashMap<usize, Vec<(usize, bool)>>) -> HashMap<(usize, usize), Vec<usize>> {
    let mut doubtful: HashMap<(usize, usize), Vec<usize>> = HashMap::new();
    for (allocation, list) in users {
        for (at, &(a, a_writes)) in list.iter().enumerate() {
            for &(b, b_writes) in &list[at + 1..] {
                let (Some(x), Some(y)) = (whens[a], whens[b]) else { continue };
                if (a_writes || b_writes) && !(x.sure && y.sure) && x.from < y.to && y.from < x.to {
                    doubtful.entry((a, *allocation)).or_default().push(b);
                    doubtful.entry((b, *allocation)).or_default().push(a);
                }
            }
        }
    }
    doubtful
}

type Bytes = HashMap<usize, Vec<u16>>;

fn bytes(inner: &Inner, whens: &[Option<When>], users: &HashMap<usize, Vec<(usize, bool)>>) -> Result<(), Broken> {
    let doubtful = doubtful(whens, users);
    let mut bytes: Bytes =
        inner.allocations.iter().enumerate().map(|(index, of)| (index, vec![UNKNOWN; of.len])).collect();
    let mut order: Vec<(u64, usize)> =
        whens.iter().enumerate().filter_map(|(index, when)| Some(((*when)?.to, index))).collect();
    order.sort_unstable();
    for (_, index) in order {
        let op = &inner.ops[index];
        // PANIC: those without were left out.
        let when = whens[index].expect("an operation that ran");
        let partners: Vec<usize> =
            op.uses.iter().filter_map(|of| doubtful.get(&(index, of.allocation))).flatten().copied().collect();
        partners.iter().for_each(|&partner| forget(&mut bytes, &inner.ops[partner], op));
        for (place, seen) in &op.seen {
            compare(&bytes, op, place, seen)?;
        }
        let found = inner.inputs.get(&(index as u64)).map_or(&[][..], Vec::as_slice);
        let ran = when.sure || !found.is_empty();
        replay(&mut bytes, op, if when.sure { found } else { &[] })?;
        // What may or may not have run leaves nothing that is known.
        if !ran || !when.sure && (op.blind && op.outcome != Outcome::Done || op.outcome.column() != 0) {
            forget(&mut bytes, op, op);
        }
        if !partners.is_empty() {
            forget(&mut bytes, op, op);
            partners.iter().for_each(|&partner| forget(&mut bytes, &inner.ops[partner], op));
        }
    }
    Ok(())
}

/// Forgets what `writer` writes of the memory that `op` uses.
fn forget(bytes: &mut Bytes, writer: &Op, op: &Op) {
    for place in writer.parts.iter().map(Part::written) {
        if op.uses.iter().any(|of| of.allocation == place.allocation) {
            slice(bytes, place).fill(UNKNOWN);
        }
    }
}

fn slice<'a>(bytes: &'a mut Bytes, place: &Place) -> &'a mut [u16] {
    // PANIC: places are inside allocations, which are all there.
    &mut bytes.get_mut(&place.allocation).expect("an allocation of the log's")[place.range.clone()]
}

fn compare(bytes: &Bytes, op: &Op, place: &Place, seen: &[u8]) -> Result<(), Broken> {
    let expected = &bytes[&place.allocation][place.range.clone()];
    let wrong =
        expected.iter().zip(seen).position(|(expected, seen)| *expected < UNKNOWN && *expected != u16::from(*seen));
    let Some(at) = wrong else { return Ok(()) };
    let how = format!(
        "{} found {} in byte {} of {place} where a walk of the program in order has {}; called {}, returned {}",
        op.what,
        seen[at],
        place.range.start + at,
        expected[at],
        op.call,
        op.ret
    );
    Err(("C05, C14, C31", how, Some(place.allocation)))
}

/// Does what the operation's parts do; compares what its kernels found.
fn replay(bytes: &mut Bytes, op: &Op, found: &[Vec<Vec<u8>>]) -> Result<(), Broken> {
    let mut found = found.iter();
    let known = |value: u16, f: &dyn Fn(u8) -> u8| if value < UNKNOWN { u16::from(f(value as u8)) } else { UNKNOWN };
    for part in &op.parts {
        match part {
            Part::Mix { x, y, c } => {
                if let Some(found) = found.next() {
                    compare(bytes, op, x, &found[0])?;
                    compare(bytes, op, y, &found[1])?;
                }
                let from = slice(bytes, x).to_vec();
                for (y, x) in slice(bytes, y).iter_mut().zip(from) {
                    let both = *y < UNKNOWN && x < UNKNOWN;
                    let mixed = (*y as u8).wrapping_mul(3).wrapping_add(x as u8).wrapping_add(*c);
                    *y = if both { u16::from(mixed) } else { UNKNOWN };
                }
            }
            Part::Scale { y, c } => {
                if let Some(found) = found.next() {
                    compare(bytes, op, y, &found[0])?;
                }
                for y in slice(bytes, y) {
                    *y = known(*y, &|y| y.wrapping_mul(5).wrapping_add(*c));
                }
            }
            Part::Copy { from, to } => {
                let from = slice(bytes, from).to_vec();
                slice(bytes, to).copy_from_slice(&from);
            }
            Part::Memset { to, byte } => slice(bytes, to).fill(u16::from(*byte)),
            Part::Put { to, bytes: put } => {
                slice(bytes, to).iter_mut().zip(put).for_each(|(to, byte)| *to = u16::from(*byte));
            }
        }
    }
    Ok(())
}
