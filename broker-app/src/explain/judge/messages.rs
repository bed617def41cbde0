//! What providers say in words only. A provider's reasons differ from one to the next; these words do not.

/// What a message is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Theme {
    /// The ProviderConfig is not found.
    ProviderConfig,
    /// The Secret with the credentials is not found.
    Secret,
    /// The cloud grants no more.
    Quota,
    /// Anything else.
    Other,
}

const ABSENT: [&str; 4] = ["not found", "does not exist", "no such", "cannot find"];

const QUOTA: [&str; 9] = [
    "quota",
    "limit exceeded",
    "limitexceeded",
    "limit has been reached",
    "resource_exhausted",
    "insufficient capacity",
    "insufficientinstancecapacity",
    "out of capacity",
    "zone_resource_pool_exhausted",
];

/// Recognises what a provider complains about.
pub(super) fn theme(message: &str) -> Theme {
    let said = message.to_lowercase();
    let absent = ABSENT.iter().any(|words| said.contains(words));
    // A credential is looked up through the ProviderConfig, so that a message about it may name both.
    if absent && said.contains("secret") {
        Theme::Secret
    } else if absent && (said.contains("providerconfig") || said.contains("provider config")) {
        Theme::ProviderConfig
    } else if QUOTA.iter().any(|words| said.contains(words)) {
        Theme::Quota
    } else {
        Theme::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_providers_are_recognised() {
        let rows = [
            (
                "connect failed: cannot get ProviderConfig: \"pr-1\" not found",
                Theme::ProviderConfig,
            ),
            (
                "connect failed: cannot get referenced ProviderConfig: ProviderConfig.hcloud \"a\" not found",
                Theme::ProviderConfig,
            ),
            (
                "cannot get credentials of ProviderConfig: Secret \"cloud-credentials-1\" not found",
                Theme::Secret,
            ),
            ("create failed: secrets \"x\" not found", Theme::Secret),
            ("create failed: QuotaExceeded: no more servers", Theme::Quota),
            ("VcpuLimitExceeded: you have requested more vCPU capacity", Theme::Quota),
            ("ZONE_RESOURCE_POOL_EXHAUSTED: try another zone", Theme::Quota),
            ("image \"debian-12\" not found", Theme::Other),
            ("the ProviderConfig is being used", Theme::Other),
            ("", Theme::Other),
        ];
        for (message, expected) in rows {
            assert_eq!(theme(message), expected, "{message}");
        }
    }
}
