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
		{[]string{"--again", "--dry-run", "a"}, true, "--again requires --resume; add --resume FILE, or leave out --again"},
		{[]string{"--cluster-state", "f", "a"}, true, "--cluster-state requires --plan or --dry-run; add one of these options, or leave out --cluster-state"},
		{[]string{"--cluster-state", "f", "--dry-run"}, false, ""},
		{[]string{"--cluster-state", "f", "--dry-run", "-gsoft", "1:2", "a"}, false, "-gsoft contradicts --cluster-state; use only one of them"},
		{[]string{"--save-job", "f", "--dry-run"}, false, "--save-job cannot be used in a command that starts no ranks; leave out --save-job"},
		{[]string{"--save-job", "f", "a"}, true, ""},
		{[]string{"-merge", "-ordered-output", "a"}, true, "-merge contradicts -ordered-output; use only one of them"},
		{[]string{"--no-probe", "a"}, true, "--no-probe requires --dry-run; add --dry-run, or leave out --no-probe"},
		{[]string{"--save-cluster-state", "f", "--dry-run", "--no-probe", "a"}, false, "--save-cluster-state contradicts --no-probe; use only one of them"},
		{[]string{"--save-cluster-state", "f", "--dry-run", "--probe", "a"}, false, ""},
		{[]string{"--save-cluster-state", "f", "--dry-run", "--cluster-state", "g", "a"}, false, "--save-cluster-state contradicts --cluster-state; use only one of them"},
		{[]string{"--resume", "f", "--dry-run", "--cluster-state", "g"}, false, "--cluster-state cannot be used with --resume; leave out --cluster-state"},
		{[]string{"--evict", "last", "--queue"}, false, "--evict and --queue cannot be used together; use only one of them at a time"},
		{[]string{"--ps", "--dry-run"}, false, "--ps and --dry-run cannot be used together; use only one of them at a time"},
		{[]string{"--plan", "--doctor", "a"}, false, "--doctor and --plan cannot be used together; use only one of them at a time"},
		{[]string{"--plan", "--dry-run", "a"}, false, ""},
		{[]string{"--selftest", "--json"}, true, "--json cannot be used with --selftest; leave out --json"},
		{[]string{"--ps", "--json"}, false, ""},
		{[]string{"--ps", "--wait"}, false, "--wait cannot be used with --ps; leave out --wait"},
		{[]string{"--ps", "--resume", "f"}, false, "--resume cannot be used with --ps; leave out --resume"},
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

// An option that asks about jobs excludes what the line has. A variable is for all lines.
func TestVariablesAreNotMisplaced(t *testing.T) {
	for _, args := range [][]string{{"--ps"}, {"--selftest"}} {
		line, err := Mpiexec(linuxSignals).Parse(args, Sources{Environ: []string{"MPIEXEC_WAIT=yes", "MPIEXEC_JSON=-", "MPIEXEC_DRY_RUN=1"}})
		if err == nil {
			err = line.Misplaced(false)
		}
		if err != nil {
			t.Errorf("%q: %v", args, err)
		}
	}
}

// The tags needs and excludes name options of the table.
func TestNeedsAndExcludesAreOptions(t *testing.T) {
	table := Mpiexec(linuxSignals)
	for _, o := range table.options {
		for _, name := range strings.Fields(o.field.Tag.Get("needs") + " " + o.field.Tag.Get("excludes")) {
			name, _, _ = strings.Cut(name, "=")
			if m, known := table.names[name]; name != "run" && name != "asks" && (!known || m.Name != name) {
				t.Errorf("%s names %s, which is no option", o.Dashed, name)
			}
		}
	}
}
