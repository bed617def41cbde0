//! Reads an answer body up to a size limit.

use bytes::Bytes;
use http_body_util::BodyExt as _;
use kube::client::Body;

/// The whole body. `None` if it has more than `most` bytes; the rest is then not read.
pub(crate) async fn collect(mut body: Body, most: usize) -> Result<Option<Bytes>, kube::Error> {
    let mut whole = Vec::new();
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            if data.len() > most - whole.len() {
                return Ok(None);
            }
            whole.extend_from_slice(&data);
        }
    }
    Ok(Some(whole.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn body_is_read_up_to_its_limit() {
        for (most, expected) in [(5, Some("12345")), (6, Some("12345")), (4, None), (0, None)] {
            let read = collect(Body::from(b"12345".to_vec()), most).await.unwrap();
            assert_eq!(read.as_deref(), expected.map(str::as_bytes), "{most}");
        }
    }
}
