/*
Package mpifault lists faults of MPI libraries that make programs hang or fail under any launcher. --doctor warns about
faults of the program's library. If a job shows the effect of a fault, mpiexec's report names the fault.
doc/compatibility.md says how the faults were found.
*/
package mpifault

import (
	"slices"
	"strings"

	"remshell/job"
)

// A Fault is a fault of some versions of an MPI library.
type Fault struct {
	Code    string // an identifier for programs, which never changes
	Library string // name and versions of the library
	When    When
	Effect  string // the fault's effect, as a clause
	Remedy  string // what the user can do

	family     string
	interfaces []string // interface versions in the library's file name: "12.2" in libmpich.so.12.2.2
	ucx        bool     // only if the library communicates by UCX
}

// A When is the condition under which a fault affects a program.
type When string

// These are the conditions under which faults affect a program.
const (
	AcrossHosts When = "across-hosts" // its ranks are on several hosts
	Spawning    When = "spawning"     // it calls MPI_Comm_spawn or MPI_Open_port
	OneSided    When = "one-sided"    // it uses one-sided communication between hosts
)

// Finalize is the code of the fault that makes MPI_Finalize hang in MPICH.
const Finalize = "mpich-finalize"

// table lists the known faults. It identifies versions by the version in the name of the shared library: MPICH 4.0 has
// libmpi.so.12.2, MPICH 4.1 has 12.3, MPICH 4.2 has 12.4, and Open MPI 4.1 has 40.30.
var table = []Fault{
	{Code: Finalize, Library: "MPICH 4.0 with UCX (Debian 12)", When: AcrossHosts,
		Effect: "if ranks are on several hosts, MPI_Finalize sometimes hangs, because one rank waits for another one that has already finished",
		Remedy: "build the program with another MPI library (mpicc.openmpi, MPICH 3.4 or 4.2), or run it on one host",
		family: "MPICH", interfaces: []string{"12.2"}, ucx: true},
	{Code: "mpich-spawn", Library: "MPICH 4.0 to 4.2 with UCX (Debian 12 and 13)", When: Spawning,
		Effect: "MPI_Comm_spawn and MPI_Open_port fail",
		Remedy: "build the program with another MPI library (mpicc.openmpi, or MPICH 3.4)",
		family: "MPICH", interfaces: []string{"12.2", "12.3", "12.4"}, ucx: true},
	{Code: "openmpi-onesided", Library: "Open MPI 4.1", When: OneSided,
		Effect: "one-sided communication between hosts fails if the network does not support RDMA",
		Remedy: "add the option --mca osc pt2pt",
		family: "Open MPI", interfaces: []string{"40.30"}},
}

// FaultsOf returns the known faults of an MPI library.
func FaultsOf(l job.MPILibrary) (faults []Fault) {
	_, version, _ := strings.Cut(l.File, ".so.")
	for _, f := range table {
		is := func(number string) bool { return strings.HasPrefix(version, number+".") }
		if f.family == l.Family && slices.ContainsFunc(f.interfaces, is) && (l.UCX || !f.ucx) {
			faults = append(faults, f)
		}
	}
	return faults
}

// ByCode returns the fault with this code. found is false if there is no such fault.
func ByCode(code string) (f Fault, found bool) {
	for _, f := range table {
		if f.Code == code {
			return f, true
		}
	}
	return Fault{}, false
}

// Text returns a message about the fault. subject is the program, such as "the program".
func (f Fault) Text(subject string) string {
	return subject + " is linked with " + f.Library + "; with this library, " + f.Effect
}
