//! The headers for C: made by cbindgen of the definitions in Rust, and committed, so that who uses them needs no tool.
//!
//! A header is three pieces: `head.h` beside the definitions, with what the header says at its top; what cbindgen makes of the
//! types that are listed here, with their comments; and `tail.h`, with macros, which Rust has none of.

use std::collections::HashMap;
use std::fs;

use cbindgen::{Builder, Config, DocumentationLength, DocumentationStyle, ExportConfig, Language, Style};

use crate::shell::root;
use crate::{Result, sources};

/// A header.
struct Header {
    /// Where it is, from the root.
    path: &'static str,
    /// The folder of its head and tail.
    pieces: &'static str,
    /// The files that define what is in it, in its order.
    definitions: &'static [&'static str],
    /// What is in it: the names in Rust and in C.
    names: &'static [(&'static str, &'static str)],
}

/// Every header.
const HEADERS: [Header; 2] = [
    Header {
        path: "crates/host/include/rig_host.h",
        pieces: "crates/host/src/abi",
        definitions: &["crates/host/src/kernel.rs", "crates/host/src/abi.rs"],
        names: &[
            ("RIG_HOST_VERSION", "RIG_HOST_VERSION"),
            ("Group", "rig_group"),
            ("KernelRecord", "rig_kernel"),
            ("CEntry", "rig_host_entry"),
            ("CSlot", "rig_host_slot"),
            ("CLaunch", "rig_host_launch"),
            ("CTask", "rig_host_task"),
            ("CEncoder", "rig_host_encoder"),
            ("CFill", "rig_host_fill"),
        ],
    },
    Header {
        path: "crates/metal/include/rig_metal.h",
        pieces: "crates/metal/src/abi",
        definitions: &["crates/metal/src/abi.rs"],
        names: &[
            ("RIG_METAL_VERSION", "RIG_METAL_VERSION"),
            ("Launch", "rig_metal_launch"),
            ("CSlot", "rig_metal_slot"),
            ("CEntry", "rig_metal_entry"),
            ("CIcb", "rig_metal_icb"),
            ("CEncoder", "rig_metal_encoder"),
            ("CFill", "rig_metal_fill"),
            ("CIndirect", "rig_metal_indirect"),
            ("Record", "rig_metal"),
        ],
    },
];

/// Writes the headers, or with `check` fails where one is not current.
pub fn run(check: bool) -> Result {
    for header in &HEADERS {
        let path = root().join(header.path);
        let made = header.make()?;
        if fs::read_to_string(&path).is_ok_and(|written| written == made) {
            continue;
        }
        if check {
            return Err(format!("{} is not what its definitions make: cargo xtask headers", header.path));
        }
        fs::write(&path, made).map_err(|error| format!("{} cannot be written: {error}", header.path))?;
        println!("wrote {}", header.path);
    }
    println!("headers: {} current", HEADERS.len());
    Ok(())
}

impl Header {
    fn make(&self) -> Result<String> {
        let piece = |name: &str| sources::read(&format!("{}/{name}", self.pieces));
        let mut builder = Builder::new().with_config(self.config(piece("head.h")?, piece("tail.h")?));
        for definitions in self.definitions {
            builder = builder.with_src(root().join(definitions));
        }
        let bindings = builder.generate().map_err(|error| format!("cbindgen makes no {}: {error}", self.path))?;
        let mut text = Vec::new();
        bindings.write(&mut text);
        let text = String::from_utf8(text).map_err(|error| format!("{} is no text: {error}", self.path))?;
        // A type that cbindgen finds no definition of would be left out with a warning that nobody sees.
        match self.names.iter().find(|(_, name)| !defines(&text, name)) {
            Some((rust, name)) => Err(format!("cbindgen makes no {name} of {rust} in {:?}", self.definitions)),
            None => Ok(text),
        }
    }

    fn config(&self, head: String, tail: String) -> Config {
        let names = self.names.iter().map(|&(rust, name)| (rust.to_owned(), name.to_owned()));
        Config {
            language: Language::C,
            style: Style::Both,
            no_includes: true,
            usize_is_size_t: true,
            header: Some(head.trim_end().to_owned()),
            trailer: Some(tail),
            line_length: 100,
            documentation_style: DocumentationStyle::C99,
            documentation_length: DocumentationLength::Full,
            export: ExportConfig {
                include: self.names.iter().map(|&(rust, _)| rust.to_owned()).collect(),
                rename: names.collect::<HashMap<String, String>>(),
                ..ExportConfig::default()
            },
            ..Config::default()
        }
    }
}

/// Whether a header defines the name: as a macro, a type, or a function's type.
fn defines(text: &str, name: &str) -> bool {
    [format!("#define {name} "), format!(" {name};"), format!("(*{name})(")].iter().any(|form| text.contains(form))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_headers_are_what_their_definitions_make() {
        run(true).unwrap();
    }

    #[test]
    fn a_header_without_a_definition_is_refused() {
        let header = Header { names: &[("Nothing", "rig_nothing")], ..HEADERS[0] };
        assert!(header.make().unwrap_err().contains("no rig_nothing of Nothing"));
    }

    #[test]
    fn a_macro_a_type_and_a_functions_type_are_definitions() {
        let text = "#define A 1\ntypedef struct b b;\ntypedef int (*c)(void);\n// d\n";
        assert!(["A", "b", "c"].iter().all(|name| defines(text, name)) && !defines(text, "d"));
    }
}
