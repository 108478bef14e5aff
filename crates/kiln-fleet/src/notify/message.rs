//! What is sent: one message for all notices with the same title.

use jiff::Timestamp;
use kiln_wire::notify::NotifySettings;

use crate::store::{Batch, now};

/// So many lines are told; the others are counted.
const LINES: usize = 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The same for every attempt to send it.
    pub id: String,
    pub cluster: String,
    pub title: String,
    pub text: String,
    pub time: Timestamp,
}

impl Message {
    pub fn of(cluster: &str, settings: &NotifySettings, batch: &Batch) -> Message {
        let mut lines: Vec<String> = batch.texts.iter().take(LINES).cloned().collect();
        if batch.texts.len() > LINES {
            lines.push(format!("and {} more: `kiln events` has them all", batch.texts.len() - LINES));
        }
        let id = format!("{}-{}", batch.first.as_millisecond(), batch.ids.first().copied().unwrap_or(0));
        Message::new(cluster, settings, id, &batch.title, &lines.join("\n"), batch.first)
    }

    pub fn test(cluster: &str, settings: &NotifySettings) -> Message {
        let text = "somebody has run `kiln notify test`, and messages arrive";
        let id = format!("{}-test", now().as_millisecond());
        Message::new(cluster, settings, id, "a test", text, now())
    }

    fn new(
        cluster: &str,
        settings: &NotifySettings,
        id: String,
        title: &str,
        text: &str,
        time: Timestamp,
    ) -> Message {
        // Texts come from Slurm, the cloud and users.
        let clean = |text: &str| text.replace(|c: char| c.is_control() && c != '\n', " ");
        let text = filled(&settings.text, &[("cluster", cluster), ("title", title), ("text", text)]);
        Message {
            id,
            cluster: cluster.into(),
            title: clean(title).replace('\n', " "),
            text: clean(&text),
            time,
        }
    }

    /// One line that says which cluster it is about.
    pub fn subject(&self) -> String {
        format!("{}: {}", self.cluster, self.title)
    }
}

/// Words in braces are replaced once: what replaces them may have braces, too.
fn filled(template: &str, words: &[(&str, &str)]) -> String {
    let mut text = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        text.push_str(before);
        let known = after.split_once('}').and_then(|(name, after)| {
            words.iter().find(|(word, _)| *word == name).map(|(_, value)| (*value, after))
        });
        let (value, after) = known.unwrap_or(("{", after));
        text.push_str(value);
        rest = after;
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Channel;

    fn settings(text: &str) -> NotifySettings {
        NotifySettings { mail: None, webhook: None, about: Vec::new(), every: 1, text: text.into() }
    }

    #[test]
    fn many_notices_are_one_message() {
        let batch = Batch {
            channel: Channel::Mail,
            title: "nodes were\r\ndrained".into(),
            texts: (0..25).map(|number| format!("n-{number}: bad\u{7} {{title}}")).collect(),
            ids: vec![3],
            first: Timestamp::UNIX_EPOCH,
            attempts: 0,
        };
        let message = Message::of("demo", &settings("{cluster}: {title}\n{text}\n{other"), &batch);
        assert_eq!(message.subject(), "demo: nodes were  drained");
        let lines: Vec<&str> = message.text.lines().collect();
        assert_eq!(lines.len(), 1 + 1 + 20 + 1 + 1);
        assert!(message.text.contains("n-19: bad  {title}\nand 5 more"), "{}", message.text);
        assert!(message.text.ends_with("{other"));
        assert_eq!(message.id, "0-3");
    }
}
