//! `[user.NAME]`: a user of the cluster.

use crate::written::table::table;
use crate::written::{At, List, Text};

table! {
    /// A user of the cluster.
    UserTable {
        /// Numeric id, 1000 to 60000. The user's own group has the same number.
        "uid" => uid: At<i64>, required;
        /// Supplementary groups. A group that Debian does not have is created, with a gid from 40000 to 58999 that is derived from its name.
        "groups" => groups: List<Text>, empty;
        /// Public keys: lines of `.pub` files. Options may precede a key, e.g. `'from="10.0.0.0/8" ssh-ed25519 AAAA...'`.
        "ssh_keys" => ssh_keys: List<Text>, empty;
        /// Login shell.
        "shell" => shell: Text, default "/bin/bash";
        /// Whether the user may become root on every node, without a password.
        "sudo" => sudo: At<bool>, default false;
    }
}
