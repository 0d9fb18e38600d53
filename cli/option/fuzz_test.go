package option

import (
	"slices"
	"strings"
	"testing"
)

// FuzzScan checks that the scanner never loses a word of a program, never reads beyond the line, and parses its own
// canonical form with the same result. Words are separated by newlines.
func FuzzScan(f *testing.F) {
	for _, seed := range []string{
		"-n\n2\n./a", "-n\n1\na\n:\n-n\n2\nb", "-separator\n/\na\n:\n/\nb", "-genv\nA\n1\n-x\nB\na", "-genv=A\n1\na",
		"-mca\nbtl\ntcp\na", "-foo\n3\na", "-K\n0\na", "--\n-a\n:", "-host\nn[1-2]:2\n-H\n^n1\na", "-help\n-n", "-n\n--help",
		"---n\n2", "-\na", "-vv\n-q\na", "-timeout\n01:30:00\n\n", "-launcher-args\n'-v \"a b\"'\na", "-env\nA\n", "-separator=", "-N\n=",
	} {
		f.Add(seed)
	}
	t0 := Mpiexec(linuxSignals)
	f.Fuzz(func(t *testing.T, text string) {
		args := strings.Split(text, "\n")
		apps, err := splitApps(args)
		if err != nil {
			return
		}
		total := len(apps) - 1
		for _, w := range apps {
			total += len(w.args)
			checkScan(t, t0, w)
		}
		if total > len(args) || total < len(args)-2 {
			t.Fatalf("%q: %d words became %d", args, len(args), total)
		}
	})
}

func checkScan(t *testing.T, table *Table, w appWords) {
	s := table.scan(w)
	if n := len(s.program); !slices.Equal(s.program, w.args[len(w.args)-n:]) {
		t.Fatalf("%q: the program is %q", w.args, s.program)
	}
	if s.unparsable && len(s.errs) == 0 {
		t.Fatalf("%q: lost without an error", w.args)
	}
	for _, g := range s.given {
		if i := g.Position - w.position; i < 0 || i >= len(w.args) || !strings.HasPrefix(w.args[i], g.Spelled) {
			t.Fatalf("%q: %v is reported as word %d", w.args, g, g.Position)
		}
	}
	if len(s.errs) > 0 || s.help != nil || s.version {
		return
	}
	again := table.scan(appWords{number: w.number, position: w.position, args: canonicalWords(s)})
	if len(again.errs) > 0 || !slices.Equal(again.program, s.program) || len(again.given) != len(s.given) {
		t.Fatalf("%q: canonical %q is read as %v %q %v", w.args, canonicalWords(s), again.given, again.program, again.errs)
	}
	for i, g := range again.given {
		if g.Option != s.given[i].Option || g.Value != s.given[i].Value {
			t.Fatalf("%q: %v became %v", w.args, s.given[i], g)
		}
	}
}

// canonicalWords returns an app context with the canonical spelling of each option.
func canonicalWords(s scannedApp) []string {
	var args []string
	for _, g := range s.given {
		switch {
		case g.preset:
			args = append(args, g.Spelled)
		case g.valueForm == "none":
			args = append(args, "--"+g.Name)
		default:
			args = append(args, "--"+g.Name+"="+g.Value)
		}
	}
	return append(append(args, "--"), s.program...)
}
