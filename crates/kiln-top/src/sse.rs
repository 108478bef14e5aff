//! Server-sent events: from bytes to messages.

use kiln_web::view::{Change, Failure};

/// What kilnd tells whoever watches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// Everything.
    Picture(Box<Change>),
    /// What differs from the message before.
    Change(Box<Change>),
    /// Why nothing can be seen.
    Problem(String),
    /// A release of kilnd that says more than is known here, or something else.
    Unknown(String),
}

#[derive(Debug, Default)]
pub struct Reader {
    bytes: Vec<u8>,
    /// Of the bytes, how many have been searched for the end of a message.
    searched: usize,
}

impl Reader {
    pub fn add(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// `None`: more bytes are needed.
    pub fn message(&mut self) -> Option<Message> {
        loop {
            let from = self.searched.saturating_sub(1);
            let Some(end) = self.bytes[from..].windows(2).position(|two| two == b"\n\n") else {
                self.searched = self.bytes.len();
                return None;
            };
            let rest = self.bytes.split_off(from + end + 2);
            let block = std::mem::replace(&mut self.bytes, rest);
            self.searched = 0;
            if let Some(message) = parse(&String::from_utf8_lossy(&block)) {
                return Some(message);
            }
        }
    }
}

/// `None`: a comment, which is how a server says that it lives.
fn parse(block: &str) -> Option<Message> {
    let (mut name, mut data) = ("", String::new());
    for line in block.lines() {
        if let Some(value) = line.strip_prefix("event:") {
            name = value.trim();
        } else if let Some(value) = line.strip_prefix("data:") {
            data.push_str(value.strip_prefix(' ').unwrap_or(value));
        }
    }
    if data.is_empty() {
        return None;
    }
    let unknown = |_| Message::Unknown(name.into());
    let change = || serde_json::from_str::<Change>(&data).map(Box::new);
    Some(match name {
        "picture" => change().map_or_else(unknown, Message::Picture),
        "change" => change().map_or_else(unknown, Message::Change),
        "problem" => {
            let failure = serde_json::from_str::<Failure>(&data);
            failure.map_or_else(unknown, |failure| Message::Problem(failure.error))
        }
        other => Message::Unknown(other.into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_however_they_are_cut() {
        let text = ":\n\nevent: problem\ndata: {\"error\":\"Slurm is away\"}\n\n: still here\n\nevent: new\ndata: 1\n\nevent: ";
        let expected = [Message::Problem("Slurm is away".into()), Message::Unknown("new".into())];
        for size in [1, 2, 7, text.len()] {
            let mut reader = Reader::default();
            let mut seen = Vec::new();
            for part in text.as_bytes().chunks(size) {
                reader.add(part);
                while let Some(message) = reader.message() {
                    seen.push(message);
                }
            }
            assert_eq!(seen, expected, "in parts of {size}");
        }
    }

    #[test]
    fn what_is_not_understood_is_told() {
        let mut reader = Reader::default();
        reader.add(b"event: change\ndata: {\"overview\":7}\n\n");
        assert_eq!(reader.message(), Some(Message::Unknown("change".into())));
    }
}
