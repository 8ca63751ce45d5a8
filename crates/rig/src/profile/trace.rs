//! The trace format of Chrome's tracing, which Perfetto and `chrome://tracing` open.
//!
//! The format is the JSON of "Trace Event Format" (Google, 2016): an object with an array `traceEvents`, whose times are
//! microseconds. Each device is a process, named by metadata events, and each of its queues a thread; the host is process 0.
//! Spans are complete events (`X`); what follows what is a pair of flow events (`s`, `f`) inside the two spans.

use std::fmt::Write as _;
use std::io;
use std::time::Duration;

use super::{Interval, Profile, ValueSpan};

/// The thread that shows whole values, below which a device's queues stand.
const VALUES: u32 = 0;

impl Profile {
    /// Writes the profile as a Chrome trace: JSON that [Perfetto](https://ui.perfetto.dev) and `chrome://tracing` open.
    ///
    /// # Errors
    ///
    /// Those of `to`.
    pub fn write_chrome_trace(&self, mut to: impl io::Write) -> io::Result<()> {
        let mut events = Events { to: &mut to, first: true };
        events.begin()?;
        self.names(&mut events)?;
        for value in &self.values {
            self.value(&mut events, value)?;
        }
        for span in &self.host {
            let (name, thread) = (format!("{} {}", span.work.name(), span.device), self.thread(&span.thread));
            events.span(&name, 0, thread, span.ran, &[("bytes", span.bytes)])?;
        }
        events.end()
    }

    /// The host's threads, numbered by their first appearance.
    fn thread(&self, name: &str) -> u32 {
        let mut seen: Vec<&str> = Vec::new();
        for span in &self.host {
            if !seen.contains(&&*span.thread) {
                seen.push(&span.thread);
            }
        }
        seen.iter().position(|other| *other == name).map_or(0, |at| at as u32)
    }

    fn names(&self, events: &mut Events<'_>) -> io::Result<()> {
        events.name("process_name", 0, 0, "host")?;
        let mut threads = Vec::new();
        for span in &self.host {
            if !threads.contains(&&*span.thread) {
                threads.push(&*span.thread);
                events.name("thread_name", 0, threads.len() as u32 - 1, &span.thread)?;
            }
        }
        let mut queues = Vec::new();
        for value in &self.values {
            let process = process(value.timeline);
            if !queues.contains(&(process, VALUES)) {
                queues.push((process, VALUES));
                events.name("process_name", process, VALUES, &value.device)?;
                events.name("thread_name", process, VALUES, "values")?;
            }
            for part in value.parts.iter().filter(|part| part.ran.is_some()) {
                let thread = part.queue + 1;
                if !queues.contains(&(process, thread)) {
                    queues.push((process, thread));
                    events.name("thread_name", process, thread, &format!("queue {}", part.queue))?;
                }
            }
        }
        Ok(())
    }

    fn value(&self, events: &mut Events<'_>, value: &ValueSpan) -> io::Result<()> {
        let Some(ran) = value.ran else { return Ok(()) };
        let process = process(value.timeline);
        let names: Vec<&str> = value.parts.iter().map(|part| &*part.name).collect();
        let bytes = value.parts.iter().map(|part| part.bytes).sum();
        let numbers = [("value", value.value), ("bytes", bytes), ("error_ns", value.error.as_nanos() as u64)];
        events.span(&names.join(", "), process, VALUES, ran, &numbers)?;
        for part in &value.parts {
            if let Some(ran) = part.ran {
                events.span(&part.name, process, part.queue + 1, ran, &[("bytes", part.bytes)])?;
            }
        }
        for &(timeline, followed) in &value.follows {
            let earlier = self.values.iter().find(|other| (other.timeline, other.value) == (timeline, followed));
            if let Some((other, before)) = earlier.and_then(|other| Some((other, other.ran?))) {
                events.flow(self::process(other.timeline), before.end, process, ran.start)?;
            }
        }
        Ok(())
    }
}

/// A device's process in the trace: the host has 0.
fn process(timeline: u32) -> u32 {
    timeline + 1
}

/// Writes events, with commas between them.
struct Events<'a> {
    to: &'a mut dyn io::Write,
    first: bool,
}

impl Events<'_> {
    fn begin(&mut self) -> io::Result<()> {
        self.to.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")
    }

    fn end(self) -> io::Result<()> {
        self.to.write_all(b"\n]}\n")?;
        self.to.flush()
    }

    fn event(&mut self, event: &str) -> io::Result<()> {
        let comma = if std::mem::take(&mut self.first) { "" } else { "," };
        write!(self.to, "{comma}\n{event}")
    }

    fn name(&mut self, what: &str, process: u32, thread: u32, name: &str) -> io::Result<()> {
        let name = quoted(name);
        self.event(&format!(r#"{{"ph":"M","name":"{what}","pid":{process},"tid":{thread},"args":{{"name":{name}}}}}"#))
    }

    fn span(&mut self, name: &str, process: u32, thread: u32, ran: Interval, args: &[(&str, u64)]) -> io::Result<()> {
        let args: Vec<String> = args.iter().map(|(name, value)| format!("{}:{value}", quoted(name))).collect();
        let (name, start, took) = (quoted(name), micros(ran.start), micros(ran.took()));
        let args = args.join(",");
        self.event(&format!(
            r#"{{"ph":"X","name":{name},"pid":{process},"tid":{thread},"ts":{start},"dur":{took},"args":{{{args}}}}}"#
        ))
    }

    fn flow(&mut self, from: u32, at: Duration, to: u32, then: Duration) -> io::Result<()> {
        // The two ends of an arrow share an id; one that holds all of where it is from and to is its own.
        let id = format!("{from}-{}-{to}-{}", at.as_nanos(), then.as_nanos());
        for (phase, process, at) in [("s", from, at), ("f", to, then)] {
            let at = micros(at);
            self.event(&format!(
                r#"{{"ph":"{phase}","bp":"e","name":"follows","cat":"order","id":"{id}","pid":{process},"tid":{VALUES},"ts":{at}}}"#
            ))?;
        }
        Ok(())
    }
}

/// Microseconds, with the nanoseconds behind the point.
fn micros(time: Duration) -> String {
    let nanos = time.as_nanos();
    format!("{}.{:03}", nanos / 1000, nanos % 1000)
}

/// A JSON string.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c < ' ' => {
                // Writing to a string cannot fail.
                let _ = write!(quoted, "\\u{:04x}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
