//! What comes with a question. What cannot be understood is refused in the same form as everything else.

use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use crate::answers::Refusal;

/// Parts of the path.
pub struct Path<T>(pub T);
/// Parameters behind the question mark.
pub struct Query<T>(pub T);
pub struct Body<T>(pub T);

macro_rules! refused {
    ($($rejection:ty),*) => {
        $(impl From<$rejection> for Refusal {
            fn from(rejection: $rejection) -> Refusal {
                Refusal(rejection.status(), rejection.body_text(), None)
            }
        })*
    };
}

refused!(PathRejection, QueryRejection, JsonRejection);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let axum::extract::Path(value) = axum::extract::Path::from_request_parts(parts, state).await?;
        Ok(Path(value))
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let axum::extract::Query(value) = axum::extract::Query::from_request_parts(parts, state).await?;
        Ok(Query(value))
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refusal> {
        let axum::Json(value) = axum::Json::from_request(request, state).await?;
        Ok(Body(value))
    }
}
