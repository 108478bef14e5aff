//! Users of the cluster's own directory: the control node changes them, and every node is told to ask for them again.

use kiln_cloud::InstanceStatus;
use kiln_spec::Directory;
use kiln_wire::directory::{Deed, DirectoryAnswer, DirectoryRequest, DirectoryUser};
use kiln_wire::{Format as _, Version};

use crate::control::Refusal;
use crate::deployment::Deployment;
use crate::error::{Error, Result};
use crate::observe::Observed;

/// What became of a request.
#[derive(Debug)]
pub struct UserChange {
    pub users: Vec<DirectoryUser>,
    pub warnings: Vec<String>,
    /// `None`: nothing was changed.
    pub told: Option<Told>,
}

/// Which nodes know of a change.
#[derive(Debug)]
pub struct Told {
    pub nodes: usize,
    /// Those that could not be told. They find out by themselves within minutes.
    pub others: Vec<String>,
}

/// Arguments: a user's name, and the number of one who was removed and whose processes end.
const FORGET: &str = "sss_cache -u \"$1\" -G 2>/dev/null; \
                      if [ -n \"$2\" ]; then pkill -KILL -u \"$2\"; fi; true";

impl Deployment<'_> {
    pub async fn change_users(&self, deed: Deed) -> Result<UserChange> {
        let base = match &self.spec.directory {
            Some(Directory::Server { base }) => base.clone(),
            Some(Directory::Ldap(_)) => return Err(Error::DirectoryOfSite),
            None => return Err(Error::NoDirectory),
        };
        let observed = self.observe().await?;
        self.check_owner(&observed)?;
        let (user, ends) = match &deed {
            Deed::List => (None, false),
            Deed::Add(new) => (Some(new.name.clone()), false),
            Deed::Remove { user, .. } => (Some(user.clone()), true),
            Deed::Keys { user, .. } => (Some(user.clone()), false),
        };
        let answer = self.ask_directory(&observed, &DirectoryRequest { format: Version, base, deed }).await?;
        let told = match user {
            Some(user) => {
                let uid = answer.users.iter().find(|known| ends && known.name == user).map(|user| user.uid);
                Some(self.tell_nodes(&observed, &user, uid).await?)
            }
            None => None,
        };
        Ok(UserChange { users: answer.users, warnings: answer.warnings, told })
    }

    async fn ask_directory(
        &self,
        observed: &Observed,
        request: &DirectoryRequest,
    ) -> Result<DirectoryAnswer> {
        let control = self.hosts(observed, std::iter::once(self.spec.control.node.as_str()))?.remove(0);
        let json = request.to_json().map_err(|error| Error::NotReady(error.to_string()))?;
        let argv = ["kiln", "--json", "node", "directory"];
        let output = self.ssh()?.output(&control, &argv, &json).await?;
        if output.status != 0 {
            return Err(Refusal::read(&output.stderr).into());
        }
        let wrong = |error: kiln_wire::ReadError| Error::Node { message: error.to_string(), hint: None };
        DirectoryAnswer::from_json(output.stdout.as_bytes()).map_err(wrong)
    }

    /// Those that run. Others start with nothing that could be old.
    async fn tell_nodes(&self, observed: &Observed, user: &str, uid: Option<u32>) -> Result<Told> {
        let instances = observed.nodes();
        let runs = |name: &str| instances.get(name).is_some_and(|i| i.status == InstanceStatus::Active);
        let names = self.spec.nodes().map(|node| node.name).filter(|name| runs(name));
        let hosts = names.filter_map(|name| self.hosts(observed, std::iter::once(name)).ok()?.pop());
        let uid = uid.map(|uid| uid.to_string()).unwrap_or_default();
        let outcomes = self.exec(hosts.collect(), &["sh", "-c", FORGET, "sh", user, &uid]).await?;
        let (told, others): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(|o| o.status == Some(0));
        Ok(Told { nodes: told.len(), others: others.into_iter().map(|outcome| outcome.node).collect() })
    }
}
