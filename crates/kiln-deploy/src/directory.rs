//! Users of the cluster's own directory: the control node changes them, and every node is told to ask for them again.

use kiln_cloud::InstanceStatus;
use kiln_spec::Directory;
use kiln_ssh::Host;
use kiln_wire::directory::{Deed, DirectoryAnswer, DirectoryRequest, DirectoryUser};
use kiln_wire::{Format as _, Version};
use tokio::sync::watch;

use crate::control::Refusal;
use crate::deployment::Deployment;
use crate::error::{Error, Result};
use crate::nodes::bounded;
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

/// Argument: a user's name. Input, once the directory has changed: the number of one who was removed and whose processes end, or `-`.
const FORGET: &str = "read -r uid || exit 0; sss_cache -u \"$1\" -G 2>/dev/null; \
                      if [ \"$uid\" != - ]; then pkill -KILL -u \"$uid\"; fi; true";

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
        let request = DirectoryRequest { format: Version, base, deed };
        let Some(user) = user else {
            let answer = self.ask_directory(&observed, &request).await?;
            return Ok(UserChange { users: answer.users, warnings: answer.warnings, told: None });
        };
        let (changed, is_changed) = watch::channel(None);
        let asked = async {
            let answer = self.ask_directory(&observed, &request).await?;
            let uid = answer.users.iter().find(|known| ends && known.name == user).map(|user| user.uid);
            changed.send_replace(Some(uid.map_or_else(|| "-\n".to_string(), |uid| format!("{uid}\n"))));
            Ok(answer)
        };
        // Logins take most of the time, and need not wait for the control node.
        let (answer, told) = tokio::try_join!(asked, self.tell_nodes(&observed, &user, &is_changed))?;
        Ok(UserChange { users: answer.users, warnings: answer.warnings, told: Some(told) })
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

    /// Those that run, once the control node, which knows by itself, has made the change. Others start with nothing that could be old.
    async fn tell_nodes(
        &self,
        observed: &Observed,
        user: &str,
        changed: &watch::Receiver<Option<String>>,
    ) -> Result<Told> {
        let (ssh, argv) = (self.ssh()?, ["sh", "-c", FORGET, "sh", user]);
        let instances = observed.nodes();
        let runs = |name: &str| instances.get(name).is_some_and(|i| i.status == InstanceStatus::Active);
        let others = self.spec.nodes().map(|node| node.name).filter(|name| *name != self.spec.control.node);
        let hosts = others.filter(|name| runs(name));
        let hosts = hosts.filter_map(|name| self.hosts(observed, std::iter::once(name)).ok()?.pop());
        let tell = async |host: Host| {
            let mut changed = changed.clone();
            let input = async {
                let line = changed.wait_for(Option::is_some).await;
                line.ok().and_then(|line| line.clone()).unwrap_or_default()
            };
            let outcome = ssh.output_with(&host, &argv, input).await;
            outcome.is_ok_and(|output| output.status == 0).then_some(()).ok_or(host.name)
        };
        let outcomes = bounded(hosts.collect(), self.spec.concurrency, tell).await;
        let others: Vec<String> = outcomes.iter().filter_map(|told| told.clone().err()).collect();
        Ok(Told { nodes: 1 + outcomes.len() - others.len(), others })
    }
}
