//! Who has which address, as the others on the network see it.

use std::fs;
use std::time::Duration;

use kiln_cloud::NewInstance;
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
        assert!(begun.elapsed() < Duration::from_secs(5), "the neighbour still looks for the old owner");
        sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(bridge(), bridge_before);
    site.finish().await;
}
