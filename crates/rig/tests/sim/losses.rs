//! The checkers of loss, where it must be and where it must not, and of donation.

use crate::log::{Inner, Key, Op, Outcome};

type Broken = (&'static str, String);

pub fn check(inner: &Inner) -> Result<(), Broken> {
    let lost: Vec<bool> = inner.ops.iter().map(|op| is_lost(inner, op)).collect();
    for (index, op) in inner.ops.iter().enumerate() {
        after_known(inner, op)?;
        if lost[index] {
            must_not(inner, index, &lost)?;
        } else if matches!(op.outcome, Outcome::Point(_) | Outcome::Done) && !op.blind {
            // What a queue runs without a point may fail later, and nobody is told.
            must(inner, index)?;
        }
    }
    Ok(())
}

fn answer<'a>(inner: &'a Inner, key: &Key) -> Option<&'a Outcome> {
    inner.answers.get(key)
}

fn is_lost(inner: &Inner, op: &Op) -> bool {
    match &op.outcome {
        Outcome::Lost { .. } => true,
        Outcome::Point(key) => matches!(answer(inner, key), Some(Outcome::Lost { .. })),
        _ => false,
    }
}

/// A device that the program knows to be lost gives no point.
fn after_known(inner: &Inner, op: &Op) -> Result<(), Broken> {
    let known = |device: &&usize| inner.devices[**device].known_lost.is_some_and(|since| since < op.call);
    match (op.devices.iter().find(known), &op.outcome) {
        (Some(device), Outcome::Point(_) | Outcome::Done) => {
            let how = format!("{} came to {} after its device d{device} was known to be lost", op.what, op.outcome);
            Err(("C20, S11", how))
        }
        _ => Ok(()),
    }
}

/// Lost only where the device is, or something that it follows.
fn must_not(inner: &Inner, index: usize, lost: &[bool]) -> Result<(), Broken> {
    let op = &inner.ops[index];
    let may_be = |device: usize| inner.devices[device].lost.is_some() || inner.devices[device].forgotten;
    if op.devices.iter().any(|device| may_be(*device)) {
        return Ok(());
    }
    let named = op.after.iter().any(|key| matches!(answer(inner, key), Some(Outcome::Lost { .. })));
    let shares = |other: &Op| op.meets.iter().any(|of| other.meets.contains(of));
    // Nobody is told what became of work without a point, such as a memset through a borrow whose device is lost.
    let untold = |other: &Op| other.blind && other.devices.iter().any(|device| may_be(*device));
    let fails = |other: usize| lost[other] || untold(&inner.ops[other]);
    let mut others = inner.ops.iter().enumerate().filter(|(other, _)| *other != index && fails(*other));
    if named || others.any(|(_, other)| other.call < op.ret && shares(other)) {
        return Ok(());
    }
    // Work that no operation stands for, such as a staging copy's, is of the devices whose memory it is.
    let mut homes = op.meets.iter().map(|of| inner.allocations[*of].device);
    if homes.any(may_be) {
        return Ok(());
    }
    let named: Vec<_> = op.after.iter().map(|key| (key, answer(inner, key))).collect();
    let how = format!(
        "{} is Lost ({}), and neither its device nor anything that it follows is: {named:?}",
        op.what, op.outcome
    );
    Err(("C20, C32", how))
}

/// Lost where a value was followed that is.
fn must(inner: &Inner, index: usize) -> Result<(), Broken> {
    must_after(inner, index, |key| matches!(answer(inner, key), Some(Outcome::Lost { .. })))
}

/// What a loss for `why` failed is Lost once that loss has returned, and so is what follows it: none of the points that were
/// `open` after that may be of such work.
pub fn at_once(inner: &Inner, why: &str, open: &[Key]) -> Result<(), Broken> {
    let failed = |key: &Key| matches!(answer(inner, key), Some(Outcome::Lost { why: of, .. }) if of == why);
    for (index, op) in inner.ops.iter().enumerate() {
        if matches!(op.outcome, Outcome::Point(key) if open.contains(&key)) {
            must_after(inner, index, failed)?;
        }
    }
    Ok(())
}

fn must_after(inner: &Inner, index: usize, is_failed: impl Fn(&Key) -> bool) -> Result<(), Broken> {
    let op = &inner.ops[index];
    for key in &op.after {
        if is_failed(key) {
            let how =
                format!("{} came to {}, and follows point {}:{}, which is Lost", op.what, op.outcome, key.0, key.1);
            return Err(("C32", how));
        }
    }
    for of in op.uses.iter().filter(|of| !of.whole) {
        // The last write before it, if it is plain which one that is.
        let writes = inner.ops.iter().enumerate().filter(|(other, with)| {
            *other != index && with.uses.iter().any(|with| with.allocation == of.allocation && with.write)
        });
        let writes: Vec<&Op> = writes.map(|(_, with)| with).filter(|with| with.call < op.ret).collect();
        let failed = writes.iter().filter(|with| with.ret < op.call).filter(|with| match &with.outcome {
            Outcome::Point(key) => is_failed(key),
            _ => false,
        });
        for failed in failed {
            let mended = writes.iter().any(|with| {
                let anew = with.uses.iter().any(|with| with.allocation == of.allocation && with.write && with.whole);
                anew && with.ret > failed.call && !matches!(with.outcome, Outcome::Invalid(_))
            });
            if !mended {
                let how = format!(
                    "{} came to {}, over m{}, whose last write failed: {}, called {}",
                    op.what, op.outcome, of.allocation, failed.what, failed.call
                );
                return Err(("C26, C32", how));
            }
        }
    }
    Ok(())
}

/// A donation is given only where nobody else can see the memory, and refused only where somebody can.
pub fn consumed(inner: &Inner) -> Result<(), Broken> {
    for of in &inner.consumed {
        let others =
            inner.handles.iter().enumerate().filter(|(handle, life)| {
                *handle != of.handle && life.allocation == inner.handles[of.handle].allocation
            });
        let others: Vec<_> = others.map(|(_, life)| life).collect();
        let seen = others.iter().any(|life| life.born < of.call && life.dying > of.ret);
        let maybe = others.iter().any(|life| life.begun < of.ret && life.dead > of.call);
        if of.given && seen {
            return Err(("C19", format!("consume gave {} while another handle to it was there", of.what)));
        }
        if !of.given && !maybe {
            return Err(("C19", format!("consume refused {} while no other handle to it was there", of.what)));
        }
    }
    Ok(())
}
