//! What slurmctld counts about itself, as `sdiag` prints it.

use std::collections::BTreeMap;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Section {
    /// Threads, queues, and what has become of jobs since midnight UTC.
    Server,
    /// The main scheduler; times are in microseconds.
    Main,
    /// The backfill scheduler; times are in microseconds.
    Backfill,
}

/// Numbers by section and by sdiag's own words for them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Statistics(BTreeMap<(Section, String), u64>);

impl Statistics {
    /// `None`: this release does not tell.
    pub fn value(&self, section: Section, words: &str) -> Option<u64> {
        self.0.get(&(section, words.to_string())).copied()
    }

    /// Reads what `sdiag` prints; what is no number is passed over.
    pub fn parse(text: &str) -> Statistics {
        let mut section = Some(Section::Server);
        let mut all = BTreeMap::new();
        for line in text.lines() {
            let is_indented = line.starts_with(|c: char| c.is_ascii_whitespace());
            if !is_indented && line.starts_with("Main schedule statistics") {
                section = Some(Section::Main);
            } else if !is_indented && line.starts_with("Backfilling stats") {
                section = Some(Section::Backfill);
            } else if !is_indented && section != Some(Section::Server) && !line.is_empty() {
                section = None;
            }
            let Some((section, (words, value))) = section.zip(line.split_once(':')) else { continue };
            if let Ok(number) = value.trim().parse() {
                all.insert((section, words.trim().to_string()), number);
            }
        }
        Statistics(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
*******************************************************
sdiag output at Tue Nov 17 10:00:00 2026 (1794909600)
Data since      Tue Nov 17 00:00:00 2026 (1794873600)
*******************************************************
Server thread count:  3
Agent queue size:     1
DBD Agent queue size: 7

Jobs submitted: 12
Jobs failed:    2

Job states ts:  Tue Nov 17 09:59:40 2026 (1794909580)
Jobs pending:   4

Main schedule statistics (microseconds):
\tLast cycle:   215
\tMean cycle:   N/A
\tLast queue length: 4

Main scheduler exit:
\tEnd of job queue:133

Backfilling stats
\tTotal backfilled jobs (since last slurm start): 5
\tLast cycle: 90
\tLast cycle when: Tue Nov 17 09:59:40 2026 (1794909580)

Latency for 1000 calls to gettimeofday(): 19 microseconds

Remote Procedure Call statistics by message type
\tREQUEST_PARTITION_INFO                  ( 2009) count:1      ave_time:138    total_time:138
";

    #[test]
    fn numbers_are_found_in_their_section() {
        let statistics = Statistics::parse(TEXT);
        let value = |section, words: &str| statistics.value(section, words);
        assert_eq!(value(Section::Server, "DBD Agent queue size"), Some(7));
        assert_eq!(value(Section::Server, "Jobs submitted"), Some(12));
        assert_eq!(value(Section::Main, "Last cycle"), Some(215));
        assert_eq!(value(Section::Main, "Mean cycle"), None);
        assert_eq!(value(Section::Main, "End of job queue"), None, "another section");
        assert_eq!(value(Section::Backfill, "Last cycle"), Some(90));
        assert_eq!(value(Section::Backfill, "Total backfilled jobs (since last slurm start)"), Some(5));
        assert_eq!(Statistics::parse("slurm_load_ctl_conf error"), Statistics::default());
    }
}
