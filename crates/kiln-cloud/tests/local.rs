use kiln_cloud::*;
use std::path::PathBuf;
#[tokio::test]
async fn boots() {
    let exe = std::env::current_exe().unwrap();
    let exe = exe
        .parent()
        .unwrap()
        .parent()
        .unwrap()
        .join("examples/local-cloud");
    let cloud = Cloud::local_with(PathBuf::from("/var/tmp/kiln-test"), exe);
    let t = std::time::Instant::now();
    let image = cloud
        .source_image("bookworm", &|s| eprintln!("{:?} {s}", t.elapsed()))
        .await
        .unwrap();
    eprintln!("{image:?} {:?}", t.elapsed());
    let labels: Labels = [(label::CLUSTER.to_string(), "t1".to_string())].into();
    let net = cloud
        .create_network(NewNetwork {
            name: "t1".into(),
            cidr: None,
            labels: labels.clone(),
        })
        .await
        .unwrap();
    let sg = cloud
        .create_security_group(NewSecurityGroup {
            name: "t1".into(),
            labels: labels.clone(),
            rules: vec![Rule {
                from: "0.0.0.0/0".parse().unwrap(),
                tcp_port: Some(22),
            }],
        })
        .await
        .unwrap();
    let t = std::time::Instant::now();
    let new = (0..6)
        .map(|n| NewInstance {
            name: format!("n{n}"),
            image: image.id.clone(),
            flavor: "tiny".into(),
            network: net.id.clone(),
            address: None,
            security_groups: vec![sg.id.clone()],
            user_data: "x".into(),
            ssh_key: String::new(),
            labels: labels.clone(),
            volumes: vec![],
        })
        .collect();
    let made = cloud.create(new).await;
    let made: Vec<Instance> = made.into_iter().map(|m| m.unwrap()).collect();
    eprintln!("accepted {:?}", t.elapsed());
    let ids: Vec<String> = made.iter().map(|i| i.id.clone()).collect();
    let r = cloud
        .wait_active(
            &ids,
            tokio::time::Instant::now() + std::time::Duration::from_secs(30),
            |_| {},
        )
        .await;
    eprintln!("active {:?} {r:?}", t.elapsed());
    for i in &made {
        while tokio::net::TcpStream::connect((i.address.unwrap(), 22))
            .await
            .is_err()
        {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            if t.elapsed().as_secs() > 20 {
                break;
            }
        }
        eprintln!("ssh {} {:?}", i.name, t.elapsed());
    }
    eprintln!("{}", cloud.console_log(&ids[0], 60).await.unwrap());
    let t = std::time::Instant::now();
    for id in &ids {
        cloud.delete(id).await.unwrap();
    }
    cloud.delete_security_group(&sg.id).await.unwrap();
    cloud.delete_network(&net.id).await.unwrap();
    eprintln!(
        "deleted {:?} {}",
        t.elapsed(),
        cloud.retire().await.unwrap()
    );
}
