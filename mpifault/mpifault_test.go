package mpifault

import (
	"slices"
	"testing"

	"remshell/job"
)

// Each library has the faults of its version, and no others.
func TestFaultsOf(t *testing.T) {
	for _, test := range []struct {
		library job.MPILibrary
		want    []string
	}{
		{job.MPILibrary{Family: "MPICH", File: "libmpich.so.12.2.2", UCX: true}, []string{Finalize, "mpich-spawn"}},
		{job.MPILibrary{Family: "MPICH", File: "libmpi.so.12.2.0", UCX: true}, []string{Finalize, "mpich-spawn"}},
		{job.MPILibrary{Family: "MPICH", File: "libmpich.so.12.2.2"}, nil}, // built for libfabric
		{job.MPILibrary{Family: "MPICH", File: "libmpich.so.12.1.10", UCX: true}, nil},
		{job.MPILibrary{Family: "MPICH", File: "libmpich.so.12.4.1", UCX: true}, []string{"mpich-spawn"}},
		{job.MPILibrary{Family: "MPICH", File: "libmpich.so.12.20.1", UCX: true}, nil},
		{job.MPILibrary{Family: "Open MPI", File: "libmpi.so.40.30.4", UCX: true}, []string{"openmpi-onesided"}},
		{job.MPILibrary{Family: "Open MPI", File: "libmpi.so.40.40.7"}, nil},
		{job.MPILibrary{Family: "MPICH"}, nil}, // not found
		{job.MPILibrary{}, nil},
	} {
		var got []string
		for _, f := range FaultsOf(test.library) {
			got = append(got, f.Code)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%+v: %v, want %v", test.library, got, test.want)
		}
	}
}

// A code has one row, and all of its texts are set.
func TestByCode(t *testing.T) {
	for i, f := range table {
		got, found := ByCode(f.Code)
		if !found || got.Text("") != table[i].Text("") || f.Remedy == "" || f.Effect == "" || f.When == "" {
			t.Errorf("%+v", f)
		}
	}
	if _, found := ByCode("none"); found {
		t.Error("there is a fault that is not in the table")
	}
}
