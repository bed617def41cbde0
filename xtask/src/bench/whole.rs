//! The broker as a whole, on real servers: runs the program that measures, and writes down what came of it.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use super::page;
use super::plot::plot;
use super::ratio::Measurement;
use super::table::{processor, table};
use super::works::Work;
use crate::error::TaskError;
use crate::workspace::spawn_error;
use broker_test_servers::progress::{step, to_stderr};

/// Measures a work, prints its table, and writes table and picture into the documentation.
pub(super) fn run(
    root: &Path,
    work: &Work,
    program: &Path,
    environment: &[(String, String)],
) -> Result<(), TaskError> {
    let what = format!("measuring `{}`", work.name);
    let measured = step(&to_stderr, &what, || measure(work, program, environment))?;
    let bars = work.judged(&measured);
    let apart = if bars.is_empty() { "" } else { "\n" };
    let text = format!("{}{apart}{bars}{}", table(&measured), processor(&measured));
    println!("\n{}\n\n{text}", work.name);
    let picture = picture(root, work, &measured)?;
    page::record(root, work.name, &format!("{text}{picture}"))
}

/// Draws how the work grows, if it does; answers what shows the picture on the page.
fn picture(root: &Path, work: &Work, measured: &[Measurement]) -> Result<String, TaskError> {
    let Some(picture) = plot(work.name, work.axis, measured) else { return Ok(String::new()) };
    let name = format!("bench-{}.svg", work.name);
    let path = root.join("docs").join(&name);
    let file = |source| TaskError::File { doing: "write", path: path.clone(), source };
    fs::write(&path, picture).map_err(file)?;
    Ok(format!("\n![how {} grows]({name})\n", work.name))
}

fn measure(
    work: &Work,
    program: &Path,
    environment: &[(String, String)],
) -> Result<Vec<Measurement>, TaskError> {
    let mut command = Command::new(program);
    command.arg(work.name).envs(environment.iter().cloned());
    let spawned = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut child = spawned.map_err(spawn_error(&command))?;
    let failed =
        |how: String| TaskError::Command { what: format!("measuring `{}`", work.name), how };
    let mut measured = Vec::new();
    for line in child.stdout.take().map(BufReader::new).into_iter().flat_map(BufReader::lines) {
        let line = line.map_err(spawn_error(&command))?;
        measured.push(serde_json::from_str(&line).map_err(|_| failed(line.clone()))?);
    }
    let status = child.wait().map_err(spawn_error(&command))?;
    if status.success() && !measured.is_empty() {
        Ok(measured)
    } else {
        Err(failed(status.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::ratio::Way;
    use super::super::ratio::tests::took;
    use super::super::works::WORKS;
    use super::*;

    #[test]
    fn a_picture_says_what_there_is_more_and_more_of() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("docs")).unwrap();
        let times = [1, 4, 16].map(|many| took(many, Way::Ours, 1, many));
        for (name, axis) in [("claim", ">workers</text>"), ("declare", ">declarations</text>")] {
            let work = WORKS.iter().find(|work| work.name == name).unwrap();
            let shown = picture(root.path(), work, &times).unwrap();
            assert_eq!(shown, format!("\n![how {name} grows](bench-{name}.svg)\n"));
            let drawn = root.path().join(format!("docs/bench-{name}.svg"));
            assert!(fs::read_to_string(drawn).unwrap().contains(axis), "{axis}");
        }
    }
}
