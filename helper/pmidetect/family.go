package pmidetect

import (
	"slices"
	"strings"
)

// A family is a group of MPI and PMI libraries that use the same PMI version (rule PMIX-3).
type family int

const (
	noFamily family = iota // any other library; libpmi, libmpt and Cray's count as this too
	openMPI
	mpich
	pmix
)

// familyPrefixes maps prefixes of library names to families of MPI and PMIx libraries. It contains names that
// exist in only one family.
var familyPrefixes = []struct {
	prefix string
	family
}{
	{"libopen-rte.so.", openMPI}, {"libopen-pal.so.", openMPI}, {"libopen_mpi.so.", openMPI},
	{"libmpi_mpifh.so.", openMPI}, {"libmpi_usempi", openMPI}, {"libmpi_cxx.so.", openMPI},
	{"liboshmem.so.", openMPI}, {"libmpi_abi_openmpi.so.", openMPI},
	{"libmpich.so.", mpich}, {"libmpichcxx", mpich}, {"libmpichfort", mpich}, {"libmpi_abi_mpich.so.", mpich},
	{"libpmix.so.", pmix},
}

// familyOf returns the family of a library. The library's name does not always suffice, because two MPI families have a
// libmpi.so.12, so familyOf also uses the names of the libraries that the library needs. found is nil if the library's
// file was not found.
func familyOf(name string, found *object) family {
	switch name {
	case "libmpifort.so.12", "libmpicxx.so.12":
		return mpich
	case "libmpi.so.12", "libmpi.so.20", "libmpi.so.40":
		switch {
		case found != nil && slices.ContainsFunc(found.needed, isOpenMPICore), found == nil && name != "libmpi.so.12":
			return openMPI
		case name == "libmpi.so.12":
			return mpich
		}
		return noFamily
	}
	for _, known := range familyPrefixes {
		if strings.HasPrefix(name, known.prefix) {
			return known.family
		}
	}
	return noFamily
}

func isOpenMPICore(name string) bool {
	return strings.HasPrefix(name, "libopen-rte") || strings.HasPrefix(name, "libopen-pal")
}
