# With Docker: `make image` builds target/*/release/tare; then
# `docker build --build-arg TARE=target/x86_64-unknown-linux-musl/release/tare -t tare .`
FROM scratch
ARG TARE=target/x86_64-unknown-linux-musl/release/tare
COPY ${TARE} /tare
USER 65532:65532
ENTRYPOINT ["/tare"]
