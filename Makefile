# Remshell. "make" builds, "make check" is fast and offline, "make test" is everything.

VERSION := $(shell tools/version.sh)
FLAGS   := -trimpath -ldflags="$$(tools/ldflags.sh $(VERSION))"
export CGO_ENABLED := 0

.PHONY: all install check test tests test-slurm test-sge test-condor chaos bench compat cross dist dist-check deb-check demo clean outdated testbed testbed-down fuzz

all: bin/mpiexec

# Go knows better than make what is out of date. What runs is a copy, written from its first byte to its last as
# an archive or a package is when it is unpacked: the page cache then holds it in large pieces. What a linker
# has written through its memory, the kernel maps page by page, a millisecond more for each start.
.PHONY: bin/mpiexec
bin/mpiexec:
	@mkdir -p bin build
	go build $(FLAGS) -o build/mpiexec .
	@cmp -s build/mpiexec $@ || { cp build/mpiexec $@.new && mv $@.new $@; }
	@ln -sf mpiexec bin/mpijob

# mpiexec, its other names mpijob and aprun, manual pages and completions, below DESTDIR/PREFIX. mpirun is left alone: another MPI may have it.
PREFIX  ?= /usr/local
DESTDIR ?=
install: bin/mpiexec
	tools/install.sh bin/mpiexec "$(DESTDIR)$(PREFIX)"

cross:
	@mkdir -p build/cross
	export GOOS=linux GOARCH=arm64; go build $(FLAGS) -o build/cross/mpiexec-linux-arm64 .
	export GOOS=linux GOARCH=riscv64; go build $(FLAGS) -o build/cross/mpiexec-linux-riscv64 .
	export GOOS=darwin GOARCH=arm64; go build $(FLAGS) -o build/cross/mpiexec-darwin-arm64 .

# The race detector needs a C compiler.
RACE := $(shell command -v gcc >/dev/null && echo -race)
CGO   = CGO_ENABLED=$(if $(RACE),1,0)

# What decides, and has no second goroutine, is tested without it: it would find nothing there, and
# takes four times as long.
PURE  := ./hostlist ./plan ./simulate
RACED  = $$(go list ./... | grep -vxF "$$(go list $(PURE))")

# Formatting, vet, and every test that needs neither root nor packages nor network, but for those with the largest claims of files,
# memory and spawns. It takes 5 min of CPU, and so some 4 min on two quiet CPUs; 25 min were seen beside a load of 28, which is what
# the limit is for.
check:
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo "run gofmt -w on these"; exit 1; }
	go vet ./...
	go test -short -timeout 60m $(PURE)
	$(CGO) go test $(RACE) -short -timeout 60m $(RACED)

# Everything. As root on Debian it installs what it needs.
test: bin/mpiexec
	testdata/install.sh
	testdata/programs.sh
	testdata/condor.sh build/condor
	$(MAKE) --no-print-directory tests cross

# A make of its own, since only now there may be a compiler. What fails beside all others is run once
# more, alone, and must pass there; build/again.txt then names it, and a data race is never forgiven (adr 13).
tests: build/gotestsum
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo "run gofmt -w on these"; exit 1; }
	go vet ./... && go vet -C tools/pack ./...
	go test $(PURE)
	@rm -f build/again.txt
	$(CGO) build/gotestsum $(AGAIN) --packages "./test/e2e $(RACED)" -- $(RACE) -timeout 80m # the longest first
	@test ! -s build/again.txt || { echo "passed only alone, so they are too sensitive:"; cat build/again.txt; }
	go test -C tools/pack ./...

AGAIN := --format pkgname --hide-summary skipped --format-icons text --rerun-fails=1 --rerun-fails-run-root-test \
	--rerun-fails-abort-on-data-race --rerun-fails-max-failures 40 --rerun-fails-report build/again.txt

build/gotestsum: tools/gotestsum/go.mod
	@mkdir -p build
	go build -C tools/gotestsum -o $(CURDIR)/$@ gotest.tools/gotestsum

# Against a real Slurm, as root on Debian; part of make test.
test-slurm:
	testdata/install.sh
	testdata/programs.sh
	go test ./test/e2e -count=1 -timeout 40m -run TestSlurm -v

# Against a real Grid Engine, likewise.
test-sge:
	testdata/install.sh
	testdata/programs.sh
	go test ./test/e2e -count=1 -timeout 10m -run TestSGE -v

# Against a real HTCondor, likewise.
test-condor:
	testdata/install.sh
	testdata/programs.sh
	testdata/condor.sh build/condor
	go test ./test/e2e -count=1 -timeout 10m -run TestHTCondor -v

# Many jobs on which everything breaks that can be broken; it says how to repeat one. CHAOS_KIND is a part of the
# names of the kinds that are wanted: restart, queue host, moved, suspend.
CHAOS ?= 1000
chaos:
	testdata/install.sh
	testdata/programs.sh
	CHAOS=$(CHAOS) CHAOS_LANES=$${CHAOS_LANES:-2} go test ./test/e2e -count=1 -parallel $${CHAOS_LANES:-2} -timeout 12h -run TestChaos -v

bench: bin/mpiexec
	testdata/install.sh
	testdata/programs.sh
	@mkdir -p build
	go build -o build/bench ./tools/bench
	build/bench

# Modules that have a newer version, of mpiexec and of each tool (doc/adr/0002-modules.md). Needs network.
outdated:
	@for mod in go.mod tools/*/go.mod; do \
		go list -C $${mod%go.mod}. -m -u -f '{{if and .Update (not .Indirect)}}'$$mod': {{.Path}} {{.Version}} -> {{.Update.Version}}{{end}}' all || exit; \
	done

# What is handed out: an archive for each system, and packages (.deb, .rpm). The second makes
# them twice, the second time from another folder and without the cache, and compares.
EPOCH := $(or $(SOURCE_DATE_EPOCH),$(shell git log -1 --format=%ct 2>/dev/null || echo 0))

dist:
	rm -rf dist
	go run -C tools/pack . -version $(VERSION) -epoch $(EPOCH) -out dist

dist-check: dist
	testdata/distcheck.sh $(VERSION) $(EPOCH)

# Installs the package in a fresh Debian, runs it, and removes it. Needs root, and network
# unless build/debian is there.
deb-check: dist
	testdata/debcheck.sh dist/remshell_*_$$(dpkg --print-architecture).deb

# Programs built with each of Debian's MPICHs; the table is that of doc/compatibility.md.
compat: bin/mpiexec
	testdata/install.sh
	testdata/compat.sh

demo: bin/mpiexec
	testdata/demo.sh

clean:
	rm -rf bin build dist

-include tools/testbed/testbed.mk
