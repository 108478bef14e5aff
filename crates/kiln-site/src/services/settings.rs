//! Settings of the operating system that the file may have: name servers, proxy, kernel parameters.

use kiln_spec::Spec;
use kiln_wire::Resource;
use kiln_wire::make::{command, file};

use super::{Context, Service};

pub const SETTINGS: Service = Service { name: "settings", resources, ..Service::EMPTY };

const SYSCTL: &str = "/etc/sysctl.d/90-kiln.conf";

fn resources(context: &Context<'_>) -> Vec<Resource> {
    let spec = context.spec;
    [names(spec), proxy_of_shells(spec), sysctl(spec)].concat()
}

const RESOLV_CONF: &str = "/etc/resolv.conf";
/// What the cloud's network had said.
const OF_CLOUD: &str = "/etc/resolv.conf.before-kiln";

/// The two programs that would write `/etc/resolv.conf` again are told not to. What was there is kept, for when the file has no name
/// servers any more.
fn names(spec: &Spec) -> Vec<Resource> {
    let system = &spec.system;
    if system.dns.is_empty() {
        let back = command("name servers of the cloud", &["mv", OF_CLOUD, RESOLV_CONF]);
        return vec![Resource::Command(
            back.unless(&["test", "!", "-e", OF_CLOUD, "-a", "!", "-L", OF_CLOUD]),
        )];
    }
    let keep = command("name servers of the cloud are kept", &["cp", "--archive", RESOLV_CONF, OF_CLOUD]);
    let kept = ["test", "-e", OF_CLOUD, "-o", "-L", OF_CLOUD, "-o", "!", "-e", RESOLV_CONF];
    let domains: Vec<&str> =
        std::iter::once(&spec.domain).chain(&system.search).map(String::as_str).collect();
    let servers = system.dns.iter().map(|address| format!("nameserver {address}\n"));
    let resolv_conf =
        format!("# Written by Kiln.\nsearch {}\n{}", domains.join(" "), servers.collect::<String>());
    vec![
        Resource::Command(keep.unless(&kept)),
        Resource::File(file(
            "/etc/dhcp/dhclient-enter-hooks.d/kiln",
            "# Written by Kiln.\nmake_resolv_conf() { :; }\n",
        )),
        Resource::File(file(
            "/etc/NetworkManager/conf.d/kiln.conf",
            "# Written by Kiln.\n[main]\ndns=none\n",
        )),
        Resource::File(file(RESOLV_CONF, resolv_conf)),
    ]
}

/// The address of the proxy, and what is reached without it.
pub fn proxy(spec: &Spec) -> Option<(String, String)> {
    let proxy = spec.system.proxy.as_ref()?;
    let domain = format!(".{}", spec.domain);
    let own = ["localhost", "127.0.0.1", &spec.control.node, &domain];
    let except = own.into_iter().chain(proxy.except.iter().map(String::as_str)).collect::<Vec<_>>().join(",");
    Some((proxy.url.clone(), except))
}

fn proxy_of_shells(spec: &Spec) -> Vec<Resource> {
    let Some((url, except)) = proxy(spec) else { return Vec::new() };
    let text = format!(
        "# Written by Kiln.\nexport http_proxy='{url}' https_proxy='{url}' no_proxy='{except}'\n\
         export HTTP_PROXY='{url}' HTTPS_PROXY='{url}' NO_PROXY='{except}'\n"
    );
    vec![Resource::File(file("/etc/profile.d/kiln-proxy.sh", text))]
}

/// Where nodes have no kernel of their own, nothing can be set.
fn sysctl(spec: &Spec) -> Vec<Resource> {
    if spec.system.sysctl.is_empty() || !spec.cloud.facts().has_kernels {
        return Vec::new();
    }
    let lines = spec.system.sysctl.iter().map(|(name, value)| format!("{name} = {value}\n"));
    let text = format!("# Written by Kiln.\n{}", lines.collect::<String>());
    let load = command("sysctl", &["sysctl", "--quiet", "--load", SYSCTL]);
    vec![
        Resource::File(file(SYSCTL, text)),
        Resource::Command(load.when_changed(&[&format!("file:{SYSCTL}")])),
    ]
}
