//! The calls of a driver, and how often each came.

macro_rules! calls {
    ($($(#[$doc:meta])* $variant:ident $field:ident),* $(,)?) => {
        /// A call of [`Driver`](rig_edge::Driver).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Call {
            $($(#[$doc])* $variant,)*
        }

        /// How often each call came.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Calls {
            $($(#[$doc])* pub $field: u64,)*
        }

        impl Calls {
            /// The count of one call.
            pub fn of(&self, call: Call) -> u64 {
                match call {
                    $(Call::$variant => self.$field,)*
                }
            }

            pub(crate) fn add(&mut self, call: Call) {
                match call {
                    $(Call::$variant => self.$field += 1,)*
                }
            }

            /// All calls together.
            pub fn total(&self) -> u64 {
                0 $(+ self.$field)*
            }
        }
    };
}

calls! {
    /// `alloc`.
    Alloc alloc,
    /// `free`.
    Free free,
    /// `locate`: not counted.
    Locate locate,
    /// `map_host`.
    MapHost map_host,
    /// `map_peer`.
    MapPeer map_peer,
    /// `dma`.
    Dma dma,
    /// `image`.
    Image image,
    /// `prepare`.
    Prepare prepare,
    /// `entry`.
    Entry entry,
    /// `unload`.
    Unload unload,
    /// `plan`.
    Plan plan,
    /// `room`: hot.
    Room room,
    /// `submit`: hot.
    Submit submit,
    /// `commit`: hot.
    Commit commit,
    /// `grow`.
    Grow grow,
    /// `signaled`: not counted.
    Signaled signaled,
    /// `free_word`: not counted.
    FreeWord free_word,
    /// `sleep`.
    Sleep sleep,
    /// `stop`.
    Stop stop,
}

impl Call {
    /// Whether the call runs under the turn.
    pub fn is_hot(self) -> bool {
        matches!(self, Call::Room | Call::Submit | Call::Commit)
    }

    /// Whether the call also comes after stop, then uncounted (E22).
    pub(crate) fn may_follow_stop(self) -> bool {
        matches!(self, Call::Free | Call::Unload)
    }
}
