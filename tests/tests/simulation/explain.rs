//! Explanations: every verdict has a scene that makes it true, and following its next action lets it go on.

mod follow;
mod pairs;
mod planning;
mod scene;
mod scenes;
mod taken_away;
mod verdicts;
mod words;
