//! `brake show|set|release`: prints brakes and losses.

use broker_app::{Absence, BrakeLosses, UnreadResource};
use broker_ports::{Brake, wire};
use serde_json::{Value, json};

use super::CommandContext;
use crate::cli::{BrakeCommand, BrakeReach};
use crate::failure::Failure;

pub(crate) async fn brake(
    context: &mut CommandContext<'_>,
    command: &BrakeCommand,
) -> Result<(), Failure> {
    match command {
        BrakeCommand::Show { .. } => show(context).await,
        BrakeCommand::Set { reach, .. } => set(context, *reach).await,
        BrakeCommand::Release { cluster, reach, .. } => {
            let project = reach.project;
            let losses = context.service.release_brake(&context.context, cluster, project).await?;
            let object = json!({
                "cluster_id": cluster.as_str(),
                "project_id": project.map(|project| project.to_string()),
                "done": "brake_released",
                "accepted": absences(&losses.absent),
                "unread": unread(&losses.unread),
            });
            let subject = reach_name(cluster.as_str(), *reach);
            let sentence =
                format!("the brake of {subject} is released; {}", release_summary(&losses));
            Ok(context.output.done(&sentence, &object)?)
        }
    }
}

async fn show(context: &mut CommandContext<'_>) -> Result<(), Failure> {
    let status = context.service.brake_status(&context.context).await?;
    let object = json!({
        "cluster_id": status.cluster.as_str(),
        "brakes": status.brakes.iter().map(brake_object).collect::<Vec<_>>(),
        "absent": absences(&status.losses.absent),
        "unread": unread(&status.losses.unread),
    });
    let mut lines: Vec<_> = status.brakes.iter().map(brake_sentence).collect();
    if lines.is_empty() {
        lines.push(format!("no brake is set on cluster {}", status.cluster));
    }
    let lost = |absence: &Absence| {
        let Absence { resource, project, phase, lost, .. } = absence;
        format!("  {resource} of project {project}, {phase}: {lost} is absent")
    };
    let absent = status.losses.absent.len();
    let noun = if absent == 1 { "composite resource is" } else { "composite resources are" };
    lines.push(format!("{absent} {noun} absent"));
    lines.extend(status.losses.absent.iter().map(lost));
    lines.extend(
        status.losses.unread.iter().map(|resource| format!("  {}", unread_sentence(resource))),
    );
    Ok(context.output.done(&lines.join("\n"), &object)?)
}

async fn set(context: &mut CommandContext<'_>, reach: BrakeReach) -> Result<(), Failure> {
    let cluster = context.service.set_brake(&context.context, reach.project).await?;
    let object = json!({
        "cluster_id": cluster.as_str(),
        "project_id": reach.project.map(|project| project.to_string()),
        "done": "brake_set",
    });
    let sentence = format!("the brake of {} is set", reach_name(cluster.as_str(), reach));
    Ok(context.output.done(&sentence, &object)?)
}

fn reach_name(cluster: &str, reach: BrakeReach) -> String {
    match reach.project {
        Some(project) => format!("project {project} on cluster {cluster}"),
        None => format!("cluster {cluster}"),
    }
}

fn brake_object(brake: &Brake) -> Value {
    json!({
        "project_id": brake.project.map(|project| project.to_string()),
        "absent": brake.absent,
        "expected": brake.expected,
        "since": wire::rfc3339(brake.since),
    })
}

fn brake_sentence(brake: &Brake) -> String {
    let reach = match brake.project {
        Some(project) => format!("project {project}: the broker still applies new resources"),
        None => "the whole cluster: the broker applies no new resources".to_owned(),
    };
    let cause = match (brake.absent, brake.expected) {
        (0, 0) => "an operator set it".to_owned(),
        (absent, expected) => format!("{absent} of {expected} composite resources were lost"),
    };
    format!("a brake is set on {reach}; {cause}, since {}", wire::rfc3339(brake.since))
}

fn absences(absent: &[Absence]) -> Vec<Value> {
    let object = |absence: &Absence| {
        json!({
            "id": absence.resource.to_string(),
            "project_id": absence.project.to_string(),
            "phase": absence.phase.as_str(),
            "lost": absence.lost.to_string(),
        })
    };
    absent.iter().map(object).collect()
}

fn unread(unread: &[UnreadResource]) -> Vec<Value> {
    let object = |unread: &UnreadResource| json!({ "id": unread.resource.to_string(), "problem": unread.problem.as_str() });
    unread.iter().map(object).collect()
}

fn unread_sentence(UnreadResource { resource, problem, .. }: &UnreadResource) -> String {
    format!("{resource} cannot be read: {problem}")
}

fn release_summary(losses: &BrakeLosses) -> String {
    let accepted = match losses.absent.as_slice() {
        [] => "no composite resource is absent in its reach".to_owned(),
        absent => {
            let ids: Vec<_> = absent.iter().map(|absence| absence.resource.to_string()).collect();
            format!("{} losses are accepted: {}", absent.len(), ids.join(", "))
        }
    };
    let unread = losses
        .unread
        .iter()
        .map(|resource| format!("\nnot accepted: {}", unread_sentence(resource)));
    accepted + &unread.collect::<String>()
}
