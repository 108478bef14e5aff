//! Capacity reports.

use super::*;

fn launches(site: &Site) -> usize {
    site.fake.take_calls().iter().filter(|call| *call == "POST instances").count()
}

/// A launch that fails later costs minutes; a report tells that it would.
#[tokio::test]
async fn a_report_says_which_domain_to_try_next() {
    let site = Site::new().await;
    site.fake.allow_reports();
    site.fake.fill(DOMAINS[0], "VM.Standard.E5.Flex");
    site.fake.fill_quietly(DOMAINS[1], "VM.Standard.E5.Flex");
    site.fake.take_calls();
    site.running("n-0").await;
    assert_eq!(site.fake.domains_of("n-0"), [DOMAINS[2]]);
    assert_eq!(launches(&site), 2, "the second domain is not tried");
    site.clear().await;
}

#[tokio::test]
async fn what_has_room_is_told_to_those_who_may_ask() {
    let site = Site::new().await;
    site.fake.fill(DOMAINS[0], "VM.Standard.E5.Flex");
    let there = || NewInstance { zone: Some("ad1".into()), ..site.wanted("n-0") };
    let told = site.create(there()).await.unwrap_err();
    assert!(told.message.ends_with(')'), "nothing but Oracle's words: {told}");

    site.fake.allow_reports();
    let knows = site.fake.cloud().unwrap();
    site.fake.take_calls();
    let new = (0..3).map(|n| NewInstance { name: format!("n-{n}"), ..there() }).collect();
    for made in knows.create(new).await {
        let told = made.unwrap_err();
        assert_eq!(told.class, Class::NoRoom);
        assert!(told.message.contains("Out of host capacity. (opc-request-id"), "{told}");
        let room = format!("; by Oracle's report there is room for {SHAPE} in ad2 (7), ad3 (7)");
        assert!(told.message.ends_with(&room), "{told}");
    }
    let reports = site.fake.take_calls().iter().filter(|call| *call == "POST computeCapacityReports").count();
    assert_eq!(reports, 3, "one for each domain, not for each node");

    site.fake.fill_quietly(DOMAINS[1], "VM.Standard.E5.Flex");
    site.fake.fill(DOMAINS[2], "VM.Standard.E5.Flex");
    let none = site.fake.cloud().unwrap().create(vec![site.wanted("n-0")]).await.pop().unwrap().unwrap_err();
    assert!(none.message.ends_with(&format!("no availability domain has room for {SHAPE}")), "{none}");

    // A limit is the tenancy's own, which no report is about.
    site.fake.limit("hpc2-36-count", 0);
    let limited = NewInstance { flavor: "BM.HPC2.36".into(), ..site.wanted("n-1") };
    let limited = knows.create(vec![limited]).await.pop().unwrap().unwrap_err();
    assert!(!limited.message.contains("report"), "{limited}");
    site.clear().await;
}
