//! Explanations: every verdict has a scene that causes it, and following its next action resolves
//! it.

mod follow;
mod pairs;
mod planning;
mod scene;
mod scenes;
mod taken_away;
mod verdicts;
mod words;
