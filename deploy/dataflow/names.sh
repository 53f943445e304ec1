# Names shared by build.sh, run.sh and schedule.sh, which `source` this file. The environment can override each.
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
SERVICE_ACCOUNT=${SERVICE_ACCOUNT:-} # for the launcher and the workers; empty: the project's default
LABELS=${LABELS:-}                   # labels of the job, also in bills: team=vision,cost_center=7
SUBNETWORK=${SUBNETWORK:-}           # example: regions/europe-west4/subnetworks/private
PRIVATE=${PRIVATE:-}                 # "true": no public addresses; the subnetwork needs Private Google Access
KMS_KEY=${KMS_KEY:-}                 # projects/…/cryptoKeys/…: encrypts data that the service stores
SPOT=${SPOT:-}                       # "true": cheaper, preemptible machines (FlexRS); the job starts within six hours
ADDITIONAL_OPTIONS=${ADDITIONAL_OPTIONS:-} # other Beam options: disk_size_gb=50,resource_hints=min_ram=8GB
for switch in PRIVATE SPOT; do
  [[ -z ${!switch} || ${!switch} == true ]] || {
    echo "$switch=${!switch}: expected true, or nothing" >&2
    exit 2
  }
done
