//! Crossplane's field paths in patches: `spec.list[0].x`, `spec.parameters["size"]`,
//! `metadata.annotations[example.org/a.b]`, and `[*]` for every entry.

/// A parsed path.
pub(super) struct FieldPath(Vec<Segment>);

#[derive(Debug, PartialEq, Eq)]
enum Segment {
    Field(String),
    Index,
    Every,
}

impl FieldPath {
    /// Parses a path; `None` if Crossplane rejects it.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut segments = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            if let Some(inner) = rest.strip_prefix('[') {
                let (name, after) = bracketed(inner)?;
                segments.push(Segment::bracketed(name)?);
                rest = after;
            } else {
                let rest_of_name = if segments.is_empty() { rest } else { rest.strip_prefix('.')? };
                let end = rest_of_name.find(['.', '[']).unwrap_or(rest_of_name.len());
                let (name, after) = rest_of_name.split_at(end);
                segments.push(Segment::field(name)?);
                rest = after;
            }
        }
        (!segments.is_empty()).then_some(Self(segments))
    }

    /// Whether reading this path reads the field at `path`: all of it, part of it, or an enclosing object.
    pub(super) fn reads(&self, path: &[&str]) -> bool {
        self.0.iter().zip(path).all(|(segment, name)| match segment {
            Segment::Field(field) => field == name,
            Segment::Index => false,
            Segment::Every => true,
        })
    }

    /// Whether this is exactly the path of the named fields.
    pub(super) fn is(&self, path: &[&str]) -> bool {
        self.0.len() == path.len()
            && self.0.iter().zip(path).all(|(segment, name)| match segment {
                Segment::Field(field) => field == name,
                Segment::Index | Segment::Every => false,
            })
    }
}

impl Segment {
    fn field(name: &str) -> Option<Self> {
        (!name.is_empty()).then(|| Self::Field(name.to_owned()))
    }

    fn bracketed(name: &str) -> Option<Self> {
        match name {
            "*" => Some(Self::Every),
            name if !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit()) => {
                Some(Self::Index)
            }
            name => Self::field(name.trim_matches(['\'', '"'])),
        }
    }
}

/// Splits at the closing bracket. A quoted name may contain a bracket.
fn bracketed(inner: &str) -> Option<(&str, &str)> {
    for quote in ['\'', '"'] {
        if let Some(quoted) = inner.strip_prefix(quote) {
            let end = quoted.find(quote)?;
            let after = quoted[end..].strip_prefix(quote)?.strip_prefix(']')?;
            return Some((&quoted[..end], after));
        }
    }
    inner.split_once(']')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_path_in_any_notation_reads_its_field() {
        let size: &[&str] = &["spec", "parameters", "size"];
        let rows: [(&str, &[&str], bool); 15] = [
            ("spec.parameters.size", size, true),
            ("spec.parameters[\"size\"]", size, true),
            ("spec.parameters['size']", size, true),
            ("spec.parameters[size]", size, true),
            ("spec[parameters].size", size, true),
            ("spec.parameters[*]", size, true),
            ("spec.parameters", size, true),
            ("spec.parameters.size.unit", size, true),
            ("spec.parameters.size[0].x", size, true),
            ("spec.parameters[0]", size, false),
            ("spec.parameters.sizes", size, false),
            ("spec.parameters[\"size.x\"]", size, false),
            ("status.parameters.size", size, false),
            ("spec.parameters[example.org/a.b]", &["spec", "parameters", "example.org/a.b"], true),
            ("spec.parameters['a]b'].c", &["spec", "parameters", "a]b"], true),
        ];
        for (text, path, reads) in rows {
            let parsed = FieldPath::parse(text).unwrap_or_else(|| panic!("{text} is refused"));
            assert_eq!(parsed.reads(path), reads, "{text}");
        }
    }

    #[test]
    fn field_path_that_crossplane_refuses_is_none() {
        for text in ["", ".spec", "spec.", "spec..size", "spec[", "spec[]", "spec[0]size", "a['b]"]
        {
            assert!(FieldPath::parse(text).is_none(), "{text}");
        }
    }
}
