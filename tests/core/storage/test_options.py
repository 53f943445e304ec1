import subprocess
import sys

import pytest
from apache_beam.internal.cloudpickle import cloudpickle

from beam_tfrecords import storage
from beam_tfrecords.storage.options import StorageOptions

PAID = StorageOptions(requester_pays="project", beam_arguments=("--azure_connection_string=x",))


def test_options_last_until_the_end_of_their_block():
    with storage.using(PAID):
        assert storage.current_options() == PAID
        with storage.using(StorageOptions()):
            assert storage.current_options().payer is None
        assert storage.current_options().payer == "project"
    assert storage.current_options() == StorageOptions()


def test_a_reader_says_in_the_environment_who_pays(monkeypatch):
    monkeypatch.setenv("BEAM_TFRECORDS_REQUESTER_PAYS", "reader")
    assert StorageOptions().payer == "reader"
    assert PAID.payer == "project"


@pytest.mark.nightly
def test_a_bound_function_takes_its_options_to_a_new_process():
    def read(word: str) -> tuple[str, StorageOptions]:
        return word, storage.current_options()

    with storage.using(PAID):
        packed = cloudpickle.dumps(storage.with_storage_options(read))
    program = f"""if True:
        from apache_beam.internal.cloudpickle import cloudpickle
        from beam_tfrecords import storage
        assert storage.current_options() == storage.StorageOptions()
        print(cloudpickle.loads({packed!r})("word"))
    """
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == str(("word", PAID))
