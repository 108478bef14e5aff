//! The file that tells the resume hook which job wants which nodes, in the shapes of all releases.

use std::collections::BTreeMap;

use kiln_spec::hostlist;
use serde::Deserialize;

/// Up to 22.05 a job has `nodes`, later `nodes_resume` and `nodes_alloc`; what does not matter here may be null.
#[derive(Deserialize)]
struct ResumeFile {
    #[serde(default)]
    jobs: Option<Vec<Job>>,
}

#[derive(Deserialize)]
struct Job {
    #[serde(rename = "job_id")]
    id: Option<u64>,
    nodes_resume: Option<String>,
    nodes: Option<String>,
}

/// By node, the jobs that wait for it, with commas. A file that is not understood names none: it only adds to what
/// people are told.
pub fn jobs(text: &[u8]) -> BTreeMap<String, String> {
    let mut all: BTreeMap<String, String> = BTreeMap::new();
    let file: Option<ResumeFile> = serde_json::from_slice(text).ok();
    for job in file.and_then(|file| file.jobs).unwrap_or_default() {
        let (Some(id), Some(nodes)) = (job.id, job.nodes_resume.or(job.nodes)) else { continue };
        for node in hostlist::expand(&nodes).unwrap_or_default() {
            let jobs = all.entry(node).or_default();
            let comma = if jobs.is_empty() { "" } else { "," };
            *jobs = format!("{jobs}{comma}{id}");
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_shapes_are_understood() {
        let old =
            br#"{"jobs":[{"job_id":7,"nodes":"n-[0-1]"},{"job_id":8,"nodes":"n-1"}],"all_nodes":"n-[0-1]"}"#;
        let new = br#"{"all_nodes_resume":"n-[0-1]","jobs":[
            {"extra":null,"features":null,"job_id":7,"nodes_alloc":"n-[0-2]","nodes_resume":"n-[0-1]",
             "oversubscribe":"OK","partition":"p","reservation":null},
            {"extra":null,"features":null,"job_id":8,"nodes_alloc":"n-1","nodes_resume":"n-1",
             "oversubscribe":"OK","partition":"p","reservation":null}]}"#;
        for text in [&old[..], &new[..]] {
            let jobs = jobs(text);
            assert_eq!(jobs["n-0"], "7");
            assert_eq!(jobs["n-1"], "7,8");
            assert!(!jobs.contains_key("n-2"));
        }
    }

    #[test]
    fn what_is_not_understood_names_no_job() {
        for text in ["", "{}", "{", r#"{"jobs":null}"#, r#"{"jobs":[{"job_id":null,"nodes":null}]}"#] {
            assert!(jobs(text.as_bytes()).is_empty(), "{text}");
        }
    }
}
