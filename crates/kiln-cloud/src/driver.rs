//! What a driver of a cloud does. [`crate::Cloud`] has the same calls, with what each of them promises; this is the list
//! for whoever writes a driver. A method with a body is for clouds that have more than others: the body is what it means
//! where a cloud lacks that.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::fs::File;
use std::future::{Future, ready};
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use crate::{
    AddressRange, Error, Expiry, Flavor, Image, Instance, Kind, Labels, Layers, Limit, Network, NewExports,
    NewImage, NewInstance, NewNetwork, NewSecurityGroup, NewVolume, Quota, Rebuild, Result, Right,
    SecurityGroup, Volume,
};

pub(crate) trait Driver: Clone + Debug + Send + Sync + Sized {
    /// How a control node reaches the cloud it is in.
    type Access;

    /// Between two listings of those who wait for something.
    const POLL: Duration;

    /// The cloud seen from a control node.
    fn at(access: &Self::Access) -> Result<Self>;

    fn access(
        &self,
        cluster: &str,
        token: &str,
        networks: &[Network],
    ) -> impl Future<Output = Result<Self::Access>> + Send;

    fn grant(&self, cluster: &str, token: &str) -> impl Future<Output = Result<()>> + Send;

    fn revoke(&self, cluster: &str) -> impl Future<Output = Result<()>> + Send;

    /// By default what [`Driver::grant`] does is enough.
    fn rights(&self, _cluster: &str, _make: bool) -> impl Future<Output = Result<Vec<Right>>> + Send {
        ready(Ok(Vec::new()))
    }

    fn check(&self) -> impl Future<Output = Result<()>> + Send {
        ready(Ok(()))
    }

    fn sweep(&self, _cluster: &str) -> impl Future<Output = Result<()>> + Send {
        ready(Ok(()))
    }

    fn retire(&self) -> impl Future<Output = Result<bool>> + Send {
        ready(Ok(true))
    }

    fn instances(&self, cluster: &str) -> impl Future<Output = Result<Vec<Instance>>> + Send;

    fn instance(&self, id: &str) -> impl Future<Output = Result<Instance>> + Send;

    fn create(&self, new: Vec<NewInstance>) -> impl Future<Output = Vec<Result<Instance>>> + Send;

    fn rebuild(&self, id: &str, new: Rebuild) -> impl Future<Output = Result<Instance>> + Send;

    fn reboot(&self, id: &str, hard: bool) -> impl Future<Output = Result<Instance>> + Send;

    fn stop(&self, id: &str, hard: bool) -> impl Future<Output = Result<Instance>> + Send;

    fn start(&self, id: &str) -> impl Future<Output = Result<Instance>> + Send;

    fn delete(&self, id: &str) -> impl Future<Output = Result<()>> + Send;

    fn delete_all(
        &self,
        ids: &[String],
        gone: &(dyn Fn(&str) + Sync),
    ) -> impl Future<Output = Vec<Result<()>>> + Send;

    fn add_labels(&self, id: &str, labels: Labels) -> impl Future<Output = Result<Instance>> + Send {
        async move {
            let mut all = self.instance(id).await?.labels;
            all.extend(labels);
            self.set_labels(id, all).await
        }
    }

    fn label(&self, kind: Kind, id: &str, labels: Labels) -> impl Future<Output = Result<()>> + Send;

    fn set_labels(&self, id: &str, labels: Labels) -> impl Future<Output = Result<Instance>> + Send;

    fn console_log(&self, id: &str, lines: usize) -> impl Future<Output = Result<String>> + Send;

    fn images(&self) -> impl Future<Output = Result<Vec<Image>>> + Send;

    fn used_images(&self) -> impl Future<Output = Result<BTreeSet<String>>> + Send;

    fn image(&self, id: &str) -> impl Future<Output = Result<Image>> + Send;

    fn find_image(&self, name: &str) -> impl Future<Output = Result<Image>> + Send;

    fn create_image(
        &self,
        instance: &str,
        new: NewImage,
        copied: &(dyn Fn() + Sync),
    ) -> impl Future<Output = Result<Image>> + Send;

    fn clear_build(&self, _cluster: &str) -> impl Future<Output = Result<()>> + Send {
        ready(Ok(()))
    }

    fn upload_image(&self, _new: NewImage, _file: &Path) -> impl Future<Output = Result<Image>> + Send {
        ready(Err(Error::unsupported("this cloud takes no images from files")))
    }

    fn layers(&self, _image: &str) -> impl Future<Output = Result<Layers>> + Send {
        ready(Err(Error::unsupported("only images of the local cloud can be exported")))
    }

    fn download_image(&self, _image: &str, _to: &File) -> impl Future<Output = Result<()>> + Send {
        ready(Err(Error::unsupported("Kiln cannot download images of this cloud").with_hint(
            "download one with the cloud's own tools, mount it read-only, and `kiln image check IMAGE --root DIRECTORY` \
             looks into it",
        )))
    }

    fn delete_image(&self, id: &str) -> impl Future<Output = Result<()>> + Send;

    fn source_image(
        &self,
        suite: &str,
        _progress: &(dyn Fn(&str) + Sync),
    ) -> impl Future<Output = Result<Image>> + Send {
        ready(Err(Error::unsupported(format!(
            "no image of {suite} can be made on this cloud: name an image of the cloud as the source"
        ))))
    }

    fn volumes(&self, cluster: &str) -> impl Future<Output = Result<Vec<Volume>>> + Send;

    fn volume_by_name(&self, name: &str) -> impl Future<Output = Result<Option<Volume>>> + Send;

    fn create_volume(&self, new: NewVolume) -> impl Future<Output = Result<Volume>> + Send;

    fn grow_volume(&self, id: &str, size_gib: u64) -> impl Future<Output = Result<Volume>> + Send;

    fn delete_volume(&self, id: &str) -> impl Future<Output = Result<()>> + Send;

    fn create_file_system(
        &self,
        _name: &str,
        _labels: Labels,
    ) -> impl Future<Output = Result<Volume>> + Send {
        ready(Err(Error::unsupported("this cloud serves no file systems")))
    }

    fn export(&self, _new: NewExports) -> impl Future<Output = Result<BTreeMap<String, String>>> + Send {
        ready(Err(Error::unsupported("this cloud serves no file systems")))
    }

    fn networks(&self, cluster: &str) -> impl Future<Output = Result<Vec<Network>>> + Send;

    /// By default every network is some cluster's own.
    fn network_by_name(&self, _name: &str) -> impl Future<Output = Result<Option<Network>>> + Send {
        ready(Ok(None))
    }

    fn create_network(&self, new: NewNetwork) -> impl Future<Output = Result<Network>> + Send;

    /// By default the cloud cannot be told where to take addresses from.
    fn set_automatic(
        &self,
        _network: &str,
        _ranges: Vec<AddressRange>,
    ) -> impl Future<Output = Result<()>> + Send {
        ready(Ok(()))
    }

    fn foreign_addresses(
        &self,
        _network: &str,
        _cluster: &str,
    ) -> impl Future<Output = Result<BTreeMap<IpAddr, String>>> + Send {
        ready(Ok(BTreeMap::new()))
    }

    fn delete_network(&self, id: &str) -> impl Future<Output = Result<()>> + Send;

    fn security_groups(&self, cluster: &str) -> impl Future<Output = Result<Vec<SecurityGroup>>> + Send;

    fn create_security_group(
        &self,
        new: NewSecurityGroup,
    ) -> impl Future<Output = Result<SecurityGroup>> + Send;

    fn delete_security_group(&self, id: &str) -> impl Future<Output = Result<()>> + Send;

    fn flavors(&self) -> impl Future<Output = Result<Vec<Flavor>>> + Send;

    /// By default no flavor has a name that is not listed.
    fn flavors_named(&self, _names: &[String]) -> impl Future<Output = Result<Vec<Flavor>>> + Send {
        self.flavors()
    }

    /// By default the cloud does not say.
    fn switches(
        &self,
        _instances: &[Instance],
    ) -> impl Future<Output = Result<BTreeMap<String, Vec<String>>>> + Send {
        ready(Ok(BTreeMap::new()))
    }

    fn quotas(&self) -> impl Future<Output = Result<Vec<Quota>>> + Send {
        ready(Ok(Vec::new()))
    }

    /// By default quotas are all there is, and hold in all zones together.
    fn limits(&self, flavors: &[String]) -> impl Future<Output = Result<Vec<Limit>>> + Send {
        async move {
            let quotas = self.quotas().await?;
            if quotas.is_empty() {
                return Ok(Vec::new());
            }
            let known = self.flavors_named(flavors).await?;
            let mut limits = Vec::new();
            for name in flavors {
                let flavor = known.iter().find(|flavor| flavor.name == *name);
                let flavor = flavor.ok_or_else(|| Error::not_found("flavor", name.clone()))?;
                limits.extend(crate::limits::of_quotas(&quotas, flavor));
            }
            Ok(limits)
        }
    }

    fn expiries(&self, _cluster: &str) -> impl Future<Output = Result<Vec<Expiry>>> + Send {
        ready(Ok(Vec::new()))
    }

    fn certificates(&self) -> impl Future<Output = Result<Vec<Expiry>>> + Send {
        ready(Ok(Vec::new()))
    }
}

/// Those calls of a driver that are methods of its own with the same names and arguments, each in the module of its subject. A
/// driver that lacks one of them does not compile.
macro_rules! own_methods {
    () => {
        $crate::driver::own_methods! {
            fn check() -> $crate::Result<()>;
            fn sweep(cluster: &str) -> $crate::Result<()>;
            fn instances(cluster: &str) -> $crate::Result<Vec<$crate::Instance>>;
            fn instance(id: &str) -> $crate::Result<$crate::Instance>;
            fn create(new: Vec<$crate::NewInstance>) -> Vec<$crate::Result<$crate::Instance>>;
            fn rebuild(id: &str, new: $crate::Rebuild) -> $crate::Result<$crate::Instance>;
            fn reboot(id: &str, hard: bool) -> $crate::Result<$crate::Instance>;
            fn stop(id: &str, hard: bool) -> $crate::Result<$crate::Instance>;
            fn start(id: &str) -> $crate::Result<$crate::Instance>;
            fn delete(id: &str) -> $crate::Result<()>;
            fn delete_all(ids: &[String], gone: &(dyn Fn(&str) + Sync)) -> Vec<$crate::Result<()>>;
            fn add_labels(id: &str, labels: $crate::Labels) -> $crate::Result<$crate::Instance>;
            fn set_labels(id: &str, labels: $crate::Labels) -> $crate::Result<$crate::Instance>;
            fn console_log(id: &str, lines: usize) -> $crate::Result<String>;
            fn images() -> $crate::Result<Vec<$crate::Image>>;
            fn used_images() -> $crate::Result<std::collections::BTreeSet<String>>;
            fn image(id: &str) -> $crate::Result<$crate::Image>;
            fn find_image(name: &str) -> $crate::Result<$crate::Image>;
            fn create_image(instance: &str, new: $crate::NewImage, copied: &(dyn Fn() + Sync)) -> $crate::Result<$crate::Image>;
            fn clear_build(cluster: &str) -> $crate::Result<()>;
            fn upload_image(new: $crate::NewImage, file: &std::path::Path) -> $crate::Result<$crate::Image>;
            fn delete_image(id: &str) -> $crate::Result<()>;
            fn volumes(cluster: &str) -> $crate::Result<Vec<$crate::Volume>>;
            fn volume_by_name(name: &str) -> $crate::Result<Option<$crate::Volume>>;
            fn create_volume(new: $crate::NewVolume) -> $crate::Result<$crate::Volume>;
            fn grow_volume(id: &str, size_gib: u64) -> $crate::Result<$crate::Volume>;
            fn delete_volume(id: &str) -> $crate::Result<()>;
            fn networks(cluster: &str) -> $crate::Result<Vec<$crate::Network>>;
            fn network_by_name(name: &str) -> $crate::Result<Option<$crate::Network>>;
            fn create_network(new: $crate::NewNetwork) -> $crate::Result<$crate::Network>;
            fn foreign_addresses(network: &str, cluster: &str) -> $crate::Result<std::collections::BTreeMap<std::net::IpAddr, String>>;
            fn delete_network(id: &str) -> $crate::Result<()>;
            fn security_groups(cluster: &str) -> $crate::Result<Vec<$crate::SecurityGroup>>;
            fn create_security_group(new: $crate::NewSecurityGroup) -> $crate::Result<$crate::SecurityGroup>;
            fn delete_security_group(id: &str) -> $crate::Result<()>;
            fn flavors() -> $crate::Result<Vec<$crate::Flavor>>;
        }
    };
    ($(fn $name:ident($($argument:ident: $type:ty),*) -> $answer:ty;)+) => {
        $(async fn $name(&self, $($argument: $type),*) -> $answer {
            self.$name($($argument),*).await
        })+
    };
}
pub(crate) use own_methods;
