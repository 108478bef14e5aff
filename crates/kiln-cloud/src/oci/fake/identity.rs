//! Tags, dynamic groups and policies.

use serde_json::{Value, json};

use super::answer::{Answer, Outcome, invalid, lacks, not_found, refuse};
use super::route::Request;
use super::world::{Resource, World, check_tags, now};
use super::{COMPARTMENT, TENANCY};

/// Collection, the word in its ids, and what a new one must say.
const MADE: &[(&str, &str, &[&str])] = &[
    ("tagNamespaces", "tagnamespace", &["compartmentId", "name", "description"]),
    ("dynamicGroups", "dynamicgroup", &["compartmentId", "name", "description", "matchingRule"]),
    ("policies", "policy", &["compartmentId", "name", "description", "statements"]),
];

pub fn is_kind(collection: &str) -> bool {
    MADE.iter().any(|(kind, ..)| *kind == collection)
}

pub fn route(world: &mut World, request: &Request<'_>, parts: &[&str]) -> Outcome {
    let found = MADE.iter().find(|(kind, ..)| Some(kind) == parts.first());
    let (kind, word, needed) = *found.ok_or_else(not_found)?;
    if world.no_identity && request.method != "GET" {
        return Err(not_found());
    }
    match (request.method.as_str(), parts) {
        ("GET", [_]) => list(world, request, kind),
        ("POST", [_]) => create(world, request, kind, word, needed),
        ("GET", ["tagNamespaces", id, "tags"]) => {
            world.need(kind, id)?;
            let all: Vec<Value> = (world.list("tags").iter())
                .filter(|tag| tag.value["tagNamespaceId"] == *id)
                .map(|tag| without(&tag.value, &["tagNamespaceId", "tagNamespaceName"]))
                .collect();
            Ok(world.cut(&all, request))
        }
        ("POST", ["tagNamespaces", id, "tags"]) => create_tag(world, request, id),
        ("PUT", [_, id]) => {
            world.need(kind, id)?;
            for field in ["description", "matchingRule", "statements"] {
                if let Some(value) = request.body.get(field) {
                    world.set(kind, id, field, value.clone());
                }
            }
            world.need(kind, id).map(Resource::show)
        }
        ("DELETE", ["dynamicGroups" | "policies", id]) => {
            world.need(kind, id)?;
            world.set(kind, id, "lifecycleState", json!("DELETED"));
            Ok(Answer::empty())
        }
        _ => Err(not_found()),
    }
}

fn list(world: &World, request: &Request<'_>, kind: &str) -> Outcome {
    let compartment = request.query.get("compartmentId").ok_or_else(|| lacks("compartmentId"))?;
    if ![COMPARTMENT, TENANCY].contains(&compartment.as_str()) {
        return Err(not_found());
    }
    let name = request.query.get("name");
    let all: Vec<Value> = (world.list(kind).iter())
        .filter(|one| one.is_there() && one.value["compartmentId"] == compartment.as_str())
        .filter(|one| name.is_none_or(|name| one.value["name"] == name.as_str()))
        .map(|one| one.value.clone())
        .collect();
    Ok(world.cut(&all, request))
}

fn create(
    world: &mut World,
    request: &Request<'_>,
    kind: &'static str,
    word: &str,
    needed: &[&str],
) -> Outcome {
    if let Some(missing) = needed.iter().find(|field| request.body.get(**field).is_none()) {
        return Err(lacks(missing));
    }
    let compartment = request.text("compartmentId")?.to_string();
    let place = if kind == "policies" { COMPARTMENT } else { TENANCY };
    if compartment != place {
        return Err(not_found());
    }
    check_tags(&request.body)?;
    let name = request.text("name")?.to_string();
    let is_taken = |one: &Resource| one.is_there() && one.value["name"] == name.as_str();
    if world.list(kind).iter().any(is_taken) {
        return Err(refuse(409, "EntityAlreadyExists", format!("{name} already exists")));
    }
    if kind == "policies" {
        check_statements(world, &request.body["statements"])?;
    }
    let mut value = common(world, word, &request.body);
    for field in needed {
        value[*field] = request.body[*field].clone();
    }
    if kind == "tagNamespaces" {
        value["isRetired"] = json!(false);
    }
    let id = world.add(kind, value);
    world.remember(request, kind, &id);
    world.need(kind, &id).map(Resource::show)
}

/// That each is a statement about a group that exists, in the compartment that the policy is of.
fn check_statements(world: &World, statements: &Value) -> Result<(), Answer> {
    let all = statements.as_array().filter(|all| !all.is_empty()).ok_or_else(|| lacks("statements"))?;
    for statement in all {
        let text = statement.as_str().unwrap_or_default();
        let words: Vec<&str> = text.split(' ').collect();
        let ["Allow", "dynamic-group", group, "to", "manage" | "use" | "read" | "inspect", _, place @ ..] =
            words.as_slice()
        else {
            return Err(invalid(format!("statement: {text}")));
        };
        let is_known = |one: &Resource| one.is_there() && one.value["name"] == *group;
        if !world.list("dynamicGroups").iter().any(is_known) {
            return Err(invalid(format!("no dynamic group {group}")));
        }
        if place != ["in", "compartment", "id", COMPARTMENT] {
            return Err(invalid(format!("statement: {text}")));
        }
    }
    Ok(())
}

fn create_tag(world: &mut World, request: &Request<'_>, space: &str) -> Outcome {
    let parent = world.need("tagNamespaces", space)?.value.clone();
    let (name, description) = (request.text("name")?.to_string(), request.text("description")?.to_string());
    let mut value = common(world, "tagdefinition", &request.body);
    for (field, new) in [
        ("compartmentId", parent["compartmentId"].clone()),
        ("tagNamespaceId", json!(space)),
        ("tagNamespaceName", parent["name"].clone()),
        ("name", json!(name)),
        ("description", json!(description)),
        ("isRetired", json!(false)),
    ] {
        value[field] = new;
    }
    let id = world.add("tags", value);
    world.need("tags", &id).map(Resource::show)
}

fn common(world: &mut World, word: &str, body: &Value) -> Value {
    json!({
        "id": world.ocid(word), "lifecycleState": "ACTIVE", "timeCreated": now(), "definedTags": {},
        "freeformTags": body.get("freeformTags").cloned().unwrap_or(json!({})),
    })
}

fn without(value: &Value, fields: &[&str]) -> Value {
    let mut value = value.clone();
    if let Some(object) = value.as_object_mut() {
        object.retain(|field, _| !fields.contains(&field.as_str()));
    }
    value
}

/// Tags of a launch have to be defined.
pub fn check_defined(world: &World, body: &Value) -> Result<(), Answer> {
    let spaces = body.get("definedTags").and_then(Value::as_object).into_iter().flatten();
    for (space, tags) in spaces {
        for tag in tags.as_object().into_iter().flatten().map(|(tag, _)| tag) {
            let is_it = |one: &Resource| {
                one.value["tagNamespaceName"] == space.as_str() && one.value["name"] == tag.as_str()
            };
            if !world.list("tags").iter().any(is_it) {
                return Err(invalid(format!("The tag {space}.{tag} does not exist")));
            }
        }
    }
    Ok(())
}

/// What policies give to the groups that some control node is in by its tag.
pub fn statements_for_instances(world: &World) -> Vec<String> {
    let there = |kind: &str| world.list(kind).iter().filter(|r| r.is_there()).map(|r| &r.value).collect();
    let (groups, policies, instances): (Vec<&Value>, Vec<&Value>, Vec<&Value>) =
        (there("dynamicGroups"), there("policies"), there("instances"));
    let mut given = Vec::new();
    for group in groups {
        let rule = group["matchingRule"].as_str().unwrap_or_default();
        let is_in = |instance: &&Value| {
            let cluster = instance["definedTags"]["kiln"]["control"].as_str();
            cluster.is_some_and(|cluster| rule.contains(&format!("tag.kiln.control.value = '{cluster}'")))
        };
        if !instances.iter().any(is_in) {
            continue;
        }
        let named = format!("dynamic-group {} ", group["name"].as_str().unwrap_or_default());
        let all = policies.iter().filter_map(|policy| policy["statements"].as_array()).flatten();
        given.extend(all.filter_map(Value::as_str).filter(|text| text.contains(&named)).map(String::from));
    }
    given
}
