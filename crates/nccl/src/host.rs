//! The machine's name, and what tells machines apart.

/// The machine's name, for reasons.
pub(crate) fn name() -> String {
    #[cfg(unix)]
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    #[cfg(not(unix))]
    let name = std::env::var("COMPUTERNAME").unwrap_or_default();
    if name.is_empty() { "a machine without a name".to_owned() } else { name }
}

/// What is the same for all processes on one machine, containers on it included, and for no two machines: Linux's number of
/// this boot, and the name where there is none.
pub(crate) fn machine() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    boot.map_or_else(|_| name(), |boot| boot.trim().to_owned())
}
