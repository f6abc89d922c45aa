# gradwire: a network transport for NCCL that sends gradients in fewer bytes.
#
#   make             the plugin, the libraries and the command, in build/
#   make demo        moves real gradients between two ranks on this machine and says what it cost
#   make check       the tests; no device needed
#   make help        everything else

B        ?= build
CC       ?= cc
CLANG    ?= clang
PREFIX   ?= /usr/local
LIBDIR   ?= $(PREFIX)/lib
VERSION  := 0.1.0

# CFLAGS and LDFLAGS belong to the user; what the code needs stands apart.
CFLAGS   ?= -O2 -g
LDFLAGS  ?=
SAN      ?=
V        ?= 0

comma := ,
empty :=
space := $(empty) $(empty)
# A blank ends a name in make.  The checkout itself may have one in its name, and then B is relative.
one_word = $(if $(word 2,$($(1))),$(error $(1)="$($(1))" has a blank in it, which make cannot have: give $(1)= a folder without))
$(foreach v,B PREFIX LIBDIR DESTDIR,$(call one_word,$(v)))
# One object folder per sanitizer set and purpose, so that switching never mixes objects.
O     := $(B)/obj$(if $(SAN),-$(subst $(comma),-,$(SAN)))
R     := $(B)$(if $(SAN),/san-$(subst $(comma),-,$(SAN)))
sanf  := $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=all)

warn  := -Wall -Wextra -Wshadow -Wmissing-prototypes -Wstrict-prototypes -Wpointer-arith -Wundef \
         -Wwrite-strings -Wvla $(if $(filter 1,$(WERROR)),-Werror)
need  := -std=c11 -D_GNU_SOURCE -fPIC -fvisibility=hidden -ffp-contract=off -fno-strict-aliasing -pthread \
         -DGW_VERSION='"$(VERSION)"' $(warn) $(sanf) $(TEST)
ldneed := -pthread $(sanf)

# ---- who may see whom: a wrong include does not build -------------------------------------------------
see_compress  := -Iinclude
see_transport := -Iinclude
see_core      := -Iinclude -Icompress -Itransport
see_nccl      := -Iinclude -Iplugin/core
see_tools     := -I$(B)/include -DGW_LIBDIR='"$(LIBDIR)"'
see_tests     := -Iinclude -Icompress -Itransport -Iplugin/core -Iplugin/nccl -Itests/lib -Itools

# Other libraries that `gradwire bench` measures beside ours, where they are; nothing else sees them.
blosc_libs := $(shell pkg-config --libs blosc 2>/dev/null)
hts_libs   := $(if $(wildcard /usr/include/htscodecs/rANS_static4x16.h /usr/local/include/htscodecs/rANS_static4x16.h),-lhtscodecs)
see_tools  += $(if $(blosc_libs),-DGW_HAVE_BLOSC) $(if $(hts_libs),-DGW_HAVE_HTSCODECS)

# A second AVX-512 table, for tests alone.
have_simde := $(if $(filter x86_64,$(shell uname -m)),$(wildcard $(addsuffix /simde/x86/avx512.h,/usr/include /usr/local/include)))
see_tests  += $(if $(have_simde),-DGW_HAVE_SIMDE)

ucx_cflags  := $(shell pkg-config --cflags ucx 2>/dev/null)
ucx_libs    := $(or $(shell pkg-config --libs ucx 2>/dev/null),-lucp -luct -lucs -lucm)
ibv_cflags  := $(shell pkg-config --cflags libibverbs 2>/dev/null)
ibv_libs    := $(or $(shell pkg-config --libs libibverbs 2>/dev/null),-libverbs)
json_libs   := $(or $(shell pkg-config --libs jansson 2>/dev/null),-ljansson)
cmocka_libs := $(or $(shell pkg-config --libs cmocka 2>/dev/null),-lcmocka)

# Codecs of other libraries: the command and the tests have those that are here, the plugin and libgradwire.so only what is
# asked for by ZSTD=1 or LZ4=1, because every host would need the library then.  ZSTD=no and LZ4=no: nowhere.
zstd_libs    := $(if $(filter no,$(ZSTD)),,$(shell pkg-config --libs libzstd 2>/dev/null))
lz4_libs     := $(if $(filter no,$(LZ4)),,$(shell pkg-config --libs liblz4 2>/dev/null))
$(foreach v,ZSTD LZ4,$(if $(filter 1,$($(v))),$(if $($(if $(filter ZSTD,$(v)),zstd,lz4)_libs),,$(error $(v)=1 needs the library and its header))))
src_optional := $(if $(zstd_libs),compress/codec_zstd.c) $(if $(lz4_libs),compress/codec_lz4.c)
src_asked    := $(if $(filter 1,$(ZSTD)),compress/codec_zstd.c) $(if $(filter 1,$(LZ4)),compress/codec_lz4.c)
asked_libs   := $(if $(filter 1,$(ZSTD)),$(zstd_libs)) $(if $(filter 1,$(LZ4)),$(lz4_libs))
optional_libs := $(zstd_libs) $(lz4_libs)
see_tools    += $(if $(zstd_libs),-DGW_HAVE_ZSTD) $(if $(lz4_libs),-DGW_HAVE_LZ4)
see_tools    += -DGW_COMMAND_ALONE='" $(if $(filter 1,$(ZSTD)),,$(if $(zstd_libs),zstd)) $(if $(filter 1,$(LZ4)),,$(if $(lz4_libs),lz4)) "'
see_compress += $(if $(zstd_libs),-DGW_HAVE_ZSTD) $(if $(lz4_libs),-DGW_HAVE_LZ4)

src_compress  := $(filter-out compress/codec_zstd.c compress/codec_lz4.c,$(sort $(wildcard compress/*.c))) $(src_asked)
src_module    := $(sort $(wildcard transport/ucx*.c))
src_verbs     := $(sort $(wildcard transport/verbs*.c))
src_transport := $(filter-out $(src_module) $(src_verbs),$(sort $(wildcard transport/*.c)))
src_core      := $(sort $(wildcard plugin/core/*.c))
src_nccl      := $(sort $(wildcard plugin/nccl/*.c))
src_tools     := $(sort $(wildcard tools/*.c))
src_testlib   := $(sort $(wildcard tests/lib/*.c))
src_tests     := $(sort $(wildcard tests/unit/test_*.c tests/prop/prop_*.c tests/sim/sim_*.c tests/abi/abi_*.c tests/e2e/e2e_*.c \
                   tests/faults/fault_*.c))
# It needs the hooks that TEST=-DGW_PHASES compiles in.
src_tests     := $(filter-out $(if $(findstring GW_PHASES,$(TEST)),,tests/e2e/e2e_phase.c),$(src_tests))
src_figures   := $(sort $(wildcard tests/figures/*.c))
src_fuzz      := $(sort $(wildcard tests/fuzz/fuzz_*.c))
src_aux       := $(sort $(wildcard tests/abi/plug_*.c))

obj = $(patsubst %.c,$(O)/%.o,$(1))
all_lib_objs := $(call obj,$(src_compress) $(src_transport) $(src_core))
# The pure helpers that a lane module carries as hidden copies.
pure_objs    := $(call obj,$(wildcard transport/place.c transport/advert.c))
module_objs  := $(call obj,$(src_module)) $(pure_objs)

plugin_so := $(R)/libnccl-net-gradwire.so
lib_so    := $(R)/libgradwire.so
# The number grows when a program that was linked before would not work any more.
soname    := libgradwire.so.0
ucx_so    := $(R)/libgradwire-ucx.so
verbs_so  := $(R)/libgradwire-verbs.so
command   := $(R)/gradwire
programs  := $(patsubst tests/%.c,$(R)/tests/%,$(src_tests))
figures   := $(patsubst tests/%.c,$(R)/tests/%,$(src_figures))
replays   := $(patsubst tests/%.c,$(R)/tests/%,$(src_fuzz))
aux_sos   := $(patsubst tests/%.c,$(R)/tests/%.so,$(src_aux))

ifeq ($(V),1)
say = @:
Q :=
else
say = @printf '  %-5s %s\n'
Q := @
endif

.PHONY: all demo count check check-phases check-nccl check-rdma faults sim-rules fuzz analyze check-valgrind install uninstall clean help deps programs headers-alone exports
.DELETE_ON_ERROR:
all: deps $(plugin_so) $(lib_so) $(ucx_so) $(verbs_so) $(command)

deps:
	@sh tools/packaging/deps.sh build

# ---- compiling ------------------------------------------------------------------------------------------
stamp := $(O)/flags
flags := $(CC) $(CFLAGS) $(need) $(LDFLAGS) $(ldneed) $(ucx_cflags) $(ibv_cflags) $(see_compress) $(see_tools) $(src_asked) $(have_simde) $(TEST)
$(shell mkdir -p $(O) && printf '%s\n' "$(subst ",\",$(flags))" | cmp -s - $(stamp) || printf '%s\n' "$(subst ",\",$(flags))" > $(stamp))

define compile
$(O)/$(1)/%.o: $(1)/%.c $(stamp) | deps
	$$(say) CC $$<
	@mkdir -p $$(@D)
	$$(Q)$$(CC) $$(CPPFLAGS) $$(need) $$(call isa_of,$$*) $(2) -MMD -MP $$(CFLAGS) -c $$< -o $$@
endef
# A file whose name ends so needs an instruction set.
ifeq ($(shell uname -m),x86_64)
isa_avx2   := -mavx2 -mbmi -mbmi2
isa_avx512 := $(isa_avx2) -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vbmi -mavx512vbmi2
isa_of = $(if $(filter %_avx2,$(1)),$(isa_avx2)) $(if $(filter %_avx512,$(1)),$(isa_avx512))
# The same source again, by libsimde's functions and without such instructions: tests walk it on any machine.  Those functions
# add and multiply lanes as signed numbers that wrap, which is theirs alone to answer for: -fwrapv, and UBSan looks away.
simde_objs := $(if $(have_simde),$(patsubst compress/%.c,$(O)/simde/%.o,$(wildcard compress/*_avx512.c)))
endif

$(eval $(call compile,compress,$(see_compress)))
$(eval $(call compile,transport,$(see_transport) $(ucx_cflags) $(ibv_cflags)))
$(eval $(call compile,plugin/core,$(see_core)))
$(eval $(call compile,plugin/nccl,$(see_nccl)))
$(eval $(call compile,tools,$(see_tools)))
$(O)/simde/%.o: compress/%.c $(stamp) | deps
	$(say) SIMDE $<
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(need) $(isa_avx2) $(see_compress) -Itests/lib -DGW_SIMDE -Wno-psabi -MMD -MP $(CFLAGS) -fwrapv -fno-sanitize=undefined -c $< -o $@
$(eval $(call compile,tests,$(see_tests) -DGW_SRC='"$(CURDIR)"' -DGW_OUT='"$(abspath $(R))"'))
$(call obj,$(src_tools)): | $(B)/include/gradwire
$(B)/include/gradwire:
	@mkdir -p $(B)/include
	@ln -sfn "$(CURDIR)/include/gradwire" $(B)/include/gradwire
	@ln -sfn "$(CURDIR)/include/nccl" $(B)/include/nccl

# ---- linking --------------------------------------------------------------------------------------------
defs := -Wl,-z,defs
so   = -shared $(if $(SAN),,$(defs)) -Wl,-z,nodelete -Wl,-z,relro -Wl,-z,now
$(plugin_so): $(all_lib_objs) $(call obj,$(src_nccl)) plugin/nccl/nccl.map
	$(say) LD $@
	@mkdir -p $(@D)
	$(Q)$(CC) $(so) -Wl,--version-script=plugin/nccl/nccl.map $(filter %.o,$^) $(LDFLAGS) $(ldneed) $(asked_libs) -ldl -o $@
$(lib_so): $(all_lib_objs) plugin/core/gradwire.map
	$(say) LD $@
	@mkdir -p $(@D)
	$(Q)$(CC) $(so) -Wl,-soname,$(soname) -Wl,--version-script=plugin/core/gradwire.map $(filter %.o,$^) $(LDFLAGS) $(ldneed) $(asked_libs) -ldl -o $@
	@ln -sf libgradwire.so $(@D)/$(soname)
$(ucx_so): $(module_objs) transport/module.map
	$(say) LD $@
	@mkdir -p $(@D)
	$(Q)$(CC) $(so) -Wl,--version-script=transport/module.map $(filter %.o,$^) $(LDFLAGS) $(ldneed) $(ucx_libs) -o $@
$(verbs_so): $(call obj,$(src_verbs)) $(pure_objs) transport/module.map
	$(say) LD $@
	@mkdir -p $(@D)
	$(Q)$(CC) $(so) -Wl,--version-script=transport/module.map $(filter %.o,$^) $(LDFLAGS) $(ldneed) $(ibv_libs) -o $@
$(command): $(call obj,$(src_tools)) $(sort $(all_lib_objs) $(call obj,$(src_optional)))
	$(say) LD $@
	@mkdir -p $(@D)
	$(Q)$(CC) $^ $(LDFLAGS) $(ldneed) -rdynamic $(json_libs) $(optional_libs) $(blosc_libs) $(hts_libs) -ldl -lm -o $@

$(R)/libgw.a: $(all_lib_objs) $(call obj,$(src_nccl) $(src_testlib) $(wildcard tools/host*.c))
	$(say) AR $@
	@mkdir -p $(@D)
	@rm -f $@
	$(Q)ar crs $@ $^
# An archive gives nothing for a weak name: the objects stand by themselves.
verbs_tests := $(R)/tests/unit/test_verbs $(R)/tests/unit/test_verbs_lines
with_optional := $(call obj,$(filter-out $(src_asked),$(src_optional)))
$(programs) $(replays): $(simde_objs)
$(filter-out $(verbs_tests),$(programs)) $(figures): $(R)/tests/%: $(O)/tests/%.o $(R)/libgw.a $(with_optional)
	$(say) LD $@
	@mkdir -p $(@D)
	$(Q)$(CC) $< $(with_optional) $(filter $(simde_objs),$^) $(R)/libgw.a $(LDFLAGS) $(ldneed) -rdynamic $(cmocka_libs) $(optional_libs) -ldl -lm -o $@
$(verbs_tests): $(R)/tests/%: $(O)/tests/%.o $(call obj,$(src_verbs)) $(R)/libgw.a
	$(say) LD $@
	@mkdir -p $(@D)
	$(Q)$(CC) $(filter %.o,$^) $(R)/libgw.a $(LDFLAGS) $(ldneed) $(ibv_libs) $(cmocka_libs) -ldl -lm -o $@
$(replays): $(R)/tests/%: $(O)/tests/%.o $(O)/tests/fuzz/replay.o $(O)/transport/ucx_addr.o $(O)/transport/verbs_blob.o $(R)/libgw.a $(with_optional)
	$(say) LD $@
	@mkdir -p $(@D)
	$(Q)$(CC) $(filter %.o,$^) $(R)/libgw.a $(LDFLAGS) $(ldneed) $(optional_libs) -ldl -lm -o $@
$(aux_sos): $(R)/tests/%.so: $(O)/tests/%.o
	$(say) LD $@
	@mkdir -p $(@D)
	$(Q)$(CC) -shared $< $(LDFLAGS) $(ldneed) -o $@

# ---- testing --------------------------------------------------------------------------------------------
programs: $(programs) $(figures) $(replays) $(aux_sos)
check-deps:
	@sh tools/packaging/deps.sh check
check: check-deps all
	+@$(MAKE) --no-print-directory programs
	@B=$(R) SAN=$(SAN) SEEDS=$(SEEDS) ONLY="$(ONLY)" sh tests/run
# Each rule of the protocol switched off alone: the simulator must find that it is missing.
RULES := $(B)/rules
sim-rules:
	+@$(MAKE) --no-print-directory B=$(RULES) SAN= TEST=-DGW_RULES $(RULES)/tests/sim/sim_comms $(RULES)/tests/sim/sim_policy
	@B=$(RULES) SEEDS=$(SEEDS) sh tests/sim/rules
# A rank killed and stopped at each named phase: the core with hooks at them, in a folder of its own.
PHASES := $(B)/phases
check-phases: check-deps
	+@$(MAKE) --no-print-directory B=$(PHASES) SAN= TEST=-DGW_PHASES all $(PHASES)/tests/e2e/e2e_phase
	@$(PHASES)/tests/e2e/e2e_phase $(if $(ONLY),"$(ONLY)")
# The real NCCL over the plugin, where the user has it (tests/nccl/README.md).
check-nccl: all
	@B=$(R) CC="$(CC)" SAN=$(SAN) NCCL_HOME="$(NCCL_HOME)" CUDA_HOME="$(CUDA_HOME)" NCCL_RIG="$(NCCL_RIG)" ONLY="$(ONLY)" \
	    sh tests/nccl/run || [ $$? = 77 ]
# The verbs lane on real verbs: a virtual machine with software devices (tests/rdma/README.md).
check-rdma: check-deps all
	+@$(MAKE) --no-print-directory $(addprefix $(R)/tests/,e2e/e2e_comm e2e/e2e_kill abi/abi_data)
	@B=$(R) ONLY="$(ONLY)" sh tests/rdma/run || [ $$? = 77 ]
# What each side prints for each fault: a table to be read (tests/faults/README.md).
faults: check-deps all
	+@$(MAKE) --no-print-directory $(B)/tests/faults/fault_rank $(B)/tests/abi/plug_tcp8.so
	+@$(MAKE) --no-print-directory B=$(B)/newer SAN= VERSION=9.9.9 TEST=-DGW_TEST_WIRE=2 $(B)/newer/libnccl-net-gradwire.so $(B)/newer/libgradwire-ucx.so
	@B=$(B) ONLY="$(ONLY)" sh tests/faults/run
demo: all
	@B=$(R) sh tools/demo
# Instructions per 256 values of each codec, view and kernel set; no clock in it (needs valgrind).
count: $(R)/tests/figures/count
	@B=$(R) ONLY="$(ONLY)" sh tests/figures/count

FUZZ_SECONDS ?= 10
FUZZ_OUT := $(B)/fuzz
fuzz:
	@B=$(B) CLANG=$(CLANG) SECONDS_EACH=$(FUZZ_SECONDS) ONLY="$(ONLY)" CPPFLAGS='-DGW_VERSION="\"$(VERSION)\""' sh tests/fuzz/run

# What two static analysers find, and what memcheck finds in a host that loads the plugin; none of it may be anything.
analyze:
	@B=$(B) CLANG=$(CLANG) sh tests/analyze
VALGRIND := valgrind -q --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite --error-exitcode=99
check-valgrind: check-deps all
	+@$(MAKE) --no-print-directory $(addprefix $(R)/tests/abi/,abi_plugin abi_conn abi_data)
	$(VALGRIND) $(R)/tests/abi/abi_plugin
	$(VALGRIND) $(R)/tests/abi/abi_conn
	$(VALGRIND) $(R)/tests/abi/abi_data

headers-alone:
	@sh tests/headers-alone $(CC)
exports: all
	@ASKED="$(asked_libs)" sh tests/exports $(plugin_so) $(lib_so) $(ucx_so) $(verbs_so)

# ---- installing -----------------------------------------------------------------------------------------
install: all
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(LIBDIR)/pkgconfig $(DESTDIR)$(PREFIX)/include/gradwire
	install -m 755 $(command) $(DESTDIR)$(PREFIX)/bin/gradwire
	install -m 755 $(plugin_so) $(ucx_so) $(verbs_so) $(DESTDIR)$(LIBDIR)/
	install -m 755 $(lib_so) $(DESTDIR)$(LIBDIR)/libgradwire.so.$(VERSION)
	ln -sf libgradwire.so.$(VERSION) $(DESTDIR)$(LIBDIR)/$(soname)
	ln -sf $(soname) $(DESTDIR)$(LIBDIR)/libgradwire.so
	install -m 644 include/gradwire/*.h $(DESTDIR)$(PREFIX)/include/gradwire/
	sed -e 's|@PREFIX@|$(PREFIX)|; s|@LIBDIR@|$(LIBDIR)|; s|@VERSION@|$(VERSION)|' tools/packaging/gradwire.pc.in > $(DESTDIR)$(LIBDIR)/pkgconfig/gradwire.pc
	@[ -n "$(DESTDIR)" ] || ldconfig 2>/dev/null || echo 'run ldconfig as root, or name $(LIBDIR) in LD_LIBRARY_PATH'
uninstall:
	rm -f $(DESTDIR)$(PREFIX)/bin/gradwire $(DESTDIR)$(LIBDIR)/pkgconfig/gradwire.pc
	rm -f $(addprefix $(DESTDIR)$(LIBDIR)/,$(notdir $(plugin_so) $(lib_so) $(ucx_so) $(verbs_so)) $(soname) libgradwire.so.$(VERSION))
	rm -rf $(DESTDIR)$(PREFIX)/include/gradwire
clean:
	rm -rf $(B)

help:
	@echo 'make                      build/gradwire, build/libnccl-net-gradwire.so, build/libgradwire.so, build/libgradwire-ucx.so, -verbs.so'
	@echo 'make demo                 real gradients between two ranks on this machine'
	@echo 'make check                the tests (SAN=address,undefined or SAN=thread: under a sanitizer; ONLY=words: some of them)'
	@echo 'make sim-rules            the simulator without one rule of the protocol after the other'
	@echo 'make check-phases         a rank killed and stopped at each named phase of the wire protocol (ONLY="stop bye": some)'
	@echo 'make check-nccl           the real NCCL over the plugin: NCCL_HOME=dir [CUDA_HOME=dir] [NCCL_RIG=dir] (tests/nccl/README.md)'
	@echo 'make check-rdma           the verbs lane in a virtual machine with software RDMA devices (ONLY="perf cut": some)'
	@echo 'make faults               what both sides print for each fault, as a table'
	@echo 'make count                instructions per 256 values of each codec, view and kernel set (valgrind; ONLY="group avx2": some)'
	@echo 'make fuzz                 every fuzz target for FUZZ_SECONDS=10 (needs clang)'
	@echo 'make analyze              gcc -fanalyzer and scan-build over all sources (minutes)'
	@echo 'make check-valgrind       memcheck over a host that loads the plugin and connects'
	@echo 'make headers-alone        every public header compiled alone, as C and as C++'
	@echo 'make exports              what the libraries export, checked'
	@echo 'make install uninstall    PREFIX=/usr/local LIBDIR=PREFIX/lib DESTDIR=; make all, programs, clean'
	@echo 'B=dir  out of tree        V=1 the commands   WERROR=1   CC= CFLAGS= LDFLAGS=   DEPS=no: never install a package'
	@echo 'ZSTD=1 LZ4=1              these codecs in the plugin too, which then needs their libraries; ZSTD=no LZ4=no: nowhere'

-include $(shell find $(O) -name '*.d' 2>/dev/null)
