# Test hosts on this machine; see field/field.go.

N ?= 4

.PHONY: field field-down programs
field: build/field programs
	build/field up $(N)

field-down: build/field
	build/field down

# MPI programs to run there.
programs:
	testdata/programs.sh build

build/field: FORCE
	go build -o $@ ./field/cmd/field

.PHONY: FORCE
FORCE:
