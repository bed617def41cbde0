//! Classifies provider messages by their words, because condition reasons differ between providers.

/// The subject of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Theme {
    ProviderConfig,
    Secret,
    /// A quota or capacity limit of the cloud.
    Quota,
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

pub(super) fn theme(message: &str) -> Theme {
    let lowered = message.to_lowercase();
    let absent = ABSENT.iter().any(|words| lowered.contains(words));
    // A provider finds its credentials through the ProviderConfig, so a message may name both.
    if absent && lowered.contains("secret") {
        Theme::Secret
    } else if absent && (lowered.contains("providerconfig") || lowered.contains("provider config"))
    {
        Theme::ProviderConfig
    } else if QUOTA.iter().any(|words| lowered.contains(words)) {
        Theme::Quota
    } else {
        Theme::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn provider_messages_are_classified() {
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
