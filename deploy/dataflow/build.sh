#!/usr/bin/env bash
# Builds the image with Cloud Build, and writes the template file to the bucket. names.sh has the names.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=deploy/dataflow/names.sh
source deploy/dataflow/names.sh
: "${LAUNCHER_DIGEST:?set LAUNCHER_DIGEST to the sha256:… of the launcher, see deploy/dataflow/README.md}"

gcloud builds submit . --project="$PROJECT" --region="$REGION" \
  --config=deploy/dataflow/cloudbuild.yaml --ignore-file=deploy/dataflow/Dockerfile.dockerignore \
  --substitutions="_IMAGE=$IMAGE,_LAUNCHER_DIGEST=$LAUNCHER_DIGEST"
gcloud dataflow flex-template build "$TEMPLATE" --project="$PROJECT" \
  --image="$IMAGE" --sdk-language=PYTHON --metadata-file=deploy/dataflow/metadata.json
echo "image:    $IMAGE"
echo "template: $TEMPLATE"
