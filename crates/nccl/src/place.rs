//! Where the processes of a communicator meet: an address, or a file that holds one.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::Error;

/// Where the processes meet.
///
/// ```
/// # fn main() -> rig_nccl::Result<()> {
/// use rig_nccl::Place;
/// // As RIG_NCCL_MEET says it.
/// let address: Place = "node1:29400".parse()?;
/// assert_eq!(address, Place::Address { host: "node1".to_owned(), port: 29400 });
/// let file: Place = "file:/shared/job-17".parse()?;
/// assert_eq!(file, Place::File("/shared/job-17".into()));
/// assert!("node1".parse::<Place>().is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A TCP address, `host:port`: process 0 listens there, and the others connect.
    Address {
        /// The name or address of process 0's machine, as every machine knows it.
        host: String,
        /// The port.
        port: u16,
    },
    /// A file on a disk that all machines share: process 0 listens on a port that the system picks and writes here which. The
    /// file is a run's own: it is removed once all have met.
    File(PathBuf),
}

impl FromStr for Place {
    type Err = Error;

    /// `file:` and a path, or `host:port`; an IPv6 address stands in brackets.
    fn from_str(text: &str) -> Result<Place, Error> {
        let wrong =
            || Error::World(format!("{text:?} is no place to meet: write host:port, or file: and the path of a file"));
        if let Some(path) = text.strip_prefix("file:") {
            return if path.is_empty() { Err(wrong()) } else { Ok(Place::File(path.into())) };
        }
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let port = port.parse().map_err(|_| wrong())?;
        let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let host = bracketed.unwrap_or(host);
        if host.is_empty() || port == 0 || (bracketed.is_none() && host.contains(':')) {
            return Err(wrong());
        }
        Ok(Place::Address { host: host.to_owned(), port })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Address { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Place::Address { host, port } => write!(f, "{host}:{port}"),
            Place::File(path) => write!(f, "file:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_as_they_are_written() {
        for text in ["node1:29400", "10.0.0.7:1", "[fe80::1]:29400", "file:/tmp/meet"] {
            assert_eq!(text.parse::<Place>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_place_says_what_is() {
        for text in ["", "node1", "node1:", "node1:port", "node1:0", ":29400", "fe80::1:29400", "file:", "node1:70000"]
        {
            let why = text.parse::<Place>().unwrap_err().to_string();
            assert!(why.contains("write host:port") && why.contains(text), "{why}");
        }
    }
}
