//! Built-in plans: the files of `plans/`.

use std::sync::LazyLock;

use crate::builtin_files;
use crate::builtin_files::stem;
use crate::source::yaml_to_json;
use crate::text::nearest;

/// A built-in plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuiltinPlan {
    /// Name, such as `quick`: that of its file.
    pub name: &'static str,
    /// The plan's description, one line.
    pub description: String,
    /// The plan file with its comments, to start from.
    pub text: &'static str,
}

static BUILTINS: LazyLock<Vec<BuiltinPlan>> = LazyLock::new(|| {
    let plan = |(file, text): &(&'static str, &'static str)| {
        let json = yaml_to_json(file, text).unwrap_or_default();
        BuiltinPlan {
            name: stem(file),
            description: json["description"].as_str().unwrap_or_default().to_owned(),
            text,
        }
    };
    builtin_files::PLANS.iter().map(plan).collect()
});

/// All built-in plans, in alphabetical order.
#[must_use]
pub fn builtins() -> &'static [BuiltinPlan] {
    &BUILTINS
}

/// The built-in plan of that name.
#[must_use]
pub fn builtin(name: &str) -> Option<&'static BuiltinPlan> {
    builtins().iter().find(|b| b.name == name)
}

/// The built-in plan whose name is nearest to `name`, if `name` is likely a typo of it.
#[must_use]
pub fn nearest_builtin(name: &str) -> Option<&'static str> {
    nearest(name, builtins().iter().map(|b| b.name))
}
