//! Compares the interface that software Metal declares with the source of objc2-metal, as cargo fetched it.
//!
//! The model declares by hand what programs see of Metal; objc2-metal is generated from Apple's headers. Every declaration
//! of the model must stand in objc2-metal with the same name, the same selector, the same rule of ownership, the same
//! signature, and as safe or unsafe. The names of parameters may differ. What is not declared is not compared: the model has
//! less. The sources are read as text: both have one shape, which rustfmt keeps.

use std::{collections::BTreeMap, fs, path::Path, process::Command};

use crate::{Result, shell::root};

/// What other crates than objc2-metal declare on Apple's systems.
const ELSEWHERE: [&str; 1] = ["CFTimeInterval"];

/// Declarations by what they declare: "MTLDevice::name", say.
type Declarations = BTreeMap<String, String>;

/// Compares, and names each difference.
pub fn run() -> Result {
    let ours = declarations(&sources(&root().join("crates/metal-model/src/protocol"))?, true);
    if ours.len() < 200 {
        return Err(format!(
            "{} declarations are found in the model's protocols: the reader of them is broken",
            ours.len()
        ));
    }
    let theirs = declarations(&sources(&fetched()?)?, false);
    let differences = compare(&ours, &theirs);
    if differences.is_empty() {
        println!("metal-protocols: {} declarations are as in objc2-metal", ours.len());
        return Ok(());
    }
    Err(format!("the model's protocols differ from objc2-metal's:\n{}", differences.join("\n")))
}

/// What of ours is not as it is there.
fn compare(ours: &Declarations, theirs: &Declarations) -> Vec<String> {
    let mut differences = Vec::new();
    // `$class` is the model's macro for `new` and `init`, which all classes that programs make have alike.
    let compared = |name: &&String| !ELSEWHERE.contains(&name.as_str()) && !name.starts_with("$class");
    for (name, mine) in ours.iter().filter(|(name, _)| compared(name)) {
        match theirs.get(name) {
            None => differences.push(format!("{name}: objc2-metal has no such declaration")),
            Some(there) if there != mine => {
                differences.push(format!("{name}:\n  model       {mine}\n  objc2-metal {there}"))
            }
            Some(_) => {}
        }
    }
    differences
}

/// Where cargo put objc2-metal's source.
fn fetched() -> Result<std::path::PathBuf> {
    let output = Command::new("cargo")
        .args(["metadata", "--format-version", "1", "--filter-platform", "aarch64-apple-darwin"])
        .current_dir(root())
        .output()
        .map_err(|why| format!("cargo metadata: {why}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let manifest = text.split("\"manifest_path\":\"").skip(1).filter_map(|rest| rest.split('"').next());
    let mut manifests = manifest.filter(|path| path.contains("/objc2-metal-"));
    let manifest = manifests.next().ok_or("cargo has not fetched objc2-metal: run cargo fetch")?;
    Ok(Path::new(manifest).with_file_name("src"))
}

/// Every Rust source below a folder, as one text.
fn sources(folder: &Path) -> Result<String> {
    let mut text = String::new();
    let entries = fs::read_dir(folder).map_err(|why| format!("{}: {why}", folder.display()))?;
    for entry in entries {
        let path = entry.map_err(|why| why.to_string())?.path();
        if path.is_dir() {
            text.push_str(&sources(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&fs::read_to_string(&path).map_err(|why| format!("{}: {why}", path.display()))?);
        }
    }
    Ok(text)
}

/// The declarations of a source.
fn declarations(text: &str, macros: bool) -> Declarations {
    let mut found = Declarations::new();
    let lines = joined(text);
    let mut owner = String::new();
    let mut pending = Attributes::default();
    for line in &lines {
        if macros && let Some((name, kind)) = opened_macro(line) {
            found.insert(name.clone(), kind);
            owner = name;
            continue;
        }
        if let Some(rest) = line.strip_prefix("pub unsafe trait ") {
            let (name, above) =
                rest.trim_end_matches(" {").split_once(':').unwrap_or((rest.trim_end_matches(" {"), ""));
            owner = name.trim().to_owned();
            found.insert(owner.clone(), format!("protocol: {}", squeezed(above)));
        } else if let Some(rest) = line.strip_prefix("pub type ") {
            if let Some((name, of)) = rest.split_once('=') {
                found.insert(name.trim().to_owned(), squeezed(&of.replace("block2::", "")));
            }
        } else if let Some(rest) = line.strip_prefix("pub static ") {
            if let Some((name, of)) = rest.trim_end_matches(';').split_once(": ") {
                found.insert(name.to_owned(), squeezed(of));
            }
        } else if let Some(rest) = line.strip_prefix("impl ") {
            rest.split([':', '{']).next().unwrap_or(rest).trim().clone_into(&mut owner);
        } else if line == "bitflags::bitflags! {" || line == "extern_methods!(" {
            // What follows belongs to the impl around, or names its own.
        } else if let Some(rest) = line.strip_prefix("pub struct ") {
            structure(rest, &mut owner, &mut found);
        } else {
            member(line, &owner, macros, &mut pending, &mut found);
        }
    }
    found
}

/// What stands above a method.
#[derive(Default)]
struct Attributes {
    selector: Option<String>,
    family: Option<String>,
}

/// A method, a constant or a field.
fn member(line: &str, owner: &str, macros: bool, pending: &mut Attributes, found: &mut Declarations) {
    if let Some(selector) = inside(line, "#[unsafe(method(", "))]") {
        pending.selector = Some(squeezed(selector));
    } else if let Some(family) = inside(line, "#[unsafe(method_family = ", ")]") {
        pending.family = Some(family.to_owned());
    } else if let Some((_, rest)) =
        line.split_once("fn ").filter(|(before, _)| matches!(*before, "" | "pub " | "unsafe " | "pub unsafe "))
    {
        let attributes = std::mem::take(pending);
        let Some(selector) = attributes.selector else { return };
        // Ownership is of what a message answers.
        let written = attributes.family.as_deref().unwrap_or_else(|| family(&selector));
        let family = if line.contains("->") { written } else { "none" };
        let safety = if line.contains("unsafe fn ") { "unsafe " } else { "" };
        let (name, rest) = rest.split_once('(').unwrap_or((rest, ""));
        found.insert(format!("{owner}::{name}"), format!("{safety}[{selector}, {family}] {}", signature(rest)));
    } else if let Some(rest) = line.strip_prefix("pub const ").or_else(|| line.strip_prefix("const ")) {
        let Some((name, value)) = rest.split_once('=') else { return };
        let (name, of) = name.split_once(':').unwrap_or((name, ""));
        let value = squeezed(value.trim_end_matches(';'));
        let value = value.strip_prefix("Self(").and_then(|value| value.strip_suffix(')')).unwrap_or(&value).to_owned();
        let own = !of.is_empty() && of.trim() != "Self";
        let key = if own { name.trim().to_owned() } else { format!("{owner}::{}", name.trim()) };
        found.insert(key, value);
    } else if macros
        && let Some((case, value)) = line.trim_end_matches(';').split_once(" = ")
        && line.ends_with(';')
        && case.chars().all(|letter| letter.is_alphanumeric() || letter == '_')
    {
        found.insert(format!("{owner}::{case}"), squeezed(value));
    } else if let Some((field, of)) = line.trim_start_matches("pub ").trim_end_matches(',').split_once(": ")
        && line.ends_with(',')
        && field.chars().all(|letter| letter.is_alphanumeric() || letter == '_')
    {
        found.insert(format!("{owner}::{field}"), squeezed(of));
    }
}

/// A macro of the model's that declares a type: its name, and what it is.
fn opened_macro(line: &str) -> Option<(String, String)> {
    if let Some(rest) = line.strip_prefix("enumeration!(") {
        let (name, number) = rest.split_once('(')?;
        return Some((name.to_owned(), format!("struct({})", number.split(')').next()?)));
    }
    if let Some(rest) = line.strip_prefix("options!(") {
        return Some((rest.split_whitespace().next()?.to_owned(), "struct(NSUInteger)".to_owned()));
    }
    let rest = line.strip_prefix("structure!(")?;
    Some((rest.split_whitespace().next()?.to_owned(), "struct".to_owned()))
}

/// A struct: of one number, or of fields that follow.
fn structure(rest: &str, owner: &mut String, found: &mut Declarations) {
    if let Some((name, number)) = rest.split_once('(') {
        let number = number.trim_start_matches("pub ").trim_end_matches(");");
        name.clone_into(owner);
        found.insert(name.to_owned(), format!("struct({number})"));
    } else {
        rest.trim_end_matches([' ', '{', ';']).clone_into(owner);
        found.insert(owner.clone(), "struct".to_owned());
    }
}

/// What lies between a prefix and a suffix.
fn inside<'a>(line: &'a str, before: &str, after: &str) -> Option<&'a str> {
    line.strip_prefix(before)?.strip_suffix(after)
}

/// The rule of ownership that a selector's name says.
fn family(selector: &str) -> &'static str {
    for family in ["alloc", "new", "copy", "mutableCopy", "init"] {
        let rest = selector.trim_start_matches('_').strip_prefix(family);
        if rest.is_some_and(|rest| !rest.starts_with(|letter: char| letter.is_ascii_lowercase())) {
            return family;
        }
    }
    "none"
}

/// The types of parameters and result: `rest` follows the opening parenthesis.
fn signature(rest: &str) -> String {
    let rest = rest.trim_end_matches([';', ' ']);
    let mut depth = 0_usize;
    let (mut parts, mut part) = (Vec::new(), String::new());
    let mut after = "";
    for (at, letter) in rest.char_indices() {
        match letter {
            '(' | '<' | '[' => depth += 1,
            '>' if part.ends_with('-') => {}
            ')' | '>' | ']' if depth > 0 => depth -= 1,
            ')' => {
                after = &rest[at + 1..];
                break;
            }
            ',' if depth == 0 => {
                parts.push(std::mem::take(&mut part));
                continue;
            }
            _ => {}
        }
        part.push(letter);
    }
    parts.push(part);
    let types = parts.iter().map(|part| part.split_once(": ").map_or(part.as_str(), |(_, of)| of));
    let types: Vec<_> = types.map(squeezed).filter(|of| !of.is_empty()).collect();
    squeezed(&format!("({}){after}", types.join(",")))
}

/// Without whitespace, trailing commas and paths that the two sides write differently.
fn squeezed(text: &str) -> String {
    let text: String = text.split_whitespace().collect();
    text.replace("block2::", "").replace(",>", ">").replace(",)", ")")
}

/// The lines of a source without comments, each declaration that spans several made one.
fn joined(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut open: Option<String> = None;
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with("//") && !line.is_empty()) {
        let whole = match open.take() {
            Some(before) => format!("{before} {line}"),
            None => line.to_owned(),
        };
        let begins = ["fn ", "pub fn ", "unsafe fn ", "pub unsafe fn ", "pub type ", "pub unsafe trait ", "pub const "];
        let begins = begins.iter().any(|begin| whole.starts_with(begin));
        let ends =
            if whole.starts_with("pub unsafe trait ") { whole.ends_with('{') } else { whole.ends_with([';', '{']) };
        if begins && !ends {
            open = Some(whole);
        } else {
            lines.push(whole);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const THEIRS: &str = "
        extern_protocol!(
            pub unsafe trait MTLThing: NSObjectProtocol {
                #[unsafe(method(newThingWithSize:))]
                #[unsafe(method_family = new)]
                unsafe fn newThingWithSize(
                    &self,
                    size: NSUInteger,
                ) -> Option<Retained<ProtocolObject<dyn MTLThing>>>;
            }
        );
        #[repr(transparent)]
        pub struct MTLKind(pub NSUInteger);
        impl MTLKind {
            pub const First: Self = Self(1);
        }";

    const OURS: &str = "
        extern_protocol!(
            pub unsafe trait MTLThing: NSObjectProtocol {
                #[unsafe(method(newThingWithSize:))]
                unsafe fn newThingWithSize(&self, bytes: NSUInteger) -> Option<Retained<ProtocolObject<dyn MTLThing>>>;
            }
        );
        enumeration!(MTLKind(NSUInteger) {
            First = 1;
        });";

    fn differences(ours: &str) -> Vec<String> {
        compare(&declarations(ours, true), &declarations(THEIRS, false))
    }

    #[test]
    fn one_interface_written_twice_does_not_differ() {
        assert_eq!(declarations(OURS, true).len(), 4);
        assert_eq!(differences(OURS), Vec::<String>::new());
    }

    #[test]
    fn each_kind_of_drift_is_named() {
        for (from, to) in [
            ("newThingWithSize:))", "newThingOfSize:))"),
            ("unsafe fn", "fn"),
            ("bytes: NSUInteger", "bytes: u32"),
            ("Option<Retained<", "Some<Retained<"),
            ("First = 1", "First = 2"),
            ("First", "Second"),
            ("MTLKind(NSUInteger)", "MTLKind(NSInteger)"),
            (": NSObjectProtocol", ": MTLOther"),
        ] {
            assert_eq!(differences(&OURS.replace(from, to)).len(), 1, "{from} became {to}");
        }
    }
}
