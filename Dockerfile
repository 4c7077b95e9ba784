# The scheduler's image: `docker build -t berth:latest .`
ARG BASE=python:3.13-slim

FROM ${BASE} AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY src src
# The second name is the one by which manifests of control planes call the scheduler.
RUN python -m venv /opt/berth \
 && /opt/berth/bin/pip install --no-cache-dir --disable-pip-version-check . \
 && ln -s berth /opt/berth/bin/kube-scheduler

FROM ${BASE}
COPY --from=build /opt/berth /opt/berth
ENV PATH=/opt/berth/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
USER 65532:65532
EXPOSE 10259
ENTRYPOINT ["berth"]
