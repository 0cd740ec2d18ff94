FROM rust:1.95-slim-bookworm AS build
WORKDIR /src
COPY . .
RUN CARGO_PROFILE_RELEASE_STRIP=true cargo build --release --locked -p lockwright-cli

FROM debian:bookworm-slim
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates && rm -rf /var/lib/apt/lists/*
COPY --from=build /src/target/release/lockwright /usr/local/bin/
USER 65534:65534
ENTRYPOINT ["lockwright"]
