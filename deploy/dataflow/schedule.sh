#!/usr/bin/env bash
# Schedules a nightly build in Cloud Scheduler: deploy/dataflow/schedule.sh --spec=gs://… --output=gs://…
#
# Takes the flags of `convert`; write a switch as --versioned=true. SCHEDULE and TIME_ZONE set the time, and
# SCHEDULER_ACCOUNT the account; names.sh has the other names. The job always has the same name, so Dataflow never runs
# two at once.
set -euo pipefail
# shellcheck source=deploy/dataflow/names.sh
source "$(dirname "${BASH_SOURCE[0]}")/names.sh"
: "${SCHEDULER_ACCOUNT:?set SCHEDULER_ACCOUNT to a service account that may start Dataflow jobs}"
JOB=${JOB:-beam-tfrecords-nightly}

request=$(
  export LABELS SUBNETWORK PRIVATE KMS_KEY SPOT ADDITIONAL_OPTIONS
  python3 - "$JOB" "$TEMPLATE" "$IMAGE" "$BUCKET" "$MAX_WORKERS" "$MACHINE_TYPE" "$SERVICE_ACCOUNT" "$@" <<'PYTHON'
import json
import os
import sys

job, template, image, bucket, workers, machine, account, *flags = sys.argv[1:]
wrong = [flag for flag in flags if not flag.startswith("--") or "=" not in flag]
if wrong:
    sys.exit(f"schedule.sh: {wrong[0]}: expected --flag=value")
environment = {
    "maxWorkers": int(workers),
    "machineType": machine,
    "stagingLocation": f"{bucket}/staging",
    "tempLocation": f"{bucket}/temp",
}
asked = {
    "serviceAccountEmail": account,
    "additionalUserLabels": dict(one.split("=", 1) for one in os.environ["LABELS"].split(",") if one),
    "subnetwork": os.environ["SUBNETWORK"],
    "ipConfiguration": "WORKER_IP_PRIVATE" if os.environ["PRIVATE"] else "",
    "kmsKeyName": os.environ["KMS_KEY"],
    "flexrsGoal": "FLEXRS_COST_OPTIMIZED" if os.environ["SPOT"] else "",
    "additionalPipelineOptions": [one for one in os.environ["ADDITIONAL_OPTIONS"].split(",") if one],
}
environment |= {name: value for name, value in asked.items() if value}
parameters = {
    "sdk_container_image": image,
    "number_of_worker_harness_threads": "1",
    **dict(flag.removeprefix("--").split("=", 1) for flag in flags),
}
print(
    json.dumps(
        {
            "launchParameter": {
                "jobName": job,
                "containerSpecGcsPath": template,
                "parameters": parameters,
                "environment": environment,
            }
        }
    )
)
PYTHON
)

# `create` fails if a job of this name exists; `update` replaces that job.
action=create
if gcloud scheduler jobs describe "$JOB" --project="$PROJECT" --location="$REGION" >/dev/null 2>&1; then
  action=update
fi
gcloud scheduler jobs "$action" http "$JOB" --project="$PROJECT" --location="$REGION" \
  --schedule="${SCHEDULE:-0 2 * * *}" --time-zone="${TIME_ZONE:-Etc/UTC}" \
  --uri="https://dataflow.googleapis.com/v1b3/projects/$PROJECT/locations/$REGION/flexTemplates:launch" \
  --http-method=POST --oauth-service-account-email="$SCHEDULER_ACCOUNT" \
  --message-body="$request"
