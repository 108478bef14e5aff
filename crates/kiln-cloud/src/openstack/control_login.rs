//! A credential of the site's own for the control node: `control_credential` in the file, an entry of clouds.yaml.

use super::Settings;
use super::access::{Access, access};
use super::driver::Driver;
use super::login::{Identity, Login, Named};
use super::session::{Caller, Project};
use crate::{Error, Result};
use kiln_wire::SecretText;

pub(super) struct ControlLogin {
    login: Login,
    credential: Named,
    secret: SecretText,
}

impl Driver {
    /// `None`: the file names none, and Kiln makes one.
    pub(super) fn control_login(&self) -> Result<Option<ControlLogin>> {
        let settings = &self.settings;
        let Some(entry) = &settings.control_credential else { return Ok(None) };
        ControlLogin::new(Login::find(Some(entry), settings.region.as_deref())?).map(Some)
    }

    /// That it works, and for the right project.
    pub(super) async fn check_control_credential(&self) -> Result<()> {
        let Some(own) = self.control_login()? else { return Ok(()) };
        let at_control = own.driver(&self.settings)?;
        at_control.check_key_pair().await?;
        let theirs = at_control.client.session.token().await?.project.clone();
        let ours = self.client.session.token().await?.project.clone();
        let id = |project: &Option<Project>| project.as_ref().map(|p| p.id.clone());
        if id(&theirs) == id(&ours) {
            return Ok(());
        }
        let name = |project: Option<Project>| project.map_or_else(|| "none".to_string(), |p| p.name);
        Err(Error::unsupported(format!(
            "{}: the control node's credential is for project {}, and the cluster is in project {}",
            own.login.origin,
            name(theirs),
            name(ours)
        )))
    }
}

impl ControlLogin {
    /// A password would let the control node do all that its owner may do.
    fn new(login: Login) -> Result<ControlLogin> {
        match &login.identity {
            Identity::ApplicationCredential { credential, secret, .. } => {
                let (credential, secret) = (credential.clone(), secret.clone());
                Ok(ControlLogin { login, credential, secret })
            }
            Identity::Password { .. } | Identity::Token { .. } => Err(Error::unsupported(format!(
                "{}: `control_credential` must be an application credential (`application_credential_id` and \
                 `application_credential_secret`)",
                login.origin
            ))),
        }
    }

    fn driver(&self, settings: &Settings) -> Result<Driver> {
        Driver::with_login(self.login.clone(), settings.clone(), Caller::Person)
    }

    pub(super) async fn access(&self, settings: &Settings) -> Result<Access> {
        let (user, credential) = match &self.credential {
            Named::Id(id) => (None, id),
            // A name is its owner's.
            Named::Name(name) => {
                let user = self.driver(settings)?.client.session.token().await?.user_id.clone();
                (Some(user), name)
            }
        };
        Ok(access(&self.login, user, credential.clone(), self.secret.clone(), settings))
    }

    pub(super) fn credential(&self) -> &Named {
        &self.credential
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_not_for_the_control_node() {
        let refused = ControlLogin::new(Login::test("https://id.example.org/v3")).err().unwrap();
        assert_eq!(
            refused.to_string(),
            "the test: `control_credential` must be an application credential (`application_credential_id` and \
             `application_credential_secret`)"
        );
    }
}
