"""Beam without the readers and writers that nothing here uses: all names are there for who asks for them."""

from __future__ import annotations

import subprocess
import sys


def run(program: str) -> str:
    ran = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=True)
    return ran.stdout.splitlines()[-1]


OURS = "from beam_tfrecords.beam_pipelines.execution.beam_import import import_beam; import_beam(); "


def test_readers_that_nothing_uses_are_not_imported():
    program = (
        "import apache_beam as beam, sys; print('apache_beam.io.mongodbio' in sys.modules, 'pymongo' in sys.modules)"
    )
    assert run(OURS + program) == "False False"


def test_their_names_are_found_when_they_are_asked_for():
    assert (
        run(f"{OURS}import apache_beam as beam; print(beam.io.ReadFromMongoDB.__module__)")
        == "apache_beam.io.mongodbio"
    )
    assert (
        run(f"{OURS}from apache_beam.io import ReadFromAvro; print(ReadFromAvro.__module__)") == "apache_beam.io.avroio"
    )
    assert run(f"{OURS}import apache_beam.io.parquetio as p; print(p.ReadFromParquet.__name__)") == "ReadFromParquet"
    assert run(f"{OURS}import apache_beam as beam; print(hasattr(beam.io, 'nonsense'))") == "False"


def test_no_name_is_lost():
    names = "print(*sorted(name for name in vars(beam.io) if not name.startswith('_')))"
    found = run(f"{OURS}import apache_beam as beam; hasattr(beam.io, 'nonsense'); {names}").split()
    plain = run(f"import apache_beam as beam; {names}").split()
    assert set(plain) <= set(found)
    assert "ReadFromMongoDB" in plain


def test_beam_that_is_imported_already_is_left_as_it_is():
    assert run(f"import apache_beam as beam; {OURS}print(hasattr(beam.io, '__getattr__'))") == "False"
