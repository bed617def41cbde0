//! Explanations: every verdict has a scene that makes it true, and following its next action lets it go on.

#[path = "explain/crowd.rs"]
mod crowd;
#[path = "explain/follow.rs"]
mod follow;
#[path = "explain/pairs.rs"]
mod pairs;
#[path = "explain/pauses.rs"]
mod pauses;
#[path = "explain/planning.rs"]
mod planning;
#[path = "explain/scene.rs"]
mod scene;
#[path = "explain/scenes.rs"]
mod scenes;
#[path = "explain/taken_away.rs"]
mod taken_away;
#[path = "explain/verdicts.rs"]
mod verdicts;
#[path = "explain/words.rs"]
mod words;
