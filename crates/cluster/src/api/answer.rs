//! The shape of the API server's answers, which may come from another program: what the client returns is an object, and
//! so are the items of a list.

use serde_json::Value;

/// Reads an answer, which is an object in the whole API.
pub(crate) fn object(body: &[u8]) -> Result<Value, String> {
    match serde_json::from_slice(body) {
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(other) => Err(format!(
            "the response is {}, expected a JSON object; check that the address is that of an API server",
            shape(&other)
        )),
        Err(error) => Err(format!("the response is not valid JSON: {error}")),
    }
}

/// The objects of a list; an empty list may have `null`.
pub(crate) fn items(mut list: Value) -> Result<Vec<Value>, String> {
    let items = match list.get_mut("items").map(Value::take) {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(items)) => items,
        Some(other) => {
            let found = shape(&other);
            return Err(format!(
                "`items` of the response is {found}, expected a list"
            ));
        }
    };
    match items.iter().find(|item| !item.is_object()) {
        None => Ok(items),
        Some(other) => Err(format!(
            "an item of the response is {}, expected an object",
            shape(other)
        )),
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
    use serde_json::json;

    #[test]
    fn an_answer_of_another_shape_is_described() {
        let read = |text: &str| object(text.as_bytes()).map(items);
        let pod = json!({"metadata": {"name": "a"}});
        let list = json!({"items": [pod]}).to_string();
        assert_eq!(read(&list), Ok(Ok(vec![pod])));
        for empty in ["{}", r#"{"items": null}"#, r#"{"items": []}"#] {
            assert_eq!(read(empty), Ok(Ok(Vec::new())), "{empty}");
        }
        for (text, part) in [
            ("[1]", "is a list, expected a JSON object"),
            ("null", "is null, expected"),
            ("<html>", "is not valid JSON"),
            ("", "is not valid JSON"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
        for (text, part) in [
            (r#"{"items": {}}"#, "`items` of the response is an object"),
            (r#"{"items": [null]}"#, "an item of the response is null"),
            (
                r#"{"items": [{}, "a"]}"#,
                "an item of the response is a text, expected an object",
            ),
        ] {
            let error = read(text).unwrap().unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
