package bindings

import (
	"strings"
	"testing"

	"remshell/cli/option"
)

// Bindings are reported if the option is given, and by words of --bind-to and --display. Variables of other launchers and
// the user's configuration set the option, too.
func TestBindingsAreWanted(t *testing.T) {
	for _, test := range []struct {
		args, environ, config string
		want                  bool
	}{
		{"", "", "", false},
		{"--report-bindings", "", "", true},
		{"--map-by slot:PE=2 --bind-to core -report_bindings", "", "", true},
		{"--bind-to core:report", "", "", true},
		{"--display map-devel,alloc,bind", "", "", true},
		{"--display map", "", "", false},
		{"", "HYDRA_TOPO_DEBUG=1", "", true},
		{"", "OMPI_MCA_hwloc_base_report_bindings=true", "", true},
		{"", "OMPI_MCA_hwloc_base_report_bindings=false", "", false},
		{"", "MPIEXEC_REPORT_BINDINGS=1", "", true},
		{"", "", "report-bindings = yes", true},
		{"", "", "report-bindings = no", false},
	} {
		from := option.Sources{Environ: append(strings.Fields(test.environ), "MPIEXEC_CONFIG=c"), Read: func(string) (string, error) { return test.config, nil }}
		line, err := option.Mpiexec(func(string) int { return 1 }).Parse(append(strings.Fields(test.args), "a"), from)
		if got := isWanted(line); err != nil || got != test.want {
			t.Errorf("%+v: %v, %v", test, got, err)
		}
	}
}
