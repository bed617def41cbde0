//! Translates XRD patterns from the API server's regular expression syntax (Go) to that of the `regex` crate.
//!
//! The translation covers these differences. Go's `\d`, `\w`, `\s` and `\b` match ASCII only. In Go, a
//! bracket inside a character class and a brace that begins no repetition are literals, `\Q…\E` quotes, and
//! `\<` is not a word boundary. Syntax that only the `regex` crate knows is rejected.

use regex::{Regex, RegexBuilder};

/// The maximum compiled size of one pattern in bytes.
const MAX_COMPILED_BYTES: usize = 256 * 1024;

/// Go's maximum repetition count.
const MAX_REPEATS: u32 = 1000;

/// The POSIX classes that Go knows inside a character class.
const POSIX_CLASSES: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct",
    "space", "upper", "word", "xdigit",
];

/// Compiles a pattern. The error is a sentence fragment.
pub(super) fn compile(source: &str) -> Result<Regex, String> {
    let invalid = || "is not a regular expression of the API server; use RE2 syntax".to_owned();
    RegexBuilder::new(&from_go(source).ok_or_else(invalid)?)
        .size_limit(MAX_COMPILED_BYTES)
        .dfa_size_limit(MAX_COMPILED_BYTES)
        .build()
        .map_err(|error| {
            if matches!(error, regex::Error::CompiledTooBig(_)) {
                format!(
                    "is too large; use a pattern that compiles to at most {MAX_COMPILED_BYTES} bytes"
                )
            } else {
                invalid()
            }
        })
}

/// Translates a Go pattern; `None` if Go would reject it.
fn from_go(source: &str) -> Option<String> {
    let out = String::with_capacity(source.len());
    let mut translator = Translator { rest: source, out, in_class: false, repeated: false };
    while let Some(c) = translator.next_char() {
        if translator.in_class {
            translator.class_member(c)?;
        } else {
            translator.outside_class(c)?;
        }
    }
    Some(translator.out)
}

struct Translator<'a> {
    rest: &'a str,
    out: String,
    in_class: bool,
    /// Whether the previous token was a repetition, which Go does not repeat again.
    repeated: bool,
}

impl Translator<'_> {
    fn next_char(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let next = chars.next();
        self.rest = chars.as_str();
        next
    }

    fn skip_prefix(&mut self, prefix: &str) -> bool {
        let rest = self.rest.strip_prefix(prefix);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// Copies `length` bytes unchanged.
    fn copy(&mut self, length: usize) {
        let (copied, rest) = self.rest.split_at(length);
        self.out.push_str(copied);
        self.rest = rest;
    }

    fn outside_class(&mut self, c: char) -> Option<()> {
        let repeated = std::mem::take(&mut self.repeated);
        match c {
            '\\' if self.skip_prefix("Q") => self.quoted(),
            '\\' => self.escape()?,
            '[' => self.open_class(),
            '(' if self.rest.starts_with('?') => self.group()?,
            '*' | '+' | '?' => {
                self.out.push(c);
                self.end_repetition(repeated)?;
            }
            '{' => match repetition(self.rest)? {
                0 => self.out.push_str("\\{"),
                length => {
                    self.out.push('{');
                    self.copy(length);
                    self.end_repetition(repeated)?;
                }
            },
            _ => self.out.push(c),
        }
        Some(())
    }

    fn end_repetition(&mut self, repeated: bool) -> Option<()> {
        if self.skip_prefix("?") {
            self.out.push('?');
        }
        self.repeated = true;
        (!repeated).then_some(())
    }

    fn open_class(&mut self) {
        self.in_class = true;
        self.out.push('[');
        if self.skip_prefix("^") {
            self.out.push('^');
        }
        // A bracket in first position is a member of the class.
        if self.skip_prefix("]") {
            self.out.push_str("\\]");
        }
    }

    fn class_member(&mut self, c: char) -> Option<()> {
        match c {
            '\\' => self.escape()?,
            '[' => match self.rest.strip_prefix(':').and_then(|rest| rest.split_once(":]")) {
                Some((name, rest)) => {
                    let known = name.strip_prefix('^').unwrap_or(name);
                    POSIX_CLASSES.contains(&known).then_some(())?;
                    self.out.extend(["[:", name, ":]"]);
                    self.rest = rest;
                }
                None => self.out.push_str("\\["),
            },
            ']' => {
                self.in_class = false;
                self.out.push(']');
            }
            '&' | '~' => self.out.extend(['\\', c]),
            // `--` would be a set difference; a single `-` has Go's meaning.
            '-' if self.rest.starts_with('-') => self.out.push_str("\\-"),
            _ => self.out.push(c),
        }
        Some(())
    }

    /// Parses a group name or flags after `(?`.
    fn group(&mut self) -> Option<()> {
        self.out.push('(');
        let named = ["?P<", "?<"].into_iter().find(|start| self.rest.starts_with(start));
        let length = if let Some(start) = named {
            start.len()
        } else {
            let end = self.rest.find([':', ')'])?;
            self.rest[1..end].chars().all(|c| "imsU-".contains(c)).then_some(end + 1)?
        };
        self.copy(length);
        Some(())
    }

    fn escape(&mut self) -> Option<()> {
        let escaped = self.next_char()?;
        match escaped {
            'd' => self.out.push_str("[0-9]"),
            'D' => self.out.push_str("[^0-9]"),
            'w' => self.out.push_str("[0-9A-Za-z_]"),
            'W' => self.out.push_str("[^0-9A-Za-z_]"),
            's' => self.out.push_str(r"[\t\n\f\r ]"),
            'S' => self.out.push_str(r"[^\t\n\f\r ]"),
            'b' | 'B' if !self.in_class => self.out.extend(["(?-u:\\", &escaped.to_string(), ")"]),
            '<' | '>' => self.out.push(escaped),
            'u' | 'U' => return None,
            'x' | 'p' | 'P' => {
                self.out.extend(['\\', escaped]);
                if self.rest.starts_with('{') {
                    self.copy(self.rest.find('}')? + 1);
                }
            }
            _ => self.out.extend(['\\', escaped]),
        }
        Some(())
    }

    fn quoted(&mut self) {
        let (quoted, rest) = self.rest.split_once("\\E").unwrap_or((self.rest, ""));
        self.out.push_str(&regex::escape(quoted));
        self.rest = rest;
    }
}

/// The length of a repetition after its brace; 0 if the brace is a literal; `None` if Go rejects the count.
fn repetition(rest: &str) -> Option<usize> {
    let Some((counts, _)) = rest.split_once('}') else { return Some(0) };
    let (least, most) = match counts.split_once(',') {
        None | Some((_, "")) => (counts.trim_end_matches(','), None),
        Some((least, most)) => (least, Some(most)),
    };
    let is_count = |text: &str| {
        let digits = !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
        digits && (text == "0" || !text.starts_with('0'))
    };
    if ![Some(least), most].into_iter().flatten().all(is_count) {
        return Some(0);
    }
    let within = |text: &str| text.parse::<u32>().is_ok_and(|count| count <= MAX_REPEATS);
    [Some(least), most].into_iter().flatten().all(within).then_some(counts.len() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pattern_matches_as_in_go() {
        for (why, pattern, text, matches) in [
            ("unanchored", "b+", "abbc", true),
            ("anchored", "^b+$", "abbc", false),
            ("a digit is an ASCII digit", r"^\d$", "٣", false),
            ("a digit is an ASCII digit", r"^\d$", "3", true),
            ("a word character is ASCII", r"^\w+$", "naïve", false),
            ("a class in brackets is ASCII", r"^[\w.-]+$", "a_1.b-c", true),
            ("a class in brackets is ASCII", r"^[\w.-]+$", "ä", false),
            ("negated classes are ASCII", r"^\D\W\S$", "a-b", true),
            ("a word boundary is ASCII", r"\bb", "äb", true),
            ("a bracket in a class is itself", "^[[]$", "[", true),
            ("a bracket in a class is itself", "^[a[b]$", "[", true),
            ("a closing bracket first is itself", "^[]a]+$", "]a", true),
            ("a closing bracket first is itself, negated", "^[^]a]$", "b", true),
            ("no intersection", "^[a&&b]+$", "&ab", true),
            ("no difference", "^[a--]+$", "-a", true),
            ("no symmetric difference", "^[a~~b]+$", "~ab", true),
            ("a POSIX class", "^[[:digit:]]+$", "123", true),
            ("quoted", r"^\Qa.b\E$", "a.b", true),
            ("quoted", r"^\Qa.b\E$", "axb", false),
            ("no boundary of a word", r"^\<a\>$", "<a>", true),
            ("no boundary of a word in a class", r"^[\<]$", "<", true),
            ("a brace that repeats nothing", "^a{,2}$", "a{,2}", true),
            ("a brace that repeats nothing", "^{a}{$", "{a}{", true),
            ("a leading zero is not a count", "^a{01}$", "a{01}", true),
            ("a code point", r"^\x{41}\x42$", "AB", true),
            ("a category", r"^\p{Lu}\PL$", "A1", true),
            ("repeated", "^a{2,3}?b{2,}(?:c)*$", "aabb", true),
            ("flags", "(?i)^(?s:A.)$", "a\n", true),
            ("a named group", "^(?P<x>a)(?<y>b)$", "ab", true),
            ("a bracket and a colon that name nothing", "^[[:a]+$", "[:a", true),
            ("a negated POSIX class", "^[[:^digit:]]+$", "ab", true),
            ("the end is the end of the text", "^a$", "a\n", false),
            ("a dot takes a character, not a byte", "^.$", "ä", true),
        ] {
            let compiled = compile(pattern).unwrap();
            assert_eq!(compiled.is_match(text), matches, "{why}: {pattern} on {text:?}");
        }
    }

    #[test]
    fn pattern_that_go_rejects_is_rejected() {
        let invalid = r"( a{2,1} (?=a) \1 [z-a] \ a{1001} a{2,1001} a{99999999999}
            (?x)a (?u:a) (?R)a \u0041 \U00000041 [[:letter:]] a** a{2}{3}";
        for pattern in invalid.split_whitespace() {
            assert!(compile(pattern).is_err(), "{pattern}");
        }
        assert!(compile("(.{1,100}){1,100}").unwrap_err().starts_with("is too large"));
    }
}
