//! Who has which address, as the others on the network see it.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use kiln_cloud::{AddressRange, Class, NewInstance};
use tokio::time::{Instant, sleep};

use super::support::{Site, inside, mac, try_inside};

#[tokio::test]
async fn an_address_can_change_hands() {
    let site = Site::new("t-neigh").await;
    let short: String = site.network.id.chars().filter(char::is_ascii_hexdigit).take(12).collect();
    let bridge = || fs::read_to_string(format!("/sys/class/net/kb{short}/address")).unwrap();
    let bridge_before = bridge();
    let mut made = site.boot(vec![site.wanted("n1"), site.wanted("n2")]).await;
    let (two, one) = (made.remove(1), made.remove(0));
    let address = two.address.unwrap();
    let ping = ["ping", "-c1", "-W1", &address.to_string()];
    inside(&one.id, &ping);
    let old = mac(&two.id);
    site.cloud.delete(&two.id).await.unwrap();

    // Host and neighbour have just talked to the old owner and trust what they know for half a minute.
    let next = site.boot(vec![NewInstance { address: two.address, ..site.wanted("n3") }]).await.remove(0);
    assert_ne!(mac(&next.id), old);
    let begun = Instant::now();
    while try_inside(&one.id, &ping).is_none() {
        assert!(begun.elapsed() < Duration::from_secs(20), "the neighbour still looks for the old owner");
        sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(bridge(), bridge_before);
    site.finish().await;
}

/// What a node is to get later is given to nobody before.
#[tokio::test]
async fn an_address_outside_the_ranges_is_given_only_to_who_asks() {
    let site = Site::new("t-ranges").await;
    let first = |n: u32| Ipv4Addr::from(u32::from(site.network.cidr.network()) + n);
    let range = |from, to| AddressRange { first: first(from), last: first(to) };
    site.cloud.set_automatic(&site.network.id, vec![range(2, 2), range(4, 4)]).await.unwrap();
    let made = site.boot(vec![site.wanted("n1"), site.wanted("n2")]).await;
    let mut given: Vec<_> = made.iter().filter_map(|instance| instance.address).collect();
    given.sort_unstable();
    assert_eq!(given, [IpAddr::from(first(2)), first(4).into()]);
    let full = site.cloud.create(vec![site.wanted("n3")]).await.remove(0).unwrap_err();
    assert_eq!(full.class, Class::NoRoom, "{full}");
    let asked = NewInstance { address: Some(first(3).into()), ..site.wanted("n3") };
    assert_eq!(site.boot(vec![asked]).await[0].address, Some(first(3).into()));
    site.finish().await;
}

/// Root of an instance takes another one's address, and asks for what the metadata has for that one.
#[tokio::test]
async fn an_instance_cannot_be_another_one() {
    let site = Site::new("t-spoof").await;
    let mut made = site.boot(vec![site.wanted("n1"), site.wanted("n2")]).await;
    let (two, one) = (made.remove(1), made.remove(0));
    let ask = |from: &str, limit: &str| {
        let url = "http://169.254.169.254/openstack/latest/user_data";
        try_inside(&one.id, &["curl", "-s", "--max-time", limit, "--interface", from, url])
    };
    let [own, other] = [&one, &two].map(|instance| instance.address.unwrap().to_string());
    assert!(ask(&own, "30").is_some_and(|said| said.contains("secret of n1")));
    inside(&two.id, &["ip", "link", "set", "eth0", "down"]);
    inside(&one.id, &["ip", "address", "add", &format!("{other}/32"), "dev", "eth0"]);
    let said = ask(&other, "3");
    assert!(!said.as_deref().unwrap_or_default().contains("secret"), "{said:?}");
    site.finish().await;
}
