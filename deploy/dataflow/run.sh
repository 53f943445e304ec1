#!/usr/bin/env bash
# Starts one build: deploy/dataflow/run.sh --input=gs://… --output=gs://… [--flag=value …]
#
# Takes the flags of `convert`; write a switch as --overwrite=true. names.sh has the names.
set -euo pipefail
# shellcheck source=deploy/dataflow/names.sh
source "$(dirname "${BASH_SOURCE[0]}")/names.sh"

# Separates the parameters by a word that none of them contains. It starts and ends with characters that are not inside
# it, so it is found where it is put, whatever is before it.
number=0
while [[ $* == *"<$number>"* ]]; do
  number=$((number + 1))
done
parameters="^<$number>^sdk_container_image=$IMAGE<$number>number_of_worker_harness_threads=1"
for word in "$@"; do
  [[ $word == --*=* ]] || {
    echo "run.sh: $word: expected --flag=value" >&2
    exit 2
  }
  parameters+="<$number>${word#--}"
done

gcloud dataflow flex-template run "${JOB:-beam-tfrecords-$(date -u +%Y%m%d-%H%M%S)}" \
  --project="$PROJECT" --region="$REGION" --template-file-gcs-location="$TEMPLATE" \
  --staging-location="$BUCKET/staging" --temp-location="$BUCKET/temp" \
  --max-workers="$MAX_WORKERS" --worker-machine-type="$MACHINE_TYPE" \
  ${SERVICE_ACCOUNT:+--service-account-email="$SERVICE_ACCOUNT"} \
  ${LABELS:+--additional-user-labels="$LABELS"} \
  ${SUBNETWORK:+--subnetwork="$SUBNETWORK"} ${PRIVATE:+--disable-public-ips} \
  ${KMS_KEY:+--dataflow-kms-key="$KMS_KEY"} ${SPOT:+--flexrs-goal=COST_OPTIMIZED} \
  ${ADDITIONAL_OPTIONS:+--additional-pipeline-options="$ADDITIONAL_OPTIONS"} \
  --parameters="$parameters"
