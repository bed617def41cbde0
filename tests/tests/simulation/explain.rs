//! Explanations: a fixture causes each verdict, and the next action of the verdict resolves it.

mod cause_pairs;
mod fixture;
mod missing_sources;
mod plan;
mod problems;
mod refusal;
mod remedy;
mod text;
mod verdicts;
