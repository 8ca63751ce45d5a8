//! Opening: what a program names a device by, and the timeline that an open is given.

use crate::{Driver, Word, WordIndex, Words};

/// What an opener's `make` is given to show its device's progress with.
///
/// ```
/// use rig_edge::{Timeline, WordIndex, Words};
///
/// /// What a driver keeps of it: the values that its device completes show in the word.
/// fn complete(timeline: Timeline, value: u64) {
///     timeline.word().raise(value);
/// }
/// let timeline = Timeline::new(WordIndex::new(7));
/// complete(timeline, 1);
/// // Here everybody else reads it.
/// assert_eq!(Words::get().word(timeline.index()).load(), 1);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Timeline {
    index: WordIndex,
}

impl Timeline {
    /// The timeline whose word is at `index`.
    ///
    /// ```
    /// use rig_edge::{Timeline, WordIndex};
    ///
    /// // What a test of a driver gives to `make`, as rig would: a word that no other test takes.
    /// let timeline = Timeline::new(WordIndex::new(7));
    /// assert_eq!(timeline.index().get(), 7);
    /// ```
    pub fn new(index: WordIndex) -> Timeline {
        Timeline { index }
    }

    /// The word's place in the table.
    ///
    /// ```
    /// use rig_edge::{Timeline, Word, WordIndex};
    ///
    /// let timeline = Timeline::new(WordIndex::new(7));
    /// // A device that has mapped the table at an address of its own finds its word by the offset.
    /// let offset = timeline.index().get() * size_of::<Word>();
    /// assert_eq!(timeline.word().address().addr(), timeline.words().base().addr() + offset);
    /// ```
    pub fn index(&self) -> WordIndex {
        self.index
    }

    /// The word. The device's values start after what it holds when `make` returns.
    ///
    /// ```
    /// use rig_edge::{Timeline, WordIndex};
    ///
    /// # let timeline = Timeline::new(WordIndex::new(7));
    /// // In `make`: an earlier device may have used the word, so the first value is one more than it holds.
    /// let first = timeline.word().load() + 1;
    /// // When the first value's work has completed:
    /// timeline.word().raise(first);
    /// assert_eq!(timeline.word().load(), first);
    /// ```
    pub fn word(&self) -> &'static Word {
        Words::get().word(self.index)
    }

    /// The table of all words, to map for queue waits.
    ///
    /// ```
    /// use rig_edge::{Timeline, WordIndex, Words, page_bytes};
    ///
    /// # let timeline = Timeline::new(WordIndex::new(7));
    /// // What a driver maps for a device whose queues wait for the words of others: whole pages.
    /// let (start, len) = (timeline.words().base().addr(), Words::len_bytes());
    /// assert!(start.is_multiple_of(page_bytes()) && len.is_multiple_of(page_bytes()));
    /// ```
    pub fn words(&self) -> &'static Words {
        Words::get()
    }
}

/// Opens one device.
///
/// ```
#[doc = include_str!("example.txt")]
/// # whole!();
/// /// Opens the machine's card of this number.
/// struct Card(usize);
///
/// impl Opener for Card {
///     type Driver = Device;
///
///     fn name(&self) -> String {
///         format!("PLAIN:{}", self.0)
///     }
///
///     fn make(&self, timeline: Timeline) -> Result<Device, String> {
///         if self.0 > 1 {
///             return Err(format!("this machine has 2 cards, and {} was asked for: they count from 0", self.0));
///         }
///         Ok(Device { facts: facts(), timeline })
///     }
/// }
/// assert_eq!(Card(1).name(), "PLAIN:1");
/// let word = Timeline::new(WordIndex::new(7));
/// assert!(Card(1).make(word).is_ok() && Card(2).make(word).is_err());
/// ```
pub trait Opener {
    /// The driver of the device.
    type Driver: Driver;

    /// The device's name, such as `METAL:1`. Two openers of one piece of hardware give the same name. Never fails.
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// # whole!();
    /// struct Card(usize);
    /// impl Opener for Card {
    /// #     type Driver = Device;
    ///     // What a user types: the first card needs no number.
    ///     fn name(&self) -> String {
    ///         if self.0 == 0 { "PLAIN".into() } else { format!("PLAIN:{}", self.0) }
    ///     }
    ///     // ...
    /// #     fn make(&self, timeline: Timeline) -> Result<Device, String> { Ok(Device { facts: facts(), timeline }) }
    /// }
    /// assert_eq!([Card(0).name(), Card(1).name()], ["PLAIN", "PLAIN:1"]);
    /// ```
    fn name(&self) -> String;

    /// Opens a new device, also while another of the same name is open or its work still runs. Called with no lock of
    /// rig's held. The error is the reason, in words that tell a user what to mend. After bus addresses of the hardware's
    /// memory were given away, it is refused: see [`Driver::dma`].
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// # whole!();
    /// struct Card;
    /// impl Opener for Card {
    /// #     type Driver = Device;
    /// #     fn name(&self) -> String { "PLAIN".into() }
    ///     fn make(&self, timeline: Timeline) -> Result<Device, String> {
    ///         std::fs::metadata("/dev/plain0")
    ///             .map_err(|error| format!("/dev/plain0: {error}: load the kernel's driver by `modprobe plain`"))?;
    ///         Ok(Device { facts: facts(), timeline })
    ///     }
    ///     // ...
    /// }
    /// let why = Card.make(Timeline::new(WordIndex::new(7))).err();
    /// assert!(why.is_some_and(|why| why.contains("modprobe plain")));
    /// ```
    fn make(&self, timeline: Timeline) -> Result<Self::Driver, String>;
}
