//! Which keys there are: what unknown keys are held against, and how a path of
//! `--set` is understood.

/// The shape of a part of a file.
#[derive(Debug)]
pub(crate) enum Shape {
    /// One value.
    Scalar,
    /// One value or a list of them.
    Scalars,
    /// A list.
    List(&'static Self),
    /// A map with these keys. Where a single value may stand for the map, it is the
    /// value of the key `shorthand`.
    Map {
        keys: &'static [(&'static str, &'static Self)],
        shorthand: Option<&'static str>,
    },
    /// Known to somebody else.
    Any,
}

impl Shape {
    /// Names of the keys; empty but for maps.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &'static str> + Clone {
        let keys: &'static [(&'static str, &'static Self)] = match self {
            Self::Map { keys, .. } => keys,
            _ => &[],
        };
        keys.iter().map(|(name, _)| *name)
    }

    /// Shape of what stands under a key.
    pub(crate) fn under(&self, key: &str) -> Option<&'static Self> {
        match self {
            Self::Map { keys, .. } => keys.iter().find(|(k, _)| *k == key).map(|(_, s)| *s),
            Self::Any => Some(&Self::Any),
            _ => None,
        }
    }

    /// The key whose value may stand for the whole map.
    pub(crate) fn shorthand(&self) -> Option<&'static str> {
        match self {
            Self::Map { shorthand, .. } => *shorthand,
            _ => None,
        }
    }
}
