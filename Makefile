# `make demo` and `make test` set up what they need in .venv; what else they need is named in README.md.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO_OUT := out/demo

# Nothing of the caller's Python environment may leak into ours.
unexport PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE

.PHONY: demo generated test lint typecheck unit unit-tensorflow test-integration test-nightly test-versions dist image docs bench screenshot deploy-files clean

demo: $(VENV)/.program
	$(BIN)/beam-tfrecords convert --input=tests/data/photos --output=$(DEMO_OUT) --name=photos \
	  --splits=train=0.8,validation=0.2 --stratify --image_size=224 --overwrite
	$(BIN)/beam-tfrecords verify --dataset=$(DEMO_OUT)
	$(BIN)/beam-tfrecords inspect --dataset=$(DEMO_OUT)
	@echo "pictures and numbers on one page: $(DEMO_OUT)/report.html"

# The type checker and TensorFlow each take one process beside those of the other tests, which wait for a part of their
# time.
test: lint
	@$(MAKE) --no-print-directory --jobs=3 typecheck unit unit-tensorflow

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo --no-cache

typecheck: $(VENV)/.installed
	$(BIN)/mypy

TEMP_ROOT = PYTEST_DEBUG_TEMPROOT=$$($(PYTHON) tests/temp_root.py)
unit: $(VENV)/.installed
	$(TEMP_ROOT) $(BIN)/python -m pytest -n 2 --dist loadfile -m "not nightly and not tensorflow"

unit-tensorflow: $(VENV)/.installed
	$(TEMP_ROOT) $(BIN)/python -m pytest -m "tensorflow and not nightly"

# Two steps, so that the demo need not wait for what only the tests use. Installed modules are compiled at once: every
# worker process would otherwise do it again where bytecode is not written.
$(VENV)/.program: setup.py
	$(call install,.,the program and its libraries (650 MB; it takes a minute))
$(VENV)/.installed: $(VENV)/.program
	$(call install,.[test],TensorFlow and the tools of the tests)
	@# pytest rewrites assertions at a module's first import, and Hypothesis lists the characters of Unicode and the
	@# constants of the package: once here, or 12 s in each of three processes.
	@$(BIN)/python -m pytest -k test_what_json_dumps_writes_is_read_back > /dev/null 2>&1 || true
$(VENV)-integration/.installed: setup.py
	$(call install,.[integration],what the tests against real servers need)
$(VENV)-nightly/.installed: setup.py
	$(call install,.[nightly],what all tests need (10 GB))
$(VENV)-docs/.installed: setup.py
	$(call install,.[docs],what makes the site of docs/)

$(VENV)-dist/.installed: pyproject.toml
	$(PYTHON) -m venv $(@D)
	@# pip knows groups since version 25.1.
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	$(@D)/bin/python -m pip install --quiet --group dist
	touch $@

define install
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Python 3.10 or newer is needed; say make PYTHON=...")'
	@echo "Installing $(2)."
	$(PYTHON) -m venv $(@D)
	@# uv takes a quarter of pip's time; where it cannot reach the index that pip is set up for, pip does it.
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check uv
	$(@D)/bin/uv pip install --python=$(@D)/bin/python --quiet --compile-bytecode --editable '$(1)' \
	  || $(@D)/bin/python -m pip install --disable-pip-version-check --editable '$(1)'
	@$(@D)/bin/python -m compileall -q -j 0 beam_tfrecords > /dev/null || true
	touch $@
endef

# Tables of pages, types of settings, the notebook, outcomes of cases, and messages of refusals; takes ten minutes.
generated: $(VENV)/.installed
	$(BIN)/python -m tests.generated

# The gate against real servers, a cluster and a browser, all from package registries; needs Java, Maven and Go, or root
# on Debian to install them.
GATE = flink_faults store_faults storage_conformance runner_conformance package report
test-integration: $(VENV)-integration/.installed $(VENV)-dist/.installed
	tests/integration/install.sh integration $(VENV)-integration/bin/python
	$(VENV)-integration/bin/python -m pytest -n 2 --dist loadfile -m "not nightly" $(GATE:%=tests/integration/test_%.py) tests/core/stores

# The rest: all clusters, stores, readers and shells, combinations of settings, properties with more examples, and each
# stage once more by Beam's own workers.
PYTEST_NIGHTLY = $(VENV)-nightly/bin/python -m pytest -n 2 --dist loadfile --hypothesis-profile=nightly
test-nightly: $(VENV)-nightly/.installed $(VENV)-dist/.installed
	tests/integration/install.sh nightly $(VENV)-nightly/bin/python
	$(PYTEST_NIGHTLY) -m nightly tests/integration tests/core/stores
	$(TEMP_ROOT) $(PYTEST_NIGHTLY) -m "nightly or hypothesis" tests
	$(TEMP_ROOT) $(PYTEST_NIGHTLY) -m any_workers --beam_workers tests

# The wheel with the lowest and the newest versions that setup.py allows, on each Python that this machine has.
test-versions: $(VENV)/.installed $(VENV)-dist/.installed
	$(BIN)/python -m pytest tests/integration/test_package.py

# The wheel and the source distribution, as the package index takes them.
DIST ?= dist
DIST_BIN := $(VENV)-dist/bin
dist: $(VENV)-dist/.installed
	rm -f $(DIST)/beam_tfrecords-*
	$(DIST_BIN)/python -m build --outdir=$(DIST)
	$(DIST_BIN)/twine check --strict $(DIST)/*
	$(DIST_BIN)/check-wheel-contents $(DIST)/*.whl

IMAGE ?= beam-tfrecords
image:
	docker build --file=deploy/kubernetes/Dockerfile --tag='$(IMAGE)' .

# The site of docs/, without a warning and without the network: DOCS_OUT has a folder for each version, and DOCS_URL is
# the path at which a web server shows DOCS_OUT. `python3 -m http.server --directory build/docs` shows it here.
DOCS_OUT ?= build/docs
DOCS_URL ?=
docs: $(VENV)-docs/.installed
	$(VENV)-docs/bin/python docs/build_site.py '$(DOCS_OUT)' '$(DOCS_URL)'

# The chart of README.md and the generated tables of docs/benchmarks.md: the contestants in turn, each in its own
# environment; our codec in a bare pool, for more photos too; large photos; the next version; near-duplicates; how costs
# grow; small images and rows; readers. Two hours in all.
# `make bench PHOTOS=DIR` takes the JPEG files of a folder for the contest instead of made photos; the table of real photos
# is `run.py --photos=DIR --name=imagenet_8000 --only=beam_tfrecords,own_codec,pillow,pillow_draft`.
bench: OF_PHOTOS = $(if $(PHOTOS),--photos='$(PHOTOS)')
bench: $(VENV)/.installed $(VENV)-nightly/.installed
	$(BIN)/python -m compileall -q beam_tfrecords
	$(BIN)/python benchmarks/run.py $(OF_PHOTOS) --name=imagenet_like_8000 --chart=docs/benchmarks.png
	$(BIN)/python benchmarks/run.py $(OF_PHOTOS) --name=codec_8000 --only=beam_tfrecords,own_codec
	$(BIN)/python benchmarks/run.py $(OF_PHOTOS) --name=codec_40000 --count=40000 --only=beam_tfrecords,own_codec
	$(BIN)/python benchmarks/against.py $(OF_PHOTOS) b6062cf1
	$(BIN)/python benchmarks/run.py --size=4000x3000 --count=400 --only=beam_tfrecords,pillow,img2dataset
	$(BIN)/python benchmarks/reuse.py
	$(BIN)/python benchmarks/near_duplicates.py
	$(BIN)/python benchmarks/growth.py
	$(BIN)/python benchmarks/small_samples.py
	$(VENV)-nightly/bin/python benchmarks/readers.py
	$(BIN)/python benchmarks/tables.py

# The pictures of reports in README.md and docs/tutorial.md; they take Chromium, which tests/integration/install.sh installs.
screenshot: $(VENV)-nightly/.installed
	$(VENV)-nightly/bin/python docs/screenshot.py

# The files of deploy/ that are made from the environment of the tests: its versions and, for the images, the hashes of
# their files.
deploy-files: $(VENV)-nightly/.installed
	( $(VENV)-nightly/bin/python -c 'import platform; print("# make deploy-files: what the tests ran with, on Python", platform.python_version())'; \
	  $(VENV)-nightly/bin/python -m pip freeze --exclude-editable ) > deploy/constraints.txt
	( echo "# make deploy-files: what the images install, with the versions of constraints.txt"; \
	  echo "setuptools>=77" | $(VENV)-nightly/bin/uv pip compile --quiet --generate-hashes --no-header --no-annotate \
	    --python-version=3.11 --python-platform=x86_64-manylinux_2_28 --constraint=deploy/constraints.txt \
	    --extra=dataflow --extra=aws setup.py - ) > deploy/requirements.txt

clean:
	rm -rf $(VENV) .venv-* out build dist *.egg-info
