//! Messages to a webhook.

use std::time::Duration;

use kiln_cloud::http::{self, Cause, Trust};
use kiln_wire::notify::{Form, Webhook};
use reqwest::{Client, Url};
use serde_json::{Value, json};

use super::Message;

const PATIENCE: Duration = Duration::from_secs(20);

/// The address is a secret, so no error names it.
pub async fn send(webhook: &Webhook, message: &Message) -> Result<(), String> {
    let mut address: Url = webhook
        .address
        .expose_secret()
        .trim()
        .parse()
        .map_err(|_| "its address cannot be understood".to_string())?;
    let client = client(&address)?;
    let request = if webhook.form == Form::Matrix {
        // Its API knows a message that was sent twice by the name at the end of the address.
        if let Ok(mut path) = address.path_segments_mut() {
            path.pop_if_empty().push(&message.id);
        }
        client.put(address)
    } else {
        client.post(address)
    };
    let answer = request.json(&body(webhook.form, message)).send().await;
    let status = answer.map_err(|error| format!("no answer: {}", Cause(error.without_url())))?.status();
    if status.is_success() { Ok(()) } else { Err(format!("the answer was {status}")) }
}

fn client(address: &Url) -> Result<Client, String> {
    match address.scheme() {
        // On this host, or a network that the site trusts with it.
        "http" => Ok(http::plain(PATIENCE)),
        "https" => http::secure(PATIENCE, Trust::System).map_err(|error| error.to_string()),
        _ => Err("its address begins with neither https:// nor http://".into()),
    }
}

fn body(form: Form, message: &Message) -> Value {
    match form {
        Form::Json => json!({
            "cluster": message.cluster,
            "title": message.title,
            "text": message.text,
            "time": message.time,
        }),
        Form::Slack => json!({ "text": format!("*{}*\n{}", message.subject(), message.text) }),
        Form::Matrix => {
            json!({ "msgtype": "m.text", "body": format!("{}\n{}", message.subject(), message.text) })
        }
    }
}
