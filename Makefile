# `make help` lists the targets. All outputs are in build/ (or BUILD=...).
BUILD   ?= build
# BUILD is made relative: make treats build/x and /path/build/x as different targets, and splits names at spaces, which the
# path of this folder may contain.
inside   = $(subst :,,$(subst :$(CURDIR)/,,:$(1)))
whole   := $(call inside,$(abspath $(call inside,$(BUILD))))
override BUILD := $(if $(word 2,$(whole)),$(call inside,$(BUILD)),$(whole))
ifneq ($(words $(BUILD)),1)
$(error BUILD=$(BUILD) must not contain a space: use a relative path without one)
endif
PREFIX  ?= /usr/local
CC      ?= cc
CLANG   ?= clang
V       ?=
Q       := $(if $(V),,@)
show     = $(if $(V),,@printf '  %-6s %s\n' $(1) $(2))
# As many jobs as processors, unless the caller gives -j; a recursive make inherits the number.
ifeq ($(MAKELEVEL),0)
MAKEFLAGS += -j$(shell nproc)
endif
# `make clean all`: one after the other.
ifneq ($(filter clean,$(MAKECMDGOALS)),)
.NOTPARALLEL:
endif

VERSION  := 0.1.0
# Constants are unnamed enumerations: clang 19 and later would warn of each one combined with a double.
WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-enum-float-conversion -Wstrict-prototypes
# No -Werror: warnings of a newer or older compiler must not end a build. They are kept next to the built file, in *.warnings,
# and `make check` fails if there are any.
keep      = 2>$@.warnings; rc=$$?; cat $@.warnings >&2; [ -s $@.warnings ] || rm -f $@.warnings; exit $$rc
# -ffp-contract=off: no fused operations, which compilers choose differently: results must repeat to the bit.
CFLAGS   ?= -O2 -g
# The folder of cblas.h on Fedora and openSUSE; gcc ignores a missing folder.
BLAS_H   := -idirafter /usr/include/openblas
ALL_CFLAGS = -std=c11 -D_GNU_SOURCE $(WARNINGS) -fPIC -ffp-contract=off -fno-math-errno -fno-trapping-math \
             -I. $(BLAS_H) -DPSGD_VERSION='"$(VERSION)"' $(if $(ONEDNN),-DPSGD_ONEDNN) $(HARDEN) $(CFLAGS) $(SANITIZE)
# oneDNN computes products and convolutions if it is found; `make ONEDNN=` builds without it. ONEDNN_STAMP contains the
# choice, and a change rebuilds the files that depend on it.
quoted    = '$(subst ','\'',$(1))'
ifeq ($(origin ONEDNN),undefined)
ONEDNN_FOUND := $(shell CC=$(call quoted,$(CC)) CFLAGS=$(call quoted,$(CFLAGS)) LDFLAGS=$(call quoted,$(LDFLAGS)) nn/kernels/onednn_probe.sh)
ONEDNN    := $(filter-out none none:,$(firstword $(ONEDNN_FOUND)))
else
ONEDNN_FOUND := $(or $(ONEDNN),none)
endif
ONEDNN_STAMP := $(BUILD)/onednn
# The transport over MPI is built for each MPI that is found, as "openmpi=mpicc.openmpi"; `make MPI=` builds without it. It is linked
# with an MPI's shared library only, and only a job with --transport mpi loads it.
ifeq ($(origin MPI),undefined)
MPI := $(if $(SANITIZE),,$(shell runner/mesh/mpi/mpicc_probe.sh))
endif
# Compiler options by which a memory error ends a process instead of giving control to an attacker; `make HARDENING=` builds
# without them. They precede the user's CFLAGS and LDFLAGS, which override them. HARDENING_STAMP is like ONEDNN_STAMP.
ifeq ($(origin HARDENING),undefined)
HARDENING := $(shell CC=$(call quoted,$(CC)) CFLAGS=$(call quoted,$(CFLAGS)) SANITIZE=$(call quoted,$(SANITIZE)) LDFLAGS=$(call quoted,$(LDFLAGS)) shared/base/hardening_probe.sh $(BUILD)/hardening.cache)
endif
HARDEN_LINK := $(filter -Wl%,$(HARDENING))
HARDEN      := $(filter-out -pie $(HARDEN_LINK),$(HARDENING))
HARDENING_STAMP := $(BUILD)/hardening
# For files with loops over vectors.
FAST     := -O3 -funroll-loops
# lld takes a third of the time of ld. Only programs that are not installed, those of the tests, are linked by it.
TEST_LD  := $(if $(shell command -v ld.lld),-fuse-ld=lld)
LINK      = $(CC) $(CFLAGS) $(SANITIZE) $(filter -pie,$(HARDENING)) $(HARDEN_LINK) $(LDFLAGS)

# The sources of a library: those in the folder and its subfolders, without the file with main().
in = $(wildcard $(1)/*.c $(1)/*/*.c $(1)/*/*/*.c)
SHARED := $(filter-out shared/trainer/psgd_trainer.c,$(call in,shared))
AGENT  := $(filter-out agent/agent.c,$(call in,agent))
MESH_MPI := $(wildcard runner/mesh/mpi/*.c)
RUNNER := $(filter-out runner/runner.c runner/predictor.c $(MESH_MPI),$(call in,runner))
SUBMIT := $(filter-out submit/job_submit.c,$(call in,submit))
NN     := $(call in,nn)
COMPRESS := $(call in,codecs/compress)
SIM    := $(filter-out sim/simulator.c,$(call in,sim))
CONFORM := $(filter-out conform/codec_check.c,$(call in,conform))
PAGE   := $(call in,page)
TESTLIB := $(wildcard tests/lib/*.c)
CODECS := $(patsubst codecs/%.c,$(BUILD)/codecs/%.so,$(wildcard codecs/*.c))
MODELS := $(patsubst nn/models/%.json,$(BUILD)/models/%.json,$(wildcard nn/models/*.json))
CODEC_SOURCES := $(patsubst codecs/%.c,$(BUILD)/codecs/%.c,$(wildcard codecs/*.c))
TRANSPORTS := $(foreach m,$(MPI),$(BUILD)/transports/$(firstword $(subst =, ,$(m))).so)
MODULES := $(patsubst python/%,$(BUILD)/python/%,$(wildcard python/psgd/*.py))
HEADERS := $(patsubst %,$(BUILD)/include/%.h,codec codec_option codec_events wire executor psgd_trainer)
TESTS  := $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/unit/*/test_*.c tests/suite/test_*.c))
TEST_CODECS := $(patsubst tests/codecs/%.c,$(BUILD)/tests/codecs/%.so,$(wildcard tests/codecs/*.c))
EXECUTORS := $(patsubst %.c,$(BUILD)/%.so,$(wildcard examples/executors/*.c tests/executors/*.c))
TRAINERS := $(patsubst %.c,$(BUILD)/%,$(wildcard examples/trainers/*.c))
TEST_TRAINERS := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/trainers/*.c))
FUZZERS := $(patsubst tests/fuzz/%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
TOOLS  := $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/tool/*.c))
PRELOADS := $(patsubst %.c,$(BUILD)/%.so,$(wildcard tests/soak/*.c))
REFERENCE := $(BUILD)/docs/reference
MANUALS := $(BUILD)/docs/manual $(BUILD)/docs/completion
BENCHES := $(patsubst tests/%.c,$(BUILD)/tests/%,$(filter-out tests/bench/mpi_peer.c,$(wildcard tests/bench/*.c)))

objects = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))
LIBSHARED := $(BUILD)/libshared.a
LIBNN     := $(BUILD)/libnn.a
LIBCOMPRESS := $(BUILD)/libcompress.a
LIBAGENT  := $(BUILD)/libagent.a
LIBRUNNER := $(BUILD)/librunner.a
LIBSUBMIT := $(BUILD)/libsubmit.a
LIBSIM    := $(BUILD)/libsim.a
LIBCONFORM := $(BUILD)/libconform.a
LIBPAGE   := $(BUILD)/libpage.a
LIBTEST   := $(BUILD)/libtest.a
LIBTRAINER := $(BUILD)/libpsgd_trainer.a

# The libraries that each program links; `make check-layers` checks includes by the same rules.
LIBS_AGENT  := -lmicrohttpd -lseccomp -ljansson -lgnutls -lm -pthread
LIBS_RUNNER := -lopenblas $(if $(ONEDNN),-ldnnl) -lseccomp -ljansson -lgnutls -lhogweed -ldl -lm -pthread
LIBS_SUBMIT := -lcurl -lmicrohttpd -ljansson -lgnutls -lz -ldl -lm -pthread

PROGRAMS := $(BUILD)/agent $(BUILD)/job_submit $(BUILD)/job_runner $(BUILD)/predictor $(BUILD)/simulator $(BUILD)/codec_check

.PHONY: all test equal test-systems test-processors soak soak-queue soak-slurm faults power sanitize tsan valgrind fuzz bench bench-language bench-comm bench-accuracy bench-start bench-scale bench-efficiency bench-stalled bench-crowd bench-detection bench-rules bench-scaling bench-slow bench-sim bench-trainer tidy both check static warnings clang-check clang-check-programs clang-checked clang-checked-tests format format-check check-layers check-names check-scripts reference combinations combinations-agents check-reference manual install uninstall deb clean help demo
all: $(PROGRAMS) $(TRANSPORTS) $(BUILD)/psgd-run $(CODECS) $(CODEC_SOURCES) $(MODELS) $(HEADERS) $(MODULES) $(LIBTRAINER)

$(BUILD)/agent: $(call objects,agent/agent.c) $(LIBAGENT) $(LIBPAGE) $(LIBSHARED)
	$(call show,LINK,$@)
	$(Q)$(LINK) -o $@ $^ $(LIBS_AGENT)

$(BUILD)/job_runner: $(call objects,runner/runner.c)
$(BUILD)/predictor: $(call objects,runner/predictor.c)
$(BUILD)/job_runner $(BUILD)/predictor: $(LIBRUNNER) $(LIBNN) $(LIBCOMPRESS) $(LIBSHARED)
	$(call show,LINK,$@)
	$(Q)$(LINK) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(LIBS_RUNNER)

$(BUILD)/job_submit: $(call objects,submit/job_submit.c) $(LIBSUBMIT) $(LIBPAGE) $(LIBCOMPRESS) $(LIBSHARED)
	$(call show,LINK,$@)
	$(Q)$(LINK) -o $@ $^ $(LIBS_SUBMIT)

$(BUILD)/psgd-run: $(BUILD)/job_submit
	$(Q)ln -sf job_submit $@

$(BUILD)/simulator: $(call objects,sim/simulator.c) $(LIBSIM) $(LIBRUNNER) $(LIBNN) $(LIBCOMPRESS) $(LIBSHARED)
$(BUILD)/codec_check: $(call objects,conform/codec_check.c) $(LIBCONFORM) $(LIBSIM) $(LIBRUNNER) $(LIBNN) $(LIBCOMPRESS) $(LIBSHARED)
$(BUILD)/simulator $(BUILD)/codec_check:
	$(call show,LINK,$@)
	$(Q)$(LINK) -o $@ $^ $(LIBS_RUNNER)

$(LIBSHARED): $(call objects,$(SHARED))
$(LIBNN): $(call objects,$(NN))
$(LIBCOMPRESS): $(call objects,$(COMPRESS))
$(LIBAGENT): $(call objects,$(AGENT))
$(LIBRUNNER): $(call objects,$(RUNNER))
$(LIBSUBMIT): $(call objects,$(SUBMIT))
$(LIBSIM): $(call objects,$(SIM))
$(LIBCONFORM): $(call objects,$(CONFORM))
$(LIBPAGE): $(call objects,$(PAGE))
$(LIBTEST): $(call objects,$(TESTLIB))
$(LIBTRAINER): $(call objects,shared/trainer/psgd_trainer.c)
$(BUILD)/%.a:
	$(call show,AR,$@)
	$(Q)rm -f $@ && $(AR) qcs $@ $^ # not r, which would treat the node.c of two folders as one

# .d files do not list system headers. The programs depend on $(LIBNN), so that they are linked again, too.
$(filter $(BUILD)/obj/nn/kernels/onednn% $(BUILD)/obj/nn/layers/conv_onednn%,$(call objects,$(NN))): $(ONEDNN_STAMP)
$(ONEDNN_STAMP): $(if $(findstring "$(ONEDNN_FOUND)","$(file <$(ONEDNN_STAMP))"),,FORCE)
	$(call show,ONEDNN,$(call quoted,$(ONEDNN_FOUND)))
	$(Q)mkdir -p $(@D) && echo $(call quoted,$(ONEDNN_FOUND)) >$@
$(HARDENING_STAMP): $(if $(findstring "$(HARDENING)","$(file <$(HARDENING_STAMP))"),,FORCE)
	$(Q)mkdir -p $(@D) && echo $(call quoted,$(HARDENING)) >$@
.PHONY: FORCE

# Users compile it with their programs, without the options of this file.
$(BUILD)/obj/shared/trainer/psgd_trainer.o: ALL_CFLAGS = -std=c11 $(WARNINGS) -fPIC $(HARDEN) $(CFLAGS) $(SANITIZE)
$(BUILD)/obj/nn/%.o: CFLAGS += $(FAST)
# Kernels have arrays on their stacks, and clearing these costs LeNet 6 % of its step; nothing there comes from the network.
$(BUILD)/obj/nn/%.o: HARDEN := $(filter-out -ftrivial-auto-var-init=zero,$(HARDEN))
# The loops of these files that multiply run only on processors with fused operations (FUSED), and have no clones for others, so
# that fused operations, which are faster, cannot make bits differ. A function with clones (FAST) must not multiply there.
$(addprefix $(BUILD)/obj/nn/kernels/,matmul.o narrow.o strip.o): CFLAGS += -ffp-contract=fast
$(patsubst %,$(BUILD)/obj/%.o,$(addprefix runner/,loader train base/vector) sim/workload_standin submit/data/data_digits): CFLAGS += $(FAST)
$(BUILD)/obj/codecs/compress/%.o: CFLAGS += $(FAST)
# The page that shows jobs; the assembler embeds it.
PAGE_PARTS := $(wildcard page/page.html page/*.css page/*/*.css page/*/*.js) page/assemble
$(BUILD)/page.html: $(PAGE_PARTS)
	$(call show,PAGE,$@)
	$(Q)mkdir -p $(@D) && page/assemble >$@.tmp && mv $@.tmp $@
$(BUILD)/obj/page/page.o: $(BUILD)/page.html
$(BUILD)/obj/page/page.o: ALL_CFLAGS += -DPSGD_PAGE='"$(BUILD)/page.html"'
$(BUILD)/obj/agent/api/api_openapi.o: agent/api/openapi.json
$(BUILD)/obj/%.o: %.c $(HARDENING_STAMP)
	$(call show,CC,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $< $(keep)

# The compiler of an MPI is a script that adds the folders of its header and library to the options of another compiler. mpi.h is no
# file of a system folder there, and casts function pointers.
mpicc = $(lastword $(subst =, ,$(filter $(1)=%,$(MPI))))
$(BUILD)/transports/%.so: $(MESH_MPI) $(wildcard runner/mesh/mpi/*.h runner/mesh/*.h) $(LIBRUNNER) $(LIBSHARED) $(HARDENING_STAMP)
	$(call show,MPICC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)OMPI_CC='$(CC)' MPICH_CC='$(CC)' $(call mpicc,$*) $(ALL_CFLAGS) -shared $(HARDEN_LINK) $(LDFLAGS) -Wl,--exclude-libs,ALL -o $@ $(MESH_MPI) $(LIBRUNNER) $(LIBSHARED) -lgnutls -ljansson -lm $(keep)

# A codec includes codec.h or codec_events.h and no other header of the project.
CODEC_HEADERS := $(wildcard codecs/*.h)
$(BUILD)/codecs/%.so: codecs/%.c $(CODEC_HEADERS) $(HARDENING_STAMP)
	$(call show,CODEC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=c11 $(WARNINGS) -fPIC -shared -ffp-contract=off -fno-math-errno -Icodecs $(HARDEN) $(CFLAGS) $(FAST) $(SANITIZE) $(HARDEN_LINK) -o $@ $< $(keep)

$(BUILD)/tests/codecs/%.so: tests/codecs/%.c $(wildcard tests/codecs/*.h) $(CODEC_HEADERS)
	$(call show,CODEC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=c11 -D_GNU_SOURCE $(WARNINGS) -fPIC -shared -Icodecs $(CFLAGS) $(SANITIZE) -o $@ $(filter %.c,$^) $(keep)

$(BUILD)/tests/codecs/hostile.so: $(wildcard tests/codecs/hostile/*.[ch])

# A job runs the source, which job_submit compiles; these objects are built only for their warnings.
$(EXECUTORS): $(BUILD)/%.so: %.c codecs/executor.h
	$(call show,CODEC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=c11 $(WARNINGS) -fPIC -shared -Icodecs $(CFLAGS) $(SANITIZE) -o $@ $< $(keep)

# The examples of training programs, for which a user needs the library and its header alone.
$(TRAINERS): $(BUILD)/%: %.c $(LIBTRAINER) shared/trainer/psgd_trainer.h
	$(call show,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=c11 $(WARNINGS) -Ishared/trainer $(CFLAGS) $(SANITIZE) $(LDFLAGS) -o $@ $< $(LIBTRAINER) -lm $(keep)

# Sources are sent with the objects, for machines of other architectures.
$(BUILD)/codecs/%.c: codecs/%.c
	$(Q)mkdir -p $(@D) && cp $< $@

# Headers for compiling a user's codec, or training program.
$(BUILD)/include/%.h: codecs/%.h
	$(Q)mkdir -p $(@D) && cp $< $@
$(BUILD)/include/%.h: shared/trainer/%.h
	$(Q)mkdir -p $(@D) && cp $< $@

# For training programs in Python, which the programs start with this folder in PYTHONPATH.
$(BUILD)/python/%: python/%
	$(Q)mkdir -p $(@D) && cp $< $@

$(BUILD)/models/%.json: nn/models/%.json
	$(Q)mkdir -p $(@D) && cp $< $@

$(BUILD)/tests/%: tests/%.c $(LIBTEST) $(LIBCONFORM) $(LIBSIM) $(LIBAGENT) $(LIBRUNNER) $(LIBSUBMIT) $(LIBPAGE) $(LIBNN) $(LIBCOMPRESS) $(LIBSHARED) $(LIBTRAINER)
	$(call show,TEST,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(TEST_LD) $(LDFLAGS) -MMD -MP -o $@ $< $(filter %.a,$^) -lcmocka $(LIBS_SUBMIT) $(LIBS_RUNNER) $(LIBS_AGENT) $(keep)

# The tools that run the tests do not link the tested libraries.
$(TOOLS): $(BUILD)/%: %.c
	$(call show,TOOL,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $< -lm $(keep)

# Most tests take longer to compile than to run, so that they are not optimized. `private`: their libraries are.
$(TESTS): private CFLAGS += -O0
$(TESTS): private HARDEN :=
# A test loads codecs and starts programs.
$(TESTS): | all $(TEST_CODECS) $(EXECUTORS) $(TOOLS)

tests: $(TESTS) $(TEST_CODECS) $(EXECUTORS) $(TRAINERS) $(TEST_TRAINERS) $(TOOLS) $(PRELOADS)

# These tools read the tables of all programs; the reference also loads the codecs.
$(REFERENCE) $(MANUALS): $(BUILD)/docs/%: docs/tool/%.c $(LIBAGENT) $(LIBSUBMIT) $(LIBPAGE) $(LIBCOMPRESS) $(LIBSHARED)
	$(call show,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -MMD -MP -o $@ $< $(filter %.a,$^) $(LIBS_SUBMIT) $(LIBS_AGENT) $(keep)

reference: all $(REFERENCE) ## write docs/reference/ from the tables of the programs
	$(Q)BUILD=$(BUILD) docs/tool/generate docs/reference

combinations-agents: all ## run each job of docs/combinations.md on agents of this machine, and compare the outcomes; takes minutes
	$(Q)BUILD=$(BUILD) docs/tool/combinations agents | diff docs/combinations.md -

combinations: all ## write docs/combinations.md: which rule runs with which path, aggregate and compressor
	$(Q)BUILD=$(BUILD) docs/tool/combinations >$(BUILD)/combinations.md && mv $(BUILD)/combinations.md docs/combinations.md

check-reference: all $(REFERENCE) ## check that docs/reference/ is what `make reference` writes
	$(Q)BUILD=$(BUILD) docs/tool/generate --check docs/reference

test: export PSGD_TEST_LONG = $(LONG)
test: all tests ## test the product: unit tests, suites, end to end; LONG=1: also the long tests
	$(Q)BUILD=$(BUILD) tests/run

# clang builds here, where no time limit of a test ends the build; a test of checks.bats prints why it failed.
check: export PSGD_TEST_LONG = $(LONG)
check: all tests $(BENCHES) $(REFERENCE) ## test the rest: make static, fuzz targets, documents, packages, the test runner; LONG=1: also the long tests
	$(Q)$(if $(SANITIZE),,$(MAKE) --no-print-directory -k $(if $(LONG),clang-check,clang-check-programs) || true)
	$(Q)BUILD=$(BUILD) tests/run --check

test-systems: all ## run README's two commands on fresh Debian 11, 12, 13 and on arm64; ONLY='debian-13 ...'; needs root
	$(Q)BUILD=$(BUILD) tests/systems/run $(ONLY)

test-processors: all tests ## run programs and jobs on x86-64 processors without AVX2, by qemu-x86_64
	$(Q)BUILD=$(BUILD) tests/systems/old_processors.sh $(ONLY)

# With a sanitizer a test takes up to ten times as long.
SANITIZED := TEST_TIMEOUT=7200
both: # in this order; make check also runs after a failure of make test
	$(Q)$(MAKE) test; rc=$$?; $(MAKE) check && exit $$rc
sanitize: ## run make test and make check under AddressSanitizer and UBSan
	$(Q)$(SANITIZED) $(MAKE) BUILD=$(BUILD)/asan CC=$(call quoted,$(CLANG)) SANITIZE='-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer' both

# OMP_NUM_THREADS=1: ThreadSanitizer does not see the synchronization of OpenMP's (oneDNN's) threads.
tsan: ## run make test and make check under ThreadSanitizer
	$(Q)OMP_NUM_THREADS=1 $(SANITIZED) $(MAKE) BUILD=$(BUILD)/tsan CC=$(call quoted,$(CLANG)) SANITIZE='-fsanitize=thread -fno-omit-frame-pointer' both

valgrind: all ## run one complete job under valgrind
	$(Q)BUILD=$(BUILD) tests/valgrind.sh

# Libraries for LD_PRELOAD: they kill the program that loads them, or make its calls fail.
$(PRELOADS): $(BUILD)/%.so: %.c
	$(call show,TEST,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -shared $(LDFLAGS) -o $@ $< -ldl $(keep)

EVERY ?= 1
faults: all $(PRELOADS) ## let each EVERY-th call of malloc, write, fsync, ... fail, in agent, runner and job_submit of a job; an hour or two
	$(Q)rm -rf $(BUILD)/faults && mkdir -p $(BUILD)/faults
	$(Q)PYTHONDONTWRITEBYTECODE=1 tests/soak/faults.py $(BUILD) $(BUILD)/faults/history $(BUILD)/faults/report.json --every $(EVERY)

power: all $(PRELOADS) ## cut the power before and after each change of an agent's folder, and start an agent on the files that are left
	$(Q)rm -rf $(BUILD)/power && mkdir -p $(BUILD)/power
	$(Q)PYTHONDONTWRITEBYTECODE=1 tests/soak/power.py $(BUILD) $(BUILD)/power $(BUILD)/power/report.json

FLIPS ?= 1000000
KILLS ?= 1000
ENDS ?= 20
STRIKES ?= 200
MINUTES ?= 20
soak-slurm: all ## end ENDS=20 jobs on a Slurm cluster of virtual hosts in each way in which clusters end jobs
	$(Q)BUILD=$(BUILD) tests/soak/slurm $(ENDS)

soak-queue: all ## two users put JOBS=40 jobs into their queues; meanwhile agents restart RESTARTS=2 times and KILLS=100 processes are killed
	$(Q)BUILD=$(BUILD) PYTHONDONTWRITEBYTECODE=1 tests/soak/queue $(or $(JOBS),40) $(or $(RESTARTS),2) $(if $(filter file,$(origin KILLS)),100,$(KILLS))

soak: all $(BUILD)/tests/suite/test_mesh_faults $(BUILD)/tests/trainers/struck $(PRELOADS) $(TOOLS) ## kill each program KILLS=1000 times, and training programs STRIKES=200, run jobs under faults for MINUTES=20, flip FLIPS=1000000 bits
	$(Q)BUILD=$(BUILD) PYTHONDONTWRITEBYTECODE=1 $(BUILD)/tests/tool/reap 0 tests/soak/run $(KILLS) $(STRIKES) $(MINUTES) $(FLIPS)

FUZZ_RUNS ?= 100000
FUZZ_SEED ?= 0
FUZZ_SANITIZE := -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined
# Sanitized code takes long to compile, above all with -O3, which does not make it faster.
FUZZ_CFLAGS := -O1 -gline-tables-only
fuzz: ## run each fuzz target FUZZ_RUNS times, with a random seed or FUZZ_SEED
	$(Q)$(MAKE) BUILD=$(BUILD)/fuzz CC=$(call quoted,$(CLANG)) CFLAGS='$(FUZZ_CFLAGS)' SANITIZE='$(FUZZ_SANITIZE)' fuzzers
	$(Q)BUILD=$(BUILD)/fuzz RUNS=$(FUZZ_RUNS) SEED=$(FUZZ_SEED) tests/fuzz/run

.PHONY: tests fuzzers
fuzzers: $(patsubst %,$(BUILD)/fuzz/%,$(FUZZERS)) $(CODECS)
$(BUILD)/fuzz/%: tests/fuzz/%.c $(LIBTEST) $(LIBAGENT) $(LIBRUNNER) $(LIBSUBMIT) $(LIBPAGE) $(LIBNN) $(LIBCOMPRESS) $(LIBSHARED) $(LIBTRAINER)
	$(call show,FUZZ,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(TEST_LD) -fsanitize=fuzzer -MMD -MP -o $@ $< $(filter %.a,$^) -lcmocka $(LIBS_SUBMIT) $(LIBS_RUNNER) $(LIBS_AGENT) $(keep)

bench: all $(BENCHES) ## measure samples per second of psgd, and of other libraries if installed; RUNS=5 ONLY='softmax ...'
	$(Q)PYTHONDONTWRITEBYTECODE=1 BUILD=$(BUILD) RUNS='$(RUNS)' ONLY='$(ONLY)' tests/bench/run
	$(Q)$(if $(ONLY),,$(BUILD)/tests/bench/compress)

bench-language: all $(BENCHES) ## measure tokens per second of training language models on one thread, beside PyTorch; RUNS=3 ONLY='gpt-xs ...'
	$(Q)PYTHONDONTWRITEBYTECODE=1 BUILD=$(BUILD) RUNS='$(RUNS)' ONLY='$(ONLY)' tests/bench/language

# One for each MPI that is found: mpi_peer.openmpi, mpi_peer.mpich.
MPI_PEER := $(foreach m,$(MPI),$(BUILD)/tests/bench/mpi_peer.$(firstword $(subst =, ,$(m))))
$(BUILD)/tests/bench/mpi_peer.%: tests/bench/mpi_peer.c tests/bench/bench.h
	$(call show,MPICC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(call mpicc,$*) -std=c11 -D_GNU_SOURCE -I. -Wall -Wextra -O3 -o $@ $<

bench-comm: $(BENCHES) $(MPI_PEER) ## measure an all-reduce, beside MPI and gloo; RUNS=5 NODES='2 4' BYTES='4096 ...'
	$(Q)PYTHONDONTWRITEBYTECODE=1 BUILD=$(BUILD) RUNS='$(RUNS)' NODES='$(NODES)' BYTES='$(BYTES)' tests/bench/comm

bench-start: all $(MPI_PEER) ## measure milliseconds from a command to the first step, beside Open MPI and PyTorch, and processor time of a job; RUNS=7 BASE=DIR
	$(Q)PYTHONDONTWRITEBYTECODE=1 BUILD=$(BUILD) RUNS='$(RUNS)' BASE='$(BASE)' tests/bench/start

bench-scale: all ## measure agents that start at once, and jobs of many nodes, beside their goals; ONLY='start ...' AGENTS='100 ...' NODES='32 ...' ALLREDUCE_NODES=300 SHIPPED_NODES=100 RUNS=3
	$(Q)PYTHONDONTWRITEBYTECODE=1 BUILD=$(BUILD) ONLY='$(ONLY)' AGENTS='$(AGENTS)' NODES='$(NODES)' ALLREDUCE_NODES='$(ALLREDUCE_NODES)' SHIPPED_NODES='$(SHIPPED_NODES)' RUNS='$(RUNS)' tests/bench/scale

bench-efficiency: all ## measure what exchanging costs N workers on N processors, beside workers that exchange nothing; WORKERS='2 8 16' MODELS='lenet:64 ...' RUNS=3
	$(Q)PYTHONDONTWRITEBYTECODE=1 BUILD=$(BUILD) WORKERS='$(WORKERS)' MODELS='$(MODELS)' RUNS='$(RUNS)' tests/bench/efficiency

bench-stalled: all ## measure a worker's exchanges in asgd while another worker hangs; RUNS=3
	$(Q)PYTHONDONTWRITEBYTECODE=1 BUILD=$(BUILD) RUNS='$(RUNS)' tests/bench/stalled

bench-crowd: all ## measure milliseconds of the owner's requests while many clients hold connections to the agent; REQUESTS=300 ONLY='tricklers ...'
	$(Q)PYTHONDONTWRITEBYTECODE=1 BUILD=$(BUILD) REQUESTS='$(REQUESTS)' ONLY='$(ONLY)' tests/bench/crowd

bench-detection: all $(TEST_CODECS) ## measure seconds until each node reports why a job failed, beside the documented limit; ONLY='kill stop ...'
	$(Q)PYTHONDONTWRITEBYTECODE=1 BUILD=$(BUILD) ONLY='$(ONLY)' tests/bench/detection

equal: all ## compare records, models and checkpoints of the jobs in tests/equal/jobs, times aside, with those of an older build, BASE=DIR; ONLY=PATTERN
	$(Q)$(if $(BASE),,echo 'make equal compares with an older build: BASE=DIR' >&2; exit 2)
	$(Q)PYTHONDONTWRITEBYTECODE=1 tests/equal/equal builds '$(BASE)' $(BUILD) '$(ONLY)'

bench-sim: all ## measure messages per second of the simulator, and its times beside those of real jobs; RUNS=5
	$(Q)PYTHONDONTWRITEBYTECODE=1 BUILD=$(BUILD) RUNS='$(RUNS)' tests/bench/simulator

bench-trainer: all $(BUILD)/tests/bench/trainer_turn ## measure a turn of a training program, and a job of one in PyTorch beside DDP; RUNS=3 ONLY='C numpy ...' PYTHON=FILE
	$(Q)PYTHONDONTWRITEBYTECODE=1 BUILD=$(BUILD) RUNS='$(RUNS)' ONLY='$(ONLY)' PYTHON='$(PYTHON)' tests/bench/trainer

bench-accuracy: all ## measure seconds to 97 % on MNIST, beside PyTorch; MNIST=DIR RUNS=3
	$(Q)PYTHONDONTWRITEBYTECODE=1 BUILD=$(BUILD) RUNS='$(RUNS)' MNIST='$(MNIST)' tests/bench/accuracy

bench-rules: all ## measure accuracy, bytes and seconds to 95 % on MNIST of every rule with four workers; MNIST=DIR EPOCHS=3
	$(Q)PYTHONDONTWRITEBYTECODE=1 BUILD=$(BUILD) EPOCHS='$(EPOCHS)' MNIST='$(MNIST)' tests/bench/rules

bench-scaling: all ## measure seconds and speed-up of 1 to 4 workers, as platoon's table; RULE=easgd:every=10 MODEL=NAME SCALING=strong|weak WORKERS='1 2 ...' EPOCHS=8 RUNS=3
	$(Q)PYTHONDONTWRITEBYTECODE=1 BUILD=$(BUILD) RULE='$(RULE)' MODEL='$(MODEL)' SCALING='$(SCALING)' WORKERS='$(WORKERS)' EPOCHS='$(EPOCHS)' RUNS='$(RUNS)' tests/bench/scaling

bench-slow: all ## simulate a slow worker: seconds to 95 % on MNIST of rules that wait for it and of others; MNIST=DIR EPOCHS=6
	$(Q)PYTHONDONTWRITEBYTECODE=1 BUILD=$(BUILD) EPOCHS='$(EPOCHS)' MNIST='$(MNIST)' tests/bench/slow

demo: all ## train on the built-in digits with two agents, and print where the results are
	$(Q)BUILD=$(BUILD) submit/demo.sh

C_FILES = $(shell find agent codecs conform docs examples nn page runner shared sim submit tests -name '*.[ch]')
# These need MPI's header.
C_SOURCES = $(filter-out tests/bench/mpi_peer.c $(MESH_MPI),$(filter %.c,$(C_FILES)))
tidy: ## run clang-tidy over all C files
	$(Q)clang-tidy --quiet $(C_SOURCES) -- -std=c11 -D_GNU_SOURCE -I. -Icodecs -Ishared/trainer -DPSGD_VERSION='""' -DPSGD_PAGE='"$(BUILD)/page.html"'

# A check without its tool prints "skipped: ..." and succeeds.
static: warnings clang-check format-check check-layers check-names check-scripts check-reference ## check warnings of both compilers, source format, includes, names, scripts, docs/reference
warnings: all tests $(BENCHES) $(REFERENCE)
	$(Q)tests/check-warnings $(call quoted,$(CC)) $(BUILD)/obj $(BUILD)/transports $(BUILD)/codecs $(BUILD)/docs $(BUILD)/examples $(BUILD)/tests

# The programs and the fuzz targets are sanitized, so that the tests need no second build by clang. They are not optimized:
# this halves the time, and clang's warnings do not depend on it. Tests are only checked for warnings.
have = $(shell command -v $(1) 2>&1)
BY_CLANG = --no-print-directory BUILD=$(BUILD)/clang CC=$(call quoted,$(CLANG)) CFLAGS='-O0 -gline-tables-only' FAST= HARDENING= LDFLAGS='$(TEST_LD)' SANITIZE='$(FUZZ_SANITIZE)'
NO_CLANG = echo 'skipped: $(CLANG) is not installed'
clang-check: ## build programs and fuzz targets by clang, sanitized, in $(BUILD)/clang, and check that no file has a warning
	$(Q)$(if $(call have,$(firstword $(CLANG))),$(MAKE) $(BY_CLANG) clang-checked clang-checked-tests,$(NO_CLANG))
clang-check-programs: # the same without the tests
	$(Q)$(if $(call have,$(firstword $(CLANG))),$(MAKE) $(BY_CLANG) clang-checked,$(NO_CLANG))
clang-checked: all fuzzers
	$(Q)tests/check-warnings $(call quoted,$(CC)) $(BUILD)
clang-checked-tests:
	$(Q)mkdir -p $(BUILD)
	$(Q)printf '%s\n' $(filter-out $(TESTLIB) tests/fuzz/%,$(filter docs/% examples/% tests/%,$(C_SOURCES))) | xargs -P "$$(nproc)" -n 20 \
	    $(CC) -fsyntax-only $(ALL_CFLAGS) -Icodecs -Ishared/trainer 2>$(BUILD)/tests.warnings || { cat $(BUILD)/tests.warnings; exit 1; }
	$(Q)tests/check-warnings $(call quoted,$(CC)) $(BUILD)/tests.warnings

# Versions of clang-format break some lines differently: only the version that formatted the tree is used.
CLANG_FORMAT = $(firstword $(shell for f in clang-format-14 clang-format; do $$f --version 2>&1 | grep -q 'version 14\.' && echo $$f; done))
format: ## format all C files by clang-format 14
	$(Q)$(or $(CLANG_FORMAT),$(error the source is formatted by clang-format 14, which is not installed)) -i $(C_FILES)

# clang-format does not wrap comments, so their length is checked here, and that it has not broken a declaration between type and
# name to make room for a comment behind it.
format-check:
	$(Q)awk 'length > 110 { print FILENAME ":" FNR ": beyond column 110"; long = 1 } END { exit long }' $(C_FILES)
	$(Q)awk '/^ +((const|struct|enum|unsigned|static) )*(struct [a-z0-9_]+|enum [a-z0-9_]+|[a-z0-9_]+_t|atomic_[a-z]+|bool|char|int|double|float)( ?[*]+)?$$/ \
		{ print FILENAME ":" FNR ": the comment of this declaration belongs above it"; torn = 1 } END { exit torn }' $(C_FILES)
	$(Q)$(if $(CLANG_FORMAT),$(CLANG_FORMAT) --dry-run -Werror $(C_FILES),echo 'skipped: clang-format 14 is not installed')

check-scripts: ## check all scripts by shellcheck, and that no line of a bats script has two assertions
	$(Q)tests/check-scripts

check-layers: ## check that no file includes a header that docs/architecture.md forbids
	$(Q)BUILD=$(BUILD) tests/check-layers

check-names: ## check that struct tags and module names are unique, a static function carries a noun, and no private word is used
	$(Q)tests/check-names

# The folders that packaging/install takes: PREFIX, or single ones.
FOLDERS := PREFIX BINDIR LIBDIR INCLUDEDIR DATADIR MANDIR DOCDIR UNITDIR PYTHONDIR
INSTALL  = BUILD=$(BUILD) DESTDIR=$(call quoted,$(DESTDIR)) $(foreach f,$(FOLDERS),$(if $($f),$f=$(call quoted,$($f)))) packaging/install
MANUAL  := $(BUILD)/manual
manual: $(MANUAL) ## make manual pages, and completions for bash, zsh and fish, in build/manual
$(MANUAL): $(PROGRAMS) $(CODECS) $(MANUALS) $(wildcard docs/tool/* docs/*.md) codecs/codec.h
	$(call show,MANUAL,$@)
	$(Q)BUILD=$(BUILD) docs/tool/manuals $@

install: all manual ## install into $(DESTDIR)$(PREFIX); BINDIR=, LIBDIR=, ... for single folders
	$(Q)$(INSTALL)

uninstall: all manual ## remove the files that `make install` with the same folders has installed
	$(Q)$(INSTALL) --remove

deb: all manual ## make a package for this Debian: build/psgd_VERSION_ARCHITECTURE.deb
	$(Q)BUILD=$(BUILD) packaging/deb $(BUILD)

clean: ## remove build/
	$(Q)rm -rf $(BUILD)

help: ## print this list
	$(Q)echo '  make                      build the programs, codecs and models'
	$(Q)sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1	\2/p' Makefile | expand -t 28

-include $(shell find $(BUILD)/obj $(BUILD)/docs $(BUILD)/tests $(BUILD)/fuzz -name '*.d' 2>/dev/null)
