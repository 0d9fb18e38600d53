package option

import (
	"strings"
	"testing"
)

// A parastation.conf in the place of the user's configuration is one error, which says where its nodes belong.
func TestParaStationInPlaceOfTheConfiguration(t *testing.T) {
	from := Sources{Environ: []string{"MPIEXEC_CONFIG=/etc/parastation.conf"}, Read: func(string) (string, error) { return "HWType { ethernet }\nNodes {\n", nil }}
	_, err := Mpiexec(func(string) int { return 0 }).Parse([]string{"-n", "1", "true"}, from)
	if err == nil || !strings.HasPrefix(err.Error(), "/etc/parastation.conf is a configuration file of ParaStation, not of mpiexec") || strings.Contains(err.Error(), "\n") {
		t.Error(err)
	}
}
