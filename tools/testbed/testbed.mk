# Test hosts on this machine; see package tools/testbed.

N ?= 4

.PHONY: testbed testbed-down programs
testbed: build/testbed programs
	build/testbed up $(N)

testbed-down: build/testbed
	build/testbed down

# MPI programs to run there.
programs:
	testdata/programs.sh build

build/testbed: FORCE
	go build -o $@ ./tools/testbed/cmd/testbed

.PHONY: FORCE
FORCE:
