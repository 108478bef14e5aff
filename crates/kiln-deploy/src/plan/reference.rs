//! Values that a plan cannot know yet because an earlier stage of the same plan makes what they belong to.

use std::fmt;

use serde::Serialize;

/// Something in the cloud, named as the plan names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Resource {
    Image(String),
    Network(String),
    SecurityGroup(String),
    Volume(String),
    /// By its node.
    Instance(String),
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Resource::Image(name) => write!(f, "image {name}"),
            Resource::Network(name) => write!(f, "network {name}"),
            Resource::SecurityGroup(name) => write!(f, "security group {name}"),
            Resource::Volume(name) => write!(f, "volume {name}"),
            Resource::Instance(node) => write!(f, "the instance of {node}"),
        }
    }
}

/// A value, or the resource whose creation will tell it: its id, its subnet or its address, depending on `T`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ref<T> {
    Made(Resource),
    #[serde(untagged)]
    Known(T),
}

impl<T> Ref<T> {
    pub fn known(self) -> Option<T> {
        match self {
            Ref::Known(value) => Some(value),
            Ref::Made(_) => None,
        }
    }

    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Ref<U> {
        match self {
            Ref::Known(value) => Ref::Known(change(value)),
            Ref::Made(resource) => Ref::Made(resource),
        }
    }
}
