//! Answers of another shape than the API's.

use serde_json::{Value, json};

/// What replaces a part of an answer.
fn shapes() -> Vec<Value> {
    vec![
        json!(null),
        json!(true),
        json!(-1),
        json!(1e300),
        json!(u64::MAX),
        json!(""),
        json!("text"),
        json!([]),
        json!([null, 1, "text", [], {}]),
        json!({}),
        json!({"items": 1, "metadata": [], "spec": "text", "status": [1]}),
    ]
}

/// Numbers that look random, from a seed.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    /// Source: Steele, Lea and Flood, SplitMix64.
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n as u64) as usize
    }

    /// Replaces one part of every third answer, or the whole answer.
    pub(crate) fn change(&mut self, answer: &mut Value) {
        if self.below(3) > 0 {
            return;
        }
        let mut shapes = shapes();
        let shape = shapes.swap_remove(self.below(shapes.len()));
        let mut part = answer;
        // The deeper, the less often.
        while self.below(5) > 0 {
            let count = match &*part {
                Value::Array(list) => list.len(),
                Value::Object(map) => map.len(),
                _ => 0,
            };
            if count == 0 {
                break;
            }
            let at = self.below(count);
            part = match part {
                Value::Array(list) => &mut list[at],
                Value::Object(map) => map.values_mut().nth(at).unwrap(),
                _ => unreachable!("only lists and maps have parts"),
            };
        }
        *part = shape;
    }
}
