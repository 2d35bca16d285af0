# `make demo` and `make test` set up everything they need, in .venv/ and build/; a second call does nothing twice.
# Neither root nor a system's cmake is needed: a C++17 compiler, make and Python ≥ 3.10 with its venv module are.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-builtin-rules
.DELETE_ON_ERROR:
.NOTPARALLEL:

JOBS ?= $(shell nproc)
export PYTHONPATH := $(CURDIR)
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: all
all: build

# -- Pythons ----------------------------------------------------------------------------------------------------
# The first one on the PATH whose version TensorFlow supports: 2.21 needs 3.10 to 3.13, 2.15 at most 3.11.

first_python = $(shell for python in python3 python3.13 python3.12 python3.11 python3.10; do \
  $$python -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, $(1)))' 2>/dev/null \
    && { command -v $$python; break; }; done)
PYTHON ?= $(call first_python,13)
PYTHON_TF_2_15 ?= $(call first_python,11)

new_venv = @if [ -z "$(1)" ]; then echo "$@: no python3 between 3.10 and 3.13 is on the PATH" >&2; exit 1; fi; \
  echo "make: setting up $(@D) with $$($(1) --version)"; \
  [ -x $(@D)/bin/pip ] || $(1) -m venv $(@D)
pip_install = $(@D)/bin/python -m pip install --quiet

TF_2_21 := .venv/tf-2.21
TF_2_15 := .venv/tf-2.15
LINT := .venv/lint

$(TF_2_21)/.ready: requirements/tf-2.21.txt requirements/tf-2.21-no-deps.txt requirements/test.txt
	$(call new_venv,$(PYTHON))
	$(pip_install) -r $<
	$(pip_install) --no-deps -r requirements/tf-2.21-no-deps.txt
	@touch $@

$(TF_2_15)/.ready: requirements/tf-2.15.txt requirements/test.txt
	$(call new_venv,$(PYTHON_TF_2_15))
	$(pip_install) -r $<
	@touch $@

$(LINT)/.ready: requirements/lint.txt
	$(call new_venv,$(PYTHON))
	$(pip_install) -r $<
	@touch $@

# -- Build: the core once, the kernels for each TensorFlow ---------------------------------------------------------

.PHONY: build
build: core

CORE_BUILD := build/core
cmake_build = PATH="$(CURDIR)/$(TF_2_21)/bin:$$PATH" cmake -G Ninja -S ops -B $(1) $(2) >/dev/null \
  && "$(TF_2_21)/bin/cmake" --build $(1) --parallel $(JOBS)

.PHONY: core
core: $(TF_2_21)/.ready
	$(call cmake_build,$(CORE_BUILD))
