"""Wrong requests: exit code 2, one line on standard error that names the setting at fault, nothing written."""

from __future__ import annotations

import contextlib
import importlib
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from beam_tfrecords import build
from tests.beam_pipelines.dataset_checks import BEAM_TFRECORDS
from tests.each import each
from tests.progress_lines import without_progress
from tests.refusals import refuses

FILES = {
    "texts/notes.txt": "no image",
    "rows.csv": "path,species,count\nphotos/cat/cat0.jpg,cat,0\nphotos/dog/dog0.jpg,dog,1\n",
    "table.csv": "count,weight\n1,2.5\n2,3.5\n",
    "headless.csv": "",
    "header_only.csv": "image,label\n",
    "binary.yaml": "\0\1\2",
    "broken.toml": "input = photos",
}
# Code, settings and words of `convert`, which are added to `--input=photos --output=out` or take their place, and what
# the line says. Words that begin with $ are a whole command; `yaml:` is a spec file. Semicolons stand between values
# that are tried in turn, and that the line says.
WRONG = r"""
not_found input: --input=nowhere;nowhere/*.jpg -> nowhere
missing_setting input: --input=
unknown_format input source: --input=texts/notes.txt
unreadable_input input: --input=nowhere://bucket/photos
no_samples input: --input=photos/*/*.png;nothing -> no image
no_samples input: --input=texts -> notes.txt
no_samples input: --input=header_only.csv -> no row
output_exists output overwrite reuse versioned: --output=finished
not_a_folder output: --output=rows.csv -> file
overlapping_folders input output: --output=photos/out;photos
output_not_writable output: --output=rows.csv/out -> rows.csv
invalid_value output: --output=;/;gs://
output_unreachable output: --output=nowhere://bucket/out
unknown_setting image_sise: --image_sise=32 -> image_size
unknown_setting image_si: --image_si=32 -> image_size
unknown_setting direct_num_wrokers: --direct_num_wrokers=2 -> direct_num_workers
unknown_setting qqqq: --qqqq=2
unexpected_argument: photos
unexpected_argument: --image_size=8 photos out -> folders come before all flags
invalid_command_line: --image_size
invalid_command_line seed: --seed=1 --seed=2
invalid_command_line name: --name=a --name=a
invalid_command_line spec: --spec=a --spec=b
invalid_command_line no_upscale: --upscale --no_upscale
invalid_command_line overwrite: --overwrite=maybe -> expected true or false, or --overwrite alone
invalid_command_line dataset: $ convert photos out --dataset=b
unknown_setting image_sise: $ convert --image_sise=3  $ convert nowhere out --image_sise=3 -> --image_size?
unknown_setting no: --no-upscal -> --no_upscale?
unknown_setting workers: --workers=4 -> --direct_num_workers?
unknown_setting frobnicate: --frobnicate -> --help
missing_setting input: $ convert
missing_setting input: $ convert --output=out
missing_setting output: $ convert --input=photos
unknown_command: $ konvert -> 'konvert'; 'convert'?
unknown_command: $ build -> 'build'; 'convert'?
unknown_command: $ qqqq -> convert, demo, verify, inspect
# Classes, splits and labels.
unknown_class class_names classes: --class_names=cat -> dog
invalid_value class_names: --class_names=cat,dog,cat;cat,,dog -> cat
invalid_value class_names: --class_names=names.txt;lists/classes -> does not exist
invalid_value class_names: 'yaml:class_names: [no, yes]' -> False there
invalid_value class_names: 'yaml:class_names: [1.0, cat]' -> 1.0 there
invalid_value class_names: 'yaml:class_names: [cat, ~]' -> None there
invalid_value class_names: 'yaml:class_names: true' -> index order
invalid_value class_names: 'yaml:class_names: {cat: 0, dog: 2}' -> 0 to 1 once
invalid_value class_names: 'yaml:class_names: {cat: 0, dog: 0}' -> same number
class_without_samples classes: --classes=cta -> 6
needs_setting class_order reuse versioned: --class_order=stable
invalid_value splits: --splits=train=0.9,test=0.2 -> 1.1
invalid_value splits: --splits=train=0.7,test=0.2 -> 0.9
invalid_value splits: --splits=train=0.9,test=dog -> dog
invalid_value splits: --splits=train=1.5,test=-0.5 -> -0.5
invalid_value splits: --splits=train=0.5,train=0.5 -> train
invalid_value splits: --splits=Train=0.5,test=0.5 -> Train
invalid_value splits: --splits=train
invalid_value splits: 'yaml:splits: [train, test]' -> train
unknown_split input splits: --splits=train=cat,test=horse -> horse; dog
invalid_value label_pattern: '--label_pattern=(?P<label>cat'
unmatched_label_pattern input label_pattern: '--label_pattern=(?P<label>horse)' -> horse; 6 keys
setting_not_applicable input label_pattern: --source=image_folder '--label_pattern=(?P<label>cat)'
setting_not_applicable input label_column: --label_column=species
setting_not_applicable label_column label_pattern labels: --labels class -> Dataflow; folders
setting_not_applicable label label_column label_pattern: --direct_running_mode=multi_threading --label=class -> Dataflow
# Tables.
unknown_column image_column: --input=rows.csv --label_column=species --image_column=picture -> path; count
unknown_column label_column: --input=rows.csv --image_column=path --label_column=kind -> species; count
unknown_column split_column: --input=rows.csv --image_column=path --label_column=species --split_column=part -> count
unknown_column key_column: --input=rows.csv --image_column=path --label_column=species --key_column=id -> count
unknown_column layout: --input=rows.csv 'yaml:layout: {x: {field: column.weight, type: int64}}' -> weight; path; species
missing_label_column input label_column: --input=rows.csv --image_column=path -> label; species; count
missing_image_column image_column image_path input: --input=table.csv -> count; weight; type
missing_image_column image_column image_path input: --input=table.csv 'yaml:layout: {a: image.encoded}' -> count; weight
empty_file input: --input=headless.csv
not_a_file input source: --source=coco;csv
# Numbers, sizes and choices.
invalid_value shard_size: --shard_size=big;150XB;0;-1MB;1e9 -> 150MB
invalid_value shard_size: --shard_size=1 -> 1 bytes? say 1MB
invalid_value shard_size: --shard_size=9999 -> 9999 bytes? say 9999MB
too_few_samples num_shards: --num_shards=7 -> 6
invalid_value num_shards: --num_shards=0;1.5;0x10;٣;1111111111111111111 -> whole number of 1 or more
invalid_value image_size: --image_size=0;-5;small;224x;x224;1x2x3;32.5;0x32;999999999
invalid_value jpeg_quality: --jpeg_quality=0;101;high
invalid_value channels: --channels=2
invalid_value bit_depth: --bit_depth=12 -> 8 or 16
invalid_value max_pixels: --max_pixels=0
invalid_value max_file_size: --max_file_size=big
invalid_value image_timeout: --image_timeout=soon
invalid_value seed: --seed=lucky
invalid_value seed: --seed=11111111111111111111111111111111111111111111111111111111111111111 -> 0 to 999999999999999999
invalid_value max_failures: --max_failures=1.5;-1;some;nan;inf;1.01 -> 0.01
invalid_value resize_mode: --resize_mode=best -> shorter; longer; exact; pad; crop
invalid_value resample: --resample=best -> bicubic; bilinear; lanczos; box; nearest
invalid_value image_encoding: --image_encoding=best -> jpeg; png; webp; raw; keep
invalid_value codec: --codec=best -> fast; exact
invalid_value compression: --compression=best -> none; gzip
invalid_value orientation: --orientation=best -> apply; ignore
invalid_value color_profile: --color_profile=best -> apply; ignore
invalid_value duplicates: --duplicates=best -> keep, drop, fail
unknown_layout layout: --layout=best -> tfds; imagenet; tutorial; raw
unknown_source source: --source=best -> auto; coco; csv; tfrecord; yolo
invalid_value upscale: 'yaml:upscale: maybe' -> maybe
invalid_value name: '--name=My Photos'
invalid_value homepage: '--homepage=example.org;https://a b'
invalid_value license: --license=
invalid_value description: '--description=BELL'
invalid_value citation: '--citation=aBELL'
# Settings that contradict each other, or need another one.
conflicting_settings channels image_encoding: --channels=4
conflicting_settings channels image_encoding: --image_encoding=webp --channels=1
conflicting_settings bit_depth image_encoding: --bit_depth=16 -> --image_encoding=png
conflicting_settings image_encoding: 'yaml:layout: {a: image.pixels}' --image_encoding=jpeg -> image.pixels
conflicting_settings image_encoding: --layout=array --image_encoding=png
conflicting_settings channels layout: --layout=image --image_encoding=raw --channels=13
setting_not_applicable array_type layout: --layout=image --array_type=uint8
setting_not_applicable layout pages: --layout=image --pages=bands
setting_not_applicable near_duplicates: --layout=array --near_duplicates=4
quality_not_measured layout where: --layout=array '--where=brightness > 3'
quality_not_measured image_encoding where: --image_encoding=keep '--where=sharpness > 20 and height > 3' -> sharpness
needs_setting image_size resize_mode: --resize_mode=crop
needs_setting map map_revision: --map_revision=1
needs_setting keep_versions versioned: --keep_versions=2
conflicting_settings overwrite versioned: --versioned --overwrite
invalid_value keep_versions: --versioned --keep_versions=0 -> 1 or more
invalid_value grace: --versioned --grace=soon -> 90s
invalid_value accept: --versioned --accept=everything -> count, failures, classes
unknown_setting versionned: --versionned -> --versioned?
no_dataset output reuse: --reuse=nowhere
invalid_condition: '--where=heihgt > 3' -> did you mean 'height'
invalid_condition: '--where=offset > 3' -> no column 'offset'
invalid_condition: --where=height -> not a comparison
invalid_condition: '--where=label = cat' -> quotes
invalid_condition: '--where=key like height' -> not understood
invalid_condition: "--where=labels = 'cat'" -> 'cat' in labels
# Spec files.
unreadable_spec spec: --spec=none.yaml;photos
unknown_setting spec: 'yaml:image_sise: 32' -> image_sise; image_size
unknown_setting spec: 'yaml:--input: photos' -> --input
invalid_spec spec: 'yaml:input: [photos\noutput: out' -> YAML
invalid_spec spec: --spec=broken.toml -> not valid TOML; line 1
invalid_spec spec: --spec=binary.yaml  yaml:
invalid_spec spec: 'yaml:[input, output]' -> mapping
invalid_spec spec: 'yaml:seed: 1\ninput: x\nseed: 2' -> key seed ; line 3
invalid_spec spec: 'yaml:splits:\n train: 0.5\n test: 0.5\n train: 0.5' -> key train ; line 4
invalid_spec spec: 'yaml:{"input": "x", "seed": 1,\n "seed": 2}' -> key seed ; line 2
invalid_spec spec: 'yaml:input: DEEP'
flag_in_spec spec: 'yaml:runner: x' -> 'runner'; --runner
flag_in_spec spec: 'yaml:temp_location: x' -> --temp_location
flag_in_spec spec: 'yaml:direct_num_workers: x' -> --direct_num_workers
unknown_field layout: 'yaml:layout: {image: image.encodet, label: label.index}' -> image.encodet; image.encoded
unknown_type layout: --input=rows.csv 'yaml:layout: {count: {field: column.count, type: int}}' -> 'count'; 'int'; int64
type_does_not_fit layout: 'yaml:layout: {label: {field: label.index, type: bytes}}' -> label; bytes
invalid_layout layout: 'yaml:layout: {image: {field: image.encoded, tipe: bytes}}' -> 'image'; tipe
invalid_layout layout: 'yaml:layout: {}'
invalid_layout layout: 'yaml:layout: {a: image.array, b: image.encoded}'
invalid_layout layout: 'yaml:layout: {a: image.shape}'
# Runners and stores.
invalid_value runner: --runner=FlickRunner
invalid_value direct_num_workers: --direct_num_workers=many;-3
invalid_value direct_num_workers: --direct_running_mode=multi_processing --direct_num_workers=-3 -> 0 or more
setting_not_applicable parallelism: --parallelism=0 -> --direct_num_workers=NUMBER
setting_not_applicable num_workers: --num_workers=8 -> --direct_num_workers=NUMBER
setting_not_applicable max_num_workers: --max_num_workers=8 -> --direct_num_workers
setting_not_applicable flink_master: --flink_master=host:8081 -> --runner=FlinkRunner
setting_not_applicable max_slots: --max_slots=2 -> --direct_num_workers=NUMBER
setting_not_applicable max_slots: --runner=SparkRunner --max_slots=2 -> --runner=FlinkRunner
setting_not_applicable flink_master max_slots parallelism: --runner=FlinkRunner --flink_master=[local] --max_slots=2
conflicting_settings max_slots parallelism: --runner=FlinkRunner --max_slots=2 --parallelism=4
setting_not_applicable s3_endpoint_url: --s3_endpoint_url=http://localhost:9000 -> AWS_ENDPOINT_URL
setting_not_applicable s3_disable_ssl: --s3_disable_ssl -> boto3
setting_not_applicable s3_region_name: --runner=PrismRunner --s3_region_name=eu -> boto3
setting_not_applicable no_wait runner: --no_wait  --runner=PrismRunner --no_wait  --runner=SparkRunner --no_wait
missing_setting flink_master: --runner=FlinkRunner
invalid_value parallelism: --runner=FlinkRunner --parallelism=-1;few;2.5;0 -> 1 or more
invalid_value parallelism: --runner=PortableRunner --parallelism=-1;0 -> 1 or more
invalid_value sdk_worker_parallelism: --runner=FlinkRunner --sdk_worker_parallelism=-1 -> 0 or more
invalid_value sdk_worker_parallelism: --runner=SparkRunner --sdk_worker_parallelism=-1;2.5 -> 0 or more
invalid_value max_slots: --runner=FlinkRunner --max_slots=-1;few;1.5;0; -> 1 or more
invalid_value num_workers: --runner=DataflowRunner --num_workers=-1;few;0 -> 1 or more
invalid_value max_num_workers: --runner=DataflowRunner --max_num_workers=-1;few;0 -> 1 or more
# Other commands.
invalid_command_line: $ verify -> --dataset
invalid_command_line: $ verify --dataset=finished --findings=few -> --findings
invalid_command_line: $ inspect -> --dataset
invalid_command_line: $ inspect --dataset=finished --examples=-1 -> --examples
invalid_command_line dataset: $ verify --dataset=finished --dataset=b  $ inspect --dataset=finished --dataset=b
invalid_command_line output: $ status --output=finished --output=b
unknown_setting quick: $ verify --dataset=finished --quick  $ inspect --dataset=finished --quick  $ status out --quick
no_dataset output: $ verify --dataset=nowhere;photos  $ inspect --dataset=nowhere
not_found output: $ status --output=nowhere
unknown_split: $ inspect --dataset=finished --split=test -> 'test'; train
unknown_record image: $ inspect --dataset=finished --image=30 -> train has 6 records
invalid_value save: $ inspect --dataset=finished --save=x.gif -> .jpg, .jpeg, .png
invalid_condition: $ inspect --dataset=finished '--where=colour > red' -> 'colour'; key, uri
conflicting_settings json: $ inspect --dataset=finished --json --save=a.png
unknown_record image: $ inspect --dataset=finished --json --image=300
no_records: $ export --dataset=finished --to=new "--where=label = 'emu'" -> emu
invalid_condition: $ export --dataset=finished --to=new '--where=size > 3'
unknown_split: $ export --dataset=finished --to=new --split=dev
overlapping_folders: $ export --dataset=finished --to=finished  $ export --dataset=finished --to=finished/new
output_exists: $ export --dataset=finished --to=texts -> notes.txt
output_exists: $ export --dataset=finished --to=rows.csv -> file
output_not_writable: $ export --dataset=finished --to=/proc/none/here -> cannot be written
no_dataset output: $ export --dataset=nowhere --to=new
invalid_command_line dataset: $ export --dataset=finished --output=to --to=x -> --to names the folder to write
"""


def rows() -> Iterator[tuple[str, str, list[str]]]:
    """Yields words, the code with the settings, and what the line says."""
    for line in WRONG.strip().splitlines():
        code, sign, rest = line.partition(": ")
        commands, _, says = rest.partition(" -> ")
        for words in commands.split("  ") if sign and not line.startswith("#") else ():
            start, _, last = words.rpartition("=")
            values, quote = last.removesuffix("'").split(";"), "'" * last.endswith("'")
            for value in values:
                one = f"{start}={value}{quote}" if values[1:] else words
                yield one, code, [word.strip() for word in says.split(";") if word] or (values[1:] and [value])


@pytest.fixture(scope="module")
def world(tmp_path_factory, picture, save, build) -> Path:
    root = tmp_path_factory.mktemp("world")
    for name in ("cat", "dog"):
        for number in range(3):
            save(root / f"photos/{name}/{name}{number}.jpg", picture(number, 40, 30))
    (root / "nothing").mkdir()
    for name, text in FILES.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)
    build(root / "finished", f"--input={root}/photos")
    return root


def words_of(text: str, folder: Path) -> list[str]:
    """Returns the words of a command; writes its spec file."""
    text = text.replace("BELL", "\x07").replace("DEEP", "{a: " * 5000)
    words = shlex.split(text.removeprefix("$ "))
    for number, word in enumerate(words):
        if word.startswith("yaml:"):
            (folder / "spec.yaml").write_text(word.removeprefix("yaml:").replace("\\n", "\n") + "\n")
            words[number] = f"--spec={folder}/spec.yaml"
    given = {word.partition("=")[0] for word in words}
    usual = [] if text.startswith("$ ") else ["convert", "--input=photos", "--output=out"]
    return [*(word for word in usual if word.partition("=")[0] not in given), *words]


@pytest.fixture
def temporary_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A new folder, which takes the place of the system's temporary folder."""
    folder = tmp_path_factory.mktemp("temporary")
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


@each("words, code, says", rows, ids=lambda row: row[0][:80])
def test_a_wrong_request_is_refused_in_one_line(
    world, words, code, says, run, snapshot, temporary_folder, monkeypatch, tmp_path
):
    monkeypatch.chdir(world)
    before = snapshot(world)
    ran = run(*words_of(words, tmp_path.parent))
    ran.refused(*code.split())
    # Commands to choose from follow, if there are any.
    assert [line for line in ran.err.splitlines() if not line.startswith("  ")] == ran.err.splitlines()[:1]
    assert (ran.out, ran.err.startswith("beam-tfrecords: ")) == ("", True)
    assert [one for one in says if one not in ran.err] == [], ran.err
    assert snapshot(world) == before
    assert snapshot(temporary_folder) == {"./": b""}


def test_without_a_command_the_known_ones_are_shown(run):
    ran = run()
    assert ran.code == 2
    assert all(command in ran.out + ran.err for command in ("convert", "verify", "inspect"))


def test_the_program_refuses_a_wrong_request_in_one_line(world):
    words = [BEAM_TFRECORDS, "convert", "photos", "out", "--image_sise=32"]
    ran = subprocess.run(words, cwd=world, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, without_progress(ran.stderr).count("\n")) == (2, "", 1)
    assert "--image_sise" in ran.stderr


def test_a_misspelt_setting_of_the_python_call_is_refused_before_what_is_missing(world, tmp_path):
    with refuses("unknown_setting", "image_sise", "image_size"):
        build(input=world / "photos", output=tmp_path / "out", image_sise=32)
    with refuses("unknown_setting", "imagesize", "image_size"):
        build(imagesize=3)
    with refuses("unknown_setting", "no_wait"):
        build(input=world / "photos", output=tmp_path / "out", no_wait=True)
    assert not (tmp_path / "out").exists()


@each("words", [["--labels=airflow-version=v3-2-1", "--labels=team=a"], ["--labels", "a=b"], ['--labels={"a":"b"}']])
def test_labels_of_jobs_may_be_given_to_every_runner(world, tmp_path, run, words):
    assert run("convert", world / "photos", tmp_path / "out", "--dry_run", *words).code == 0


@pytest.mark.parametrize(
    ("scheme", "package", "extra"), [("gs", "google.cloud.storage", "gcp"), ("s3", "boto3", "aws")]
)
def test_a_store_without_its_extra_is_refused(tmp_path, run, scheme, package, extra):
    with contextlib.suppress(ImportError):
        importlib.import_module(package)
        pytest.skip(f"{package} is installed")
    (tmp_path / "t.csv").write_text(f"image,label\n{scheme}://bucket/1.jpg,cat\n{scheme}://bucket/2.jpg,dog\n")
    words = ["convert", tmp_path / "t.csv", tmp_path / "out", "--allow_outside_root"]
    run(*words).refused("missing_extra", says=[f"{scheme}://bucket/1.jpg", f"'.[{extra}]'"])
    for command in ("verify", "inspect"):
        run(command, f"--dataset={scheme}://bucket/out").refused("missing_extra", says=[f"'.[{extra}]'"])
    assert not (tmp_path / "out").exists()


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """A folder that everybody may read; those of pytest belong to one user, and any run of pytest sees to it."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.mark.parametrize("pattern", ["", "/*/*/*.jpg", "/**/*.jpg"])
def test_a_folder_that_may_not_be_read_is_refused_by_name(run, public_folder, world, pattern):
    shutil.copytree(world / "photos/cat", public_folder / "photos/cat")
    hidden = Path(shutil.copytree(world / "photos/dog", public_folder / "photos/dog/inner"))
    hidden.chmod(0)
    # Labels from names: the folders are not looked into before they are listed.
    words = [f"--output={public_folder / 'out'}", "--label_pattern=(?P<label>cat|dog)", "--dry_run"]
    run("convert", f"--input={world / 'photos'}", *words)  # imports what nobody might not be able to read
    is_root = os.geteuid() == 0
    try:
        if is_root:
            os.seteuid(65_534)
        ran = run("convert", f"--input={public_folder / 'photos'}{pattern}", *words)
    finally:
        if is_root:
            os.seteuid(0)
    ran.refused("unreadable_input", "input", says=[str(hidden), "Permission denied"])
    assert ran.out == ""
