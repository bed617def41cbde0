//! Fuzz tests: every parser returns one line for any input and never panics.
//!
//! Random bytes rarely pass the first character. Most inputs are therefore mutated valid documents: flipped
//! bytes, removed, doubled or transplanted spans, and replaced values. The generator is seeded; a failure
//! prints its input.

use broker_render::catalog::{self, Files};
use broker_render::{ParameterSchema, Xrd};
use serde_json::{Value, json};

use crate::support::{cases, draft, read_data, text, write_yaml, xrd_document};

/// The number of inputs per kind of document; lower where an unoptimised reader is slow.
const XRDS_IN_YAML: usize = 30_000;
const XRDS_IN_JSON: usize = 80_000;
const SCHEMAS: usize = 50_000;
const METADATA_FILES: usize = 40_000;
const COMPOSITIONS: usize = 10_000;

/// XRDs with every schema of the pairs file, written by `write`.
fn xrd_seeds(write: impl Fn(&Value) -> String) -> Vec<String> {
    let pairs = read_data("schema_pairs.yaml");
    let pairs = pairs.as_array().unwrap().iter();
    pairs.map(|pair| write(&xrd_document(&pair["schema"]))).collect()
}

/// A small generator (xorshift), for reproducible runs.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit.max(1) as u64).unwrap()
    }

    fn span(&mut self, length: usize) -> std::ops::Range<usize> {
        let start = self.below(length + 1);
        start..start + self.below((length - start).min(40) + 1)
    }
}

/// Replaces a few spans of a seed by flipped bits, nothing, a double, a span of another seed, or a known
/// piece.
fn mutate(random: &mut Random, seeds: &[String], pieces: &[Value]) -> Vec<u8> {
    let mut bytes = seeds[random.below(seeds.len())].as_bytes().to_vec();
    if random.below(20) == 0 {
        // One input of twenty is random bytes.
        bytes = (0..random.below(64)).map(|_| random.next().to_le_bytes()[0]).collect();
    }
    for _ in 0..=random.below(3) {
        let (kind, span) = (random.below(6), random.span(bytes.len()));
        let span = match kind {
            0 => span.start..bytes.len().min(span.start + 1),
            1 => span.start..span.start,
            _ => span,
        };
        let piece = match kind {
            0 => bytes[span.clone()].iter().map(|byte| byte ^ (1 << random.below(8))).collect(),
            2 => Vec::new(),
            3 => bytes[span.clone()].repeat(2),
            4 => {
                let other = seeds[random.below(seeds.len())].as_bytes();
                other[random.span(other.len())].to_vec()
            }
            _ => text(&pieces[random.below(pieces.len())]).as_bytes().to_vec(),
        };
        drop(bytes.splice(span, piece));
    }
    bytes
}

fn fuzz(rounds: usize, seeds: &[String], parse: impl Fn(&[u8]) -> Result<(), String>) {
    let mut random = Random(0x0198_a8e2_5d9f_7c31 ^ rounds as u64);
    let pieces = cases("fuzz_pieces");
    let mut accepted = 0;
    for _ in 0..rounds {
        let input = mutate(&mut random, seeds, &pieces);
        let parsed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| parse(&input)));
        let input = String::from_utf8_lossy(&input);
        assert!(parsed.is_ok(), "panicked on {input:?}");
        if let Ok(Err(message)) = parsed {
            assert!(!message.contains('\n'), "{message}\nfor {input}");
            assert!(message.len() < 2000, "{} bytes of message for {input}", message.len());
        } else {
            accepted += 1;
        }
    }
    // If the parser rejects nearly everything, the test exercises only its first check.
    assert!(accepted > rounds / 50, "only {accepted} of {rounds} were accepted");
}

#[test]
fn xrd_parser_never_panics() {
    let mut yaml = xrd_seeds(write_yaml);
    let document = write_yaml(&xrd_document(&json!({"type": "object"})));
    yaml.push(format!("a: &a {{type: string}}\nb: *a\nc: {{<<: *a}}\n{document}"));
    for (rounds, seeds) in [(XRDS_IN_YAML, yaml), (XRDS_IN_JSON, xrd_seeds(Value::to_string))] {
        fuzz(rounds, &seeds, |bytes| {
            let xrd = Xrd::parse(bytes).map_err(|error| error.to_string())?;
            // An accepted document must be usable.
            drop(xrd.check(&json!({"a": 3, "b": "x", "c": [null]})));
            Ok(())
        });
    }
}

#[test]
fn parameter_schema_parser_never_panics() {
    let values =
        [r#"{"size":"small","replicas":2}"#, r#"{"net":{"cidr":"1"},"a":[1],"password":"x"}"#];
    let known = cases("parameter_values");
    let seeds: Vec<_> = known.iter().map(|case| case["schema"].to_string()).collect();
    fuzz(SCHEMAS, &seeds, |bytes| {
        let schema = ParameterSchema::parse(bytes).map_err(|error| error.to_string())?;
        for values in values {
            drop(schema.validate(values));
        }
        Ok(())
    });
}

#[test]
fn metadata_parser_never_panics() {
    let draft = draft(&json!({
        "/schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "/metadata/parameterSchema": {"parameters": [{"name": "size", "type": "string"}]},
        "/metadata/composedKinds": [{"apiVersion": "v1", "kind": "Pod"}],
        "/metadata/description": "a machine that enrols ".repeat(6),
    }));
    fuzz(METADATA_FILES, &[draft["metadata"].to_string()], |bytes| {
        check(&draft, bytes, draft["composition"].to_string().as_bytes())
    });
}

#[test]
fn composition_parser_never_panics() {
    let draft = draft(&json!({}));
    let composition = &draft["composition"];
    fuzz(COMPOSITIONS, &[composition.to_string(), write_yaml(composition)], |bytes| {
        check(&draft, draft["metadata"].to_string().as_bytes(), bytes)
    });
}

/// Runs the catalog check on a draft with the given metadata and Composition.
fn check(draft: &Value, metadata: &[u8], composition: &[u8]) -> Result<(), String> {
    let xrd = draft["xrd"].to_string();
    let files = Files { metadata, xrd: xrd.as_bytes(), composition };
    let (blueprint, problems) = catalog::check("vm", files);
    let lines: Vec<_> = problems.iter().map(ToString::to_string).collect();
    blueprint.map(drop).ok_or_else(|| lines.join("; "))
}
