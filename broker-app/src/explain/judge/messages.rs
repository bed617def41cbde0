//! Classifies the error messages of providers by keywords, because condition reasons differ between providers.

/// The subject of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Subject {
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

pub(super) fn subject_of(message: &str) -> Subject {
    let lowered = message.to_lowercase();
    let is_absent = ABSENT.iter().any(|words| lowered.contains(words));
    // A message about a missing Secret may also name the ProviderConfig, so the Secret is checked first.
    if is_absent && lowered.contains("secret") {
        Subject::Secret
    } else if is_absent
        && (lowered.contains("providerconfig") || lowered.contains("provider config"))
    {
        Subject::ProviderConfig
    } else if QUOTA.iter().any(|words| lowered.contains(words)) {
        Subject::Quota
    } else {
        Subject::Other
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
                Subject::ProviderConfig,
            ),
            (
                "connect failed: cannot get referenced ProviderConfig: ProviderConfig.hcloud \"a\" not found",
                Subject::ProviderConfig,
            ),
            (
                "cannot get credentials of ProviderConfig: Secret \"cloud-credentials-1\" not found",
                Subject::Secret,
            ),
            ("create failed: secrets \"x\" not found", Subject::Secret),
            ("create failed: QuotaExceeded: no more servers", Subject::Quota),
            ("VcpuLimitExceeded: you have requested more vCPU capacity", Subject::Quota),
            ("ZONE_RESOURCE_POOL_EXHAUSTED: try another zone", Subject::Quota),
            ("image \"debian-12\" not found", Subject::Other),
            ("the ProviderConfig is being used", Subject::Other),
            ("", Subject::Other),
        ];
        for (message, expected) in rows {
            assert_eq!(subject_of(message), expected, "{message}");
        }
    }
}
