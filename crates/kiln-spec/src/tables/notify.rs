//! `[notify]`: whom kilnd tells when something matters, and how.

use std::time::Duration;

use super::{reconcile, source};
use crate::diagnostic::Findings;
use crate::merge::default_text;
use crate::words::or_list;
use crate::written::table::table;
use crate::written::{List, Text};
use crate::{MailSpec, Notify, WebhookSpec};

table! {
    /// Whom kilnd tells when something matters, and how.
    NotifyTable {
        /// Addresses that get mail.
        "mail_to" => mail_to: List<Text>, empty;
        /// The address that mail comes from.
        "mail_from" => mail_from: Text, otherwise "`kiln@DOMAIN`, with the cluster's domain";
        /// The site's mail server, `HOST` or `HOST:PORT`. Required with `mail_to`.
        "mail_server" => mail_server: Text, otherwise "no mail is sent";
        /// How mail gets to the server: `off` (in the clear), `starttls` (nothing is sent unless the server encrypts) or `tls` (encrypted from the beginning, mostly at port 465).
        "mail_tls" => mail_tls: Text, otherwise "`starttls` with `mail_credentials`, else `off`";
        /// Where user and password for the mail server are, as `USER:PASSWORD`: `env:NAME` is an environment variable, `file:PATH` a file relative to the cluster file. On the cluster only kilnd has them.
        "mail_credentials" => mail_credentials: Text, otherwise "the server wants none";
        /// Where the address of a webhook is, which is mostly a secret: `env:NAME` is an environment variable, `file:PATH` a file relative to the cluster file. On the cluster only kilnd has it.
        "webhook" => webhook: Text, otherwise "no webhook is called";
        /// What the webhook is sent: `json`, `slack` (Mattermost and others take it, too) or `matrix`.
        "form" => form: Text, default "json";
        /// What is told: `rollout` (halted, done or rolled back), `group` (an elastic group pauses), `drain` (Kiln took a node out of service), `blind` (kilnd cannot see Slurm or the cloud), `backup` (one has failed).
        "about" => about: List<Text>, otherwise "all of them";
        /// Messages about the same thing come at most once in this time, a day at most. What happens meanwhile is told together.
        "every" => every: Text, default "15m";
        /// The text of a message. `{cluster}`, `{title}` and `{text}` stand for the cluster's name, what it is about, and what has happened.
        "text" => text: Text, default "{text}";
    }
}

pub const TOPICS: [&str; 5] = ["rollout", "group", "drain", "blind", "backup"];
pub const MAIL_TLS: [&str; 3] = ["off", "starttls", "tls"];
pub const FORMS: [&str; 3] = ["json", "slack", "matrix"];
const WORDS: [&str; 3] = ["cluster", "title", "text"];
const DAY: Duration = Duration::from_secs(86_400);

pub(crate) fn validate(
    written: Option<&NotifyTable>,
    domain: Option<&Text>,
    findings: &mut Findings<'_>,
) -> Option<Notify> {
    let written = written?;
    let webhook = webhook(written, findings);
    let mail = mail(written, domain, findings);
    if mail.is_none() && written.webhook.is_none() && written.mail_to.value.is_empty() {
        (findings.error("nobody-to-tell", written.at.clone(), "[notify] says nobody whom to tell"))
            .expected("`mail_to` with `mail_server`, or `webhook`");
    }
    let every = reconcile::at_least("`every`", &written.every, Duration::from_secs(1), findings);
    if every > DAY {
        let message = format!("`every` cannot be `{}`", written.every.value);
        findings.error("bad-time", written.every.span.clone(), message).expected("a day at most");
    }
    check_text(&written.text, findings);
    Some(Notify { mail, webhook, about: about(written, findings), every, text: written.text.value.clone() })
}

fn about(written: &NotifyTable, findings: &mut Findings<'_>) -> Vec<String> {
    let Some(list) = &written.about else { return TOPICS.map(String::from).into() };
    for word in list.value.iter().filter(|word| !TOPICS.contains(&word.value.as_str())) {
        let message = format!("nothing is told about `{}`", word.value);
        findings.error("bad-notify", word.span.clone(), message).expected(or_list(&TOPICS));
    }
    list.value.iter().map(|word| word.value.clone()).collect()
}

fn webhook(written: &NotifyTable, findings: &mut Findings<'_>) -> Option<WebhookSpec> {
    let form = &written.form;
    if !FORMS.contains(&form.value.as_str()) {
        let message = format!("`form` cannot be `{}`", form.value);
        findings.error("bad-notify", form.span.clone(), message).expected(or_list(&FORMS));
    }
    let address = source::credentials(written.webhook.as_ref()?, findings)?;
    Some(WebhookSpec { address, form: form.value.clone() })
}

fn mail(written: &NotifyTable, domain: Option<&Text>, findings: &mut Findings<'_>) -> Option<MailSpec> {
    let Some(server) = &written.mail_server else {
        if let Some(first) = written.mail_to.value.first() {
            (findings.error("bad-notify", first.span.clone(), "there is no server that takes mail"))
                .expected("`mail_server`, such as \"mail.example.org\"");
        }
        return None;
    };
    if written.mail_to.value.is_empty() {
        (findings.error("bad-notify", server.span.clone(), "there is nobody to send mail to"))
            .expected("`mail_to`, such as [\"ops@example.org\"]");
    }
    let (host, port) = match server.value.rsplit_once(':') {
        None => (server.value.as_str(), Some(25)),
        Some((host, port)) => (host, port.parse().ok().filter(|port| *port > 0)),
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
    if host.is_empty() || !host.chars().all(plain) || port.is_none() {
        let message = format!("`{}` is not a mail server", server.value);
        (findings.error("bad-notify", server.span.clone(), message))
            .expected("`HOST` or `HOST:PORT`, such as \"mail.example.org:25\"");
    }
    let from = written
        .mail_from
        .clone()
        .or_else(|| domain.map(|domain| default_text(&format!("kiln@{}", domain.value), &domain.span)))?;
    for address in written.mail_to.value.iter().chain([&from]) {
        check_address(address, findings);
    }
    let to = written.mail_to.value.iter().map(|to| to.value.clone()).collect();
    let credentials = written.mail_credentials.as_ref().and_then(|text| source::credentials(text, findings));
    let tls = mail_tls(written, findings);
    Some(MailSpec { host: host.into(), port: port.unwrap_or(25), from: from.value, to, tls, credentials })
}

fn mail_tls(written: &NotifyTable, findings: &mut Findings<'_>) -> String {
    let has_password = written.mail_credentials.is_some();
    let Some(tls) = &written.mail_tls else { return if has_password { "starttls" } else { "off" }.into() };
    let message = format!("`mail_tls` cannot be `{}`", tls.value);
    if !MAIL_TLS.contains(&tls.value.as_str()) {
        findings.error("bad-notify", tls.span.clone(), message).expected(or_list(&MAIL_TLS));
    } else if has_password && tls.value == "off" {
        (findings.error("bad-notify", tls.span.clone(), message + " with `mail_credentials`"))
            .expected("`starttls` or `tls`: a password is not sent in the clear");
    }
    tls.value.clone()
}

/// It stands between angle brackets on a line of its own.
fn check_address(address: &Text, findings: &mut Findings<'_>) {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._%+-=".contains(c);
    let is_address = address.value.split_once('@').is_some_and(|(name, host)| {
        let of_host = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
        !name.is_empty() && name.chars().all(plain) && !host.is_empty() && host.chars().all(of_host)
    });
    if !is_address {
        let message = format!("`{}` is not a mail address", address.value);
        (findings.error("bad-notify", address.span.clone(), message))
            .expected("an address such as \"ops@example.org\"");
    }
}

fn check_text(text: &Text, findings: &mut Findings<'_>) {
    for part in text.value.split('{').skip(1) {
        let word = part.split_once('}').map(|(word, _)| word);
        if word.is_none_or(|word| !WORDS.contains(&word)) {
            let message = format!("`text` cannot have `{{{}`", part.split(' ').next().unwrap_or_default());
            (findings.error("bad-notify", text.span.clone(), message))
                .expected("no braces but `{cluster}`, `{title}` and `{text}`");
        }
    }
}
