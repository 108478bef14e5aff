//! What the evidence means. Pure.

use jiff::{SignedDuration, Timestamp};
use kiln_cloud::{Expiry, QuotaKind};
use kiln_slurm::Release;
use kiln_spec::{Role, Spec};
use kiln_wire::checkup::{CertificateReport, Place};

use super::finding::{Finding, Severity, sorted};
use super::strays::strays;
use super::{Evidence, KILN};
use crate::checkup::Examined;
use crate::status::{ASLEEP, GONE_FROM_FILE};

/// Slurm's daemons refuse each other's credentials at five minutes; accounting is wrong long before.
const CLOCK_WARNING: SignedDuration = SignedDuration::from_secs(5);
const CLOCK_BROKEN: SignedDuration = SignedDuration::from_secs(120);

pub fn findings(spec: &Spec, evidence: &Evidence<'_>) -> Vec<Finding> {
    let mut all: Vec<Finding> = asleep(evidence).into_iter().collect();
    all.extend(slurm_and_kilnd(spec, evidence));
    all.extend(services(evidence));
    all.extend(nodes(evidence));
    all.extend(rooms_and_clocks(spec, evidence));
    all.extend(releases(spec, evidence));
    all.extend(strays(spec, evidence.observed, &evidence.status.strays, evidence.now));
    all.extend(quotas(spec, evidence));
    all.extend(credentials(evidence));
    all.extend(certificates(evidence));
    all.extend(certificates_of_nodes(evidence));
    sorted(all)
}

/// Said once, and not of every node.
fn asleep(evidence: &Evidence<'_>) -> Option<Finding> {
    let refused = evidence.status.sleep.check_awake(&evidence.status.cluster).err()?;
    let advice = refused.hint().unwrap_or_default();
    let text = refused.to_string();
    let own = format!("cluster {} ", evidence.status.cluster);
    let text = text.strip_prefix(&own).unwrap_or(&text);
    Some(Finding::new(Severity::Note, &evidence.status.cluster, text, &advice))
}

fn slurm_and_kilnd(spec: &Spec, evidence: &Evidence<'_>) -> Vec<Finding> {
    use Severity::{Broken, Warning};
    let (control, status) = (&spec.control.node, &evidence.status);
    let mut found = Vec::new();
    if let Some(error) = &status.slurm_error {
        let advice = format!("`kiln ssh {control} journalctl -u slurmctld -n 50` shows why");
        found.push(Finding::new(Broken, "Slurm", format!("could not be reached: {error}"), &advice));
    }
    if let Some(error) = &status.kilnd_error {
        let advice = format!("`kiln ssh {control} journalctl -u kilnd -n 50` shows why");
        found.push(Finding::new(Broken, "kilnd", format!("repairs nothing at present: {error}"), &advice));
    }
    for group in &status.failing_groups {
        let text = format!("the cloud refused nodes of this group: {}", group.record.problem);
        let advice = "kilnd tries again by itself; `kiln events` lists the attempts";
        found.push(Finding::new(Warning, &group.group, text, advice));
    }
    for stray in &status.strays {
        let advice = match stray.actions.as_slice() {
            [] => "`kiln events` shows what kilnd knows of it".to_string(),
            actions => format!("kilnd will {}", actions.join(", ")),
        };
        found.push(Finding::new(Warning, &stray.subject, stray.text.as_str(), &advice));
    }
    found
}

fn services(evidence: &Evidence<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for (node, answer) in &evidence.examined {
        let Examined { report, .. } = match answer {
            Ok(examined) => examined,
            Err(error) => {
                let error = error.strip_prefix(&format!("{node} ")).unwrap_or(error);
                let advice = "`kiln console NODE` shows the end of its console, which works without SSH";
                found.push(Finding::new(Severity::Broken, node, error, advice));
                continue;
            }
        };
        for problem in &report.problems {
            let (severity, advice) = if problem.service == KILN {
                (Severity::Warning, "`kiln configure` brings this host's")
            } else {
                let advice = "`kiln ssh NODE journalctl -b -p warning` shows why; `kiln configure` starts what is stopped";
                (Severity::Broken, advice)
            };
            found.push(Finding::new(severity, node, problem.text.as_str(), advice));
        }
    }
    found
}

/// What Slurm, the cloud and kilnd say of the nodes.
fn nodes(evidence: &Evidence<'_>) -> Vec<Finding> {
    let status = &evidence.status;
    // That Slurm does not answer is said once.
    let said = |verdict: &str| status.slurm_error.is_some() && verdict == "Slurm could not be reached";
    let mut found = Vec::new();
    let is_fine = |verdict: &str| verdict == "ok" || verdict == ASLEEP;
    for node in status.nodes.iter().filter(|node| !is_fine(&node.verdict) && !said(&node.verdict)) {
        let is_told = node.since.is_some() || node.is_leaving() || node.is_unhealthy();
        let reason = node.reason.as_ref().filter(|_| !is_told);
        let reason = reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
        let text = format!("{}{reason}", node.verdict);
        let (severity, advice) = match (node.wrong, node.role == Role::Compute.as_str()) {
            (false, _) if node.slurm.is_some() && node.verdict.starts_with("being") => continue,
            (false, true) if node.is_leaving() || node.verdict == GONE_FROM_FILE => {
                (Severity::Note, "`kiln up` deletes it when its jobs have ended")
            }
            (false, true) => (Severity::Note, "`kiln rebuild` moves it through Slurm"),
            (false, false) => (Severity::Note, "`kiln plan` shows what `kiln up` does about it"),
            (true, true) if node.is_unhealthy() => (
                Severity::Broken,
                "mend it, and it comes back by itself; `kiln ssh NODE kiln node check` looks again",
            ),
            (true, true) => (Severity::Broken, "`kiln doctor NODE` explains it"),
            (true, false) => (Severity::Broken, "`kiln plan` shows what `kiln up` does about it"),
        };
        found.push(Finding::new(severity, &node.node, text, advice));
    }
    found
}

fn rooms_and_clocks(spec: &Spec, evidence: &Evidence<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for node in spec.nodes() {
        let Some(Ok(examined)) = evidence.examined.get(node.name) else { continue };
        for place in &examined.report.places {
            if let Some((severity, text)) = room(place) {
                found.push(Finding::new(
                    severity,
                    node.name,
                    text,
                    "delete what is not needed, or give it more room",
                ));
            }
        }
        if let Some((severity, text)) = clock(examined.clock_ahead) {
            let advice =
                "`kiln ssh NODE timedatectl` shows whether the clock is kept; this host's may be wrong";
            found.push(Finding::new(severity, node.name, text, advice));
        }
    }
    found
}

fn room(place: &Place) -> Option<(Severity, String)> {
    let percent = |free: u64, all: u64| (free * 100).checked_div(all).unwrap_or(100);
    let (bytes, files) = (percent(place.free_bytes, place.bytes), percent(place.free_files, place.files));
    let severity = if place.is_full() {
        Severity::Broken
    } else if place.is_nearly_full() {
        Severity::Warning
    } else {
        return None;
    };
    let left = if files < bytes {
        format!("{} of {} files", place.free_files, place.files)
    } else {
        format!("{} MiB of {} MiB", place.free_bytes >> 20, place.bytes >> 20)
    };
    Some((severity, format!("the file system of {} is nearly full: {left} left", place.path)))
}

fn clock(ahead: SignedDuration) -> Option<(Severity, String)> {
    let severity = match ahead.abs() {
        off if off >= CLOCK_BROKEN => Severity::Broken,
        off if off >= CLOCK_WARNING => Severity::Warning,
        _ => return None,
    };
    let word = if ahead.is_negative() { "behind" } else { "ahead of" };
    Some((severity, format!("its clock is {} s {word} this host's", ahead.abs().as_secs())))
}

/// Those that nodes show others, or trust others by.
fn certificates_of_nodes(evidence: &Evidence<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for (node, examined) in &evidence.examined {
        let Ok(examined) = examined else { continue };
        for certificate in &examined.report.certificates {
            let advice =
                "`kiln configure` renews those of the cluster; the site's own are to be replaced in the file";
            let said = match certificate.ends {
                Some(at) => ends(at, evidence.now),
                None => Some((Severity::Broken, "cannot be read".into())),
            };
            if let Some((severity, text)) = said {
                found.push(Finding::new(
                    severity,
                    node,
                    format!("certificate of {}: {text}", certificate.name),
                    advice,
                ));
            }
        }
    }
    found
}

/// Control has the newest Slurm, and the others are no older than it understands.
fn releases(spec: &Spec, evidence: &Evidence<'_>) -> Vec<Finding> {
    let of = |node: &str| -> Option<Release> {
        let Some(Ok(examined)) = evidence.examined.get(node) else { return None };
        Release::from_version_line(examined.report.slurm.as_deref()?).ok()
    };
    let Some(control) = of(&spec.control.node) else { return Vec::new() };
    let others = spec.nodes().filter(|node| node.role != Role::Control);
    let found = others.filter_map(|node| {
        let release = of(node.name).filter(|release| *release != control)?;
        let text = format!("has Slurm {release}, control has {control}");
        Some(if control.can_serve(release) {
            Finding::new(
                Severity::Note,
                node.name,
                text,
                "`kiln status` shows which nodes another image is due for",
            )
        } else {
            let text = format!("{text}: they do not understand each other");
            Finding::new(Severity::Broken, node.name, text, "build both images from the same release")
        })
    });
    found.collect()
}

/// Whether all nodes of all elastic groups could run at once.
fn quotas(spec: &Spec, evidence: &Evidence<'_>) -> Vec<Finding> {
    let quotas = match &evidence.quotas {
        Ok(quotas) => quotas,
        Err(error) => {
            let text = format!("its quotas could not be read: {error}");
            return vec![Finding::new(Severity::Note, "cloud", text, "ask the cloud's administrators")];
        }
    };
    let there = evidence.observed.nodes();
    let missing: Vec<_> = spec.nodes().filter(|n| !there.contains_key(n.name)).collect();
    let flavor = |name: &str| evidence.observed.flavors.iter().find(|flavor| flavor.name == name);
    let found = quotas.iter().filter_map(|quota| {
        let needs: u64 = match quota.kind {
            QuotaKind::Instances => missing.len() as u64,
            QuotaKind::Cpus => missing.iter().filter_map(|n| Some(u64::from(flavor(n.flavor)?.cpus))).sum(),
            QuotaKind::MemoryMib => missing.iter().filter_map(|n| Some(flavor(n.flavor)?.memory_mib)).sum(),
        };
        let free = quota.limit.saturating_sub(quota.used);
        (needs > free).then(|| {
            let what = quota.kind.word();
            let text = format!(
                "the quota leaves {free} of {} {what}; all nodes that are off or missing would need {needs}",
                quota.limit
            );
            let advice = "ask for more, or make elastic groups smaller: the cloud refuses the nodes beyond";
            Finding::new(Severity::Note, "cloud", text, advice)
        })
    });
    found.collect()
}

fn credentials(evidence: &Evidence<'_>) -> Vec<Finding> {
    let unread = ("its credentials end", "look at them with the cloud's own client");
    expiries(evidence, &evidence.expiries, unread, "make a new one before it ends, and run `kiln configure`")
}

fn certificates(evidence: &Evidence<'_>) -> Vec<Finding> {
    let unread = ("the certificates of its services end", "ask the cloud's administrators");
    let advice =
        "Kiln and kilnd cannot use the cloud without it: the cloud's administrators have to renew it";
    expiries(evidence, &evidence.certificates, unread, advice)
}

/// `unread`: what nobody knows when this could not be read, and what to do about that.
fn expiries(
    evidence: &Evidence<'_>,
    expiries: &Result<Vec<Expiry>, String>,
    unread: (&str, &str),
    advice: &str,
) -> Vec<Finding> {
    let expiries = match expiries {
        Ok(expiries) => expiries,
        Err(error) => {
            let text = format!("when {} could not be read: {error}", unread.0);
            return vec![Finding::new(Severity::Note, "cloud", text, unread.1)];
        }
    };
    let found = expiries.iter().filter_map(|expiry| {
        let (severity, text) = ends(expiry.at, evidence.now)?;
        Some(Finding::new(severity, &expiry.what, text, advice))
    });
    found.collect()
}

fn ends(at: Timestamp, now: Timestamp) -> Option<(Severity, String)> {
    let left = at.duration_since(now);
    let day = at.strftime("%Y-%m-%d %H:%M UTC");
    if left <= SignedDuration::ZERO {
        return Some((Severity::Broken, format!("ended at {day}")));
    }
    (left < CertificateReport::SOON).then(|| (Severity::Warning, format!("ends at {day}")))
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
