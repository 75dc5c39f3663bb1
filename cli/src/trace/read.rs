//! Reads a trace of `umcg run --trace`: the part of Perfetto's format that the library writes.

use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;

/// A time during which a server ran a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) server: usize,
    /// Its place in [`Trace::threads`].
    pub(super) thread: usize,
    /// In nanoseconds.
    pub(super) begin: u64,
    pub(super) end: u64,
    /// Why it stopped; empty if the trace ends before.
    pub(super) stopped: String,
}

/// What a trace says.
#[derive(Debug, Default)]
pub(super) struct Trace {
    /// Names of servers, with the process's if there are several.
    pub(super) servers: Vec<String>,
    /// Names of threads, with their ids.
    pub(super) threads: Vec<String>,
    /// In the order of the file.
    pub(super) runs: Vec<Run>,
}

/// A field of a message: its number, and a number or bytes.
enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The fields of a message.
fn fields(bytes: &[u8]) -> Result<Vec<(u32, Value<'_>)>> {
    let (mut rest, mut all) = (bytes, Vec::new());
    while !rest.is_empty() {
        let key = varint(&mut rest)?;
        let value = match key & 7 {
            0 => Value::Number(varint(&mut rest)?),
            2 => {
                let length = usize::try_from(varint(&mut rest)?)?;
                let (part, after) = rest.split_at_checked(length).context("it is cut off")?;
                rest = after;
                Value::Bytes(part)
            }
            kind => bail!("a field of kind {kind}"),
        };
        all.push((u32::try_from(key >> 3)?, value));
    }
    Ok(all)
}

fn varint(rest: &mut &[u8]) -> Result<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, after) = rest.split_first().context("it is cut off")?;
        *rest = after;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    bail!("a number is too long")
}

/// The last number, or bytes, of this field.
fn number(fields: &[(u32, Value<'_>)], field: u32) -> Option<u64> {
    fields.iter().rev().find_map(|(known, value)| match value {
        Value::Number(value) if *known == field => Some(*value),
        _ => None,
    })
}

fn bytes<'a>(fields: &[(u32, Value<'a>)], field: u32) -> Option<&'a [u8]> {
    fields.iter().rev().find_map(|(known, value)| match value {
        Value::Bytes(value) if *known == field => Some(*value),
        _ => None,
    })
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A process while its packets are read.
#[derive(Default)]
struct Process {
    name: String,
    /// By id: the places of threads, and reasons to stop.
    threads: BTreeMap<u64, usize>,
    stops: BTreeMap<u64, String>,
}

#[derive(Default)]
struct Reader {
    trace: Trace,
    /// By the number of its sequence.
    processes: BTreeMap<u64, Process>,
    /// By the id of its track: the place of a server, and the run that has not ended.
    servers: BTreeMap<u64, (usize, Option<usize>)>,
    last: u64,
}

/// Reads a whole trace.
///
/// # Errors
/// It is none, or it is cut off.
pub(super) fn read(file: &[u8]) -> Result<Trace> {
    const PACKET: u32 = 1;
    let mut reader = Reader::default();
    for (field, packet) in fields(file)? {
        let Value::Bytes(packet) = packet else {
            bail!("a packet is missing");
        };
        if field != PACKET {
            bail!("field {field} of no packet");
        }
        reader.packet(&fields(packet)?)?;
    }
    let last = reader.last;
    for (_, run) in reader.servers.values() {
        if let Some(run) = run {
            reader.trace.runs[*run].end = last;
        }
    }
    Ok(reader.trace)
}

impl Reader {
    fn packet(&mut self, packet: &[(u32, Value<'_>)]) -> Result<()> {
        let sequence = number(packet, 10).context("a packet of no sequence")?;
        // Its names begin anew: another program has taken the process.
        if number(packet, 13) == Some(1) {
            self.processes.insert(sequence, Process::default());
        }
        if let Some(descriptor) = bytes(packet, 60) {
            return self.descriptor(sequence, &fields(descriptor)?);
        }
        if let Some(names) = bytes(packet, 12) {
            return self.names(sequence, &fields(names)?);
        }
        if let Some(event) = bytes(packet, 11) {
            let time = number(packet, 8).context("an event without a time")?;
            return self.event(sequence, time, &fields(event)?);
        }
        Ok(())
    }

    fn process(&mut self, sequence: u64) -> &mut Process {
        self.processes.entry(sequence).or_default()
    }

    fn descriptor(&mut self, sequence: u64, descriptor: &[(u32, Value<'_>)]) -> Result<()> {
        let track = number(descriptor, 1).context("a track without an id")?;
        if let Some(about) = bytes(descriptor, 3) {
            let name = bytes(&fields(about)?, 6).map(text).unwrap_or_default();
            self.process(sequence).name = name;
            return Ok(());
        }
        let name = bytes(descriptor, 2).map(text).unwrap_or_default();
        let name = format!("{} {sequence} {name}", self.process(sequence).name);
        let place = self.trace.servers.len();
        self.trace.servers.push(name);
        self.servers.insert(track, (place, None));
        Ok(())
    }

    fn names(&mut self, sequence: u64, names: &[(u32, Value<'_>)]) -> Result<()> {
        for (field, name) in names {
            let Value::Bytes(name) = name else { continue };
            let name = fields(name)?;
            let id = number(&name, 1).context("a name without an id")?;
            let name = bytes(&name, 2).map(text).unwrap_or_default();
            match field {
                2 => {
                    let place = self.trace.threads.len();
                    self.trace.threads.push(name);
                    self.process(sequence).threads.insert(id, place);
                }
                29 => {
                    self.process(sequence).stops.insert(id, name);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn event(&mut self, sequence: u64, time: u64, event: &[(u32, Value<'_>)]) -> Result<()> {
        const BEGIN: u64 = 1;
        self.last = self.last.max(time);
        let track = number(event, 11).context("an event of no track")?;
        let process = self.processes.entry(sequence).or_default();
        let (server, open) = self
            .servers
            .get_mut(&track)
            .context("an event of an unknown track")?;
        if number(event, 9) == Some(BEGIN) {
            let id = number(event, 10).context("a run of no thread")?;
            let thread = process
                .threads
                .get(&id)
                .context("a thread without a name")?;
            *open = Some(self.trace.runs.len());
            self.trace.runs.push(Run {
                server: *server,
                thread: *thread,
                begin: time,
                end: time,
                stopped: String::new(),
            });
            return Ok(());
        }
        let run = open.take().context("an end without a begin")?;
        let run = &mut self.trace.runs[run];
        if time < run.begin {
            bail!("an end before its begin");
        }
        run.end = time;
        if let Some(annotation) = bytes(event, 4) {
            let id = number(&fields(annotation)?, 17);
            let stop = id.and_then(|id| process.stops.get(&id));
            run.stopped = stop.context("a reason without a name")?.clone();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_trace_is_an_error() {
        assert!(read(b"").unwrap().runs.is_empty());
        for wrong in [
            &b"\x0a\x05ab"[..],
            b"not a trace",
            b"\x0a\x02\x50\xff",
            b"\x13",
        ] {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
    }

    fn put(to: &mut Vec<u8>, mut value: u64) {
        while value >= 0x80 {
            to.push(value as u8 | 0x80);
            value >>= 7;
        }
        to.push(value as u8);
    }

    /// A message of these fields: numbers, and other messages.
    fn message(numbers: &[(u64, u64)], messages: &[(u64, Vec<u8>)]) -> Vec<u8> {
        let mut all = Vec::new();
        for (field, value) in numbers {
            put(&mut all, field << 3);
            put(&mut all, *value);
        }
        for (field, bytes) in messages {
            put(&mut all, field << 3 | 2);
            put(&mut all, bytes.len() as u64);
            all.extend(bytes);
        }
        all
    }

    /// A trace of one run.
    fn trace(begin: u64, end: u64) -> Vec<u8> {
        let packet = |time, part| message(&[(10, 1), (8, time)], &[part]);
        let name = message(&[(1, 7)], &[(2, b"thread".to_vec())]);
        let packets = [
            packet(0, (60, message(&[(1, 5)], &[(2, b"server".to_vec())]))),
            packet(0, (12, message(&[], &[(2, name)]))),
            packet(begin, (11, message(&[(9, 1), (11, 5), (10, 7)], &[]))),
            packet(end, (11, message(&[(9, 2), (11, 5)], &[]))),
        ];
        message(&[], &packets.map(|packet| (1, packet)))
    }

    #[test]
    fn a_run_does_not_end_before_it_begins() {
        let run = &read(&trace(300, 300)).unwrap().runs[0];
        assert_eq!((run.begin, run.end), (300, 300));
        let error = read(&trace(300, 299)).unwrap_err().to_string();
        assert_eq!(error, "an end before its begin");
    }
}
