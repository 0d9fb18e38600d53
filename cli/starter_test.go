//go:build linux

package cli

import (
	"fmt"
	"strings"
	"testing"

	"remshell/reach/starter"
)

// Each starter of the table is chosen by its words of -launcher, and refused outside of a job of
// its batch system's.
func TestLauncherWords(t *testing.T) {
	p := newPeer(t, nil)
	for _, s := range starter.Table {
		for _, word := range []string{s.System, s.Program} {
			printed, code := p.visit("-launcher", word, "-n", "1", "-host", "n1", "true")
			if want := fmt.Sprintf("mpiexec: -launcher %s: this is no job of %s's; %s", word, s.Name, s.Within); !strings.HasPrefix(printed, want) || code != 125 {
				t.Errorf("exit %d: %s\nwant 125: %s", code, printed, want)
			}
		}
	}
}
