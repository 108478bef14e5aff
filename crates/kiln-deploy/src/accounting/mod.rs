//! Where the accounts are: in a database on the control node, or with a slurmdbd of the site. slurmctld's state belongs to
//! one of them; it changes only when a person says so.

mod difference;

use kiln_cloud::InstanceStatus;
use kiln_image::Event;
use kiln_site::services::accounting::{ASK_PLACE, place};
use kiln_slurm::Release;
use kiln_spec::Spec;

use crate::deployment::Deployment;
use crate::error::{Error, Result};
use crate::observe::{ASK_LIMIT, Observed};
use crate::on_control::OnControl;

const LOOK: &str = include_str!("look.sh");
const LEAVE: &str = include_str!("leave.sh");

/// What the control node says of its accounts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Accounts {
    /// As [`place`] names it; `None`: it has no state yet, or does not say.
    pub place: Option<String>,
    /// Of the slurmdbd that answers.
    pub slurmdbd: Option<Release>,
}

impl Accounts {
    fn parse(text: &str) -> Accounts {
        let word = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
        Accounts {
            place: word("place ").map(String::from),
            slurmdbd: word("slurmdbd ").and_then(|release| release.parse().ok()),
        }
    }

    /// That the file does not want others.
    pub fn check_place(&self, spec: &Spec) -> Result<()> {
        let wanted = place(spec);
        match &self.place {
            Some(was) if was != wanted => {
                Err(Error::OtherAccounting { was: was.clone(), wanted: wanted.to_string() })
            }
            _ => Ok(()),
        }
    }

    /// That a slurmdbd elsewhere works with the Slurm that the control node gets.
    pub fn check_release(&self, spec: &Spec, present: Release, future: Release) -> Result<()> {
        let Some(host) = spec.accounting.as_ref().map(|dbd| dbd.host.clone()) else { return Ok(()) };
        if future.has_major_of(present) {
            return Ok(());
        }
        match self.slurmdbd {
            None => Err(Error::SlurmdbdUnknown { host, control: future }),
            Some(slurmdbd) if !slurmdbd.can_serve(future) => {
                Err(Error::SlurmdbdDistance { host, slurmdbd, control: future })
            }
            Some(_) => Ok(()),
        }
    }
}

impl Deployment<'_> {
    /// Asks the control node of a cluster whose slurmdbd is elsewhere. One that does not answer must still be replaceable.
    pub(crate) async fn ask_accounts(&self, observed: &mut Observed) {
        let control = self.spec.control.node.as_str();
        let runs = (observed.nodes().get(control)).is_some_and(|i| i.status == InstanceStatus::Active);
        if self.spec.accounting.is_none() || !runs {
            return;
        }
        let Ok(control) = self.on_control(observed) else { return };
        let argv = ["sh", "-c", LOOK, "sh", ASK_PLACE];
        if let Ok(answer) = control.ssh.wait_output(&control.host, &argv, ASK_LIMIT).await {
            observed.accounts = Accounts::parse(&answer.stdout);
        }
    }

    /// Before a bundle takes away what the present accounts need.
    pub(crate) async fn check_accounts(&self, control: &OnControl) -> Result<()> {
        let place = control.script(ASK_PLACE, &[]).await?;
        Accounts { place: Some(place.trim().to_string()).filter(|p| !p.is_empty()), slurmdbd: None }
            .check_place(self.spec)
    }

    /// Leaves the present accounts, if the file wants others. What comes next is `configure`.
    pub async fn leave_accounting(&self) -> Result<()> {
        let observed = self.observe().await?;
        self.check_owner(&observed)?;
        self.check_no_open_upgrade(&observed)?;
        self.check_awake(&observed)?;
        let control = self.on_control(&observed)?;
        let Err(Error::OtherAccounting { was, .. }) = self.check_accounts(&control).await else {
            return Ok(());
        };
        let name = control.host.name.as_str();
        (self.progress)(Event::working(name, "leaving the present accounts"));
        // Whoever has a database stops it, too.
        let units: &[&str] = match was.as_str() {
            kiln_site::services::accounting::OWN => {
                &["slurmctld.service", "slurmdbd.service", "mariadb.service"]
            }
            _ => &["slurmctld.service"],
        };
        control.script(LEAVE, units).await.map_err(|error| match error {
            Error::NotReady(said) => match said.split_once("jobs: ") {
                Some((_, jobs)) => Error::AccountingInUse(jobs.to_string()),
                None => Error::NotReady(said),
            },
            error => error,
        })?;
        (self.progress)(Event::done(name, "the present accounts are left; Slurm's daemons are stopped"));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(accounting: &str) -> Spec {
        let text = format!(
            "[cluster]\nname = \"c\"\n[cloud]\nkind = \"local\"\n[compute.e]\nnodes = \"e-0\"\n{accounting}"
        );
        kiln_spec::parse(&text, "f").unwrap_or_else(|e| panic!("{e}"))
    }

    const EXTERNAL: &str = "[accounting]\nhost = \"dbd\"\n";

    #[test]
    fn other_accounts_are_refused() {
        let check = |said: &str, file: &str| {
            Accounts::parse(said).check_place(&spec(file)).map_err(|error| error.to_string())
        };
        assert_eq!(check("", EXTERNAL), Ok(()));
        assert_eq!(check("place dbd\n", EXTERNAL), Ok(()));
        assert_eq!(check("place own\n", ""), Ok(()));
        assert_eq!(
            check("place own\n", EXTERNAL),
            Err("the state of this cluster belongs to the accounts of its own database, and the file wants those at dbd; \
                 nothing is moved from one to the other"
                .into())
        );
        assert!(check("place dbd\n", "").is_err() && check("place other\n", EXTERNAL).is_err());
    }

    #[test]
    fn slurmdbd_is_upgraded_first() {
        let (old, new) = (Release::new(24, 11, 5), Release::new(26, 5, 1));
        let check = |said: &str, to| Accounts::parse(said).check_release(&spec(EXTERNAL), old, to);
        assert!(check("slurmdbd 24.11.5\n", old).is_ok());
        assert!(check("", old).is_ok(), "what stays is not judged");
        assert!(matches!(check("slurmdbd 24.11.5\n", new), Err(Error::SlurmdbdDistance { .. })));
        assert!(matches!(check("", new), Err(Error::SlurmdbdUnknown { .. })));
        assert!(check("slurmdbd 26.05.0\n", new).is_ok());
        assert!(Accounts::default().check_release(&spec(""), old, new).is_ok());
    }
}
