package option

import (
	"strings"
	"testing"
)

// A removed option, or its variable, is refused with what to use instead.
func TestRemovedOptionSaysWhatToUse(t *testing.T) {
	table := Mpiexec(linuxSignals)
	for name := range removedOptions {
		want := RemovedError(name).Error()
		if option, value, is := strings.Cut(name, "="); is {
			if _, known := table.findSpelling("--" + option); !known {
				t.Errorf("%s: no such option", name)
			}
			_, err := table.Parse([]string{"--" + option + "=" + value, "a"}, Sources{})
			if err == nil || err.Error() != want {
				t.Errorf("--%s: %v\nwant %s", name, err, want)
			}
			continue
		}
		if _, known := table.findSpelling("--" + name); known {
			t.Errorf("%s is known", name)
		}
		for _, args := range [][]string{{"--" + name, "a"}, {"--" + name + "=1", "a"}, {"-" + name, "1", "a"}} {
			if _, err := table.Parse(args, Sources{}); err == nil || err.Error() != want {
				t.Errorf("%q: %v\nwant %s", args, err, want)
			}
		}
		variable := ownVariable(&Option{Dashed: name})
		if _, err := table.Parse([]string{"a"}, Sources{Environ: []string{variable + "=1"}}); err == nil || err.Error() != variable+": "+want {
			t.Errorf("%s: %v", variable, err)
		}
		config := Sources{Environ: []string{"MPIEXEC_CONFIG=c"}, Read: func(string) (string, error) { return "# mine\n" + name + " = 1\n", nil }}
		if _, err := table.Parse([]string{"a"}, config); err == nil || err.Error() != "c:2: "+want {
			t.Errorf("%s in the configuration: %v", name, err)
		}
	}
}
