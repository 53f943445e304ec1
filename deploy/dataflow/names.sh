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
LABELS=${LABELS:-}                   # of the job, in bills too: team=vision,cost_center=7
SUBNETWORK=${SUBNETWORK:-}           # such as regions/europe-west4/subnetworks/private
PRIVATE=${PRIVATE:-}                 # "true": machines without public addresses; the subnetwork needs Private Google Access
KMS_KEY=${KMS_KEY:-}                 # projects/…/cryptoKeys/…: encrypts what the service keeps
SPOT=${SPOT:-}                       # "true": cheaper machines that may be taken away (FlexRS); starts within six hours
ADDITIONAL_OPTIONS=${ADDITIONAL_OPTIONS:-} # others of Beam: disk_size_gb=50,resource_hints=min_ram=8GB
for switch in PRIVATE SPOT; do
  [[ -z ${!switch} || ${!switch} == true ]] || {
    echo "$switch=${!switch}: expected true, or nothing" >&2
    exit 2
  }
done
