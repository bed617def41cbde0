# An image with the binary and CA certificates only. Build it with `docker build .`; servers::cli::image tests it.
FROM rust:1.95.0-slim AS build
WORKDIR /src
COPY . .
RUN cp "$(.ci/static --release)" /provisioning-broker

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /provisioning-broker /provisioning-broker
USER 65532:65532
ENTRYPOINT ["/provisioning-broker"]
