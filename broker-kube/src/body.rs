//! Reads a response body up to a size limit.

use bytes::Bytes;
use http_body_util::BodyExt as _;
use kube::client::Body;

/// The body. `None` if it has more than `max_bytes`; the rest is then not read.
pub(crate) async fn collect_up_to(
    mut body: Body,
    max_bytes: usize,
) -> Result<Option<Bytes>, kube::Error> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            if data.len() > max_bytes - bytes.len() {
                return Ok(None);
            }
            bytes.extend_from_slice(&data);
        }
    }
    Ok(Some(bytes.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn body_over_the_limit_is_refused() {
        for (max_bytes, expected) in [(5, Some("12345")), (6, Some("12345")), (4, None), (0, None)]
        {
            let body = collect_up_to(Body::from(b"12345".to_vec()), max_bytes).await.unwrap();
            assert_eq!(body.as_deref(), expected.map(str::as_bytes), "{max_bytes}");
        }
    }
}
