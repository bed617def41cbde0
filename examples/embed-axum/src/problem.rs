//! The error of a request: an HTTP status and a message for the customer.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use broker_embed::{Error, domain, one_line};

#[derive(Debug, thiserror::Error)]
pub(crate) enum Problem {
    #[error("the header x-customer is missing")]
    Unauthenticated,
    #[error("the order does not exist")]
    NoSuchOrder,
    #[error(transparent)]
    Broker(#[from] Error),
    #[error("the database failed")]
    Database(#[from] sqlx::Error),
}

impl From<domain::Error> for Problem {
    fn from(error: domain::Error) -> Self {
        Self::Broker(error.into())
    }
}

impl Problem {
    fn status(&self) -> StatusCode {
        match self {
            Self::Unauthenticated => StatusCode::UNAUTHORIZED,
            Self::NoSuchOrder => StatusCode::NOT_FOUND,
            Self::Database(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Broker(error) => StatusCode::from_u16(error.kind().http_status())
                .unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = self.status();
        if status.is_server_error() {
            tracing::error!(error = one_line(&self), "a request failed");
        }
        let message = match self {
            Self::Broker(error) => error.public_message(),
            Self::Database(_) => {
                "try again; with an x-request-id, a repeated order is placed once".to_owned()
            }
            Self::Unauthenticated | Self::NoSuchOrder => self.to_string(),
        };
        (status, message).into_response()
    }
}
