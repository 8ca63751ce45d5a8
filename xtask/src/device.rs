//! What runs on a machine with GPUs and without Rust: the tests and the bench of the CUDA driver, and the tests and examples of
//! NCCL's collectives, built here in release, and one script that runs them there.
//!
//! `cargo xtask device` fills the folder `target-device/`, which git ignores and which is small enough to send. There,
//! `OUT=results target-device/run.sh` writes what each binary printed to `$OUT`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::shell::{self, cargo, command, run};
use crate::{Result, shell::root};

/// The folder, in the root.
const FOLDER: &str = "target-device";
/// The packages, and what stands before the names of their binaries.
const PACKAGES: [(&str, &str); 2] = [("rig-cuda", ""), ("rig-nccl", "nccl-")];
/// The one of them that has a bench.
const BENCHED: &str = "rig-cuda";
/// The stand-in for NCCL's library, which its tests look for beside them.
const STAND_IN: &str = "librig_nccl_model.so";
/// What else is sent.
const FILES: [&str; 4] = [
    "crates/cuda/kernels/real.cu",
    "crates/cuda/kernels/real.py",
    "crates/cuda/benches/frameworks.py",
    "crates/nccl/benches/pytorch.py",
];
/// The most bytes of the folder: what the way there takes.
const BYTES_MAX: u64 = 64 << 20;

/// Runs there. A binary that hangs is ended, and the next one still runs.
const SCRIPT: &str = r#"#!/bin/sh
# Runs every test, example and bench beside this script, and writes what they print to $OUT.
here=$(cd "$(dirname "$0")" && pwd)
out=${OUT:-$here/results}
mkdir -p "$out"
(date -u; nvidia-smi; uname -a; lscpu | head -20) >"$out/machine.txt" 2>&1
status=0
made=$(mktemp -d)
if command -v nvcc >/dev/null && python3 -c 'import torch' 2>/dev/null; then
	for kind in ptx cubin fatbin; do
		nvcc -arch=sm_90 -O3 "--$kind" "$here/real.cu" -o "$made/real.$kind" || status=1
	done
	python3 "$here/real.py" "$made" && export RIG_CUDA_NVCC="$made"
fi
for test in "$here"/test-*; do
	name=$(basename "$test")
	timeout 240 "$test" --test-threads=1 --nocapture >"$made/log" 2>&1
	code=$?
	[ $code = 0 ] || status=1
	(echo "==== $name: $code"; cat "$made/log") >>"$out/tests.txt"
	echo "$name: $code: $(grep '^test result' "$made/log" | tail -1)"
	[ $code = 0 ] || grep -E -A 3 'FAILED|panicked' "$made/log" | head -60
done
blas=$(find /opt /usr -name 'libcublas.so.*' 2>/dev/null | head -1)
for example in "$here"/example-*; do
	echo "$(basename "$example"):"
	LD_LIBRARY_PATH="$(dirname "$blas"):$LD_LIBRARY_PATH" timeout 60 "$example" 2>&1 || status=1
done >"$out/examples.txt"
cat "$out/examples.txt"
for bench in "$here"/bench-*; do
	name=$(basename "$bench")
	timeout 240 "$bench" --bench >"$out/$name.txt" 2>&1 || status=1
	cat "$out/$name.txt"
done
timeout 240 python3 "$here/frameworks.py" >"$out/frameworks.txt" 2>&1
cat "$out/frameworks.txt"
train="$here/example-nccl-train"
if [ "$(nvidia-smi -L | wc -l)" -ge 2 ]; then
	(
		timeout 120 python3 "$here/pytorch.py" || status=1
		if command -v torchrun >/dev/null; then
			echo "by torchrun:"
			timeout 120 torchrun --standalone --nproc-per-node 2 --no-python "$train" || status=1
		fi
		if command -v mpirun >/dev/null; then
			echo "by mpirun:"
			timeout 120 mpirun --allow-run-as-root -n 2 -x RIG_NCCL_MEET=127.0.0.1:29555 "$train" || status=1
		fi
		exit $status
	) >"$out/nccl.txt" 2>&1 || status=1
	cat "$out/nccl.txt"
	timeout 60 "$train" --profile "$out/train.html" >/dev/null || status=1
fi
exit $status
"#;

/// Fills the folder.
pub fn device() -> Result {
    let folder = root().join(FOLDER);
    let why = |error: std::io::Error| format!("{} cannot be written: {error}", folder.display());
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(why)?;
    }
    fs::create_dir_all(&folder).map_err(why)?;
    for (package, before) in PACKAGES {
        for (kind, target) in [("test", "--tests"), ("bench", "--benches"), ("example", "--examples")] {
            if kind == "bench" && package != BENCHED {
                continue;
            }
            let mut build = cargo();
            build.args(["build", "--release", "-p", package, target, "--message-format=json"]);
            println!("$ cargo build --release -p {package} {target}");
            for (name, binary) in binaries(&shell::output(&mut build, false)?) {
                if let Some(stand_in) = stand_in(&binary) {
                    fs::copy(stand_in, folder.join(STAND_IN)).map_err(why)?;
                }
                // Cargo names the library's own tests too where it builds benches.
                if (kind == "bench") == (name == "cuda") {
                    send(&folder, kind, &format!("{before}{name}"), &binary)?;
                }
            }
        }
    }
    for name in FILES {
        let from = root().join(name);
        fs::copy(&from, folder.join(from.file_name().unwrap_or_default())).map_err(why)?;
    }
    let script = folder.join("run.sh");
    fs::write(&script, SCRIPT).map_err(why)?;
    run(command("chmod").arg("+x").arg(&script))?;
    let bytes = size(&folder).map_err(why)?;
    if bytes > BYTES_MAX {
        return Err(format!("{} has {bytes} bytes: at most {BYTES_MAX} travel", folder.display()));
    }
    println!("{} has {} KiB: send it, and run its run.sh there", folder.display(), bytes >> 10);
    Ok(())
}

/// The stand-in for NCCL's library, if it stands beside a binary.
fn stand_in(binary: &Path) -> Option<PathBuf> {
    binary.parent().map(|folder| folder.join(STAND_IN)).filter(|file| file.exists())
}

/// Copies a binary without what only a debugger reads.
fn send(folder: &Path, kind: &str, name: &str, binary: &Path) -> Result {
    let there = folder.join(format!("{kind}-{name}"));
    run(command("strip").arg("-o").arg(there).arg(binary))
}

/// The names and paths of the binaries that cargo says it built: its messages are JSON, one a line.
fn binaries(messages: &str) -> Vec<(String, PathBuf)> {
    let mut found = Vec::new();
    for line in messages.lines().filter(|line| line.contains("\"reason\":\"compiler-artifact\"")) {
        let Some(path) = text_at(line, "\"executable\":\"") else { continue };
        let target = line.split_once("\"target\":{").map_or("", |(_, target)| target);
        if let Some(name) = text_at(target, "\"name\":\"") {
            found.push((name.to_owned(), PathBuf::from(path)));
        }
    }
    found
}

/// The text that follows `key`, up to its closing quote.
fn text_at<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    line.split_once(key)?.1.split('"').next()
}

/// The bytes of a folder's files.
fn size(folder: &Path) -> std::io::Result<u64> {
    fs::read_dir(folder)?.map(|entry| entry?.metadata().map(|metadata| metadata.len())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binaries_are_read_from_cargos_messages() {
        let messages = r#"{"reason":"compiler-artifact","target":{"kind":["lib"],"name":"rig_cuda"},"executable":null}
{"reason":"compiler-artifact","target":{"kind":["test"],"name":"faults"},"executable":"/a/faults-1"}
{"reason":"build-finished","success":true}"#;
        assert_eq!(binaries(messages), [("faults".to_owned(), PathBuf::from("/a/faults-1"))]);
    }
}
