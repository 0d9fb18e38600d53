package batch

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"testing"
)

// mayBeEmpty lists, for each struct of a row, the columns that a system need not have; all others have to be filled in. Of a bool both
// values say something.
var mayBeEmpty = map[reflect.Type][]string{
	reflect.TypeFor[System](): {"Products", "Within", "Copies", "Threads", "State", "End", "KillDelay", "KillWait", "Starter", "Attach", "NoInput", "OpenMPI",
		"Holder", "OfRank", "Identity", "Memory"},
	reflect.TypeFor[Starter]():      {"Folders", "Second", "Secret", "Step", "Help", "Drops", "ErrorPatterns", "ExplainSilence"},
	reflect.TypeFor[ErrorPattern](): {"Why"},
}

// OpenPBS sets OMP_NUM_THREADS to the CPUs of all processes of the chunk on the script's host.
func TestThreadsOfPBS(t *testing.T) {
	env := map[string]string{"PBS_JOBID": "1.n0", "NCPUS": "8", "OMP_NUM_THREADS": "8"}
	w := Inputs{Env: func(name string) (string, bool) { value, set := env[name]; return value, set }}
	if n := Threads(w); n != 8 {
		t.Errorf("%d, want 8", n)
	}
	if delete(env, "NCPUS"); Threads(w) != 0 { // Torque sets neither
		t.Errorf("%d without NCPUS", Threads(w))
	}
}

// lacking lists the columns of a row, and of the structs in it, that are empty and must not be.
func lacking(row reflect.Value, name string) (columns []string) {
	switch row.Kind() {
	case reflect.Pointer:
		return lacking(row.Elem(), name)
	case reflect.Slice:
		for i := range row.Len() {
			columns = append(columns, lacking(row.Index(i), name)...)
		}
	case reflect.Struct:
		for i := range row.NumField() {
			f, column := row.Field(i), name+"."+row.Type().Field(i).Name
			switch {
			case !f.IsZero():
				columns = append(columns, lacking(f, column)...)
			case f.Kind() != reflect.Bool && !slices.Contains(mayBeEmpty[row.Type()], row.Type().Field(i).Name):
				columns = append(columns, column)
			}
		}
	case reflect.String:
		if row.Len() == 0 {
			columns = append(columns, name)
		}
	}
	return columns
}

// needCases reports the systems that need a case in a table of tests and have none.
func needCases(t *testing.T, tried map[string]bool, needs func(s *System) bool) {
	t.Helper()
	for _, s := range Systems {
		if needs(s) && !tried[s.Name] {
			t.Errorf("%s has no case here", s.Name)
		}
	}
}

// listsHosts reports whether a system tells its jobs their hosts.
func listsHosts(s *System) bool { return s != &alps }

func hasStarter(s *System) bool { return s.Starter != nil }

// The readers of all systems are fuzzed.
func TestEveryReaderIsFuzzed(t *testing.T) {
	source, err := os.ReadFile("fuzz_test.go")
	if err != nil {
		t.Fatal(err)
	}
	tried := make(map[string]bool)
	for _, m := range regexp.MustCompile(`check\(t, "(\w+)"`).FindAllStringSubmatch(string(source), -1) {
		tried[m[1]] = true
	}
	needCases(t, tried, listsHosts)
}

// Each row has all columns that a batch system needs.
func TestEveryRowIsComplete(t *testing.T) {
	names := map[string]bool{"file": true, "auto": true, "none": true, "user": true}
	words := map[string]bool{"auto": true, "ssh": true, "rsh": true, "fork": true, "exec": true}
	for _, s := range Systems {
		for _, column := range lacking(reflect.ValueOf(s), s.Name) {
			t.Errorf("%s is empty", column)
		}
		if names[s.Name] {
			t.Errorf("%s: another system, or a word of -rmk, has that name", s.Name)
		}
		names[s.Name] = true
		for _, word := range append(s.LauncherWords(), s.NoInput...) {
			if words[word] {
				t.Errorf("%s: -launcher %s has two meanings", s.Name, word)
			}
			words[word] = true
			if ByLauncher(word) != s && !slices.Contains(s.NoInput, word) {
				t.Errorf("-launcher %s is not %s", word, s.Name)
			}
		}
		switch launched := s.LauncherWords() != nil; {
		case s.Starter == nil && s.Attach != nil:
			t.Errorf("%s: no word of -launcher makes ssh's shells attach themselves", s.Name)
		case launched != (s.Within != ""):
			t.Errorf("%s: words of -launcher are %q, and the hint for who is in no job is %q", s.Name, s.LauncherWords(), s.Within)
		case !launched && (s.Untried || s.Signals || s.OpenMPI != ""):
			t.Errorf("%s says how it starts helpers, and does not start any", s.Name)
		}
		if s.Inside(world("")) {
			t.Errorf("%s takes an empty environment for that of its job", s.Name)
		}
	}
	if Named("none") != nil || Named("") != nil || ByLauncher("ssh") != nil || ByLauncher("") != nil || ByLauncher("srun") != Named("slurm") {
		t.Error("a name means another system than its own")
	}
}

// lacking finds empty columns, also those of a starter.
func TestAnIncompleteRowIsSeen(t *testing.T) {
	row := System{Name: "x", Title: "X", Starter: &Starter{Program: "x", ErrorPatterns: []ErrorPattern{{Pattern: "no"}}}, Holder: Holder{Processes: []string{""}}}
	got := lacking(reflect.ValueOf(row), "x")
	for _, column := range []string{"x.Variable", "x.Inside", "x.Job", "x.Hosts", "x.Starter.Argv", "x.Starter.ErrorLine", "x.Starter.EndGrace", "x.Starter.ErrorPatterns.Remedy", "x.Holder.Processes", "x.Holder.Variables"} {
		if !slices.Contains(got, column) {
			t.Errorf("%s is not missed, only %q", column, got)
		}
	}
}

// Which process above a helper means that a batch system holds its ranks.
func TestHolder(t *testing.T) {
	for _, test := range []struct {
		system, process string
		want            bool
	}{
		{"slurm", "slurmstepd", true},
		{"slurm", "", false},
		{"slurm", "sge_shepherd", false},
		{"slurm", "slurmstepdx", false},
		{"sge", "sge_shepherd-71", true},
		{"lsf", "resolver", false},
		{"flux", "flux-broker-3", true},
		{"cobalt", "slurmstepd", false},
	} {
		if got := Named(test.system).Holder.Has(test.process); got != test.want {
			t.Errorf("%s below %q: %v", test.system, test.process, got)
		}
	}
	for name, want := range map[string]bool{"slurmstepd": true, "sge_shepherd-7": true, "sshd": false, "": false, "res": true, "reserve": false} {
		if Holds(name) != want {
			t.Errorf("Holds(%q) is %t", name, !want)
		}
	}
}
