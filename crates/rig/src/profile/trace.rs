//! The trace format of Chrome's tracing, which Perfetto and `chrome://tracing` open.
//!
//! The format is the JSON of "Trace Event Format" (Google, 2016): an object with an array `traceEvents`, whose times are
//! microseconds. Each device is a process, named by metadata events, and each of its queues a thread; the host is process 0.
//! Spans are complete events (`X`); what follows what is a pair of flow events (`s`, `f`) inside the two spans.

use std::collections::{HashMap, HashSet};
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
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let device = rig::open(rig_host::cores())?;
    /// # let x = device.buffer(1 << 20)?;
    /// let (answer, profile) = rig::Profile::take(|| x.memset(7))?;
    /// answer?;
    ///
    /// let mut trace = Vec::new();
    /// profile.write_chrome_trace(&mut trace)?;
    /// let trace: serde_json::Value = serde_json::from_slice(&trace)?;
    /// // What ran is complete events, of the phase X.
    /// let events = trace["traceEvents"].as_array().ok_or("no events")?;
    /// assert!(events.iter().any(|event| event["ph"] == "X"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn write_chrome_trace(&self, mut to: impl io::Write) -> io::Result<()> {
        let mut events = Events { to: &mut to, first: true };
        events.begin()?;
        self.queues(&mut events)?;
        let ran: HashMap<(u32, u64), Interval> =
            self.values.iter().filter_map(|value| Some(((value.timeline, value.value), value.ran?))).collect();
        for value in &self.values {
            write_value(&mut events, value, &ran)?;
        }
        self.host(&mut events)?;
        events.end()
    }

    /// The host's spans, its threads numbered and named at their first appearance.
    fn host(&self, events: &mut Events<'_>) -> io::Result<()> {
        events.name("process_name", 0, 0, "host")?;
        let mut threads = HashMap::new();
        for span in &self.host {
            let next = threads.len() as u32;
            let thread = *threads.entry(&*span.thread).or_insert(next);
            if thread == next {
                events.name("thread_name", 0, thread, &span.thread)?;
            }
            let name = format!("{} {}", span.work.name(), span.device);
            events.span(&name, 0, thread, span.ran, &[("bytes", span.bytes)])?;
        }
        Ok(())
    }

    /// The names of the devices and of their queues.
    fn queues(&self, events: &mut Events<'_>) -> io::Result<()> {
        let mut named = HashSet::new();
        for value in &self.values {
            let process = process(value.timeline);
            if named.insert((process, VALUES)) {
                events.name("process_name", process, VALUES, &value.device)?;
                events.name("thread_name", process, VALUES, "values")?;
            }
            for part in value.parts.iter().filter(|part| part.ran.is_some()) {
                let thread = part.queue + 1;
                if named.insert((process, thread)) {
                    events.name("thread_name", process, thread, &format!("queue {}", part.queue))?;
                }
            }
        }
        Ok(())
    }
}

/// A value and its parts, with an arrow from each value that it follows; `ran` says when those of the profile ran.
fn write_value(events: &mut Events<'_>, value: &ValueSpan, ran: &HashMap<(u32, u64), Interval>) -> io::Result<()> {
    let Some(span) = value.ran else { return Ok(()) };
    let process = process(value.timeline);
    let names: Vec<&str> = value.parts.iter().map(|part| &*part.name).collect();
    let bytes = value.parts.iter().map(|part| part.bytes).sum();
    let numbers = [("value", value.value), ("bytes", bytes), ("error_ns", value.error.as_nanos() as u64)];
    events.span(&names.join(", "), process, VALUES, span, &numbers)?;
    for part in &value.parts {
        if let Some(ran) = part.ran {
            events.span(&part.name, process, part.queue + 1, ran, &[("bytes", part.bytes)])?;
        }
    }
    for &(timeline, followed) in &value.follows {
        if let Some(before) = ran.get(&(timeline, followed)) {
            events.flow(self::process(timeline), before.end, process, span.start)?;
        }
    }
    Ok(())
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
