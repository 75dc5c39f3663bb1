//! The form of the file: a trace of Perfetto, packet after packet, in protobuf's encoding.
//!
//! Each process adds packets of its own sequence, so a file may hold those of several processes.
//! Names stand in the file once, and are numbers after that.

/// Fields of the messages that are used here, by Perfetto's definitions.
mod field {
    // Trace, TracePacket
    pub(super) const PACKET: u32 = 1;
    pub(super) const TIMESTAMP: u32 = 8;
    pub(super) const SEQUENCE: u32 = 10;
    pub(super) const TRACK_EVENT: u32 = 11;
    pub(super) const INTERNED: u32 = 12;
    pub(super) const FLAGS: u32 = 13;
    pub(super) const DESCRIPTOR: u32 = 60;
    // TrackDescriptor, ProcessDescriptor
    pub(super) const UUID: u32 = 1;
    pub(super) const NAME: u32 = 2;
    pub(super) const PROCESS: u32 = 3;
    pub(super) const PARENT: u32 = 5;
    pub(super) const PROCESS_ID: u32 = 1;
    pub(super) const PROCESS_NAME: u32 = 6;
    // TrackEvent, DebugAnnotation
    pub(super) const ANNOTATION: u32 = 4;
    pub(super) const KIND: u32 = 9;
    pub(super) const NAME_ID: u32 = 10;
    pub(super) const TRACK: u32 = 11;
    pub(super) const ANNOTATION_NAME_ID: u32 = 1;
    pub(super) const ANNOTATION_STRING_ID: u32 = 17;
    // InternedData, and its entries
    pub(super) const EVENT_NAMES: u32 = 2;
    pub(super) const ANNOTATION_NAMES: u32 = 3;
    pub(super) const ANNOTATION_STRINGS: u32 = 29;
    pub(super) const ID: u32 = 1;
    pub(super) const TEXT: u32 = 2;
}

const BEGIN: u64 = 1;
const END: u64 = 2;
/// Names of the sequence begin anew; a packet uses names.
const CLEARED: u64 = 1;
const NEEDS_NAMES: u64 = 2;
/// The only name of annotations.
const STOP: u64 = 1;

/// A message that grows.
#[derive(Default)]
struct WireMessage(Vec<u8>);

impl WireMessage {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn number(&mut self, field: u32, value: u64) -> &mut WireMessage {
        self.varint(u64::from(field) << 3);
        self.varint(value);
        self
    }

    fn bytes(&mut self, field: u32, bytes: &[u8]) -> &mut WireMessage {
        self.varint(u64::from(field) << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }
}

/// Packets of one process.
pub(super) struct Packets {
    bytes: WireMessage,
    process: u32,
}

impl Packets {
    /// Begins with the process, and its name.
    pub(super) fn new(process: u32, name: &str) -> Packets {
        let mut packets = Packets {
            bytes: WireMessage::default(),
            process,
        };
        let mut about = WireMessage::default();
        about
            .number(field::PROCESS_ID, u64::from(process))
            .bytes(field::PROCESS_NAME, name.as_bytes());
        let mut descriptor = WireMessage::default();
        descriptor
            .number(field::UUID, packets.track(None))
            .bytes(field::PROCESS, &about.0);
        let mut packet = WireMessage::default();
        packet
            .bytes(field::DESCRIPTOR, &descriptor.0)
            .number(field::FLAGS, CLEARED);
        packets.add(packet);
        packets.intern(field::ANNOTATION_NAMES, STOP, "stopped");
        packets
    }

    /// The id of the process's track, or of a server's.
    fn track(&self, server: Option<usize>) -> u64 {
        u64::from(self.process) << 16 | server.map_or(0, |server| server as u64 + 1)
    }

    fn add(&mut self, mut packet: WireMessage) {
        packet.number(field::SEQUENCE, u64::from(self.process));
        self.bytes.bytes(field::PACKET, &packet.0);
    }

    pub(super) fn add_server(&mut self, server: usize) {
        let mut descriptor = WireMessage::default();
        descriptor
            .number(field::UUID, self.track(Some(server)))
            .number(field::PARENT, self.track(None))
            .bytes(field::NAME, format!("server {server}").as_bytes());
        let mut packet = WireMessage::default();
        packet.bytes(field::DESCRIPTOR, &descriptor.0);
        self.add(packet);
    }

    fn intern(&mut self, kind: u32, id: u64, text: &str) {
        let mut entry = WireMessage::default();
        entry
            .number(field::ID, id)
            .bytes(field::TEXT, text.as_bytes());
        let mut interned = WireMessage::default();
        interned.bytes(kind, &entry.0);
        let mut packet = WireMessage::default();
        packet
            .bytes(field::INTERNED, &interned.0)
            .number(field::FLAGS, NEEDS_NAMES);
        self.add(packet);
    }

    /// Names a thread.
    pub(super) fn name_thread(&mut self, serial: u32, text: &str) {
        self.intern(field::EVENT_NAMES, u64::from(serial), text);
    }

    /// Names a reason to stop. Not 0.
    pub(super) fn name_stop(&mut self, stop: u32, text: &str) {
        self.intern(field::ANNOTATION_STRINGS, u64::from(stop), text);
    }

    fn event(&mut self, time: u64, event: &WireMessage) {
        let mut packet = WireMessage::default();
        packet
            .number(field::TIMESTAMP, time)
            .bytes(field::TRACK_EVENT, &event.0)
            .number(field::FLAGS, NEEDS_NAMES);
        self.add(packet);
    }

    /// The thread begins to run on a server.
    pub(super) fn begin(&mut self, time: u64, server: usize, serial: u32) {
        let mut event = WireMessage::default();
        event
            .number(field::KIND, BEGIN)
            .number(field::TRACK, self.track(Some(server)))
            .number(field::NAME_ID, u64::from(serial));
        self.event(time, &event);
    }

    /// The thread that runs on a server stops.
    pub(super) fn end(&mut self, time: u64, server: usize, stop: u32) {
        let mut annotation = WireMessage::default();
        annotation
            .number(field::ANNOTATION_NAME_ID, STOP)
            .number(field::ANNOTATION_STRING_ID, u64::from(stop));
        let mut event = WireMessage::default();
        event
            .number(field::KIND, END)
            .number(field::TRACK, self.track(Some(server)))
            .bytes(field::ANNOTATION, &annotation.0);
        self.event(time, &event);
    }

    /// What has come since the last call.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes.0
    }

    pub(super) fn clear(&mut self) {
        self.bytes.0.clear();
    }
}
