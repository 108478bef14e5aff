//! The users that services run as and whose files outlive an image or are seen by other nodes. Each has one number, as
//! user and as group, on every node and every release of its system: a volume knows its owners by number. They are made
//! in an image before any package is installed, which would choose numbers by what is there already.

use kiln_wire::Resource;
use kiln_wire::bundle::{Group, User};
use kiln_wire::make::{command, directory};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceUser {
    pub name: &'static str,
    /// uid and gid. Neither adduser, which counts upwards from 100, nor useradd, which counts downwards from 999, nor a
    /// user of the file, up to 60000, gets there. Where Debian reserves a number for the name, it is that one. Packages that ask
    /// adduser without a look at who is there need one that adduser takes for a system user's.
    pub id: u32,
}

pub const MYSQL: ServiceUser = ServiceUser { name: "mysql", id: 64_001 };
pub const SLURM: ServiceUser = ServiceUser { name: "slurm", id: 64_030 };
pub const MUNGE: ServiceUser = ServiceUser { name: "munge", id: 64_831 };
pub const KILND: ServiceUser = ServiceUser { name: "kilnd", id: 64_832 };
pub const PROMETHEUS: ServiceUser = ServiceUser { name: "prometheus", id: 600 };
pub const SLURMRESTD: ServiceUser = ServiceUser { name: "slurmrestd", id: 64_833 };

impl ServiceUser {
    /// Every one of them: an image has them all, whatever its roles.
    pub const ALL: [ServiceUser; 6] = [MYSQL, SLURM, MUNGE, KILND, PROMETHEUS, SLURMRESTD];

    /// What others name in `needs`.
    pub fn resource_id(self) -> String {
        format!("user:{}", self.name)
    }

    /// Made where the image does not have them; an image that has them with other numbers is refused.
    pub(crate) fn resources(self) -> [Resource; 2] {
        let (name, id) = (self.name.to_string(), self.id);
        let user = User {
            name: name.clone(),
            uid: id,
            gid: id,
            groups: Vec::new(),
            home: "/nonexistent".into(),
            shell: "/usr/sbin/nologin".into(),
            make_home: false,
            system: true,
        };
        [Resource::Group(Group { name, gid: Some(id), system: true }), Resource::User(user)]
    }

    /// A directory on a volume with all that is in it. The volume may come from a time when the user had another number.
    pub(crate) fn tree(self, path: &str, mode: u32) -> [Resource; 2] {
        const IS_OWN: &str =
            r#"test -z "$(find "$1" \( ! -user "$2" -o ! -group "$2" \) -print -quit 2>/dev/null)""#;
        let name = self.name;
        let chown = command(
            &format!("{path} belongs to {name}"),
            &["chown", "--recursive", "--no-dereference", &format!("{name}:{name}"), path],
        );
        // A daemon that runs may take a file away that chown has just seen.
        let chown = chown.unless(&["sh", "-c", IS_OWN, "sh", path, name]).retry(10);
        [directory(path, name, mode), Resource::Command(chown.needs(&self.resource_id()))]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_used_once_and_out_of_reach_of_others() {
        let mut ids = ServiceUser::ALL.map(|user| user.id);
        ids.sort_unstable();
        assert!(ids.windows(2).all(|pair| pair[0] < pair[1]));
        let of_system = 400..800;
        assert!(ids.iter().all(|id| (60_001..65_520).contains(id) || of_system.contains(id)), "{ids:?}");
    }
}
