//! A file of an agent: one value, or a YAML tree of strings.

use broker_domain::Error;

use super::profile::{AgentValue, invalid, is_word};
use crate::text::quoted;

/// The content of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentFile(pub(crate) Content);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Content {
    /// The value alone, without a line end.
    Text(AgentValue),
    /// A tree of strings.
    Yaml(Vec<Field>),
}

/// A field of a YAML file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) key: String,
    pub(crate) node: Node,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Node {
    Value(AgentValue),
    Fields(Vec<Field>),
}

impl AgentFile {
    /// A file with this value and nothing else.
    pub fn text(value: impl Into<AgentValue>) -> Self {
        Self(Content::Text(value.into()))
    }

    /// A YAML file of strings. A key is a path: `api.base_url` is the field `base_url` of `api`.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidInput`] when a key is malformed, occurs twice, or is both a string and an object.
    pub fn yaml<'a>(
        fields: impl IntoIterator<Item = (&'a str, AgentValue)>,
    ) -> Result<Self, Error> {
        let mut root = Vec::new();
        for (path, value) in fields {
            let steps: Vec<_> = path.split('.').collect();
            if !steps.iter().all(|step| is_word(step)) {
                let problem = "use letters, digits, - and _, with dots between objects";
                return Err(invalid("file", format!("key {} is invalid; {problem}", quoted(path))));
            }
            if !insert(&mut root, &steps, value) {
                let problem = "is given twice, or is both a string and an object";
                return Err(invalid("file", format!("key {} {problem}", quoted(path))));
            }
        }
        Ok(Self(Content::Yaml(root)))
    }

    /// The places of the token: empty for the whole file, else the path of a field.
    pub(super) fn token_keys(&self) -> Vec<String> {
        match &self.0 {
            Content::Text(value) => value.is_token().then(String::new).into_iter().collect(),
            Content::Yaml(fields) => fields.iter().flat_map(Field::token_keys).collect(),
        }
    }
}

impl Field {
    fn token_keys(&self) -> Vec<String> {
        match &self.node {
            Node::Value(value) => value.is_token().then(|| self.key.clone()).into_iter().collect(),
            Node::Fields(fields) => {
                let below = fields.iter().flat_map(Self::token_keys);
                below.map(|key| format!("{}.{key}", self.key)).collect()
            }
        }
    }
}

/// Whether the field is new and its parents are objects.
fn insert(fields: &mut Vec<Field>, path: &[&str], value: AgentValue) -> bool {
    let Some((key, rest)) = path.split_first() else { return false };
    let existing = fields.iter_mut().find(|field| field.key == *key);
    match (existing, rest) {
        (None, []) => {
            fields.push(Field { key: (*key).to_owned(), node: Node::Value(value) });
            true
        }
        (None, rest) => {
            let mut below = Vec::new();
            let inserted = insert(&mut below, rest, value);
            fields.push(Field { key: (*key).to_owned(), node: Node::Fields(below) });
            inserted
        }
        (Some(Field { node: Node::Fields(below), .. }), [_, ..]) => insert(below, rest, value),
        (Some(_), _) => false,
    }
}
