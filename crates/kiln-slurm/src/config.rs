//! Parameters of slurm.conf: which of them a running daemon does not take over. Which names exist at all is known to
//! `kiln-spec`, which checks them where the user wrote them.

/// What has to happen for a changed parameter to count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Takes {
    /// `scontrol reconfigure` is enough.
    Reconfigure,
    /// slurmctld has to be restarted, which harms no job.
    SlurmctldRestart,
    /// slurmctld and every slurmd have to be restarted, which harms no job.
    AllRestart,
}

use Takes::{AllRestart, SlurmctldRestart};

/// Parameters that `scontrol reconfigure` does not apply.
const RESTARTS: [(&str, Takes); 36] = [
    ("AccountingStorageBackupHost", SlurmctldRestart),
    ("AccountingStorageEnforce", SlurmctldRestart),
    ("AccountingStorageHost", SlurmctldRestart),
    ("AccountingStoragePort", SlurmctldRestart),
    ("AccountingStorageTRES", SlurmctldRestart),
    ("AccountingStorageType", SlurmctldRestart),
    ("AuthAltParameters", SlurmctldRestart),
    ("AuthAltTypes", SlurmctldRestart),
    ("AuthInfo", SlurmctldRestart),
    ("AuthType", AllRestart),
    ("CoreSpecPlugin", AllRestart),
    ("CredType", AllRestart),
    ("GresTypes", AllRestart),
    ("JobAcctGatherType", AllRestart),
    ("JobCompType", SlurmctldRestart),
    ("JobContainerType", AllRestart),
    ("MaxJobCount", SlurmctldRestart),
    ("MaxNodeCount", SlurmctldRestart),
    ("PluginDir", AllRestart),
    ("PowerPlugin", SlurmctldRestart),
    ("PreemptType", SlurmctldRestart),
    ("PriorityType", SlurmctldRestart),
    ("ProctrackType", AllRestart),
    ("PrologFlags", AllRestart),
    ("SchedulerType", SlurmctldRestart),
    ("SelectType", SlurmctldRestart),
    ("SelectTypeParameters", SlurmctldRestart),
    ("SlurmUser", SlurmctldRestart),
    ("SlurmctldHost", SlurmctldRestart),
    ("SlurmctldParameters", SlurmctldRestart),
    ("SlurmctldPort", SlurmctldRestart),
    ("SlurmdPort", AllRestart),
    ("StateSaveLocation", SlurmctldRestart),
    ("SwitchType", SlurmctldRestart),
    ("TaskPlugin", AllRestart),
    ("TopologyPlugin", SlurmctldRestart),
];

/// Parameters that are lists of options, to which a site adds without taking Kiln's own away.
const LISTS: [&str; 10] = [
    "AccountingStorageTRES",
    "GresTypes",
    "Licenses",
    "PriorityFlags",
    "PrivateData",
    "PrologFlags",
    "SchedulerParameters",
    "SlurmctldParameters",
    "SlurmdParameters",
    "SuspendExcNodes",
];

/// Slurm does not tell upper from lower case in names.
pub fn takes(parameter: &str) -> Takes {
    let found = RESTARTS.iter().find(|(name, _)| name.eq_ignore_ascii_case(parameter));
    found.map_or(Takes::Reconfigure, |(_, takes)| *takes)
}

pub fn is_list(parameter: &str) -> bool {
    LISTS.iter().any(|name| name.eq_ignore_ascii_case(parameter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_a_parameter() {
        let names = RESTARTS.iter().map(|(name, _)| name).chain(&LISTS);
        for name in names {
            assert!(kiln_spec::is_slurm_parameter(name), "{name}");
        }
    }

    #[test]
    fn names_are_found_in_any_case() {
        assert_eq!(takes("authtype"), Takes::AllRestart);
        assert_eq!(takes("MaxJobCount"), Takes::SlurmctldRestart);
        assert_eq!(takes("KillWait"), Takes::Reconfigure);
        assert!(is_list("licenses") && !is_list("KillWait"));
    }
}
