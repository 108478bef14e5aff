//! What the control node may do in the cloud, where that is for the cloud's administrators to say.

use kiln_cloud::{Right, RightState};
use kiln_image::Event;

use crate::deployment::Deployment;
use crate::error::Result;

const ITEM: &str = "rights of the control node";

impl Deployment<'_> {
    /// What has to be there, and whether it is. `make`: what is missing is made, as far as it may be.
    pub async fn rights(&self, make: bool) -> Result<Vec<Right>> {
        Ok(self.cloud.rights(&self.spec.name, make).await?)
    }

    /// Before the control node is made, which is then known as such from the start. An administrator may have given the
    /// same rights in another way, so it is no error if this may not be done here.
    pub(crate) async fn ensure_rights(&self) -> Result<()> {
        let rights = self.rights(true).await?;
        for made in rights.iter().filter(|right| right.state == RightState::Made) {
            (self.progress)(Event::done(made.name.clone(), "created"));
        }
        if let Some((right, why)) = rights.iter().find_map(|right| Some((right, right.why()?))) {
            let text =
                format!("{}: {why}. `kiln policy` prints what an administrator has to create", right.name);
            (self.progress)(Event::failed(ITEM, text));
        }
        Ok(())
    }
}
