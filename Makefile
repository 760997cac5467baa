# Adding a file never edits this Makefile: sources are found by wildcard.
# SAN=1 builds with sanitizers (with FUZZ=1 and CC=clang for libFuzzer, in build/fuzz),
# CUDA=1 with the CUDA backend (in build/cuda; with
# MPI=no for one device alone), EMULATED=1 with it on an emulated device (in
# build/emulated), CI=true turns warnings into errors. Targets: all, emulated,
# deps, check, check-long, check-streams, lint, build-tests, unit-tests, fuzz, fuzzers, test, layers, parity, demo, golden, pages, claims, fit,
# validate, baseline, accuracy, figures, predict-cpu, plan-loop, bench, bench-table, bench-check,
# search-scale, interop, refusals, faults, coverage, determinism, analyze, simgrid, schedules-sheet, install and uninstall (PREFIX, LIBDIR, DESTDIR), dist, deb, reproducible, sbom, clean.

CC ?= cc
PKG_CONFIG ?= pkg-config
comma := ,
HOST := build$(if $(FUZZ),/fuzz,$(if $(SAN),/san))
BUILD := $(HOST)$(if $(EMULATED),/emulated,$(if $(CUDA),/cuda))
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
# Where programs look that find no data above themselves; what PREFIX is, they need not know.
DATADIR ?= /usr/local/share/tdp
VERSION := 0.1.0
SANITIZE := -fsanitize=$(if $(FUZZ),fuzzer-no-link$(comma))address,undefined

# A line a command, as "CC src/op/op.c": the whole command with V=1, nothing with -s.
SILENT := $(findstring s,$(filter-out --%,$(firstword -$(MAKEFLAGS))))
run = $(if $(V),,@$(if $(SILENT),,printf '%-4s %s\n' $1 '$2';) )

PACKAGES := glib-2.0 libcjson gsl
override CPPFLAGS += -Isrc -D_GNU_SOURCE -DGLIB_VERSION_MIN_REQUIRED=GLIB_VERSION_2_74 \
  -DGLIB_VERSION_MAX_ALLOWED=GLIB_VERSION_2_74 -DTDP_VERSION='"$(VERSION)"' -DTDP_DATADIR='"$(DATADIR)"'
# Tests' own code need not be fast: it compiles in half the time of what they test.
TEST_LEVEL := $(if $(filter undefined,$(origin CFLAGS)),$(if $(SAN),-O0,-Og -g1))
# Variable tracking would take most of a sanitizer build's time, -O1 a third more than -Og. With CI nobody debugs: lines
# alone take a sixth less to compile, and what is linked is a quarter.
CFLAGS ?= $(if $(SAN),-Og -g1,-O2 -g$(if $(CI),1))
override CFLAGS += -std=gnu11 -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
  -Wno-missing-field-initializers -ffp-contract=off -fPIC -fvisibility=hidden $(if $(CI),-Werror) \
  $(if $(SAN),$(SANITIZE) -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
override LDFLAGS += $(if $(SAN),$(SANITIZE))
PKG_CFLAGS := $(shell $(PKG_CONFIG) --cflags $(PACKAGES) 2>/dev/null)
PKG_LIBS := $(shell $(PKG_CONFIG) --libs $(PACKAGES) 2>/dev/null) -lm
CHECK_LIBS := $(shell $(PKG_CONFIG) --libs check 2>/dev/null)

# The executor needs OpenBLAS, and Open MPI to be started by mpirun; without them
# everything else is built. It does without GSL.
EXEC_MPI := $(if $(filter no,$(MPI)),,$(shell $(PKG_CONFIG) --exists ompi-c 2>/dev/null && echo ompi-c))
EXEC_PACKAGES := openblas $(EXEC_MPI)
EXEC := $(shell $(PKG_CONFIG) --exists $(EXEC_PACKAGES) 2>/dev/null && echo yes)
EXEC_CFLAGS := $(shell $(PKG_CONFIG) --cflags $(EXEC_PACKAGES) 2>/dev/null) $(if $(EXEC_MPI),-DTDP_MPI) $(if $(CUDA)$(EMULATED),-DTDP_CUDA)
EXEC_LIBS = $(shell $(PKG_CONFIG) --libs $(filter-out gsl,$(PACKAGES)) $(EXEC_PACKAGES)) $(if $(EMULATED),-lstdc++ -lpthread,$(if $(CUDA),$(CUDA_LIBS))) -lm
EXEC_SRC := $(filter-out $(if $(EXEC_MPI),,%/mpi.c),$(wildcard src/exec/*.c src/exec/cpu/*.c))
$(if $(EXEC),,$(info tdp-run is left out: it needs OpenBLAS (libopenblas-dev)))

# The CUDA runtime is linked statically; cuBLAS and NCCL come with the toolkit or
# with PyTorch (CUDA_LDFLAGS then names their folders).
NVCC ?= nvcc
CUDA_HOME ?= $(patsubst %/bin/,%,$(dir $(realpath $(shell command -v $(NVCC)))))
CUDA_ARCHS ?= 80 90
CUDA_LEVEL ?= -O2
CUDA_LDFLAGS ?= -L$(CUDA_HOME)/lib64 -Wl,-rpath,$(CUDA_HOME)/lib64
# cuDNN's attention is built where its header is; the library is looked for when the program runs.
CUDNN := $(if $(CUDA),$(wildcard $(CUDA_HOME)/include/cudnn.h))
CUDA_LIBS = $(CUDA_LDFLAGS) -lcublasLt -lnccl -lcudart_static -lstdc++ -ldl -lrt -lpthread
CUDA_SRC := $(if $(CUDA),$(filter-out $(if $(CUDNN),,$(wildcard src/exec/cuda/cudnn_*.cu)),$(wildcard src/exec/cuda/*.cu)))
CUDA_FLAGS = -std=c++17 $(CUDA_LEVEL) -Isrc $(if $(CUDNN),-DTDP_CUDNN) $(foreach a,$(CUDA_ARCHS),-gencode arch=compute_$a,code=sm_$a) \
  -gencode arch=compute_$(lastword $(CUDA_ARCHS)),code=compute_$(lastword $(CUDA_ARCHS)) \
  -Xcompiler -Wall,-Wextra $(if $(CI),-Xcompiler -Werror --Werror all-warnings)
CUDA_OBJ := $(patsubst %.cu,$(BUILD)/obj/%.cu.o,$(CUDA_SRC))

# On the emulated device the same sources, with launches rewritten, are C++ for the
# host. Accesses that are not aligned, or outside of arrays, end the program.
ifdef EMULATED
EMULATED_SRC := $(filter-out $(wildcard src/exec/cuda/cudnn_*.cu),$(wildcard src/exec/cuda/*.cu))
EMULATED_HEADERS := $(patsubst %,$(BUILD)/%,$(wildcard src/exec/cuda/*.h))
EMULATOR := $(patsubst %.cpp,$(BUILD)/obj/%.o,$(wildcard tests/emulated/*.cpp))
CUDA_OBJ := $(patsubst %.cu,$(BUILD)/obj/%.cu.o,$(EMULATED_SRC)) $(EMULATOR)
EMULATED_FLAGS = -std=c++17 -O2 -g1 -ffp-contract=off -fno-math-errno -Itests/emulated/include -Itests/emulated -I$(BUILD)/src -Isrc \
  -Wall -Wextra -Wno-unknown-pragmas -Wno-sign-compare $(if $(CI),-Werror) $(if $(SAN),$(SANITIZE) -fno-omit-frame-pointer -DEMULATED_SANITIZED) \
  $(shell $(PKG_CONFIG) --cflags openblas)
EMULATED_CHECKS = $(if $(SAN),,-fsanitize=alignment,bounds -fno-sanitize-recover=all)
endif

LIB_SRC := $(filter-out src/cli/% src/exec/%,$(wildcard src/*/*.c))
CLI_SRC := $(wildcard src/cli/tdp_*.c)
CLI_LIB_SRC := $(filter-out $(CLI_SRC),$(wildcard src/cli/*.c))
TEST_SRC := $(filter-out $(if $(EXEC),,tests/test_exec%),$(wildcard tests/test_*.c))
MPI_TESTS := $(if $(EXEC),$(patsubst tests/mpi/%.c,$(BUILD)/tests/mpi/%,$(wildcard tests/mpi/*.c)))
TEST_LIB_SRC := $(filter-out tests/test_%,$(wildcard tests/*.c))
BENCH_SRC := $(wildcard tests/bench/bench_*.c)
obj = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))
host_obj = $(patsubst %.c,$(HOST)/obj/%.o,$(1))

# Few of the executor's objects depend on its backends; the others are the host's.
EXEC_OWN := $(shell grep -lE 'TDP_(CUDA|MPI)' $(EXEC_SRC))
EXEC_OBJ := $(call obj,$(EXEC_OWN)) $(call host_obj,$(filter-out $(EXEC_OWN),$(EXEC_SRC)))

LIB := $(HOST)/libtdp.a
EXEC_LIB := $(BUILD)/libtdp-exec.a
PROGRAMS := $(filter-out $(if $(EXEC),,%/tdp-run),$(patsubst src/cli/tdp_%.c,$(BUILD)/tdp-%,$(CLI_SRC)))
TESTS := $(patsubst tests/%.c,$(BUILD)/tests/%,$(TEST_SRC))
FUZZERS := $(patsubst tests/fuzz/fuzz_%.c,$(BUILD)/fuzz-%,$(wildcard tests/fuzz/fuzz_*.c))
BENCHES := $(patsubst tests/bench/bench_%.c,$(BUILD)/bench/%,$(BENCH_SRC))
PAGES := $(patsubst tests/pages/page_%.c,$(BUILD)/pages/%,$(wildcard tests/pages/page_*.c))
PAGE_LIB_SRC := $(filter-out tests/pages/page_%,$(wildcard tests/pages/*.c))
SIMGRID := $(if $(SAN),,$(shell $(PKG_CONFIG) --exists simgrid 2>/dev/null && command -v $(CXX) >/dev/null && echo $(BUILD)/simgrid-compare))

# The library for others: tdp.h, JSON in and out. Without the executor.
SHARED := $(if $(SAN)$(EMULATED),,$(BUILD)/libtdp.so)
SONAME := libtdp.so.1

# Pages of section 5 follow from those that say what each file holds.
FORMATS := $(addprefix $(HOST)/man/tdp-,model.5 cluster.5 plan.5 framework.5 cases.5)

all: $(PROGRAMS) $(SHARED) $(FORMATS)

$(HOST)/man/tdp-model.5: src/model/README.md
$(HOST)/man/tdp-cluster.5: hardware/README.md
$(HOST)/man/tdp-plan.5 $(HOST)/man/tdp-framework.5: docs/plan.md
$(HOST)/man/tdp-cases.5: docs/cases.md
$(HOST)/man/tdp-plan.5: private SECTIONS = -v until=Frameworks
$(HOST)/man/tdp-framework.5: private SECTIONS = -v from=Frameworks
$(FORMATS): docs/man/page.awk
	@mkdir -p $(@D)
	$(call run,MAN,$@)awk -v name=$(basename $(@F)) -v version=$(VERSION) $(SECTIONS) -f $^ >$@

# Objects are the same bytes wherever the tree lies.
MAP = -ffile-prefix-map=$(CURDIR)=.

# What objects were compiled with: other flags make them again.
FLAGS = $(CC) $(CPPFLAGS) $(PKG_CFLAGS) $(CFLAGS) $(LDFLAGS)
NVCC_FLAGS = $(if $(CUDA),$(if $(filter $(BUILD)/flags,$@),$(NVCC) $(CUDA_FLAGS)))
$(addsuffix /flags,$(sort $(HOST) $(BUILD))): FORCE
	@mkdir -p $(@D)
	@printf '%s\n' $(FLAGS) $(NVCC_FLAGS) | cmp -s - $@ || printf '%s\n' $(FLAGS) $(NVCC_FLAGS) >$@

# Headers that most sources read, compiled once for each level: for all sources where sanitizers are and where check
# builds (HEADERS_FIRST), for tests always. Else the plain build reads them for each source, and so shows which one does
# not include what it needs.
COMMON_HEADERS := cJSON.h errno.h glib.h math.h stdint.h stdio.h stdlib.h string.h
HEADERS := $(if $(FUZZ),,$(if $(SAN)$(HEADERS_FIRST),headers))
TEST_HEADERS := $(if $(FUZZ),,$(if $(TEST_LEVEL),headers-tests))
COMPILED_HEADERS := $(HEADERS) $(TEST_HEADERS)
COMPILE_HEADERS := $(CC) $(CPPFLAGS) $(PKG_CFLAGS) $(CFLAGS) $(MAP)

define compile
$1/headers.h.gch: private LEVEL =
$1/headers-tests.h.gch: private LEVEL = $(TEST_LEVEL)
$1/headers.h.gch $1/headers-tests.h.gch: $1/flags
	@printf '#include <%s>\n' $(COMMON_HEADERS) >$$(basename $$@)
	$$(call run,CC,$$(basename $$@))$(COMPILE_HEADERS) $$(LEVEL) -x c-header -c $$(basename $$@) -o $$@
$1/obj/%.o: %.c $1/flags | $(patsubst %,$1/%.h.gch,$(COMPILED_HEADERS))
	@mkdir -p $$(@D)
	$$(call run,CC,$$<)$$(CC) $$(CPPFLAGS) $$(PKG_CFLAGS) $$(CFLAGS) $$(MAP) $$(if $$(HEADERS),-include $1/$$(HEADERS).h) -MMD -MP -c $$< -o $$@
endef
$(foreach folder,$(sort $(HOST) $(BUILD)),$(eval $(call compile,$(folder))))

# Else loops with roots or with a choice between two numbers become no vectors; no value is another.
$(foreach folder,$(sort $(HOST) $(BUILD)),$(patsubst %,$(folder)/obj/src/exec/cpu/kernels_%.o,f32 f64)): \
  private override CFLAGS += -fno-math-errno -fno-trapping-math

$(LIB): $(call host_obj,$(LIB_SRC) $(CLI_LIB_SRC))
	@rm -f $@
	$(call run,AR,$@)$(AR) rcs $@ $^

$(BUILD)/libtdp.so: $(call obj,$(wildcard src/lib/*.c)) $(LIB)
	$(call run,LD,$@)$(CC) -shared -Wl,-soname,$(SONAME) -Wl,-z,defs $(LDFLAGS) $^ $(PKG_LIBS) -o $@
	@ln -sf $(@F) $(@D)/$(SONAME)

ifdef EMULATED
$(BUILD)/src/%: src/% tests/emulated/launches
	@mkdir -p $(@D)
	$(call run,GEN,$@)tests/emulated/launches $< >$@

$(BUILD)/obj/%.cu.o: $(BUILD)/%.cu $(EMULATED_HEADERS) src/exec/backend.h $(wildcard tests/emulated/include/*.h) $(BUILD)/flags
	@mkdir -p $(@D)
	$(call run,CXX,$<)$(CXX) $(EMULATED_FLAGS) $(EMULATED_CHECKS) -x c++ -c $< -o $@

$(BUILD)/tests/emulated/%.cu: tests/emulated/%.cu tests/emulated/launches
	@mkdir -p $(@D)
	$(call run,GEN,$@)tests/emulated/launches $< >$@

$(BUILD)/selftest: $(BUILD)/obj/tests/emulated/selftest.cu.o $(EMULATOR)
	$(call run,LD,$@)$(CXX) $(LDFLAGS) $^ $(shell $(PKG_CONFIG) --libs openblas) -lpthread -o $@

$(BUILD)/obj/tests/emulated/%.o: tests/emulated/%.cpp $(wildcard tests/emulated/*.h tests/emulated/include/*.h) $(BUILD)/flags
	@mkdir -p $(@D)
	$(call run,CXX,$<)$(CXX) $(EMULATED_FLAGS) -c $< -o $@
else
$(BUILD)/obj/%.cu.o: %.cu $(wildcard src/exec/cuda/*.h) src/exec/backend.h $(BUILD)/flags
	@mkdir -p $(@D)
	$(call run,NVCC,$<)$(NVCC) $(CUDA_FLAGS) -c $< -o $@
endif

# Initial weights are the host's to the bit.
$(BUILD)/obj/src/exec/cuda/random.cu.o: private CUDA_FLAGS += -fmad=false
$(BUILD)/obj/src/exec/cuda/random.cu.o: src/exec/random.h

$(EXEC_LIB): $(EXEC_OBJ) $(CUDA_OBJ)
	@rm -f $@
	$(call run,AR,$@)$(AR) rcs $@ $^

$(EXEC_OBJ): private override CPPFLAGS += $(EXEC_CFLAGS)

# There are many tests: they are linked in half the time where the linker gold is and they need not be movable, and again
# without what debuggers read. Programs with sanitizers serve tests alone.
FAST_LINK := $(if $(shell command -v "$$($(CC) -print-prog-name=ld.gold 2>/dev/null)"),-no-pie -fuse-ld=gold)
TEST_LINK := $(FAST_LINK) $(if $(SAN),,$(if $(CI),-Wl$(comma)-S))
PROGRAM_LINK := $(if $(SAN),$(if $(FUZZ)$(EMULATED)$(CUDA),,$(FAST_LINK)))

$(BUILD)/tdp-run: $(HOST)/obj/src/cli/tdp_run.o $(EXEC_LIB) $(LIB)
	$(call run,LD,$@)$(CC) $(LDFLAGS) $(PROGRAM_LINK) $^ $(EXEC_LIBS) -o $@

# Measuring needs the executor's kernels, fitting GSL, whose own BLAS is to come before OpenBLAS: fits are the same on
# every processor (src/exec/cpu/blas.h).
GSL_FIRST = -Wl,--no-as-needed $(shell $(PKG_CONFIG) --libs gsl) -Wl,--as-needed
ifneq ($(EXEC),)
$(call obj,src/cli/tdp_calibrate.c): private override CPPFLAGS += -DTDP_EXEC
$(BUILD)/tdp-calibrate: $(BUILD)/obj/src/cli/tdp_calibrate.o $(LIB) $(EXEC_LIB)
	$(call run,LD,$@)$(CC) $(LDFLAGS) $(PROGRAM_LINK) $(filter %.o,$^) $(LIB) $(EXEC_LIB) $(LIB) $(GSL_FIRST) $(EXEC_LIBS) -o $@
endif

$(BUILD)/tests/test_exec%: $(BUILD)/obj/tests/test_exec%.o $(call obj,$(TEST_LIB_SRC)) $(EXEC_LIB) $(LIB)
	@mkdir -p $(@D)
	$(call run,LD,$@)$(CC) $(LDFLAGS) $(TEST_LINK) $^ $(EXEC_LIB) $(LIB) $(EXEC_LIBS) $(CHECK_LIBS) -o $@

$(BUILD)/tests/mpi/%: $(HOST)/obj/tests/mpi/%.o $(call host_obj,$(TEST_LIB_SRC)) $(EXEC_LIB) $(LIB)
	@mkdir -p $(@D)
	$(call run,LD,$@)$(CC) $(LDFLAGS) $^ $(EXEC_LIBS) -o $@

$(BUILD)/tdp-%: $(BUILD)/obj/src/cli/tdp_%.o $(LIB)
	$(call run,LD,$@)$(CC) $(LDFLAGS) $(PROGRAM_LINK) $^ $(PKG_LIBS) -o $@

$(BUILD)/tests/%: $(BUILD)/obj/tests/%.o $(call obj,$(TEST_LIB_SRC)) $(LIB)
	@mkdir -p $(@D)
	$(call run,LD,$@)$(CC) $(LDFLAGS) $(TEST_LINK) $^ $(PKG_LIBS) $(CHECK_LIBS) -o $@

$(call obj,$(TEST_SRC)): private override CFLAGS += $(TEST_LEVEL)
$(call obj,$(TEST_SRC)): private HEADERS := $(TEST_HEADERS)

# This one counts what is done between two looks at a request to stop.
$(BUILD)/tests/test_stop: private override LDFLAGS += $(foreach f,simulate price_table_new price_table_described \
  price_cache_sums bound_time bound_time_by_order balance_by_room balance_by_time,-Wl,--wrap=$f)
# This one takes the place of what measures, which takes minutes.
$(BUILD)/tests/test_exec_machine: private override LDFLAGS += $(foreach f,measure_points calibrate_host_copy,-Wl,--wrap=$f)

$(BUILD)/bench/%: $(BUILD)/obj/tests/bench/bench_%.o $(call obj,$(TEST_LIB_SRC)) $(LIB)
	@mkdir -p $(@D)
	$(call run,LD,$@)$(CC) $(LDFLAGS) $^ $(PKG_LIBS) -o $@

# Readers and the whole way of a plan, given bytes: by libFuzzer, else by replay.c's fixed changes. Files come from
# memory; the control channel's sources stand in its target.
$(call obj,tests/fuzz/fuzz_control.c): src/exec/control.c src/exec/control_meet.c
$(BUILD)/fuzz-control: $(call obj,src/exec/control_net.c)
$(BUILD)/fuzz-%: $(BUILD)/obj/tests/fuzz/fuzz_%.o $(call obj,tests/fuzz/served.c tests/program_check.c $(if $(FUZZ),,tests/fuzz/replay.c)) $(LIB)
	$(call run,LD,$@)$(CC) $(LDFLAGS) $(PROGRAM_LINK) $(if $(FUZZ),-fsanitize=fuzzer) -Wl,--wrap=files_read $(filter %.o,$^) $(LIB) $(PKG_LIBS) -o $@

# Pages of docs/ that are computed: what they say is checked by tests/pages.sh.
$(call obj,$(wildcard tests/pages/*.c)): private override CPPFLAGS += -Itests
$(BUILD)/pages/%: $(BUILD)/obj/tests/pages/page_%.o $(call obj,$(PAGE_LIB_SRC) $(TEST_LIB_SRC)) $(LIB)
	@mkdir -p $(@D)
	$(call run,LD,$@)$(CC) $(LDFLAGS) $^ $(PKG_LIBS) -o $@

$(BUILD)/obj/tests/simgrid/simgrid.o: tests/simgrid/simgrid.cpp tests/simgrid/simgrid.h tests/flow_graph.h
	@mkdir -p $(@D)
	$(call run,CXX,$<)$(CXX) -std=c++17 -O2 -Wall -Wextra $(if $(CI),-Werror) -Isrc $(PKG_CFLAGS) -c $< -o $@

$(BUILD)/simgrid-compare: $(call obj,tests/simgrid/compare.c tests/flow_graph.c) $(BUILD)/obj/tests/simgrid/simgrid.o $(LIB)
	$(call run,LD,$@)$(CXX) $(LDFLAGS) $^ $(PKG_LIBS) -lsimgrid -o $@

# A backend's kernels against the CPU's: CUDA's with CUDA=1.
$(BUILD)/gpu-kernels: $(call host_obj,$(wildcard tests/gpu/*.c)) $(EXEC_LIB) $(LIB)
	$(call run,LD,$@)$(CC) $(LDFLAGS) $^ $(EXEC_LIBS) -o $@

unit-tests: $(TESTS)
fuzzers: $(FUZZERS)
build-tests: $(if $(EXEC),$(BUILD)/gpu-kernels) $(TESTS) $(MPI_TESTS) $(BENCHES) $(PAGES) $(SIMGRID)
test: $(TESTS) $(MPI_TESTS) $(PAGES) $(PROGRAMS)
	tests/run $(BUILD)

layers:
	tests/layers

# Every plan of the parity table with 2, 4 and 8 ranks: minutes.
parity: $(MPI_TESTS) $(PROGRAMS)
	BUILD=$(BUILD) PATH=$(CURDIR)/$(BUILD):$$PATH PLANS=all tests/exec.sh

# Speed, and instruction counts against those of tests/bench/instructions.txt.
bench: $(BENCHES)
	for bench in $(filter-out %/goals %/published %/questions %/refusals %/interop,$(BENCHES)); do $$bench || exit; done
# Whether a published layout beats what the planner finds for its question; ten minutes.
published: all $(BENCHES)
	$(BUILD)/bench/published $(CASES)
# Answers to questions as users ask them, each attacked by single keys: the table of docs/questions.md; ten minutes.
questions: all $(BENCHES)
	$(BUILD)/bench/questions >$(BUILD)/answers.md; status=$$?; \
	sed -i -e '/^<!-- answers -->$$/,/^<!-- end -->$$/{//!d}' -e '/^<!-- answers -->$$/r $(BUILD)/answers.md' docs/questions.md; \
	exit $$status
# Lines and branches that tests reach, by folder: half an hour. The same bytes from other compilers, levels, locales,
# threads: as long. Faults at more moments, and each allocation failing: minutes.
coverage: ; tests/coverage
determinism: all ; tests/determinism
analyze: ; tests/analyze
faults: all ; KILLS=200 MEMORY=all tests/faults.sh
# 10,000 files that are wrong, over every kind of file, and how the programs meet them; some minutes.
refusals: all $(BUILD)/bench/refusals
	$(BUILD)/bench/refusals $(BUILD) 10000
# Exports of random plans, read by the parsers of their targets: some minutes, after 3 GB of packages from PyPI.
interop: all $(BUILD)/bench/interop
	BUILD=$(BUILD) tests/interop/run
# The goals of the search, measured, beside the best known; a minute or two.
bench-table: all $(BENCHES)
	@$(BUILD)/bench/goals $(BUILD)
bench-check: all $(BENCHES)
	BUILD=$(BUILD) tests/bench.sh

# Predicted against measured steps of this machine's cores; ten minutes.
predict-cpu: all
	BUILD=$(BUILD) tests/bench/predict-cpu

# From a model to plans to real steps: the best three of tiny on two cores.
plan-loop: all
	BUILD=$(BUILD) tests/bench/plan-loop

# Time of a search over GPUs and over layers; draws docs/search-scale.png.
search-scale: all
	tests/bench/search-scale plots
	cp plots/search-scale.png docs/

# Flows on shared links against SimGrid's, where libsimgrid-dev is installed.
simgrid: $(SIMGRID)
	$(if $(SIMGRID),$(SIMGRID) && $(SIMGRID) --speed,@echo "simgrid: install g++ and libsimgrid-dev first" >&2)

# Breaks the executor and its CUDA backend on purpose, one way at a time; two hours or more.
mutations:
	tests/mutations/run exec
	tests/mutations/run parts
	tests/mutations/run passes
	tests/mutations/run cuda

# Each target of tests/fuzz for so many seconds, with libFuzzer where there is clang; what ends one stays in build/fuzz.
SECONDS ?= 60
CLANG ?= clang
fuzz:
	+@if command -v $(CLANG) >/dev/null; then \
	    $(AGAIN) SAN=1 FUZZ=1 CC=$(CLANG) fuzzers && tests/fuzz/run build/fuzz $(SECONDS); \
	  else echo "no $(CLANG): fixed changes of the seeds in place of libFuzzer" >&2; \
	    $(AGAIN) SAN=1 fuzzers && RUNS=20000 BUILD=build tests/fuzz.sh; fi

# What cppcheck finds in the sources: nothing. Macros of GLib and cJSON that it has to know are spelt out.
LINT_MACROS = '-DG_GNUC_PRINTF(a,b)=' '-DG_GNUC_UNUSED=' '-DG_GNUC_WARN_UNUSED_RESULT=' '-DG_GNUC_NULL_TERMINATED=' \
  '-DG_DEFINE_QUARK(a,b)=' '-DG_DEFINE_AUTOPTR_CLEANUP_FUNC(a,b)=' '-DG_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(a,b)=' \
  '-DG_STATIC_ASSERT(a)=' '-DcJSON_ArrayForEach(a,b)=while((a=b))'
lint: # needs cppcheck
	cppcheck --enable=warning,performance,portability --library=gtk --suppressions-list=tests/lint.txt -q -Isrc -D_GNU_SOURCE \
	  $(LINT_MACROS) --error-exitcode=1 src

# Installs missing packages with apt; nothing where all are there.
deps:
	@tests/install-deps

# The whole table on the emulated device, in every order of streams; long.
EMULATED_PROGRAMS := $(if $(EXEC),$(addprefix $(HOST)/emulated/,tdp-run gpu-kernels selftest tests/mpi/backend_check tests/mpi/parity tests/mpi/comm_check tests/mpi/scaling))
emulated-programs:
	+@$(AGAIN) EMULATED=1 $(EMULATED_PROGRAMS)
emulated: emulated-programs
	@BUILD=$(HOST) EMULATED_TABLE=all tests/emulated.sh

# A make of its own, with the packages in place, on all processors.
AGAIN = $(MAKE) -s $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$(shell nproc))

check: deps
	@echo "building the programs and tests, twice" >&2
	+@$(AGAIN) HEADERS_FIRST=yes check-emulated check-cuda check-sanitized
	@tests/run $(sort $(BUILD) build/san)

# What check builds, side by side; the emulated device and CUDA share the host's objects.
check-host: layers
	+@$(MAKE) all build-tests
check-sanitized:
	+@$(MAKE) SAN=1 all unit-tests fuzzers
check-emulated: check-host
	+@if command -v $(CXX) >/dev/null; then $(MAKE) EMULATED=1 $(EMULATED_PROGRAMS); fi
# To optimize what no device here will run takes nvcc half of its time.
check-cuda: check-host
	+@if command -v $(NVCC) >/dev/null; then \
	    $(MAKE) CUDA=1 CUDA_ARCHS=90 $(if $(wildcard /dev/nvidiactl /dev/dxg),,CUDA_LEVEL=-G) build/cuda/tdp-run build/cuda/gpu-kernels; \
	  else echo "no $(NVCC): the CUDA backend is not built" >&2; fi

# The check with all that it takes a sample of.
check-long:
	+@STRIDE=1 CASES=5 PLANS=60 DRILLS=20 RUNS=1000 EMULATED_TABLE=all TEST_TIMEOUT=7200 $(MAKE) check

# Tests whose draws may be any, with STREAMS other ones each (tests/stride.h).
STREAMS ?= 20
DRAWN = $(patsubst tests/%.c,$(BUILD)/tests/%,$(shell grep -l test_rand tests/test_*.c))
check-streams: $(DRAWN)
	@for stream in $$(seq $(STREAMS)); do for t in $(DRAWN); do \
	  STREAM=$$stream $$t </dev/null >$(BUILD)/streams.log || { echo "not ok $$t STREAM=$$stream" >&2; cat $(BUILD)/streams.log; exit 1; }; \
	done; done

demo: deps
	@echo "building" >&2
	+@$(AGAIN) all
	@mkdir -p build/demo
	$(BUILD)/tdp-plan --model gpt3.json --cluster dgx.json --plots build/demo --output build/demo/plan.json
	@echo "plots and plan are in build/demo:" $$(ls build/demo)

golden: all $(BUILD)/tests/test_schedule_draw pages
	BUILD=$(BUILD) tests/golden.sh --rewrite
	TDP_GOLDEN=rewrite $(BUILD)/tests/test_schedule_draw

# Rewrites the computed pages of docs/; what the field claims, with plots in build/claims.
pages: all $(PAGES)
	BUILD=$(BUILD) tests/pages.sh --rewrite
	BUILD=$(BUILD) tests/man.sh --rewrite
claims: $(BUILD)/pages/claims
	$(BUILD)/pages/claims --plots build/claims

fit: all
	$(BUILD)/tdp-fit

schedules-sheet: all
	BUILD=$(BUILD) tests/schedules-sheet docs

CASES = $(filter-out %/baseline.csv,$(wildcard tests/validation/*.csv))
validate: all
	$(BUILD)/tdp-validate $(CASES) --plots build/validate --baseline tests/validation/baseline.csv

baseline: all
	$(BUILD)/tdp-validate $(CASES) --write-baseline tests/validation/baseline.csv

# What these runs say of predictions: the margin of memory, intervals of time; programs read it.
accuracy: all
	$(BUILD)/tdp-validate $(CASES) --write-accuracy accuracy

# Blocks of Markdown that commands print; some take minutes.
figures: all
	BUILD=$(BUILD) tests/figures.sh --rewrite

# The prefix may be moved as a whole: programs and the library look for their data from where they lie, tdp.pc too.
put = install -D -m $1 -t "$(DESTDIR)$2" $3
SHARE := $(PREFIX)/share
install: all
	$(call put,755,$(PREFIX)/bin,$(PROGRAMS))
	$(call put,644,$(SHARE)/man/man1,$(wildcard docs/man/*.1))
	$(call put,644,$(SHARE)/man/man3,docs/man/libtdp.3)
	$(call put,644,$(SHARE)/man/man5,$(FORMATS))
	$(call put,644,$(PREFIX)/include,src/lib/tdp.h)
	$(call put,644,$(LIBDIR),$(LIB))
	install -m 644 $(SHARED) "$(DESTDIR)$(LIBDIR)/$(SONAME)"
	ln -sf $(SONAME) "$(DESTDIR)$(LIBDIR)/libtdp.so"
	install -d "$(DESTDIR)$(LIBDIR)/pkgconfig" "$(DESTDIR)$(SHARE)/tdp" "$(DESTDIR)$(SHARE)/bash-completion/completions"
	prefix="$(PREFIX)" && libdir="$(LIBDIR)" && case $$libdir in "$$prefix"/*) libdir="\$${prefix}$${libdir#"$$prefix"}" ;; esac && \
	  if [ "$(LIBDIR)" = "$$prefix/lib" ]; then prefix='$${pcfiledir}/../..'; else prefix=$$(echo "$$prefix" | sed 's/ /\\\\ /g'); fi && \
	  libdir=$$(echo "$$libdir" | sed 's/ /\\\\ /g') && sed "s|@PREFIX@|$$prefix|; s|@LIBDIR@|$$libdir|; s|@VERSION@|$(VERSION)|" \
	  src/lib/tdp.pc.in >"$(DESTDIR)$(LIBDIR)/pkgconfig/tdp.pc"
	chmod 644 "$(DESTDIR)$(LIBDIR)/pkgconfig/tdp.pc"
	cp -R models hardware plans plots accuracy "$(DESTDIR)$(SHARE)/tdp"
	chmod -R u=rwX,go=rX "$(DESTDIR)$(SHARE)/tdp"
	for p in $(notdir $(PROGRAMS)); do \
	  install -m 644 completions/tdp.bash "$(DESTDIR)$(SHARE)/bash-completion/completions/$$p" || exit; done
	$(call put,644,$(SHARE)/fish/vendor_completions.d,completions/tdp.fish)
	for p in $(notdir $(PROGRAMS)); do \
	  echo 'source (status dirname)/tdp.fish' >"$(DESTDIR)$(SHARE)/fish/vendor_completions.d/$$p.fish" && \
	  chmod 644 "$(DESTDIR)$(SHARE)/fish/vendor_completions.d/$$p.fish" || exit; done
	$(call put,644,$(SHARE)/zsh/site-functions,completions/_tdp)

# What install would put there goes away again, and the folder of data, which is ours alone.
uninstall: all
	stage=$$(mktemp -d) && $(MAKE) -s install DESTDIR=$$stage && \
	  (cd $$stage && find . ! -type d -exec sh -c 'for f; do rm -f "$(DESTDIR)/$$f"; done' sh {} +) && \
	  rm -rf $$stage "$(DESTDIR)$(SHARE)/tdp"

# The last commit as a source archive, the same bytes each time; the Debian packages that are made of it.
DIST := build/tdp-$(VERSION).tar.gz
dist:
	@mkdir -p build
	git archive --prefix=tdp-$(VERSION)/ HEAD | gzip -9n >$(DIST)
deb: dist
	docs/packaging/deb $(DIST) $(VERSION)

# What the programs are made of, with the versions found here.
sbom:
	@docs/packaging/sbom $(VERSION)

# All that is made of the last commit, twice, in two folders: the same bytes. Some minutes.
reproducible:
	tests/reproducible

clean:
	rm -rf build

-include $(shell find $(sort $(HOST)/obj $(BUILD)/obj) -name '*.d' 2>/dev/null)
.PHONY: accuracy all analyze baseline bench bench-check bench-table build-tests check check-cuda check-emulated check-host check-long check-sanitized check-streams claims clean coverage deb demo deps determinism dist emulated emulated-programs faults figures fit fuzz fuzzers golden install interop layers lint mutations pages parity plan-loop predict-cpu published questions refusals reproducible sbom schedules-sheet search-scale simgrid test uninstall unit-tests validate FORCE
.SECONDARY:
