package pmidetect

import (
	"slices"
	"strings"
)

// A family is whose library a name is (PMIX-3).
type family int

const (
	nobodys family = iota // neither of these; libpmi, libmpt and Cray's are not counted either
	openMPI
	mpich
	pmix
)

// byPrefix are the names of libraries by which one family is known, whatever version of their
// interface comes behind.
var byPrefix = []struct {
	prefix string
	family
}{
	{"libopen-rte.so.", openMPI}, {"libopen-pal.so.", openMPI}, {"libopen_mpi.so.", openMPI},
	{"libmpi_mpifh.so.", openMPI}, {"libmpi_usempi", openMPI}, {"libmpi_cxx.so.", openMPI},
	{"liboshmem.so.", openMPI}, {"libmpi_abi_openmpi.so.", openMPI},
	{"libmpich.so.", mpich}, {"libmpichcxx", mpich}, {"libmpichfort", mpich}, {"libmpi_abi_mpich.so.", mpich},
	{"libpmix.so.", pmix},
}

// familyOf judges a library by its name, and by what it needs itself if it was found: both
// families have a libmpi.so.12.
func familyOf(name string, found *object) family {
	switch name {
	case "libmpifort.so.12", "libmpicxx.so.12":
		return mpich
	case "libmpi.so.12", "libmpi.so.20", "libmpi.so.40":
		switch {
		case found != nil && slices.ContainsFunc(found.needed, coreOfOpenMPI), found == nil && name != "libmpi.so.12":
			return openMPI
		case name == "libmpi.so.12":
			return mpich
		}
		return nobodys
	}
	for _, known := range byPrefix {
		if strings.HasPrefix(name, known.prefix) {
			return known.family
		}
	}
	return nobodys
}

func coreOfOpenMPI(name string) bool {
	return strings.HasPrefix(name, "libopen-rte") || strings.HasPrefix(name, "libopen-pal")
}
