//! Buffers and scalars in the order of the command line, and the layout that this order gives the parameters.
//!
//! The parameters are the bytes of a C struct whose members are the buffers (a pointer each) and the scalars, in the
//! order of the command line: each stands on the next multiple of its size, and the whole is a multiple of the largest
//! one. So `--in f32:x --inout f32:y --scalar f32:2 --scalar u32:1000` is
//! `struct { const float *x; float *y; float a; uint32_t n; }`. The buffers are slots 0, 1, 2 and on.

use std::path::PathBuf;

use clap::builder::ValueParser;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, ValueHint};

use crate::element::Element;
use crate::size;

/// A pointer's bytes, as every device of rig has them.
const POINTER_BYTES: usize = 8;

/// What a buffer holds before the function runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The bytes of a file.
    File(PathBuf),
    /// This many zeros.
    Zeros(u64),
    /// 0, 1, 2 and on: this many values.
    Iota(u64),
}

/// A buffer of the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferSpec {
    /// The type of its values.
    pub element: Element,
    /// What it holds at first.
    pub source: Source,
    /// Whether the function may write it.
    pub written: bool,
}

/// A buffer or a scalar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Member {
    /// A buffer: its address in the parameters.
    Buffer(BufferSpec),
    /// A scalar's bytes.
    Scalar(Vec<u8>),
}

impl Member {
    fn size(&self) -> usize {
        match self {
            Member::Buffer(_) => POINTER_BYTES,
            Member::Scalar(bytes) => bytes.len(),
        }
    }
}

/// The buffers and scalars, in the order of the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members(pub Vec<Member>);

impl Members {
    /// The buffers: the one at `i` fills slot `i`.
    pub fn buffers(&self) -> impl Iterator<Item = &BufferSpec> {
        self.0.iter().filter_map(|member| match member {
            Member::Buffer(buffer) => Some(buffer),
            Member::Scalar(_) => None,
        })
    }

    /// Where each member stands in the parameters, and the parameters' bytes.
    pub fn layout(&self) -> (Vec<usize>, usize) {
        let mut end = 0_usize;
        let mut largest = 1;
        let mut places = Vec::with_capacity(self.0.len());
        for member in &self.0 {
            let at = end.next_multiple_of(member.size());
            places.push(at);
            end = at + member.size();
            largest = largest.max(member.size());
        }
        (places, end.next_multiple_of(largest))
    }
}

/// The options that make members: name, what the value looks like, help, and how a value is read.
type MemberOption = (&'static str, &'static str, &'static str, fn(&str) -> Result<Member, String>);

const OPTIONS: [MemberOption; 5] = [
    (
        "in",
        "TYPE:FILE",
        "A buffer with a file's bytes (little-endian values, or .npy), which the function only reads",
        |text| from_file(text, false),
    ),
    ("inout", "TYPE:FILE", "A buffer with a file's bytes, which the function may also write", |text| {
        from_file(text, true)
    }),
    ("zeros", "TYPE:N", "A buffer of N zeros, which the function may write", |text| made(text, Source::Zeros)),
    ("iota", "TYPE:N", "A buffer of 0, 1, 2 up to N - 1, which the function may write", |text| {
        made(text, Source::Iota)
    }),
    ("scalar", "TYPE:VALUE", "A value in the parameters, such as f32:2.5 or u32:16Mi", scalar),
];

fn split<'a>(text: &'a str, rest: &str) -> Result<(Element, &'a str), String> {
    let (element, value) = text.split_once(':').ok_or_else(|| format!("{text} names no type: write f32:{rest}"))?;
    Ok((Element::parse(element)?, value))
}

fn from_file(text: &str, written: bool) -> Result<Member, String> {
    let (element, file) = split(text, "FILE")?;
    if file.is_empty() {
        return Err(format!("{text} names no file"));
    }
    Ok(Member::Buffer(BufferSpec { element, source: Source::File(file.into()), written }))
}

fn made(text: &str, source: fn(u64) -> Source) -> Result<Member, String> {
    let (element, count) = split(text, "N")?;
    Ok(Member::Buffer(BufferSpec { element, source: source(size::parse(count)?), written: true }))
}

fn scalar(text: &str) -> Result<Member, String> {
    let (element, value) = split(text, "VALUE")?;
    Ok(Member::Scalar(element.value(value)?))
}

impl FromArgMatches for Members {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Members, clap::Error> {
        let mut members = Members::default();
        members.update_from_arg_matches(matches)?;
        Ok(members)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        let mut placed: Vec<(usize, Member)> = Vec::new();
        for (name, ..) in OPTIONS {
            if let (Some(indices), Some(values)) = (matches.indices_of(name), matches.get_many::<Member>(name)) {
                placed.extend(indices.zip(values.cloned()));
            }
        }
        placed.sort_by_key(|(index, _)| *index);
        self.0 = placed.into_iter().map(|(_, member)| member).collect();
        Ok(())
    }
}

impl Args for Members {
    fn augment_args(command: Command) -> Command {
        command.args(OPTIONS.map(|(name, value, help, parse)| {
            Arg::new(name)
                .long(name)
                .value_name(value)
                .value_hint(if value.ends_with("FILE") { ValueHint::FilePath } else { ValueHint::Other })
                .help(help)
                .help_heading("Buffers and scalars, in the order of the function's parameters")
                .action(ArgAction::Append)
                .value_parser(ValueParser::new(parse))
        }))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Members::augment_args(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Members, clap::Error> {
        let command = Members::augment_args(Command::new("test").no_binary_name(true));
        Members::from_arg_matches(&command.try_get_matches_from(line.split_whitespace())?)
    }

    #[test]
    fn members_keep_the_order_of_the_command_line_whatever_their_kind() {
        let members =
            parse("--scalar u8:7 --zeros f32:4Ki --in f32:a:b --scalar f32:2.5 --iota i64:3 --inout u8:c").unwrap();
        let file = |path: &str| Source::File(path.into());
        let buffer = |element, source, written| Member::Buffer(BufferSpec { element, source, written });
        assert_eq!(
            members.0,
            [
                Member::Scalar(vec![7]),
                buffer(Element::F32, Source::Zeros(4096), true),
                buffer(Element::F32, file("a:b"), false),
                Member::Scalar(2.5_f32.to_ne_bytes().to_vec()),
                buffer(Element::I64, Source::Iota(3), true),
                buffer(Element::U8, file("c"), true),
            ]
        );
        assert_eq!(members.buffers().count(), 4);
    }

    #[test]
    fn the_parameters_are_laid_out_as_a_struct_of_c() {
        #[repr(C)]
        struct Mixed {
            a: u8,
            x: *const f32,
            b: u8,
            c: u16,
            d: f32,
            e: f64,
            f: u8,
        }
        let line =
            "--scalar u8:1 --zeros f32:1 --scalar i8:1 --scalar u16:1 --scalar f32:1 --scalar f64:1 --scalar u8:1";
        let (places, len) = parse(line).unwrap().layout();
        use std::mem::offset_of;
        let fields = [
            offset_of!(Mixed, a),
            offset_of!(Mixed, x),
            offset_of!(Mixed, b),
            offset_of!(Mixed, c),
            offset_of!(Mixed, d),
            offset_of!(Mixed, e),
            offset_of!(Mixed, f),
        ];
        assert_eq!(places, fields);
        assert_eq!(len, size_of::<Mixed>());
        assert_eq!(parse("").unwrap().layout(), (vec![], 0));
        assert_eq!(parse("--scalar u16:1 --scalar u8:1").unwrap().layout(), (vec![0, 2], 4));
    }

    #[test]
    fn a_member_that_cannot_be_read_says_what_to_write() {
        for (line, says) in [
            ("--in x.bin", "write f32:FILE"),
            ("--in f32:", "names no file"),
            ("--zeros f16:3", "the types are"),
            ("--iota f32:many", "no whole number"),
            ("--scalar u8:300", "from 0 to 255"),
        ] {
            let why = parse(line).unwrap_err().to_string();
            assert!(why.contains(says), "{line}: {why}");
        }
    }
}
