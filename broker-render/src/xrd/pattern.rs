//! Patterns of an XRD mean what the API server's regular expressions make of them.
//!
//! The API server is written in Go, whose syntax is nearly that of the `regex` crate. Three differences
//! matter: Go's `\d`, `\w`, `\s` and `\b` know ASCII only, a bracket inside of a character class is an
//! ordinary character there, and `\Q…\E` quotes. A pattern is rewritten accordingly before it is compiled.

use regex::{Regex, RegexBuilder};

/// The largest compiled form of one pattern.
const MAX_COMPILED_BYTES: usize = 256 * 1024;

/// Compiles a pattern; on failure, the problem as part of a sentence.
pub(super) fn compile(source: &str) -> Result<Regex, String> {
    RegexBuilder::new(&from_go(source))
        .size_limit(MAX_COMPILED_BYTES)
        .dfa_size_limit(MAX_COMPILED_BYTES)
        .build()
        .map_err(|error| {
            if matches!(error, regex::Error::CompiledTooBig(_)) {
                format!(
                    "is too large a pattern; use one that compiles to {MAX_COMPILED_BYTES} bytes"
                )
            } else {
                "is not a regular expression of the API server; use RE2 syntax".to_owned()
            }
        })
}

/// A Go pattern in the syntax of the `regex` crate.
fn from_go(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut chars = source.chars().peekable();
    let mut in_class = false;
    while let Some(c) = chars.next() {
        match c {
            '\\' if chars.peek() == Some(&'Q') && !in_class => {
                chars.next();
                quote_until_end(&mut chars, &mut out);
            }
            '\\' => match chars.next() {
                Some(escaped) => out.push_str(&escape(escaped, in_class)),
                None => out.push('\\'),
            },
            '[' if !in_class => {
                in_class = true;
                out.push('[');
                if chars.next_if_eq(&'^').is_some() {
                    out.push('^');
                }
                // A bracket that closes nothing yet is a member of the class.
                if chars.next_if_eq(&']').is_some() {
                    out.push_str("\\]");
                }
            }
            '[' if chars.peek() == Some(&':') => copy_posix_class(&mut chars, &mut out),
            ']' if in_class => {
                in_class = false;
                out.push(']');
            }
            '[' | '&' | '~' if in_class => out.extend(['\\', c]),
            // Doubled, it would subtract; a single one is a range or a member, as in Go.
            '-' if in_class && chars.peek() == Some(&'-') => out.push_str("\\-"),
            _ => out.push(c),
        }
    }
    out
}

fn escape(escaped: char, in_class: bool) -> String {
    match escaped {
        'd' => "[0-9]".to_owned(),
        'D' => "[^0-9]".to_owned(),
        'w' => "[0-9A-Za-z_]".to_owned(),
        'W' => "[^0-9A-Za-z_]".to_owned(),
        's' => r"[\t\n\f\r ]".to_owned(),
        'S' => r"[^\t\n\f\r ]".to_owned(),
        'b' if !in_class => r"(?-u:\b)".to_owned(),
        'B' if !in_class => r"(?-u:\B)".to_owned(),
        other => format!("\\{other}"),
    }
}

fn quote_until_end(chars: &mut std::iter::Peekable<std::str::Chars<'_>>, out: &mut String) {
    while let Some(c) = chars.next() {
        if c == '\\' && chars.next_if_eq(&'E').is_some() {
            return;
        }
        out.push_str(&regex::escape(&c.to_string()));
    }
}

/// `[:alpha:]` inside of a class means the same in both.
fn copy_posix_class(chars: &mut std::iter::Peekable<std::str::Chars<'_>>, out: &mut String) {
    out.push('[');
    for c in chars.by_ref() {
        out.push(c);
        if c == ']' {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_means_what_go_makes_of_it() {
        for (why, pattern, text, matches) in [
            ("unanchored", "b+", "abbc", true),
            ("anchored", "^b+$", "abbc", false),
            ("a digit is an ASCII digit", r"^\d$", "٣", false),
            ("a digit is an ASCII digit", r"^\d$", "3", true),
            ("a word character is ASCII", r"^\w+$", "naïve", false),
            ("inside of a class too", r"^[\w.-]+$", "a_1.b-c", true),
            ("inside of a class too", r"^[\w.-]+$", "ä", false),
            ("negated", r"^\D\W\S$", "a-b", true),
            ("a word boundary is ASCII", r"\bb", "äb", true),
            ("a bracket in a class is itself", "^[[]$", "[", true),
            ("a bracket in a class is itself", "^[a[b]$", "[", true),
            ("a closing bracket first is itself", "^[]a]+$", "]a", true),
            ("negated, too", "^[^]a]$", "b", true),
            ("no intersection", "^[a&&b]+$", "&ab", true),
            ("no difference", "^[a--]+$", "-a", true),
            ("no symmetric difference", "^[a~~b]+$", "~ab", true),
            ("a POSIX class", "^[[:digit:]]+$", "123", true),
            ("quoted", r"^\Qa.b\E$", "a.b", true),
            ("quoted", r"^\Qa.b\E$", "axb", false),
            ("the end is the end of the text", "^a$", "a\n", false),
            ("a dot takes a character, not a byte", "^.$", "ä", true),
        ] {
            let compiled = compile(pattern).unwrap();
            assert_eq!(compiled.is_match(text), matches, "{why}: {pattern} on {text:?}");
        }
    }

    #[test]
    fn what_go_refuses_is_refused() {
        for pattern in ["(", "a{2,1}", "(?=a)", r"\1", "[z-a]", "\\"] {
            assert!(compile(pattern).is_err(), "{pattern}");
        }
        assert!(compile("(.{1,100}){1,100}").unwrap_err().starts_with("is too large"), "bounded");
    }
}
