//! Encodes JSON as Protobuf messages.

use anyhow::{Context, bail};
use base64::Engine as _;
use prost_reflect::prost::Message as _;
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MessageDescriptor, MethodDescriptor};
use serde_json::Value;

use super::unknown;

/// Returns the JSON values in `text`: one, or several in a row (NDJSON).
///
/// # Errors
/// Invalid JSON, with line and column.
pub(crate) fn values(text: &str) -> anyhow::Result<Vec<Value>> {
    let read = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    read.collect::<Result<Vec<_>, _>>().context(
        "expected JSON: one message, several in a row (one a line), or an array of messages",
    )
}

/// Returns the messages that `values` are: the values, or those of a single array, unless an array
/// is one message of this kind.
fn messages<'a>(kind: &MessageDescriptor, values: &'a [Value]) -> &'a [Value] {
    let lists = ["google.protobuf.ListValue", "google.protobuf.Value"];
    match values {
        [Value::Array(inner)] if !lists.contains(&kind.full_name()) => inner,
        _ => values,
    }
}

/// Encodes the request messages of `method` in base64, for a load specification.
///
/// # Errors
/// An unknown field (with the nearest known one), a value of a wrong type, several messages for a
/// method that takes one.
pub(crate) fn encode(method: &MethodDescriptor, values: &[Value]) -> anyhow::Result<Vec<String>> {
    let values = messages(&method.input(), values);
    if values.is_empty() || (values.len() > 1 && !method.is_client_streaming()) {
        let expected = match method.is_client_streaming() {
            true => "at least one",
            false => "exactly one, because the client of this method does not stream",
        };
        bail!(
            "{}: found {} messages, expected {expected}",
            method.full_name(),
            values.len()
        );
    }
    let encoded = values.iter().enumerate().map(|(i, value)| {
        let place = match values.len() {
            1 => String::new(),
            _ => format!("message {}: ", i + 1),
        };
        let bytes = message(&method.input(), value)
            .with_context(|| format!("{place}invalid {}", method.input().full_name()))?;
        Ok(base64::engine::general_purpose::STANDARD.encode(bytes))
    });
    encoded.collect()
}

fn message(kind: &MessageDescriptor, value: &Value) -> anyhow::Result<Vec<u8>> {
    check(kind, value, "")?;
    let message = DynamicMessage::deserialize(kind.clone(), value.clone())?;
    Ok(message.encode_to_vec())
}

/// Checks that all fields are known. An error of the decoder would have neither the place nor the
/// nearest known field.
fn check(kind: &MessageDescriptor, value: &Value, place: &str) -> anyhow::Result<()> {
    // These types have special forms in JSON.
    if kind.full_name().starts_with("google.protobuf.") {
        return Ok(());
    }
    let Value::Object(fields) = value else {
        let place = place.trim_end_matches('.');
        bail!(
            "found {value} for {}{}, expected an object",
            kind.name(),
            match place {
                "" => String::new(),
                place => format!(" at {place}"),
            }
        );
    };
    for (name, value) in fields {
        let known = kind.get_field_by_json_name(name);
        let Some(field) = known.or_else(|| kind.get_field_by_name(name)) else {
            let known: Vec<String> = kind.fields().map(|f| f.json_name().to_owned()).collect();
            let problem = unknown("field", name, &known);
            match place.trim_end_matches('.') {
                "" => bail!("{problem}"),
                place => bail!("at {place}: {problem}"),
            }
        };
        let place = format!("{place}{name}.");
        check_value(&field, value, &place)?;
    }
    Ok(())
}

fn check_value(field: &FieldDescriptor, value: &Value, place: &str) -> anyhow::Result<()> {
    let Kind::Message(kind) = field.kind() else {
        return Ok(());
    };
    match value {
        Value::Null => Ok(()),
        Value::Object(entries) if field.is_map() => {
            let Kind::Message(kind) = kind.map_entry_value_field().kind() else {
                return Ok(());
            };
            let mut entries = entries.iter();
            entries.try_for_each(|(key, value)| check(&kind, value, &format!("{place}{key}.")))
        }
        Value::Array(items) if field.is_list() => {
            let mut items = items.iter();
            items.try_for_each(|item| check(&kind, item, place))
        }
        // The decoder rejects any other value, and names its type.
        _ if field.is_list() || field.is_map() => Ok(()),
        value => check(&kind, value, place),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost_reflect::DescriptorPool;

    const SOURCE: &str = r#"
        syntax = "proto3";
        package shop.v1;
        message Item { string name = 1; uint32 number = 2; }
        message Order {
            string customer_id = 1;
            repeated Item items = 2;
            map<string, Item> extras = 3;
        }
        message Done {}
        service Orders {
            rpc Place(Order) returns (Done);
            rpc Upload(stream Order) returns (Done);
        }
    "#;

    fn pool() -> DescriptorPool {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("shop.proto");
        std::fs::write(&file, SOURCE).unwrap();
        super::super::from_proto(&file, &[]).unwrap()
    }

    fn encoded(method: &str, json: &str) -> anyhow::Result<Vec<String>> {
        let service = super::super::service(&pool(), "shop.v1.Orders")?;
        encode(&super::super::method(&service, method)?, &values(json)?)
    }

    fn error(method: &str, json: &str) -> String {
        format!("{:#}", encoded(method, json).unwrap_err())
    }

    #[test]
    fn json_becomes_the_bytes_of_the_message() {
        let json = r#"{"customerId": "x", "items": [{"name": "a", "number": 3}]}"#;
        let bytes = b"\x0a\x01x\x12\x05\x0a\x01a\x10\x03";
        let expected = [base64::engine::general_purpose::STANDARD.encode(bytes)];
        assert_eq!(encoded("Place", json).unwrap(), expected);
        let by_proto_name = json.replace("customerId", "customer_id");
        assert_eq!(encoded("Place", &by_proto_name).unwrap(), expected);
    }

    #[test]
    fn several_messages_come_in_a_row_or_as_an_array() {
        for json in ["{}\n{}\n", "[{}, {}]"] {
            assert_eq!(encoded("Upload", json).unwrap(), ["", ""]);
        }
        assert!(error("Place", "[{}, {}]").contains("found 2 messages, expected exactly one"));
        assert!(error("Upload", "[]").contains("at least one"));
    }

    #[test]
    fn an_unknown_field_is_reported_with_its_place_and_the_nearest_known_one() {
        let top = error("Place", r#"{"custmer_id": "x"}"#);
        assert!(top.contains("customerId"), "{top}");
        let deep = error("Place", r#"{"items": [{}, {"nam": "x"}]}"#);
        assert!(
            deep.contains("at items: ") && deep.contains("did you mean name?"),
            "{deep}"
        );
        let map = error("Place", r#"{"extras": {"k": {"numbr": 1}}}"#);
        assert!(
            map.contains("at extras.k: ") && map.contains("\"numbr\""),
            "{map}"
        );
        assert!(error("Place", r#"{"items": [{"number": "x"}]}"#).contains("Order"));
        assert!(error("Place", "3").contains("expected an object"));
        assert!(error("Place", "{").contains("expected JSON"));
        let method = error("Plaec", "{}");
        assert!(method.contains("did you mean Place?"), "{method}");
    }
}
