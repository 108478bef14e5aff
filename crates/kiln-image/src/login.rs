//! Users and passwords of package sources.

use kiln_wire::SecretText;

#[derive(Debug)]
pub(crate) struct Login {
    /// Which of the recipe's sources.
    pub source: usize,
    pub user: String,
    pub password: SecretText,
}

impl Login {
    /// Reads `USER:PASSWORD`. Package managers have no way to write a space in them.
    pub fn of(source: usize, text: &SecretText) -> Option<Login> {
        let (user, password) = text.expose_secret().trim_end_matches(['\r', '\n']).split_once(':')?;
        let is_plain =
            |part: &str| !part.is_empty() && !part.contains(|c: char| c.is_whitespace() || c.is_control());
        (is_plain(user) && is_plain(password)).then(|| Login {
            source,
            user: user.to_string(),
            password: password.into(),
        })
    }

    /// What somebody printed, without the password.
    pub fn hide(&self, text: &str) -> String {
        text.replace(self.password.expose_secret(), "***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_and_password_are_words() {
        let login = Login::of(0, &"me:a:b\n".into()).unwrap();
        assert_eq!((login.user.as_str(), login.password.expose_secret()), ("me", "a:b"));
        assert_eq!(login.hide("got a:b"), "got ***");
        for wrong in ["", "me", "me:", ":word", "me:a b", "me:a\nb"] {
            assert!(Login::of(0, &wrong.into()).is_none(), "{wrong:?}");
        }
    }
}
