//! Who somebody is here, by what the provider says of them.

use kiln_wire::OidcSettings;
use kiln_wire::dashboard::{Role, check_name};
use serde_json::{Map, Value};

use super::{Fault, plain};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person {
    pub name: String,
    pub role: Role,
}

pub fn of(settings: &OidcSettings, claims: &Map<String, Value>) -> Result<Person, Fault> {
    let name = values(claims, &settings.name)?;
    let name = name
        .first()
        .copied()
        .ok_or_else(|| Fault::NoName(format!("the ID token has no claim {}", settings.name)))?;
    check_name(name).map_err(Fault::NoName)?;
    let words = values(claims, &settings.claim)?;
    let has = |list: &[String]| list.iter().any(|word| words.contains(&word.as_str()));
    let role = if has(&settings.operators) {
        Some(Role::Operator)
    } else {
        has(&settings.viewers).then_some(Role::Viewer)
    };
    let is_named = settings.users.as_ref().is_none_or(|users| users.iter().any(|user| user == name));
    match role.filter(|_| is_named) {
        Some(role) => Ok(Person { name: name.into(), role }),
        None => Err(Fault::NoRole(plain(name))),
    }
}

/// A claim is a word or a list of words. Anybody can have a mail address that nobody has checked.
fn values<'c>(claims: &'c Map<String, Value>, name: &str) -> Result<Vec<&'c str>, Fault> {
    let is_checked = claims.get("email_verified") == Some(&Value::Bool(true));
    if name == "email" && claims.contains_key(name) && !is_checked {
        return Err(Fault::Untrusted("the mail address is not verified (email_verified)".into()));
    }
    Ok(match claims.get(name) {
        Some(Value::String(word)) => vec![word],
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn judged(change: impl FnOnce(&mut OidcSettings), claims: &Value) -> Result<(String, Role), Fault> {
        let mut settings = crate::lab::oidc("https://sso.example.org");
        change(&mut settings);
        of(&settings, claims.as_object().unwrap()).map(|person| (person.name, person.role))
    }

    #[test]
    fn groups_make_roles_and_the_greater_one_counts() {
        let with = |groups: Value| judged(|_| {}, &json!({"preferred_username": "ann", "groups": groups}));
        assert_eq!(with(json!(["users", "admins"])), Ok(("ann".into(), Role::Operator)));
        assert_eq!(with(json!("users")), Ok(("ann".into(), Role::Viewer)));
        for nothing in
            [json!(["Admins", "others"]), json!([]), json!(null), json!({"admins": true}), json!(1)]
        {
            assert_eq!(with(nothing.clone()), Err(Fault::NoRole("ann".into())), "{nothing}");
        }
    }

    #[test]
    fn only_those_who_are_named_where_some_are() {
        let named = |users: &[&str]| {
            let users = Some(users.iter().map(ToString::to_string).collect());
            judged(
                |settings| settings.users = users,
                &json!({"preferred_username": "ann", "groups": "admins"}),
            )
        };
        assert!(named(&["ann"]).is_ok());
        assert_eq!(named(&["bob"]), Err(Fault::NoRole("ann".into())));
        assert_eq!(named(&[]), Err(Fault::NoRole("ann".into())));
    }

    #[test]
    fn a_name_is_one_that_can_stand_in_events() {
        for claims in [json!({"groups": "admins"}), json!({"preferred_username": "a\nb", "groups": "admins"})]
        {
            assert!(matches!(judged(|_| {}, &claims), Err(Fault::NoName(_))), "{claims}");
        }
    }

    #[test]
    fn a_mail_address_counts_when_it_is_verified() {
        let mail = |verified: Value| {
            let claims = json!({"email": "ann@example.org", "email_verified": verified, "groups": "admins"});
            judged(|settings| settings.name = "email".into(), &claims)
        };
        assert_eq!(mail(json!(true)), Ok(("ann@example.org".into(), Role::Operator)));
        for verified in [json!(false), json!(null), json!("true")] {
            assert!(matches!(mail(verified), Err(Fault::Untrusted(_))));
        }
    }
}
