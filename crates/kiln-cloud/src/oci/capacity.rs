//! Capacity reports: what Oracle says of its room for a shape, in one availability domain. Only for those who may ask, which
//! is a right in the whole tenancy; for others nothing changes. A report promises nothing: a launch is still what decides.

use std::time::Duration;

use serde::Deserialize;
use serde_json::json;

use super::client::Call;
use super::domains::short;
use super::driver::Driver;
use super::fault::is_capacity;
use super::region::Service::Core;
use crate::{Class, Error, Result};

/// For how long a report is taken to hold: many nodes may miss the same room at once.
const FRESH_FOR: Duration = Duration::from_secs(60);

/// Of one availability domain, for one flavor.
#[derive(Debug, Clone)]
pub(super) struct Room {
    domain: String,
    is_there: bool,
    /// For how many, where Oracle says so.
    count: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    shape_availabilities: Vec<Availability>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Availability {
    #[serde(default)]
    availability_status: Option<String>,
    #[serde(default)]
    available_count: Option<u64>,
}

impl Driver {
    /// The next domain to try is the last one of these.
    pub(super) async fn most_room_last(&self, domains: &mut [String], flavor: &str) {
        if domains.len() < 2 {
            return;
        }
        let rooms = self.rooms(flavor).await;
        domains.sort_by_key(|domain| rooms.iter().any(|room| room.domain == *domain && room.is_there));
    }

    /// Adds where there is room by Oracle's report, if that is what was lacking.
    pub(super) async fn with_report(&self, error: Error, flavor: &str) -> Error {
        if error.class != Class::NoRoom || !is_capacity(&error.message) {
            return error;
        }
        match told(flavor, &self.rooms(flavor).await) {
            Some(told) => {
                let message = format!("{}; {told}", error.message);
                error.saying(message)
            }
            None => error,
        }
    }

    /// Of all availability domains; none, if Oracle does not say.
    async fn rooms(&self, flavor: &str) -> Vec<Room> {
        let mut known = self.known.reports.lock().await;
        known.retain(|_, (since, _)| since.elapsed() < FRESH_FOR);
        if let Some((_, rooms)) = known.get(flavor) {
            return rooms.clone();
        }
        let rooms = self.ask_for_rooms(flavor).await.unwrap_or_else(|error| {
            tracing::debug!(flavor, %error, "no capacity report");
            Vec::new()
        });
        known.insert(flavor.to_string(), (tokio::time::Instant::now(), rooms.clone()));
        rooms
    }

    /// Asked once: whoever has no room to offer is not to be waited for.
    async fn ask_for_rooms(&self, flavor: &str) -> Result<Vec<Room>> {
        let (shape, size) = self.shape(flavor).await?;
        let mut wanted = json!({ "instanceShape": shape });
        if let Some(size) = size {
            wanted["instanceShapeConfig"] = size;
        }
        let mut rooms = Vec::new();
        for domain in self.domains().await? {
            let body = json!({ "compartmentId": self.tenancy()?, "availabilityDomain": domain,
                               "shapeAvailabilities": [wanted] });
            let answer = self.client.send_once(&Call::post(Core, "/computeCapacityReports", &body)).await?;
            let report: Report = answer.read("a capacity report")?;
            let found = report.shape_availabilities.first();
            rooms.push(Room {
                domain: domain.clone(),
                is_there: found.is_some_and(|a| a.availability_status.as_deref() == Some("AVAILABLE")),
                count: found.and_then(|a| a.available_count).filter(|count| *count > 0),
            });
        }
        Ok(rooms)
    }
}

/// In words.
fn told(flavor: &str, rooms: &[Room]) -> Option<String> {
    if rooms.is_empty() {
        return None;
    }
    let place = |room: &Room| match room.count {
        Some(count) => format!("{} ({count})", short(&room.domain)),
        None => short(&room.domain),
    };
    let places: Vec<String> = rooms.iter().filter(|room| room.is_there).map(place).collect();
    Some(if places.is_empty() {
        format!("by Oracle's report no availability domain has room for {flavor}")
    } else {
        format!("by Oracle's report there is room for {flavor} in {}", places.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_in_words() {
        let room = |domain: &str, is_there, count| Room { domain: domain.into(), is_there, count };
        assert_eq!(told("X", &[]), None);
        let none = [room("Uocm:PHX-AD-1", false, None), room("Uocm:PHX-AD-2", false, None)];
        assert_eq!(told("X", &none).unwrap(), "by Oracle's report no availability domain has room for X");
        let some =
            [room("Uocm:PHX-AD-1", false, None), room("Uocm:PHX-AD-2", true, Some(3)), room("A", true, None)];
        assert_eq!(told("X", &some).unwrap(), "by Oracle's report there is room for X in ad2 (3), A");
    }
}
