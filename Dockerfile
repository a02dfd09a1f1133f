# lprime on CPU.   docker build -t lprime .   docker run --rm lprime            (the quick suite and its board)
#                  docker run --rm lprime make test                            (all tests but those of cluster and sandbox)
#                  docker run --rm -v "$PWD/runs:/lprime/runs" lprime .venv/bin/lprime run small --workers 2
# pip's default index has torch with CUDA, some gigabytes. For a small image, name PyTorch's index of CPU builds:
# docker build --build-arg PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu -t lprime .
FROM debian:bookworm-slim
ARG PIP_EXTRA_INDEX_URL=""
RUN apt-get update \
 && apt-get install -y --no-install-recommends python3 python3-venv gcc python3-dev make git chromium \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /lprime
COPY . .
RUN PIP_NO_CACHE_DIR=1 make .venv/.dev
CMD ["make", "quickstart"]
