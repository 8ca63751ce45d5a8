//! What the help says past the options, in sections: `--help` closes with them, and the man pages have them too.

use std::fmt::Write as _;

use clap::builder::Styles;

/// A section of the help of a command.
#[derive(Debug)]
pub struct Section {
    /// Its heading.
    pub title: &'static str,
    /// Its paragraphs, parted by empty lines, each one line. One that starts with four spaces is shown as it is written,
    /// and its lines fit 80 columns.
    pub text: &'static str,
}

/// The sections of a command, named as it is called; of `rig`, those of the program.
pub fn sections(command: &str) -> &'static [Section] {
    match command {
        "rig" => PROGRAM,
        "run" => RUN,
        "trace" => TRACE,
        "bench" => BENCH,
        "doctor" => DOCTOR,
        "completions" => COMPLETIONS,
        "man" => MAN,
        _ => &[],
    }
}

/// The sections of a command as the end of its help, with clap's own headings.
pub fn text(command: &str) -> String {
    let styles = Styles::styled();
    let header = styles.get_header();
    let mut help = String::new();
    for section in sections(command) {
        let gap = if help.is_empty() { "" } else { "\n\n" };
        // A String takes all that is written to it.
        let _ = write!(help, "{gap}{header}{}:{header:#}\n{}", section.title, section.text);
    }
    help
}

const EXIT_CODES: Section = Section {
    title: "Exit codes",
    text: "\
0: done. 1: a file or an image cannot be used. 2: the command line asks for what cannot be. 3: the device was lost. 4: no \
memory. What went wrong is one sentence on standard error.",
};

const PROGRAM: &[Section] = &[EXIT_CODES];

const RUN: &[Section] = &[
    Section {
        title: "Parameters",
        text: "\
The parameters are a C struct of the buffers (a pointer each) and the scalars, in the order of the command line; each \
stands on the next multiple of its size. The buffers are the slots 0, 1, 2 and on. Types are u8, i8, u16, i16, u32, i32, \
u64, i64, f32 and f64. Whole numbers may be written 4096, 1_000, 64Ki, 16Mi, 1Gi, and those of scalars also 0xff and -1.",
    },
    Section {
        title: "Times",
        text: "\
--repeat N runs the function N times, one after the other. The time of a run is that from before its launch to the end of \
the wait for it, as a program that waits for each run would see it: the launch and the wait count, beside the work. \
Loading the image, making and filling buffers and writing files do not.

Shown are the median, the quarters (half of the runs lie between them), how far these are apart (the spread), the least and \
the most, and the first, which counts like any other and is often the slowest. The median and the quarters are \
interpolated between the two nearest times. The rate is the bytes of all buffers, each counted once, over the median: it is \
what the function reaches if it touches each byte once.

With --json they are the members of \"timing\": runs, first_ns, least_ns, quarter_ns, median_ns, three_quarters_ns, \
most_ns, spread_ns (three_quarters_ns - quarter_ns), buffer_bytes, and bytes_per_second where there are buffers.

Where standard error is a terminal and the runs take more than a second, a bar shows how far they are. It is drawn between \
two runs, ten times a second at most, and not with --json.",
    },
    Section {
        title: "Example",
        text: "\
y = 2 x + y over 16 Mi floats, in groups of 4,096:

    cc -O2 -I crates/host/include -c crates/cli/kernels/saxpy.c -o saxpy.o
    rig run saxpy.o saxpy --grid 4096 --group 4096 \\
        --in f32:x.bin --inout f32:y.bin --scalar f32:2 --scalar u32:16Mi \\
        --out y.npy --print 4 --repeat 20",
    },
    Section {
        title: "Trust",
        text: "\
The function is machine code, and runs with this program's rights: run only images that you trust. One that touches memory \
which is not its own, as where a size or --group-memory is wrong, may end this program.",
    },
    EXIT_CODES,
];

const TRACE: &[Section] = &[
    Section {
        title: "What is traced",
        text: "\
A function runs as rig run runs it, with the same arguments; the trace begins once the device is open and the image loaded, and \
has each launch, copy and wait. Or a program that uses rig, behind --: it is not changed and not built anew, but runs with the \
variable RIG_TRACE, which has rig trace it from its first device to its exit. The variable does so without this command too:

    RIG_TRACE=trace.html cargo run --release --example pipeline

It names files, parted as in PATH, and %p in a name is the process's number. A trace holds 262,144 spans at most. A program that a \
signal or an abort ends writes none; what is still at work when it exits is in the trace as submitted.",
    },
    Section {
        title: "What it shows",
        text: "\
For each device, when it ran what, on which of its queues, and how many bytes of buffers that works on; for the host, submits, \
waits, copies and reclamation; arrows lead from what a value waited for to the value. Standard output is what the function or the \
program prints; a summary goes to standard error.",
    },
    Section {
        title: "Examples",
        text: "\
    rig trace saxpy.o saxpy --grid 64 --group 4096 --iota f32:256Ki \\
        --zeros f32:256Ki --scalar f32:2 --scalar u32:256Ki --repeat 9
    rig trace --to a.json -- cargo run --release --example pipeline",
    },
    Section {
        title: "Exit codes",
        text: "\
Those of rig run. Of a program: its own, 128 and the number of the signal that ended it, and 1 where it succeeds and leaves no trace.",
    },
];

const BENCH: &[Section] = &[
    Section {
        title: "What is measured",
        text: "\
A launch of one group of 64 threads, each of which counts a number up: until it returns (launch), as one of 64 that follow one \
another until the last is done (launch in a row), and with the wait for it (launch and wait). A buffer that comes from the device's \
cache and is dropped again (cached buffer). Copies from the host's memory to the device's, back, and within the device's, each to \
its end.

Each number is the median of rounds, seven at least, over an equal share of the device's time; a round repeats a cheap call until it \
takes 0.1 ms. The numbers of the launches are read back at the end, and a device that lost one is named. Rates are bytes over time, \
in powers of ten.

With --json each has what, bytes, rounds, quarter_ns, median_ns, three_quarters_ns and, for copies, bytes_per_second. Nothing else \
should run meanwhile, and RIG_TRACE should not be set: a trace takes its time.",
    },
    Section {
        title: "Example",
        text: "\
    rig bench --quick --chart bench.svg",
    },
    EXIT_CODES,
];

const DOCTOR: &[Section] = &[
    Section {
        title: "What is examined",
        text: "\
Each driver opens its devices as a program would, and its own answer is shown. Where none opens, the driver's check says what kind of \
obstacle it met, and the files of the system what mends it: a package, a module of the kernel, a group, a way to start a container, a \
feature to build this program with. Nothing is changed.

A driver opens, or has no hardware here, or does not know the hardware, or can be mended. Software Metal is of this program only \
where it was built with the feature metal-model, and then needs LLVM 19's library to start at all.",
    },
    Section {
        title: "Exit codes",
        text: "\
0: a device beyond the host's opens, or nothing is to be mended. 1: something can be mended, and until then nothing beyond the host's \
devices opens. Where drivers are named: 0 if each of them has a device that opens, else 1. 2: there is no such driver.",
    },
];

const COMPLETIONS: &[Section] = &[Section {
    title: "Where the script goes",
    text: "\
Each line writes it to where the shell looks when it starts:

    rig completions bash > ~/.local/share/bash-completion/completions/rig
    rig completions fish > ~/.config/fish/completions/rig.fish
    rig completions zsh > ~/.zfunc/_rig

The folder has to be there. bash needs the package bash-completion for this, and zsh the line fpath+=~/.zfunc before \
compinit in ~/.zshrc. To try it in a shell of bash that runs:

    source <(rig completions bash)

The script knows the devices that this machine had when it was made.",
}];

const MAN: &[Section] = &[Section {
    title: "Where the pages go",
    text: "\
To read one now:

    rig man run | man -l -

To have them all found by man, as man rig and man rig-run:

    rig man --dir ~/.local/share/man/man1",
}];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_as_written_fits_80_columns() {
        for line in [PROGRAM, RUN, TRACE, BENCH, DOCTOR, COMPLETIONS, MAN]
            .into_iter()
            .flatten()
            .flat_map(|section| section.text.lines())
        {
            assert!(!line.starts_with("    ") || line.len() <= 80, "{line}");
        }
    }
}
