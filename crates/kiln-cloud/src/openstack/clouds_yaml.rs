//! `clouds.yaml` and its companions: where they are, how they are put together, what an entry says.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::login::{Environment, Facts, Login, build};
use crate::{Error, Result};

pub(super) fn from_files(name: &str, environment: Environment<'_>) -> Result<Login> {
    let Some(path) = first_file("clouds", "OS_CLIENT_CONFIG_FILE", environment) else {
        return Err(Error::unsupported(format!(
            "cloud `{name}`: there is no clouds.yaml in this directory, in ~/.config/openstack or in \
             /etc/openstack, and OS_CLIENT_CONFIG_FILE names none"
        )));
    };
    let mut file = read_yaml(&path)?;
    if let Some(secure) = first_file("secure", "OS_CLIENT_SECURE_FILE", environment) {
        merge(&mut file, read_yaml(&secure)?);
    }
    let clouds = file.get("clouds").and_then(Value::as_object).cloned().unwrap_or_default();
    let Some(entry) = clouds.get(name) else {
        let all: Vec<&str> = clouds.keys().map(String::as_str).collect();
        return Err(Error::unsupported(format!(
            "there is no cloud `{name}` in {}; it has {}",
            path.display(),
            if all.is_empty() { "none".to_string() } else { all.join(", ") }
        )));
    };
    let entry = with_profile(entry, environment)?;
    let origin = format!("cloud `{name}` of {}", path.display());
    from_entry(&entry, origin, path.parent().unwrap_or(Path::new(".")), environment)
}

#[cfg(any(test, feature = "testing"))]
pub(crate) fn read_clouds_yaml(path: &Path, cloud: &str) -> Result<()> {
    let file = path.display().to_string();
    from_files(cloud, &|name| (name == "OS_CLIENT_CONFIG_FILE").then(|| file.clone())).map(|_| ())
}

/// A vendor's part of an entry, kept in a file of its own.
fn with_profile(entry: &Value, environment: Environment<'_>) -> Result<Value> {
    let profile = entry.get("profile").or_else(|| entry.get("cloud")).and_then(Value::as_str);
    let (Some(profile), Some(path)) = (profile, first_file("clouds-public", "", environment)) else {
        return Ok(entry.clone());
    };
    let mut public = read_yaml(&path)?;
    let mut below = public["public-clouds"][profile].take();
    merge(&mut below, entry.clone());
    Ok(below)
}

fn first_file(stem: &str, variable: &str, environment: Environment<'_>) -> Option<PathBuf> {
    let named = environment(variable).map(PathBuf::from);
    let home = environment("XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .or_else(|| environment("HOME").map(|home| PathBuf::from(home).join(".config")))
        .map(|config| config.join("openstack"));
    let directories = [Some(PathBuf::from(".")), home, Some("/etc/openstack".into())];
    let usual = directories.into_iter().flatten().flat_map(|directory| {
        ["yaml", "yml", "json"].map(|suffix| directory.join(format!("{stem}.{suffix}")))
    });
    named.into_iter().chain(usual).find(|path| path.is_file())
}

fn read_yaml(path: &Path) -> Result<Value> {
    let unreadable = format!("{} cannot be read", path.display());
    let text = std::fs::read_to_string(path).map_err(|e| Error::unsupported(&unreadable).because(e))?;
    // The parser's own message quotes the line, which may hold a password.
    serde_saphyr::from_str(&text).map_err(|error| {
        let line = error.location().map(|at| format!(" in line {}", at.line())).unwrap_or_default();
        Error::unsupported(format!("{unreadable}: it is not YAML{line}"))
    })
}

/// Puts `over` on top of `base`, table by table.
fn merge(base: &mut Value, over: Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (key, value) in over {
                merge(base.entry(key).or_insert(Value::Null), value);
            }
        }
        (base, over) => *base = over,
    }
}

fn from_entry(
    entry: &Value,
    origin: String,
    directory: &Path,
    environment: Environment<'_>,
) -> Result<Login> {
    let text = |value: Option<&Value>| match value {
        Some(Value::String(text)) if !text.is_empty() => Some(text.clone()),
        Some(Value::Number(number)) => Some(number.to_string()),
        _ => None,
    };
    // Some write the keys of `auth` beside it.
    let auth = |key: &str| text(entry.get("auth").and_then(|a| a.get(key))).or_else(|| text(entry.get(key)));
    let of = |key: &str| text(entry.get(key));
    let verify = !matches!(entry.get("verify"), Some(Value::Bool(false)))
        && !matches!(entry.get("insecure"), Some(Value::Bool(true)));
    // As with the official client, the variable goes before the file.
    let ca = environment("OS_CACERT").map(|path| expand_home(&path));
    let ca = ca.or_else(|| of("cacert").map(|path| directory.join(expand_home(&path))));
    let region = of("region_name").or_else(|| match entry.get("regions").and_then(Value::as_array) {
        Some(regions) if regions.len() == 1 => text(regions.first()),
        _ => None,
    });
    let overrides = entry.as_object().into_iter().flatten().filter_map(|(key, value)| {
        let service = key.strip_suffix("_endpoint_override")?;
        Some((service.to_string(), value.as_str()?.to_string()))
    });
    let interface = of("interface").or_else(|| of("endpoint_type"));
    build(&Facts {
        auth: &auth,
        auth_type: of("auth_type"),
        region,
        interface,
        ca,
        verify,
        overrides: overrides.collect(),
        origin,
    })
}

pub(super) fn expand_home(path: &str) -> PathBuf {
    match (path.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Some(rest), Some(home)) => PathBuf::from(home).join(rest),
        _ => PathBuf::from(path),
    }
}
