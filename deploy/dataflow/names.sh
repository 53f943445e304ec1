# The names that build.sh, run.sh and schedule.sh share; read by `source`. Each may be set in the environment.
# shellcheck shell=bash
: "${PROJECT:?set PROJECT to the Google Cloud project}"
: "${REGION:?set REGION, such as europe-west4}"
: "${BUCKET:?set BUCKET to a bucket for the template and temporary files, such as gs://my-bucket}"
BUCKET=${BUCKET%/}
REPOSITORY=${REPOSITORY:-beam-tfrecords} # in Artifact Registry
TAG=${TAG:-$(git -C "$(dirname "${BASH_SOURCE[0]}")" rev-parse --short=12 HEAD)}
IMAGE=${IMAGE:-$REGION-docker.pkg.dev/$PROJECT/$REPOSITORY/beam-tfrecords:$TAG}
TEMPLATE=${TEMPLATE:-$BUCKET/templates/beam-tfrecords-$TAG.json}
MAX_WORKERS=${MAX_WORKERS:-20}
MACHINE_TYPE=${MACHINE_TYPE:-n2-standard-4}
SERVICE_ACCOUNT=${SERVICE_ACCOUNT:-} # of the launcher and the workers; the project's default if empty
