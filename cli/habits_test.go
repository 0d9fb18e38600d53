package cli

import (
	"slices"
	"testing"

	"remshell/cli/option"
)

// --lenient is the default under the name mpirun, but not under mpiexec.
func TestMpirunIsLenient(t *testing.T) {
	for _, test := range []struct {
		called  string
		environ []string
		want    []string
	}{
		{"/usr/bin/mpirun", []string{"A=1"}, []string{"A=1", "MPIEXEC_LENIENT=1"}},
		{"mpirun.remshell", nil, []string{"MPIEXEC_LENIENT=1"}},
		{"mpirun", []string{"MPIEXEC_LENIENT=0"}, []string{"MPIEXEC_LENIENT=0"}},
		{"mpiexec", []string{"A=1"}, []string{"A=1"}},
	} {
		environ := FrontEndEnv([]string{test.called, "-n", "1", "a"}, test.environ)
		if !slices.Equal(environ, test.want) {
			t.Errorf("%s %q: %q", test.called, test.environ, environ)
		}
		_, err := option.Mpiexec(signalNumber).Parse([]string{"-topolib", "x", "a"}, option.Sources{Environ: environ})
		if lenient := slices.Contains(environ, "MPIEXEC_LENIENT=1"); (err == nil) != lenient {
			t.Errorf("%s: lenient %v, and got %v", test.called, lenient, err)
		}
	}
}

// --display accepts the words of Open MPI.
func TestDisplayKnowsOpenMPIsWords(t *testing.T) {
	line, err := option.Mpiexec(signalNumber).Parse([]string{"--display", "map-devel,alloc,bind", "a"}, option.Sources{})
	if err == nil {
		err = line.MergeLayout()
	}
	if p := wantedDisplays(line.Job); err != nil || !p.byRank || !p.hosts {
		t.Errorf("%+v, %v", p, err)
	}
}
