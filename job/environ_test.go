package job

import (
	"slices"
	"testing"
)

func TestValue(t *testing.T) {
	env := []string{"A=1", "AB=2", "A=3", "C="}
	for name, want := range map[string]string{"A": "3", "AB": "2", "C": "", "D": ""} {
		if got := EnvValue(env, name); got != want {
			t.Errorf("value %s = %q, want %q", name, got, want)
		}
	}
}

// A variable that an outer launcher suggested counts as the launcher's until its value changes.
func TestSuggestionsOfAnOuterLauncher(t *testing.T) {
	suggested := []string{"OMPI_MCA_pml=ob1", "MPIR_CVAR_PMI_VERSION=1", "OMPI_ARGV=a:b=c", "PMIX_SYSTEM_TMPDIR=/tmp"}
	env := []string{"OMPI_MCA_pml=ucx", "MPIR_CVAR_PMI_VERSION=1", "OMPI_ARGV=a:b=c", "PMIX_SYSTEM_TMPDIR=/tmp", "OMPI_MCA_btl=self",
		SuggestedVariable + "=" + SuggestedValue(suggested)}
	for _, environ := range [][]string{env, env[:5]} {
		left := slices.DeleteFunc(slices.Clone(environ), OuterFilter(environ))
		want := []string{"OMPI_MCA_pml=ucx", "OMPI_MCA_btl=self"}
		if len(environ) < len(env) { // without SuggestedVariable
			want = []string{"OMPI_MCA_pml=ucx", "MPIR_CVAR_PMI_VERSION=1", "OMPI_ARGV=a:b=c", "OMPI_MCA_btl=self"}
		}
		if !slices.Equal(left, want) {
			t.Errorf("of %q these are left: %q, want %q", environ, left, want)
		}
	}
}
