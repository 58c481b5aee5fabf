//! The TypeScript types of the front end are generated from the JSON Schemas of
//! [`Summary`] and [`tare_report::Details`]. To write them again after a change:
//! `TARE_UPDATE=1 cargo test -p tare-report --test web_types`.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;
use tare_model::summary::Summary;

const SOURCES: &str = "../../web/src";

#[test]
fn types_of_the_front_end_are_those_of_the_summary() {
    let schema = schemars::schema_for!(Summary).to_value();
    assert_current(
        "summary.ts",
        &generate("Summary", "`summary.json`", &schema),
    );
}

#[test]
fn types_of_the_front_end_are_those_of_the_details() {
    let schema = schemars::schema_for!(tare_report::Details).to_value();
    let found = generate("Details", "the page's details", &schema);
    assert_current("details.ts", &found);
}

fn assert_current(file: &str, generated: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join(SOURCES)
        .join(file);
    if std::env::var_os("TARE_UPDATE").is_some() {
        std::fs::write(&path, generated).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == generated,
        "web/src/{file} is out of date: run with TARE_UPDATE=1"
    );
}

fn generate(name: &str, of: &str, schema: &Value) -> String {
    let mut out = format!(
        "// Generated from the JSON Schema of {of} by crates/report/tests/web_types.rs.\n\n"
    );
    declare(&mut out, name, schema);
    for (name, definition) in schema["$defs"].as_object().unwrap() {
        declare(&mut out, name, definition);
    }
    out
}

fn declare(out: &mut String, name: &str, schema: &Value) {
    if schema.get("properties").is_none() {
        writeln!(out, "export type {name} = {};\n", type_of(schema)).unwrap();
        return;
    }
    writeln!(out, "export interface {name} {{").unwrap();
    let required: BTreeSet<&str> = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    for (field, type_schema) in schema["properties"].as_object().unwrap() {
        // An `Option` is always written, as null.
        let nullable = type_of(type_schema).ends_with("| null");
        let mark = if required.contains(field.as_str()) || nullable {
            ""
        } else {
            "?"
        };
        writeln!(out, "  {field}{mark}: {};", type_of(type_schema)).unwrap();
    }
    out.push_str("}\n\n");
}

fn type_of(schema: &Value) -> String {
    if *schema == Value::Bool(true) {
        return "unknown".to_owned(); // any JSON, as Helm values
    }
    if let Some(reference) = schema["$ref"].as_str() {
        return reference.rsplit('/').next().unwrap().to_owned();
    }
    if let Some(word) = schema.get("const") {
        return word.to_string();
    }
    for key in ["oneOf", "anyOf"] {
        if let Some(options) = schema[key].as_array() {
            return union(options.iter().map(type_of));
        }
    }
    if let Some(words) = schema["enum"].as_array() {
        return union(words.iter().map(Value::to_string));
    }
    match &schema["type"] {
        Value::Array(types) => union(types.iter().map(|t| plain(t.as_str().unwrap(), schema))),
        Value::String(name) => plain(name, schema),
        other => panic!("no TypeScript for {other} in {schema}"),
    }
}

fn union(types: impl Iterator<Item = String>) -> String {
    types.collect::<Vec<_>>().join(" | ")
}

fn plain(name: &str, schema: &Value) -> String {
    match name {
        "integer" | "number" => "number".to_owned(),
        "boolean" | "string" | "null" => name.to_owned(),
        "array" if schema.get("prefixItems").is_some() => {
            let items = schema["prefixItems"].as_array().unwrap();
            let items: Vec<String> = items.iter().map(type_of).collect();
            format!("[{}]", items.join(", "))
        }
        "array" => {
            let item = type_of(&schema["items"]);
            if item.contains('|') {
                format!("({item})[]")
            } else {
                format!("{item}[]")
            }
        }
        "object" if schema.get("properties").is_some() => {
            let fields = schema["properties"].as_object().unwrap();
            let fields: Vec<String> = fields
                .iter()
                .map(|(k, v)| format!("{k}: {}", type_of(v)))
                .collect();
            format!("{{ {} }}", fields.join("; "))
        }
        "object" => {
            let of = schema.get("additionalProperties").or_else(|| {
                schema["patternProperties"]
                    .as_object()
                    .and_then(|p| p.values().next())
            });
            let keys = schema["propertyNames"]["$ref"]
                .as_str()
                .map_or("string", |r| r.rsplit('/').next().unwrap());
            match of {
                Some(of) if of.is_object() || *of == Value::Bool(true) => {
                    format!("Partial<Record<{keys}, {}>>", type_of(of))
                }
                _ => map_by_names(schema),
            }
        }
        other => panic!("no TypeScript for {other}"),
    }
}

fn map_by_names(schema: &Value) -> String {
    panic!("no TypeScript for the object {schema}")
}
