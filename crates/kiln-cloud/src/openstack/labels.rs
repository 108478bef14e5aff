//! Labels where a resource has no place for them: in its description, or in its name.

use crate::Labels;
use kiln_wire::labels;

/// As it stands in a description: `kiln_cluster=demo kiln_role=build`. Labels come sorted, so the text is always the
/// same and can be searched for. The cluster's id is a tag: nobody who looks for a cluster's name could know it.
pub fn describe(labels: &Labels) -> String {
    let described = labels.iter().filter(|(key, _)| *key != labels::ID);
    described.map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
}

/// With what its tags say, if the description is Kiln's.
pub fn with_tags(description: Option<&str>, tags: &[String]) -> Labels {
    let mut labels = read(description);
    if !labels.is_empty() {
        let pairs = tags.iter().filter_map(|tag| tag.split_once('='));
        labels
            .extend(pairs.filter(|(key, _)| *key == labels::ID).map(|(k, v)| (k.to_string(), v.to_string())));
    }
    labels
}

/// Empty unless the description is Kiln's.
pub fn read(description: Option<&str>) -> Labels {
    let pairs = description.unwrap_or_default().split(' ').filter_map(|pair| pair.split_once('='));
    let labels: Labels = pairs.map(|(key, value)| (key.to_string(), value.to_string())).collect();
    if labels.contains_key(labels::CLUSTER) { labels } else { Labels::new() }
}

/// Label of the cluster alone: what ports and the like have.
pub fn of_cluster(cluster: &str) -> Labels {
    Labels::from([(labels::CLUSTER.to_string(), cluster.to_string())])
}

/// Every description that a resource of the cluster may have: for a node or for a build.
pub fn descriptions(cluster: &str) -> [String; 2] {
    let mut build = of_cluster(cluster);
    build.insert(labels::ROLE.into(), labels::BUILD_ROLE.into());
    [describe(&of_cluster(cluster)), describe(&build)]
}

pub fn cluster_of(labels: &Labels) -> Option<&str> {
    labels.get(labels::CLUSTER).map(String::as_str)
}

/// Nova's tag of a cluster's servers.
pub fn tag(cluster: &str) -> String {
    format!("{}={cluster}", labels::CLUSTER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_holds_labels() {
        let [plain, build] = descriptions("demo");
        assert_eq!(plain, "kiln_cluster=demo");
        assert_eq!(build, "kiln_cluster=demo kiln_role=build");
        assert_eq!(describe(&read(Some(&build))), build);
        for foreign in [None, Some(""), Some("the lab's own network"), Some("a=b")] {
            assert!(read(foreign).is_empty(), "{foreign:?}");
            assert!(with_tags(foreign, &["kiln_id=1".into()]).is_empty(), "{foreign:?}");
        }
        let tagged = with_tags(Some(&build), &["red".into(), "a=b".into(), "kiln_id=1".into()]);
        assert_eq!(tagged.get(labels::ID).map(String::as_str), Some("1"));
        assert_eq!((describe(&tagged), tagged.len()), (build, 3));
    }
}
