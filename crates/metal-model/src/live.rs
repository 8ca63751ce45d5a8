//! What lives: objects by class, and by the machine they were made for, blocks and dispatch data.
//!
//! The counts are of the process. A test that asks for zero therefore counts by [`Tag`], which is one machine's, or runs
//! alone. A [`Snapshot`] says what has changed since, where neither is to be had.
//!
//! Threads: counts are atomic and may be read at any time; what is asked while other threads work is of no one moment.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicIsize, AtomicUsize, Ordering},
    },
};

use objc2::runtime::AnyObject;

use crate::runtime::{
    class::{self, Class},
    object::{self, Object},
};

/// Classes that a tag tells apart; what is registered later it counts together.
const CLASSES: usize = 256;

/// Blocks on the heap that live.
pub(crate) static BLOCKS: AtomicIsize = AtomicIsize::new(0);

/// Objects that were autoreleased where no pool was, or into one that did not end before its thread, and so leaked.
pub(crate) static UNPOOLED: AtomicUsize = AtomicUsize::new(0);

/// Living objects by class, without the classes that have none.
pub fn objects() -> BTreeMap<String, isize> {
    let counted = class::all().into_iter().map(|class| (class.title(), class.live.load(Ordering::Relaxed)));
    counted.filter(|(_, count)| *count != 0).collect()
}

/// Blocks on the heap that live.
pub fn blocks() -> isize {
    BLOCKS.load(Ordering::Relaxed)
}

/// Dispatch data that lives.
pub fn data() -> isize {
    objects().get("OS_dispatch_data").copied().unwrap_or(0)
}

/// Objects that were autoreleased with no pool in place, or into a pool that did not end before its thread, ever. Each has
/// leaked a reference.
pub fn unpooled() -> usize {
    UNPOOLED.load(Ordering::Relaxed)
}

/// What lived at one moment, to compare with another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    objects: BTreeMap<String, isize>,
    blocks: isize,
    unpooled: usize,
}

impl Snapshot {
    /// What lives now.
    pub fn take() -> Snapshot {
        Snapshot { objects: objects(), blocks: blocks(), unpooled: unpooled() }
    }

    /// What has come (positive) or gone since, by name; `(blocks)` and `(autoreleased without a pool)` are among the names.
    /// Empty where all is as it was.
    pub fn since(&self) -> BTreeMap<String, isize> {
        let now = Snapshot::take();
        let mut change = now.objects;
        for (class, count) in &self.objects {
            *change.entry(class.clone()).or_default() -= count;
        }
        change.insert("(blocks)".to_owned(), now.blocks - self.blocks);
        let unpooled = isize::try_from(now.unpooled - self.unpooled).unwrap_or(isize::MAX);
        change.insert("(autoreleased without a pool)".to_owned(), unpooled);
        change.retain(|_, count| *count != 0);
        change
    }
}

/// Counts the objects that are given to it, by class: one machine's, say. Clones count together.
#[derive(Clone)]
pub struct Tag(Arc<Counts>);

pub(crate) struct Counts {
    /// By the class's number; the last place is for all that come after.
    classes: [AtomicIsize; CLASSES],
}

impl Default for Tag {
    fn default() -> Self {
        Tag::new()
    }
}

impl fmt::Debug for Tag {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_map().entries(self.objects()).finish()
    }
}

impl Tag {
    /// A tag that no object bears yet.
    pub fn new() -> Tag {
        Tag(Arc::new(Counts { classes: [const { AtomicIsize::new(0) }; CLASSES] }))
    }

    /// Gives the tag to an object, for as long as it lives. Call it once, where the object is made.
    ///
    /// # Panics
    ///
    /// Where the object bears a tag already, or can bear none: it is a class, a block or a constant.
    pub fn mark(&self, object: &AnyObject) {
        object::Object::of(object).tag(self.0.clone());
    }

    /// Living objects that bear the tag, by class, without the classes that have none.
    pub fn objects(&self) -> BTreeMap<String, isize> {
        let mut found = BTreeMap::new();
        for class in class::all() {
            let count = self.0.place(class).load(Ordering::Relaxed);
            if count != 0 && place(class) < CLASSES - 1 {
                found.insert(class.title(), count);
            }
        }
        let others = self.0.classes[CLASSES - 1].load(Ordering::Relaxed);
        if others != 0 {
            found.insert("(others)".to_owned(), others);
        }
        found
    }

    /// Living objects of this class, by name, that bear the tag.
    pub fn count(&self, class: &str) -> isize {
        self.objects().get(class).copied().unwrap_or(0)
    }

    /// Living objects that bear the tag.
    pub fn total(&self) -> isize {
        self.0.classes.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// Panics, naming what lives, unless nothing that bears the tag does.
    #[track_caller]
    pub fn assert_gone(&self) {
        let left = self.objects();
        assert!(left.is_empty(), "these objects still live: {left:?}");
    }
}

/// Where a tag counts the class.
fn place(class: &Class) -> usize {
    (class.index.load(Ordering::Relaxed) as usize).min(CLASSES - 1)
}

impl Counts {
    fn place(&self, class: &Class) -> &AtomicIsize {
        &self.classes[place(class)]
    }

    /// An object that bears the tag has come, or gone.
    pub(crate) fn add(&self, class: &Class, change: isize) {
        self.place(class).fetch_add(change, Ordering::Relaxed);
    }
}

/// References that an object has. For tests: what another thread holds changes meanwhile.
pub fn references(object: &AnyObject) -> usize {
    Object::of(object).references()
}
