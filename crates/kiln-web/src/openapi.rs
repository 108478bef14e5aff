//! The description of the API: for programs as OpenAPI, for people as `docs/api.md`.

use std::fmt::Write as _;

use kiln_wire::dashboard::Role;
use serde_json::{Map, Value, json};

use crate::describe::Schemas;
use crate::routes::{Access, Answer, Method, QUESTIONS, Question, failure};

/// OpenAPI 3.1.
pub fn openapi() -> Value {
    let mut schemas = Schemas::new();
    let mut paths: Map<String, Value> = Map::new();
    for question in QUESTIONS {
        let method = method(question);
        let path = paths.entry(question.path).or_insert_with(|| json!({}));
        path[method.to_lowercase()] = operation(question, &mut schemas);
    }
    failure(&mut schemas);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Kiln",
            "description": "What kilnd knows of its cluster.",
            "version": env!("CARGO_PKG_VERSION"),
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "session": {"type": "apiKey", "in": "cookie", "name": "kiln-CLUSTER"},
            },
        },
    })
}

fn method(question: &Question) -> &'static str {
    match question.method {
        Method::Get => "GET",
        Method::Post => "POST",
    }
}

fn who(access: Access) -> &'static str {
    match access {
        Access::Everybody => "everybody",
        Access::Role(role) => role.word(),
    }
}

/// The parts of a path in braces.
fn places(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

fn operation(question: &Question, schemas: &mut Schemas) -> Value {
    let places = places(question.path).map(|name| {
        let kind = if name == "id" { "integer" } else { "string" };
        json!({"name": name, "in": "path", "required": true, "schema": {"type": kind}})
    });
    let query = question.query.iter().map(|(name, text)| {
        json!({"name": name, "in": "query", "required": false, "description": text, "schema": {"type": "string"}})
    });
    let (status, content) = match question.answer {
        Answer::Json(schema) => ("200", json!({"application/json": {"schema": schema(schemas)}})),
        Answer::Events(schema) => ("200", json!({"text/event-stream": {"schema": schema(schemas)}})),
        Answer::Text => ("200", json!({"text/plain": {"schema": {"type": "string"}}})),
        Answer::Nothing => ("204", Value::Null),
    };
    let mut responses = json!({
        "default": {
            "description": "Why there is no answer",
            "content": {"application/json": {"schema": failure(schemas)}},
        },
    });
    responses[status] = json!({"description": question.summary});
    if !content.is_null() {
        responses[status]["content"] = content;
    }
    let security = match question.access {
        Access::Everybody => json!([]),
        Access::Role(_) => json!([{"token": []}, {"session": []}]),
    };
    let mut operation = json!({
        "summary": question.summary,
        "description": format!("For: {}.", who(question.access)),
        "parameters": places.chain(query).collect::<Vec<_>>(),
        "responses": responses,
        "security": security,
    });
    if let Some(schema) = question.body {
        operation["requestBody"] =
            json!({"required": true, "content": {"application/json": {"schema": schema(schemas)}}});
    }
    operation
}

/// The part of `docs/api.md` that is made from the code.
pub fn markdown() -> String {
    let mut schemas = Schemas::new();
    let mut text =
        String::from("## Questions\n\n| question | for | answer | what it is |\n| --- | --- | --- | --- |\n");
    for question in QUESTIONS {
        let answer = match question.answer {
            Answer::Json(schema) => type_words(&schema(&mut schemas)),
            Answer::Events(schema) => format!("events of {}", type_words(&schema(&mut schemas))),
            Answer::Text => "text".into(),
            Answer::Nothing => "nothing".into(),
        };
        let body = question.body.map(|schema| format!(", with {}", type_words(&schema(&mut schemas))));
        let _ = writeln!(
            text,
            "| `{} {}`{} | {} | {answer} | {} |",
            method(question),
            question.path,
            body.unwrap_or_default(),
            who(question.access),
            question.summary
        );
    }
    failure(&mut schemas);
    text.push_str("\n## Parameters\n\n| question | parameter | what it does |\n| --- | --- | --- |\n");
    for question in QUESTIONS {
        for (name, words) in question.query {
            let _ = writeln!(text, "| `{}` | `{name}` | {words} |", question.path);
        }
    }
    text.push_str("\n## Types\n");
    for (name, schema) in &schemas {
        let _ = write!(text, "\n### {name}\n\n{}\n", words(schema));
        let Some(properties) = schema["properties"].as_object() else { continue };
        text.push_str("\n| field | type | what it is |\n| --- | --- | --- |\n");
        let order = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        for field in order {
            let property = &properties[field];
            let _ = writeln!(text, "| `{field}` | {} | {} |", type_words(property), words(property));
        }
    }
    let roles = Role::ALL.map(|role| format!("`{role}`")).join(" and ");
    format!("There are two roles, {roles}; the second may do all that the first may.\n\n{text}")
}

fn words(schema: &Value) -> &str {
    schema["description"].as_str().unwrap_or_default()
}

fn type_words(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        return format!("[{name}](#{})", name.to_lowercase());
    }
    if let Some(some) = schema["oneOf"].get(0) {
        return format!("{} or null", type_words(some));
    }
    let (kind, or_null) = match &schema["type"] {
        Value::Array(kinds) => (kinds[0].as_str().unwrap_or_default(), " or null"),
        kind => (kind.as_str().unwrap_or_default(), ""),
    };
    let kind = match kind {
        "array" => format!("list of {}", type_words(&schema["items"])),
        "object" if schema["additionalProperties"].is_object() => {
            format!("{} by name", type_words(&schema["additionalProperties"]))
        }
        "string" if schema["format"] == "date-time" => "time".into(),
        other => other.into(),
    };
    format!("{kind}{or_null}")
}
