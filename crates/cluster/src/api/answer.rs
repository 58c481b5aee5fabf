//! The shape of the API server's answers, which may come from another program: each answer is an object, and so are the
//! items of a list.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Reads an answer, which is an object in the whole API.
pub(crate) fn object<T: DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    // serde also reads lists as structs.
    let is_object = body.trim_ascii_start().starts_with(b"{");
    match serde_json::from_slice(body) {
        Ok(object) if is_object => Ok(object),
        // Then the shape of the body is the fault.
        Ok(_) => Err(described(body, "")),
        Err(error) => Err(described(body, &place(&error))),
    }
}

/// Reads the objects of a list; an empty list may have `null`.
pub(crate) fn list<T: DeserializeOwned>(body: &[u8]) -> Result<Vec<T>, String> {
    #[derive(Deserialize)]
    struct List<T> {
        items: Option<Vec<T>>,
    }
    Ok(object::<List<T>>(body)?.items.unwrap_or_default())
}

/// Where serde stopped. Its message may quote a value, which may be that of a Secret.
fn place(error: &serde_json::Error) -> String {
    format!("line {}, column {}", error.line(), error.column())
}

/// Describes a response that could not be read. `place` is where serde stopped.
fn described(body: &[u8], place: &str) -> String {
    let answer: Value = match serde_json::from_slice(body) {
        Ok(answer) => answer,
        Err(error) => return format!("the response is not valid JSON: {error}"),
    };
    if !answer.is_object() {
        return format!(
            "the response is {}, expected a JSON object; check that the address is that of an API server",
            shape(&answer)
        );
    }
    let items = match &answer["items"] {
        Value::Null => &Vec::new(),
        Value::Array(items) => items,
        other => {
            let found = shape(other);
            return format!("`items` of the response is {found}, expected a list");
        }
    };
    match items.iter().find(|item| !item.is_object()) {
        Some(other) => format!(
            "an item of the response is {}, expected an object",
            shape(other)
        ),
        None => format!("the response lacks a field, or has one of another type: {place}"),
    }
}

/// What a JSON value is.
fn shape(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Secret;
    use serde_json::json;

    #[test]
    fn an_answer_of_another_shape_is_described() {
        #[derive(Debug, PartialEq, Deserialize)]
        struct Pod {
            metadata: Value,
        }
        let read = |text: &str| list::<Pod>(text.as_bytes());
        let metadata = json!({"name": "a"});
        let text = json!({"items": [{"metadata": metadata}]}).to_string();
        assert_eq!(read(&text), Ok(vec![Pod { metadata }]));
        for empty in ["{}", r#"{"items": null}"#, r#" {"items": []}"#] {
            assert_eq!(read(empty), Ok(Vec::new()), "{empty}");
        }
        for (text, part) in [
            ("[1]", "is a list, expected a JSON object"),
            ("[]", "is a list, expected a JSON object"),
            ("null", "is null, expected"),
            ("<html>", "is not valid JSON"),
            ("", "is not valid JSON"),
            (r#"{"items": {}}"#, "`items` of the response is an object"),
            (r#"{"items": [null]}"#, "an item of the response is null"),
            (
                r#"{"items": [{"metadata": {}}, "a"]}"#,
                "an item of the response is a text, expected an object",
            ),
            (
                r#"{"items": [{}]}"#,
                "lacks a field, or has one of another type: line 1, column 13",
            ),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
            if !text.starts_with('{') {
                assert_eq!(object::<Value>(text.as_bytes()), Err(error));
            }
        }
    }

    #[test]
    fn a_value_of_an_answer_is_never_quoted() {
        for body in [
            r#"{"data": {"password": "hush-hush!"}}"#,
            r#"{"data": "hush-hush!"}"#,
            r#"{"type": {"hush-hush!": 1}}"#,
        ] {
            let error = object::<Secret>(body.as_bytes()).unwrap_err();
            assert!(error.contains("another type: line 1, column "), "{error}");
            assert!(!error.contains("hush") && !error.contains('!'), "{error}");
        }
    }
}
