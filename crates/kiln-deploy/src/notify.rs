//! Whom kilnd tells of what, and trying whether messages arrive.

use kiln_spec::MailSpec;
use kiln_wire::notify::{Mail, NotifyReport, NotifySettings, Webhook};

use crate::deployment::Deployment;
use crate::error::{Error, Result};
use crate::targets::credentials;

impl Deployment<'_> {
    /// The control node sends one to everybody.
    pub async fn test_notify(&self) -> Result<Vec<NotifyReport>> {
        self.control(&self.observe().await?)?.ask(&["notify-test"], b"").await
    }

    /// The address of a webhook and the login for the mail server are read here and now; from then on kilnd has them, and nobody
    /// else.
    pub(crate) fn notify_settings(&self) -> Result<Option<NotifySettings>> {
        let Some(notify) = &self.spec.notify else { return Ok(None) };
        let webhook = match &notify.webhook {
            None => None,
            Some(webhook) => {
                let address = credentials(&webhook.address, self.file_dir()).map_err(Error::Webhook)?;
                let address = address.expose_secret().trim();
                if !address.starts_with("https://") && !address.starts_with("http://") {
                    return Err(Error::Webhook("it begins with neither https:// nor http://".into()));
                }
                Some(Webhook { address: address.into(), form: known(&webhook.form)? })
            }
        };
        let about = notify.about.iter().map(|word| known(word)).collect::<Result<_>>()?;
        let mail = notify.mail.as_ref().map(|mail| self.mail(mail)).transpose()?;
        Ok(Some(NotifySettings {
            mail,
            webhook,
            about,
            every: notify.every.as_secs(),
            text: notify.text.clone(),
        }))
    }

    fn mail(&self, mail: &MailSpec) -> Result<Mail> {
        let credentials = match &mail.credentials {
            None => None,
            Some(place) => {
                let login = credentials(place, self.file_dir()).map_err(Error::MailCredentials)?;
                let text = login.expose_secret().trim();
                if !text.contains(':') || text.contains(char::is_control) {
                    return Err(Error::MailCredentials("they are not one line `USER:PASSWORD`".into()));
                }
                Some(text.into())
            }
        };
        Ok(Mail {
            host: mail.host.clone(),
            port: mail.port,
            from: mail.from.clone(),
            to: mail.to.clone(),
            tls: known(&mail.tls)?,
            credentials,
        })
    }
}

/// A word that the file was checked for.
fn known<T: std::str::FromStr<Err = String>>(word: &str) -> Result<T> {
    word.parse().map_err(Error::NotReady)
}
