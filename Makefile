# SPDX-License-Identifier: Apache-2.0
# Thin: what a person types. CMake builds, ctest tests.

CMAKE ?= cmake
PRESET ?= dev
BUILD = $(if $(filter dev,$(PRESET)),build,build-$(PRESET))
JOBS ?= $(shell nproc)
MINUTES ?= 60
STEPS ?= 10000
SEED ?= 1
# Of the image: amd64 or arm64.
NATIVE = $(if $(filter aarch64,$(shell uname -m)),arm64,amd64)
ARCH ?= $(NATIVE)
VERSION = $(shell sed -n 's/^project(devplugd VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)

.PHONY: all help dependencies test-dependencies build demo cluster-demo test test-gpu test-hardware test-system test-minimal bench random soak fuzz dist deb rpm \
	test-rpm image test-container check-style clean

all: build

help:
	@echo "make             build into build/"
	@echo "make demo        show it at work on this machine's devices (root)"
	@echo "make cluster-demo show it with DRA, an API server and alerts, all on this machine (root)"
	@echo "make test        build with and without sanitizers and run the tests (ARGS=--twice: each of them in both builds)"
	@echo "make test-gpu    use the NVIDIA GPUs of this machine in containers (root)"
	@echo "make dist        make the release archive in build-packages/"
	@echo "make deb         build the Debian packages into build-packages/"
	@echo "make rpm         build the RPM packages into build-packages/rpm/"
	@echo "make test-hardware  the package on an emulated machine with devices (root; ARGS=--short for a part)"
	@echo "make test-system install, reload, upgrade and purge the package in a booted system (root; SUITE=trixie, FROM=the release to upgrade from)"
	@echo "make test-minimal what README tells a new user to do, in a minimal booted system (root; SUITE=trixie)"
	@echo "make test-rpm    install, upgrade and remove the RPM packages in a booted system (root)"
	@echo "make image       build the container image (podman; ARCH=arm64)"
	@echo "make test-container run the DaemonSet's pod with it (root)"
	@echo "make bench       measure it on this machine (root; ARGS=\"--only memory\", see tests/bench/bench --help)"
	@echo "make random      STEPS=10000 random steps of kills, reloads, restarts and unplugging (root; SEED=1)"
	@echo "make fuzz        each fuzzer for MINUTES=60 minutes"
	@echo "make soak        whether anything leaks in an hour of restarts, kills, reloads and GPU errors (root; MINUTES=60)"
	@echo "make check-style check the style of the sources (formatting, scripts, spelling)"
	@echo "make clean       remove the build folders"

# Installs what building and testing needs, if anything is missing (Debian, Fedora, as root).
dependencies:
	@packaging/install-dependencies

test-dependencies:
	@packaging/install-dependencies test

build: dependencies
	$(CMAKE) --preset $(PRESET)
	$(CMAKE) --build $(BUILD) -j $(JOBS)

demo: dependencies
	@$(CMAKE) --preset $(PRESET) >/dev/null
	@$(CMAKE) --build $(BUILD) -j $(JOBS) --target devplugd devplugd-plugin devplugctl devplug-kubelet
	@tests/demo/demo $(BUILD)

cluster-demo: dependencies
	@packaging/install-dependencies demo
	@$(CMAKE) --preset $(PRESET) >/dev/null
	@$(CMAKE) --build $(BUILD) -j $(JOBS) --target devplugd devplugd-plugin devplugd-cluster devplugd-exporter devplugctl devplug-kubelet
	@tests/demo/cluster-demo $(BUILD)

test: test-dependencies
	@tests/run-all $(ARGS)

# What "make test" cannot do: it needs NVIDIA's driver.
test-gpu: build
	@DEVPLUGD_BIN=$(CURDIR)/$(BUILD)/bin python3 -B tests/gpu/test_nvidia_gpu.py -v

# The machine is emulated, so it takes some minutes, and needs no hardware. Its trees are kept outside the checkout.
test-hardware:
	@packaging/install-dependencies hardware
	@packaging/test-hardware $(ARGS)

dist:
	@packaging/install-dependencies dist
	@packaging/make-dist build-packages

deb:
	@packaging/install-dependencies deb
	@packaging/build-deb build-packages
	@packaging/check-packages deb build-packages

rpm:
	@packaging/install-dependencies rpm
	@packaging/build-rpm build-packages
	@packaging/check-packages rpm build-packages

test-system:
	@packaging/install-dependencies system
	@packaging/test-system $(SUITE)

test-minimal:
	@packaging/install-dependencies system
	@packaging/test-minimal $(SUITE)

test-rpm:
	@packaging/install-dependencies system
	@packaging/install-dependencies rpm
	@packaging/test-system bookworm rpm

image:
	podman build -f packaging/container/Containerfile --platform linux/$(ARCH) \
		--build-arg BUILDPLATFORM=linux/$(NATIVE) -t devplugd:$(VERSION)$(if $(filter-out $(NATIVE),$(ARCH)),-$(ARCH)) .

test-container: build
	@packaging/install-dependencies container
	@packaging/test-container $(BUILD)/bin

# Of an optimised build; beside a Go peer where its packages are (tests/bench/go/build says which).
bench: test-dependencies
	@$(CMAKE) --preset release -DBUILD_TESTING=ON >/dev/null
	@$(CMAKE) --build --preset release -j $(JOBS) -- --quiet
	@go=; tests/bench/go/build $(CURDIR)/build-release/go && go="--go build-release/go"; \
		tests/bench/bench --bin build-release/bin $$go --json build-release/bench.json $(ARGS)

random: test-dependencies
	@$(CMAKE) --preset $(PRESET) >/dev/null
	@$(CMAKE) --build $(BUILD) -j $(JOBS) -- --quiet
	@DEVPLUGD_BIN=$(CURDIR)/$(BUILD)/bin DEVPLUGD_TEST_STEPS=$(STEPS) DEVPLUGD_TEST_SEED=$(SEED) \
		python3 -B tests/promises/test_random_steps.py
	@DEVPLUGD_BIN=$(CURDIR)/$(BUILD)/bin DEVPLUGD_TEST_STEPS=$(STEPS) DEVPLUGD_TEST_SEED=$(SEED) \
		python3 -B tests/promises/test_cleaning_steps.py
	@DEVPLUGD_BIN=$(CURDIR)/$(BUILD)/bin DEVPLUGD_TEST_DRA_STEPS=$(STEPS) DEVPLUGD_TEST_SEED=$(SEED) \
		python3 -B tests/promises/test_dra_steps.py

# Of the build that is installed, and of one that is looked after by LeakSanitizer.
soak: test-dependencies
	@for preset in dev asan; do $(CMAKE) --preset $$preset >/dev/null && \
		$(CMAKE) --build --preset $$preset -j $(JOBS) -- --quiet || exit 1; done
	@tests/soak/soak --bin build/bin --minutes $(MINUTES) & plain=$$!; \
		tests/soak/soak --bin build-asan/bin --minutes $(MINUTES) --resources 15; asan=$$?; \
		wait $$plain && exit $$asan

# What is found stays in build-fuzz/tests/fuzz/found, and is where the next run begins.
fuzz: test-dependencies
	@$(CMAKE) --preset fuzz >/dev/null
	@$(CMAKE) --build --preset fuzz -j $(JOBS) -- --quiet
	@for fuzzer in build-fuzz/bin/fuzz-*; do \
		topic=$${fuzzer##*/fuzz-}; \
		echo "== $$topic"; \
		$$fuzzer -max_total_time=$$(($(MINUTES) * 60)) -max_len=16384 -timeout=60 -verbosity=0 \
			-print_final_stats=1 -artifact_prefix=build-fuzz/ build-fuzz/tests/fuzz/found/$$topic \
			tests/fuzz/corpus/$$topic $$([ $$topic != sysfs ] || echo tests/peers) || exit 1; \
	done

check-style: test-dependencies
	@tests/lint

clean:
	rm -rf build build-*/
