# `make demo` and `make test` set up everything they need, in .venv/ and build/; a second call does nothing twice.
# Neither root nor a system's cmake is needed: a C++17 compiler, make and Python >= 3.10 with its venv module are.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-builtin-rules
.DELETE_ON_ERROR:

export PYTHONPATH := $(CURDIR)
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export TF_CPP_MIN_LOG_LEVEL ?= 2

.PHONY: help
help:
	@echo 'make demo     train Fashion-MNIST with one process and with four, and compare'
	@echo 'make test     the core; TF 2.21 with Keras 3; of legacy Keras and TF 2.15 with Keras 2 what differs'
	@echo 'make test-all adds whole grids, long trials, all of Keras 2, sanitizers on everything, and fuzzers'
	@echo 'make fuzz     made-up bytes and texts, for what reads those of others; or FUZZ_RUNS=1000000'
	@echo 'make mutants  seeded faults, and whether the tests find them; or MUTANTS="plan data"'
	@echo 'make test-versions  small programs on each Keras, TensorFlow and Python, or KERAS=3.8 TF=2.18 PYTHON=3.12'
	@echo 'make test-upstream  programs of others as they are, of CHECKOUTS="../KungFu ../horovod ../bluefog"'
	@echo 'make engines  an environment with Ray and PySpark; make test-all uses it, and make docs if it is there'
	@echo 'make setup    the virtual environments in .venv/, which the others make, too'
	@echo 'make build    the core and the op libraries, in place'
	@echo 'make wheels   one wheel, with op libraries for all TensorFlows, into dist/; or MACHINE=aarch64'
	@echo 'make test-wheels  the wheel with each TensorFlow, in environments without a compiler'
	@echo 'make lint     ruff, mypy, clang-format, thread-safety analysis, deprecated calls of TensorFlow'
	@echo 'make docs     the documentation, into build/docs; make docs-serve shows it on http://127.0.0.1:8000'
	@echo 'make bench    the speed of the all-reduce on this machine, beside others that make bench-peers installs'
	@echo 'make bench-counts  what one sum, and a step of fit, make a process do'
	@echo 'make bench-growth  connections, memory and time of the core with 2 to 512 processes'
	@echo 'make bench-targets  what we mean to reach, and whether we do'
	@echo 'make bench-programs  the compiled programs that the scripts in benchmarks/ call'
	@echo 'make clean    removes what make has built; make distclean the virtual environments and the data, too'

# -- Environments -------------------------------------------------------------------------------------------------
# The first Python on the PATH that TensorFlow supports: 2.21 wants 3.10 to 3.13, 2.15 at most 3.11.

first_python = $(shell for python in python3 python3.13 python3.12 python3.11 python3.10; do \
  $$python -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, $(1)))' 2>/dev/null \
    && { command -v $$python; break; }; done)
# A version, as in `make test-versions PYTHON=3.12`, says which rows to try, and no interpreter.
PYTHON_VERSION := $(filter 3.%,$(PYTHON))
override PYTHON := $(or $(filter-out 3.%,$(PYTHON)),$(call first_python,13))
PYTHON_TF_2_15 := $(or $(PYTHON_TF_2_15),$(call first_python,11))

TF_2_21 := .venv/tf-2.21
TF_2_15 := .venv/tf-2.15
ENGINES := .venv/engines
LINT := .venv/lint
DOCS := .venv/docs

define new_venv
@[ -n "$(1)" ] || { echo "$(@D): needs a python3 that is $(2), and the PATH has none" >&2; exit 1; }
@echo "$(@D): $(1), $$($(1) --version)"
@[ -x $(@D)/bin/pip ] || $(1) -m venv $(@D)
endef
pip_install = $(@D)/bin/python -m pip install --quiet

$(TF_2_21)/.ready: requirements/tf-2.21.txt requirements/tf-2.21-no-deps.txt requirements/test.txt \
  requirements/notebook.txt
	$(call new_venv,$(PYTHON),3.10 to 3.13)
	$(pip_install) -r $<
	$(pip_install) --no-deps -r requirements/tf-2.21-no-deps.txt
	$(pip_install) --target $(@D)/notebook -r requirements/notebook.txt
	@touch $@

$(TF_2_15)/.ready: requirements/tf-2.15.txt requirements/test.txt
	$(call new_venv,$(PYTHON_TF_2_15),3.10 or 3.11)
	$(pip_install) -r $<
	@touch $@

# Ray and Spark beside the TensorFlow of another environment, whose packages they use where they can.
$(ENGINES)/.ready: requirements/engines.txt $(TF_2_21)/.ready
	$(call new_venv,$(TF_2_21)/bin/python,3.10 to 3.13)
	realpath $(TF_2_21)/lib/python3.*/site-packages > $$(echo $(@D)/lib/python3.*/site-packages)/tensorflow.pth
	$(pip_install) -r $<
	@touch $@

$(LINT)/.ready: requirements/lint.txt
	$(call new_venv,$(PYTHON),3.10 to 3.13)
	$(pip_install) -r $<
	@touch $@

$(DOCS)/.ready: requirements/docs.txt
	$(call new_venv,$(PYTHON),3.10 to 3.13)
	$(pip_install) -r $<
	@touch $@

$(TF_2_21)/.demo-ready: requirements/demo.txt $(TF_2_21)/.ready
	$(pip_install) -r $<
	@touch $@

CLANG := $(or $(CLANG),$(shell compgen -c clang++ | grep -xE 'clang\+\+(-[0-9]+)?' | sort -rV | head -n 1))

.PHONY: setup engines
engines: $(ENGINES)/.ready
setup: $(TF_2_21)/.ready $(if $(PYTHON_TF_2_15),$(TF_2_15)/.ready) $(LINT)/.ready

# -- Build: the core once, the kernels for each TensorFlow ----------------------------------------------------------

LIB := kungfu_tf/lib
# Ninja runs its jobs by itself, not as many as a make around it has left.
cmake := MAKEFLAGS= PATH="$(CURDIR)/$(TF_2_21)/bin:$$PATH" cmake
KERNELS = $(wildcard ops/tensorflow/*) $(wildcard ops/c_api/*.h) kungfu_tf/native/build.py

.PHONY: build core
build: $(LIB)/libkungfu_ops-2.21.so $(if $(PYTHON_TF_2_15),$(LIB)/libkungfu_ops-2.15.so)

# Ninja knows what there is to do.
core: $(TF_2_21)/.ready
	@$(cmake) -G Ninja -S ops -B build/core -DKUNGFU_TESTS=ON >/dev/null
	@$(cmake) --build build/core --target kungfu
	@$(cmake) --install build/core --prefix $(LIB) >/dev/null

$(LIB)/libkungfu_ops-2.21.so: $(KERNELS) $(TF_2_21)/.ready | core
	$(TF_2_21)/bin/python setup.py --quiet build_ops
	@touch $@

$(LIB)/libkungfu_ops-2.15.so: $(KERNELS) $(TF_2_15)/.ready | core
	$(TF_2_15)/bin/python setup.py --quiet build_ops
	@touch $@

# A download of 1.7 GB. What is needed of it, headers and a library for each TensorFlow, stays in build/wheels: 1.8 GB.
# For another processor Debian has the compiler in g++-aarch64-linux-gnu; `make test-all` tries that wheel.
MACHINE := $(shell uname -m)
.PHONY: wheels test-wheels
wheels: $(TF_2_21)/.ready
	rm -f dist/kungfu_tf-*_$(MACHINE).whl
	$(TF_2_21)/bin/python docker/wheels/build.py --machine $(MACHINE)

test-wheels: wheels
	$(TF_2_21)/bin/python tests/wheels/run.py dist/kungfu_tf-*_$(MACHINE).whl

# -- Tests ----------------------------------------------------------------------------------------------------------
# PYTEST_ARGS='tests/python/unit -k shard' runs some of them.

# The longest first.
TESTS_CPP := test-cpp-thread test-cpp-address test-cpp test-cpp-arm64 test-models $(if $(ALL),fuzz)
TESTS_PYTHON := test-cluster test-tf-2.21 test-tf-2.15 test-legacy-keras $(if $(ALL),test-engines)
TESTS := $(TESTS_CPP) $(TESTS_PYTHON)
.PHONY: test test-all test-cpps test-python test-summary test-slowest $(TESTS)
# Two at a time: where one waits, the other computes. Their jobs do not know of each other's cores.
two = $(MAKE) --jobs=2 --output-sync=line --no-print-directory ALL=$(ALL)
test: build
	@$(two) test-cpps
	@KUNGFU_BIND_TO=none $(two) test-python
	@$(MAKE) --silent --no-print-directory test-summary

# What has the marker `exhaustive`, too; Ray and Spark; Keras 2 on all that the lists below leave out; all of C++ with
# sanitizers; what fuzzers make up.
test-all: ALL := 1
test-all: test

test-cpps: $(TESTS_CPP)
test-python: $(TESTS_PYTHON)

LOGS = $(wildcard $(TESTS:%=build/%.log))
test-summary:
	@echo; for log in $(LOGS); do \
	  printf '%-18s %s\n' $$(basename $$log .log) "$$(grep -E 'passed|failed|left out' $$log | tail -n 1)"; done

test-slowest:
	@$(TF_2_21)/bin/python -m tests.slowest $(LOGS)

define test_cpp
@$(cmake) -G Ninja -S ops -B $(1) -DKUNGFU_TESTS=ON -DKUNGFU_ALL_TESTS=$(if $(ALL),ON,OFF) $(2) >/dev/null
@$(cmake) --build $(1) $(4)
@$(3) $(TF_2_21)/bin/ctest --test-dir $(1) $(5) --output-on-failure | tee build/$@.log
endef

test-cpp: core
	$(call test_cpp,build/core)

# A local variable that is used after its function has returned is found, too.
test-cpp-address: $(TF_2_21)/.ready
	$(call test_cpp,build/address,-DKUNGFU_SANITIZE=address$(comma)undefined,ASAN_OPTIONS=detect_stack_use_after_return=1)

# Without the randomised addresses that ThreadSanitizer cannot live with on some kernels.
test-cpp-thread: $(TF_2_21)/.ready
	$(call test_cpp,build/thread,-DKUNGFU_SANITIZE=thread,setarch -R)

# What a processor with a weak order of memory makes of that which processes share: tests/models. Debian has the checker
# in relacy-dev.
RELACY := $(wildcard /usr/include/relacy/relacy.hpp)
test-models:
ifneq ($(RELACY),)
	@mkdir -p build && $(CXX) -std=c++17 -w -I. tests/models/models.cc -o build/models
	@./build/models | tee build/$@.log
else
	@echo 'left out: no relacy/relacy.hpp is in /usr/include' | tee build/$@.log
endif

# The arithmetic of another processor, emulated, or all of the core. Debian has both in g++-aarch64-linux-gnu and
# qemu-user.
ARM64 := $(and $(shell command -v aarch64-linux-gnu-g++),$(shell command -v qemu-aarch64))
ARM64_LAYERS := $(if $(ALL),-UKUNGFU_LAYERS -DCMAKE_BUILD_TYPE=RelWithDebInfo, \
  -DKUNGFU_LAYERS=base -DCMAKE_BUILD_TYPE=Debug)
ARM64_TESTS := $(if $(ALL),-E scale,-R '^base$$')
FOR_ARM64 := $(ARM64_LAYERS) -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 \
  -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++ '-DCMAKE_CROSSCOMPILING_EMULATOR=qemu-aarch64;-L;/usr/aarch64-linux-gnu'
test-cpp-arm64: $(TF_2_21)/.ready
ifneq ($(ARM64),)
	$(call test_cpp,build/arm64,$(FOR_ARM64),,$(if $(ALL),,--target base_test),$(ARM64_TESTS))
else
	@echo 'left out: aarch64-linux-gnu-g++ or qemu-aarch64 is not on the PATH' | tee build/$@.log
endif

comma := ,
# Given arguments are all; $(1) says what runs without.
pytest = -m pytest --durations=20 $(if $(ALL),-m '') $(or $(PYTEST_ARGS),$(1)) | tee build/$@.log
ignore = $(foreach tests,$(1),--ignore=$(tests))
CLUSTER := tests/python/cluster
cases = $(foreach case,$(1),$(or $(wildcard $(CLUSTER)/cases/*/cases_$(case).py),$(error no cases_$(case).py)))

test-cluster: build
	$(TF_2_21)/bin/python $(call pytest,$(CLUSTER))

test-tf-2.21: build $(TF_2_21)/.bench-ready
	$(TF_2_21)/bin/python $(call pytest,$(call ignore,$(CLUSTER) tests/python/engines))

# Spark needs Java: Debian has it in openjdk-17-jre-headless.
test-engines: build $(ENGINES)/.ready
	$(ENGINES)/bin/python $(call pytest,tests/python/engines)

# What knows no Keras runs once for each TensorFlow, and what knows hardly anything of TensorFlow, once.
NO_TENSORFLOW := tests/test_layering.py tests/benchmarks tests/docs tests/python/launcher tests/python/function_launch \
  tests/python/compat/test_flags.py tests/python/compat/test_start.py tests/python/engines tests/python/install \
  $(filter-out %/test_elastic_fit_hosts.py %/test_slow_link.py,$(wildcard tests/fault/test_*.py))
NO_KERAS := $(NO_TENSORFLOW) tests/fault tests/python/unit/native/test_sharing.py tests/python/compat/test_programs.py
# Where the generations of Keras part: optimizers, `fit`, callbacks, files. Legacy Keras is Keras 2 on another TensorFlow.
LEGACY_KERAS := $(addprefix tests/python/unit/,exchange/test_optimizers.py exchange/test_options.py keras \
    replicas/test_initializer.py test_public.py upstream) \
  $(call cases,everyday fit fit_callbacks initializer learning_rate matrix optimizers)
# Of these both Keras 2 have the same: that of TensorFlow 2.15 runs them, if it is there.
OF_ONE_KERAS_2 := $(call cases,fit_callbacks initializer learning_rate matrix optimizers)
# What Keras 2 has besides: Estimators, with the sessions in them, and ops compiled for this TensorFlow.
TF_2_15_KERAS_2 := $(LEGACY_KERAS) tests/python/unit/native/test_lib.py \
  $(addprefix tests/python/unit/ops/test_,kernels.py naming.py tensors.py) \
  $(call cases,batch_norm collectives estimator fit_uneven hidden_state local saving verify_loop) \
  $(addprefix $(CLUSTER)/test_,elastic.py examples.py) tests/python/compat/test_programs.py

test-legacy-keras: build
	TF_USE_LEGACY_KERAS=1 $(TF_2_21)/bin/python \
	  $(call pytest,$(if $(ALL),$(call ignore,$(NO_KERAS)), \
	    $(filter-out $(if $(PYTHON_TF_2_15),$(OF_ONE_KERAS_2)),$(LEGACY_KERAS))))

test-tf-2.15: build
ifneq ($(PYTHON_TF_2_15),)
	$(TF_2_15)/bin/python $(call pytest,$(if $(ALL),$(call ignore,$(NO_TENSORFLOW)),$(TF_2_15_KERAS_2)))
else
	@echo 'left out: it needs Python 3.10 or 3.11, and the PATH has neither' | tee build/$@.log
endif

# Bytes and texts of others, made up: so many for each program of tests/fuzz, two programs at a time, or for so many
# seconds, with FUZZ_LIMIT=-max_total_time=60. What breaks one is kept in build/fuzz. Debian has it all in clang and
# libclang-rt-dev.
FUZZERS := handshake ring session texts wire
FUZZ_RUNS := 100000
FUZZ_LIMIT := -runs=$(FUZZ_RUNS)
FUZZ_CORE := -DKUNGFU_FUZZ=ON -DKUNGFU_SANITIZE=address -DKUNGFU_LAYERS='base;memory;monitor;plan;transport;router'
HAS_FUZZER = $(and $(CLANG),$(wildcard $(shell $(CLANG) -print-runtime-dir)/libclang_rt.fuzzer*.a))
fuzz: $(TF_2_21)/.ready
ifneq ($(HAS_FUZZER),)
	@$(cmake) -G Ninja -S ops -B build/fuzz -DCMAKE_CXX_COMPILER=$(CLANG) $(FUZZ_CORE) >/dev/null
	@$(cmake) --build build/fuzz --target fuzzers
	@printf '%s\n' $(FUZZERS) | xargs -P 2 -I {} sh -c './build/fuzz/fuzz/fuzz_{} $(FUZZ_LIMIT) \
	  -artifact_prefix=build/fuzz/{}- >build/fuzz/{}.log 2>&1 || { cat build/fuzz/{}.log; exit 255; }; \
	  echo "{} passed: $$(grep ^Done build/fuzz/{}.log)"' | tee build/$@.log
else
	@echo 'left out: no clang++ with its libFuzzer is on the PATH' | tee build/$@.log
endif

# Faults that the tests must find: tests/mutants/.
.PHONY: mutants
mutants: build
	$(TF_2_21)/bin/python -m tests.mutants $(MUTANTS) | tee build/$@.log

# What README promises about versions: an hour, and 20 GB of environments. The slice is what CI runs.
.PHONY: test-versions test-versions-slice
versions = $(TF_2_21)/bin/python tests/versions/run.py
test-versions: build
	$(versions) --keras '$(KERAS)' --tensorflow '$(TF)' --python '$(PYTHON_VERSION)' $(VERSIONS_ARGS)

test-versions-slice: build
	$(versions) --slice

# The programs and tests of KungFu, Horovod and BlueFog, unedited. tests/upstream/run says what they need.
.PHONY: test-upstream
test-upstream: build
	@for checkout in $(CHECKOUTS); do $(TF_2_15)/bin/python tests/upstream/run $$checkout || exit 1; done

# -- Lint -----------------------------------------------------------------------------------------------------------

CORE_SOURCES = $(filter-out ops/tensorflow/%,$(wildcard ops/*/*.cc ops/*/*/*.cc))
CXX_FILES = $(wildcard ops/*/*.cc ops/*/*.h ops/*/*/*.cc ops/*/*/*.h tests/cpp/*.cc tests/cpp/*.h tests/cpp/*/*.cc \
  tests/cpp/*/*.h tests/cpp/*/*/*.cc tests/fuzz/*.cc tests/fuzz/*.h tests/models/*.cc tests/models/*.h \
  benchmarks/programs/*.cc benchmarks/programs/*.h)

.PHONY: lint lint-python lint-format lint-manifests lint-threads lint-kernels format
lint: lint-python lint-format lint-manifests lint-threads lint-kernels

lint-python: $(LINT)/.ready
	$(LINT)/bin/ruff check .
	$(LINT)/bin/ruff format --check .
	$(LINT)/bin/mypy

lint-format: $(LINT)/.ready
	@echo clang-format && $(LINT)/bin/clang-format --dry-run -Werror $(CXX_FILES)

lint-manifests: $(LINT)/.ready
	$(LINT)/bin/python tests/manifests.py docker/kubernetes/*.yaml

# Clang alone knows the thread-safety attributes of ops/base/mutex.h.
lint-threads:
ifneq ($(CLANG),)
	@echo "thread safety, $(CLANG)" && printf '%s\n' $(CORE_SOURCES) | xargs -P 2 -n 4 \
	  $(CLANG) -std=c++17 -fsyntax-only -I. -Wall -Wextra -Wno-unused-parameter -Wthread-safety -Werror
else
	@echo 'thread safety: left out, no clang++ is on the PATH'
endif

# TensorFlow's headers name what the next version may drop; a user who compiles the kernels does not see it.
HEADERS = $(wildcard $(TF_2_21)/lib/python3.*/site-packages/tensorflow/include)
lint-kernels: $(TF_2_21)/.ready
	@echo "kernels, $(or $(CLANG),$(CXX))" && printf '#include "%s"\n' $(wildcard ops/tensorflow/*.cc) | \
	  $(or $(CLANG),$(CXX)) -std=c++17 -fsyntax-only -I. -isystem $(HEADERS) -DKUNGFU_OPS_BUILD='""' \
	    -Wall -Wextra -Wno-unused-parameter -Werror -x c++ -

format: $(LINT)/.ready
	$(LINT)/bin/ruff format .
	$(LINT)/bin/clang-format -i $(CXX_FILES)

# -- Documentation ---------------------------------------------------------------------------------------------------
# Strict: a warning, a broken link, an anchor that is not there, a long sentence is an error.

DOCS_SITE := build/docs
.PHONY: docs docs-site docs-blocks docs-english docs-axe docs-screenshots docs-serve
docs: docs-english docs-site docs-blocks

docs-english: $(DOCS)/.ready
	$(DOCS)/bin/python -m docs.tools.english

docs-site: core $(DOCS)/.ready
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build
	$(DOCS)/bin/python -m docs.tools.offline $(DOCS_SITE)
	$(DOCS)/bin/python -m docs.tools.api $(DOCS_SITE)

# The blocks of code that pages mark to run: docs/tools/pages.py. DOCS_PAGES='docs/first-job.md' runs some.
docs-blocks: build
	$(TF_2_21)/bin/python -m docs.tools.blocks $(DOCS_PAGES)

# What a reader may not be able to use: a browser, Debian's chromium, and npm are needed.
docs-axe: docs-site .venv/axe/.ready
	$(DOCS)/bin/python -m docs.tools.axe $(DOCS_SITE) .venv/axe/node_modules/axe-core/axe.min.js

.venv/axe/.ready:
	npm install --silent --no-audit --no-fund --prefix $(@D) axe-core@4.14.1
	@touch $@

# The pictures of docs/assets: Debian's chromium and prometheus are needed.
docs-screenshots: build
	$(TF_2_21)/bin/python -m docs.tools.screenshots

docs-serve: docs-site
	$(DOCS)/bin/python -m http.server --bind 127.0.0.1 --directory $(DOCS_SITE) 8000

# -- Run ------------------------------------------------------------------------------------------------------------

.PHONY: demo bench bench-counts bench-growth bench-peers bench-programs bench-targets
demo: $(TF_2_21)/.demo-ready $(LIB)/libkungfu_ops-2.21.so
	@$(TF_2_21)/bin/python examples/demo.py

# Figures into benchmarks/results/, beside the systems that `make bench-peers` has installed.
bench: bench-programs
	@$(TF_2_21)/bin/python benchmarks/all_reduce.py $(BENCH_ARGS)

bench-targets: bench-programs
	@$(TF_2_21)/bin/python benchmarks/targets.py $(BENCH_ARGS)

# Debian has both in packages of their names: valgrind and strace.
bench-counts: bench-programs
	@$(TF_2_21)/bin/python benchmarks/counts.py $(BENCH_ARGS)

bench-growth: bench-programs
	@$(TF_2_21)/bin/python benchmarks/growth.py $(BENCH_ARGS)

bench-programs: build $(TF_2_21)/.bench-ready
	@$(cmake) --build build/core --target benchmark_core benchmark_counts benchmark_counting benchmark_limits benchmark_loopback benchmark_many

$(TF_2_21)/.bench-ready: requirements/bench.txt $(TF_2_21)/.ready
	$(pip_install) -r $<
	@touch $@

bench-peers: .venv/open-mpi/.ready .venv/mpich/.ready .venv/gloo/.ready .venv/horovod/.ready

.venv/open-mpi/.ready .venv/mpich/.ready .venv/gloo/.ready: .venv/%/.ready: requirements/bench-%.txt
	$(call new_venv,$(PYTHON),3.10 to 3.13)
	$(pip_install) -r $<
	@touch $@

.venv/horovod/.ready: requirements/bench-horovod.txt
	$(call new_venv,$(PYTHON_TF_2_15),3.10 or 3.11)
	$(pip_install) -r $<
	PATH="$(CURDIR)/$(@D)/bin:$$PATH" HOROVOD_WITH_TENSORFLOW=1 HOROVOD_WITH_MPI=1 HOROVOD_WITH_GLOO=1 \
	  HOROVOD_WITHOUT_PYTORCH=1 HOROVOD_WITHOUT_MXNET=1 $(pip_install) --no-build-isolation horovod==0.28.1
	@touch $@

.PHONY: clean distclean
clean:
	rm -rf build dist *.egg-info $(LIB) .pytest_cache .mypy_cache .ruff_cache
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +

distclean: clean
	rm -rf .venv .data
