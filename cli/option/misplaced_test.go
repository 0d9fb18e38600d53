package option

import (
	"strings"
	"testing"

	"remshell/usererr"
)

// Options that lack one they need, or that exclude another, are refused by the tags of the table.
func TestMisplacedOption(t *testing.T) {
	for _, test := range []struct {
		args []string
		run  bool
		want string
	}{
		{[]string{"--report-every", "1", "a"}, true, "--report-every has a meaning only with --report; add --report FILE, or leave it out"},
		{[]string{"--report-every", "1", "--report", "f", "a"}, true, ""},
		{[]string{"--cluster-state", "f", "a"}, true, "--cluster-state has a meaning only with --plan or --dry-run; add one of them, or leave it out"},
		{[]string{"--cluster-state", "f", "--dry-run"}, false, ""},
		{[]string{"--cluster-state", "f", "--dry-run", "-gsoft", "1:2", "a"}, false, "-gsoft contradicts --cluster-state; keep one"},
		{[]string{"--save-job", "f", "--dry-run"}, false, "--save-job has a meaning only with a run; leave it out"},
		{[]string{"--save-job", "f", "a"}, true, ""},
		{[]string{"-merge", "-ordered-output", "a"}, true, "-merge contradicts -ordered-output; keep one"},
		{[]string{"--no-probe", "a"}, true, "--no-probe has a meaning only with --dry-run; add --dry-run, or leave it out"},
	} {
		line, err := Mpiexec(linuxSignals).Parse(test.args, Sources{})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := line.Misplaced(test.run); err != nil {
			got = err.Error() + "; " + usererr.Hint(err)
		}
		if got != test.want {
			t.Errorf("%q: %s\nwant %s", test.args, got, test.want)
		}
	}
}

// The tags needs and excludes name options of the table.
func TestNeedsAndExcludesAreOptions(t *testing.T) {
	table := Mpiexec(linuxSignals)
	for _, o := range table.options {
		for _, name := range strings.Fields(o.field.Tag.Get("needs") + " " + o.field.Tag.Get("excludes")) {
			if m, known := table.names[name]; name != "run" && (!known || m.Name != name) {
				t.Errorf("%s names %s, which is no option", o.Dashed, name)
			}
		}
	}
}
