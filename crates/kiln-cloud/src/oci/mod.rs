//! Oracle Cloud behind the [`crate::Cloud`] interface: Core Services, and a little of Identity and Object Storage.
//!
//! A thin client of our own, because Oracle has no SDK for Rust that is alive, and because what is hard lies between the
//! calls, as with OpenStack: launches that must not be made twice, faults sorted by what a caller can do, and listings in
//! place of questions about single instances.
//!
//! Everything that Kiln makes has its labels as free-form tags. Oracle does not filter by them, so listings are of the whole
//! compartment. What Kiln calls an instance is kept in four places there:
//!
//! | what | where |
//! | --- | --- |
//! | name, state, image, shape, labels | the instance |
//! | its addresses | a VNIC, found by an attachment |
//! | since when it has its root | the attachment of its boot volume |
//! | why its launch failed | a work request |

mod access;
mod calls;
mod capacity;
mod client;
mod compute_clusters;
mod create;
mod delete;
mod domains;
mod driver;
#[cfg(any(test, feature = "testing"))]
pub mod fake;
mod fault;
mod file_storage;
mod hosts;
mod images;
mod ini;
mod instances;
mod key;
mod limits;
mod login;
mod networks;
mod objects;
mod policy;
mod power;
mod principal;
mod rebuild;
mod region;
mod security;
mod shapes;
mod sign;
mod sweep;
#[cfg(test)]
mod tests;
mod upload;
#[cfg(test)]
mod vectors;
mod volumes;
mod wire;
mod work;

pub use access::Access;
pub use driver::Driver;
pub use kiln_spec::OciSpec as Settings;
