//! `rig man`: the pages of this program for `man`, made from the command line that clap parses and from the sections of
//! the help.

use std::io::Write;
use std::path::Path;

use clap::{Command, CommandFactory as _};
use clap_mangen::roff::{Roff, roman};

use crate::arguments::{Man, Program};
use crate::error::{Error, Result};
use crate::help::{self, Section};

/// Prints a page, or writes every page to a folder.
pub fn man(arguments: &Man, out: &mut impl Write) -> Result<()> {
    let mut program = Program::command().disable_help_subcommand(true);
    // Gives every command the name by which it is called, such as `rig run`.
    program.build();
    if let Some(folder) = &arguments.dir {
        return write_all(&program, folder, out);
    }
    let command = match &arguments.command {
        None => &program,
        Some(name) => program.find_subcommand(name).ok_or_else(|| Error::NoCommand {
            name: name.clone(),
            there: program.get_subcommands().map(Command::get_name).collect::<Vec<_>>().join(", "),
        })?,
    };
    page(command, out)?;
    Ok(())
}

/// Writes every page to a folder, and says where.
fn write_all(program: &Command, folder: &Path, out: &mut impl Write) -> Result<()> {
    let write = |path: &Path, why| Error::File { what: "write", path: path.into(), why };
    std::fs::create_dir_all(folder).map_err(|why| write(folder, why))?;
    for command in std::iter::once(program).chain(program.get_subcommands()) {
        let path = folder.join(format!("{}.1", title(command)));
        let mut bytes = Vec::new();
        page(command, &mut bytes)?;
        std::fs::write(&path, bytes).map_err(|why| write(&path, why))?;
        writeln!(out, "wrote {}", path.display())?;
    }
    Ok(())
}

/// The name of a command's page: `rig`, `rig-run`.
fn title(command: &Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

/// Writes the page of a command.
fn page(command: &Command, out: &mut impl Write) -> std::io::Result<()> {
    // As `--help` has it, which shows what each option takes.
    let usage = command.clone().render_usage().to_string();
    let synopsis = usage.strip_prefix("Usage: ").unwrap_or(&usage).to_owned();
    let page = clap_mangen::Man::new(command.clone().override_usage(synopsis))
        // No date, so that the same program always writes the same page. An empty one would be left out, and what
        // follows would take its place.
        .date(" ")
        .source(concat!("rig ", env!("CARGO_PKG_VERSION")));
    let mut text = Vec::new();
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    page.render_synopsis_section(&mut text)?;
    page.render_description_section(&mut text)?;
    page.render_options_section(&mut text)?;
    if command.has_subcommands() {
        page.render_subcommands_section(&mut text)?;
    }
    let mut rest = Roff::new();
    help::sections(command.get_name()).iter().for_each(|part| section(&mut rest, part));
    if !command.has_subcommands() {
        rest.control("SH", ["SEE ALSO"]).text([roman("rig(1)")]);
    }
    rest.to_writer(&mut text)?;
    // Each piece opens with the same lines, which say how an apostrophe is printed: the page needs them once.
    let text = String::from_utf8_lossy(&text);
    let opening = Roff::new().render();
    write!(out, "{opening}{}", text.replace(&opening, ""))
}

/// Adds a section: its paragraphs, and what is shown as it is written.
fn section(page: &mut Roff, section: &Section) {
    page.control("SH", [section.title.to_uppercase().as_str()]);
    for (index, paragraph) in section.text.split("\n\n").enumerate() {
        if index > 0 {
            page.control("PP", []);
        }
        let written = paragraph.starts_with("    ");
        if written {
            page.control("nf", []);
        }
        for line in paragraph.lines() {
            page.text([roman(line)]);
        }
        if written {
            page.control("fi", []);
        }
    }
}
