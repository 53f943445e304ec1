"""The graph of a build with all stages as Dataflow gets it, by fused stages: a break of the fusion is seen in review.

Below it are the blocks of another build, whose images may take 8 GB of memory: machines are asked for that.

python -m tests.core.runners.make_golden_graph > tests/data/dataflow_graph.txt
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import apache_beam as beam
from apache_beam.options import pipeline_options
from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.dataflow.dataflow_runner import DataflowRunner
from apache_beam.runners.portability.fn_api_runner import translations

from beam_tfrecords.beam_pipelines.build.listing.list_for_build import list_for_build
from beam_tfrecords.beam_pipelines.build.listing.list_input import ListedInput
from beam_tfrecords.beam_pipelines.build.listing.source_opening import open_spec_source
from beam_tfrecords.beam_pipelines.build.output.lock import lock_output
from beam_tfrecords.beam_pipelines.build.output.previous import open_previous
from beam_tfrecords.beam_pipelines.build.pipeline import build_pipeline
from beam_tfrecords.beam_pipelines.build.prepare import prepare_build
from beam_tfrecords.beam_pipelines.runners.execution import Execution
from beam_tfrecords.beam_pipelines.runners.find_runner import find_runner
from beam_tfrecords.beam_pipelines.settings.definitions import read_build_spec

PHOTOS = Path(__file__).parents[2] / "data" / "photos"
IMAGE = "europe-docker.pkg.dev/project/repository/beam-tfrecords:tag"
DATAFLOW = (
    *("--runner=DataflowRunner", "--project=project", "--region=europe-west4", "--job_name=photos"),
    *("--temp_location=gs://bucket/temp", f"--sdk_container_image={IMAGE}"),
)
_PHASES = (
    translations.annotate_downstream_side_inputs,
    translations.lift_combiners,
    translations.sink_flattens,
    translations.greedily_fuse,
    translations.sort_stages,
)
# What a runner does itself, between the stages that workers run.
_OF_RUNNER = ("group_by_key", "impulse", "flatten")
_HEADER = """\
# python -m tests.core.runners.make_golden_graph > tests/data/dataflow_graph.txt
# A block is what a worker does with an element in one go; `<-` are its side inputs, for which a stage waits.
"""
_LARGE_IMAGES = """
# With max_image_memory=8GB, these are other blocks:

"""


def translate(output: Path, *more: str, **words: str) -> DataflowRunner:
    """The runner, after it has translated a build and not submitted it.

    Args:
      output: of the build.
      more: flags for Beam.
      words: settings of the build.
    """
    execution = Execution.prepare(find_runner([*DATAFLOW, *more]))
    runner, options = execution._of_beam
    options.view_as(pipeline_options.TestOptions).dry_run = True
    request = {"input": str(PHOTOS), "output": str(output), "image_size": "64", "splits": "train=0.8,test=0.2"}
    spec, source = open_spec_source(read_build_spec({**request, "duplicates": "drop", **words}))
    previous = open_previous(spec)
    with lock_output(spec) as held, list_for_build(spec, source, execution, held, previous) as listed:
        assert isinstance(listed, ListedInput)
        build = prepare_build(spec, listed, output=held, previous=previous)
        assert build is not None
        pipeline = beam.Pipeline(runner=runner, options=options)
        memory = execution.runner.least_memory(build.spec.max_image_memory)
        words = {"processes": execution.runner.processes, "least_memory": memory}
        build_pipeline(pipeline, spec, build, **words, cleans=True, fails_unpublished=True)
        pipeline.run()
    return runner


def describe_graphs(folder: Path) -> str:
    """The golden file.

    Args:
      folder: for the outputs of builds that are not run.
    """
    words = {"near_duplicates": "4"}
    graph = describe_graph(translate(folder / "usual", **words).proto_pipeline)
    large = describe_graph(translate(folder / "large", **words, max_image_memory="8GB").proto_pipeline)
    others = [block for block in large.split("\n\n") if block not in graph.split("\n\n")]
    return graph + _LARGE_IMAGES + "\n\n".join(others) + "\n"


def describe_graph(proto: beam_runner_api_pb2.Pipeline) -> str:
    """The stages of a pipeline, fused as runners do it; each a block of lines, in the order of the program."""
    known = frozenset(getattr(common_urns.primitives, name.upper()).urn for name in _OF_RUNNER)
    _, stages = translations.create_and_optimize_stages(proto, _PHASES, known, use_state_iterables=True)
    order = {name: place for place, name in enumerate(_names(proto.components, proto.root_transform_ids))}
    blocks = [
        sorted(line for transform in stage.transforms for line in _describe(transform, order, proto.components))
        for stage in stages
    ]
    return "\n".join([_HEADER, *("".join(f"{line}\n" for _, line in block) for block in sorted(blocks) if block)])


def _names(components: beam_runner_api_pb2.Components, transforms: Iterable[str]) -> Iterator[str]:
    """The names of transforms and of those that they consist of, in the order of the program."""
    for one in transforms:
        yield components.transforms[one].unique_name
        yield from _names(components, components.transforms[one].subtransforms)


def _describe(
    transform: beam_runner_api_pb2.PTransform, order: Mapping[str, int], components: beam_runner_api_pb2.Components
) -> Iterator[tuple[int, str]]:
    """The place and the line of a transform; nothing of one that the fusion has added for the data between stages."""
    kind = transform.spec.urn.split(":")[2] if transform.spec.urn.startswith("beam:") else ""
    if kind in ("source", "sink") or "/Transcode/" in transform.unique_name:
        return
    name = re.sub(r"<lambda at [^>]*>", "<lambda>", transform.unique_name)
    payload = beam_runner_api_pb2.ParDoPayload()
    if transform.spec.urn == common_urns.primitives.PAR_DO.urn:
        payload.ParseFromString(transform.spec.payload)
    sides = f" <- {len(payload.side_inputs)}" if payload.side_inputs else ""
    place = max((at for known, at in order.items() if transform.unique_name.startswith(known)), default=0)
    hints = components.environments[transform.environment_id].resource_hints if transform.environment_id else {}
    asked = "".join(f" [{urn.split(':')[2]} {value.decode()}]" for urn, value in sorted(hints.items()))
    yield place, f"{name}{sides}" + (f" ({kind})" if kind in _OF_RUNNER else asked)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        print(describe_graphs(Path(folder)), end="")
