package option

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"remshell/usererr"
)

// Every option of the table has all tags that the parser, help and the manual need.
func TestOptionTable(t *testing.T) {
	table := Mpiexec(linuxSignals)
	spellings := make(map[string]*Option)
	for name := range table.texts() {
		if m, found := table.findSpelling(name); !found || m.Option.Dashed != name {
			t.Errorf("texts/options.txt tells of %s, which is no option so written", name)
		}
	}
	known := []string{"name", "also", "arg", "takes", "implied", "words", "least", "zero", "repeat", "topic", "under", "env", "mca", "read", "rival", "needs", "excludes", "asks", "onedash", "resume", "writes", "after", "default", "help", "hint", "command", "commandhelp", "commandtakes", "likecommands"}
	for _, o := range table.options {
		for key, value := range tagPairs(o.field.Tag) {
			if !slices.Contains(known, key) || value != o.field.Tag.Get(key) || strings.Contains(value, `\`) {
				t.Errorf("%s: tag %s:%q", o.Dashed, key, value)
			}
		}
		checkPlace(t, o)
		if o.Help() == "" || strings.HasSuffix(o.Help(), ".") {
			t.Errorf("%s: help is %q", o.Dashed, o.Help())
		}
		if o.Topic() != "" && !slices.Contains(table.topics, o.Topic()) {
			t.Errorf("%s: no such topic as %q", o.Dashed, o.Topic())
		}
		for _, s := range append([]Spelling{{Dashed: o.Dashed}}, o.OtherSpellings...) {
			name := normalize(s.Dashed)
			if other, taken := spellings[name]; taken {
				t.Errorf("%s and %s are both written %s", o.Dashed, other.Dashed, s.Dashed)
			}
			spellings[name] = o
			if _, no := table.refusalOf(s.Dashed); no {
				t.Errorf("%s is an option and refused", s.Dashed)
			}
			if _, err := table.decode(o, s.Value); s.Preset && err != nil {
				t.Errorf("%s: %v", s.Dashed, err)
			}
		}
		if _, err := table.decode(o, o.impliedValue); o.impliedValue != "" && err != nil {
			t.Errorf("%s: implied value: %v", o.Dashed, err)
		}
	}
}

// checkPlace checks that an option of a feature names one behind which it stands even if all other features are removed, and
// that no other option does.
func checkPlace(t *testing.T, o *Option) {
	after := strings.Fields(o.field.Tag.Get("after"))
	ofCore := func(o *Option) bool { return o.declaredIn.PkgPath() == reflect.TypeFor[JobOptions]().PkgPath() }
	if len(after) == 0 || ofCore(o) {
		if len(after) > 0 || !ofCore(o) {
			t.Errorf("%s is of %v and stands behind %q", o.Dashed, o.declaredIn, after)
		}
		return
	}
	for i, name := range after {
		before, known := o.table.names[name]
		if last := i == len(after)-1; known && before.Name != name || last && !(known && (ofCore(before.Option) || before.declaredIn == o.declaredIn)) {
			t.Errorf("%s: it cannot stand behind %q", o.Dashed, name)
		}
	}
}

// The variable that help names for an option sets that option and no other.
func TestOptionVariables(t *testing.T) {
	table := Mpiexec(linuxSignals)
	seen := make(map[string]string)
	for _, o := range table.options {
		for _, name := range o.variables() {
			if other, taken := seen[name]; taken {
				t.Errorf("%s gives %s and %s", name, other, o.Dashed)
			}
			seen[name] = o.Dashed
		}
		own := ownVariable(o)
		if o.foreignVariables == "-" || own == "" || slices.Contains(o.readVariables, own) {
			continue
		}
		b := table.readDefaults([]scannedApp{{}}, Sources{Environ: []string{own + "=\x01"}})
		g, given := originOf(b.given, o.Name)
		if !given && len(b.errs) == 0 || given && g.source != own || len(b.warnings) > 0 {
			t.Errorf("%s for %s: %v, %v, %v", own, o.Dashed, b.given, b.errs, b.warnings)
		}
	}
}

// No refused option is listed twice, and the advice names only existing options.
func TestRefusals(t *testing.T) {
	table := Mpiexec(linuxSignals)
	seen := make(map[string]bool)
	var answers []string
	for _, r := range foreignOptions {
		answers = append(answers, table.adviceOf(r))
		if r.grade != gradeError && r.valueWords < 0 {
			t.Errorf("-%s can be left out, and nobody knows where the program begins then", r.names)
		}
		for name := range strings.SplitSeq(r.names, ",") {
			if seen[name] || name != normalize(name) {
				t.Errorf("-%s stands twice in the table, or is not normalized", name)
			}
			if m, ours := table.findName(name); ours && m.oneDashAdvice == "" {
				t.Errorf("-%s is refused, and ours: %v", name, ours)
			}
			seen[name] = true
		}
	}
	for _, answer := range answers {
		for word := range strings.FieldsSeq(answer) {
			word = strings.Trim(word, ".,;:()'")
			if _, ok := table.findSpelling(word); strings.HasPrefix(word, "-") && !ok {
				t.Errorf("%q names %s, which there is not", answer, word)
			}
		}
	}
}

// DIAG-10: the help fits on a screen and lists every option once.
func TestUsage(t *testing.T) {
	text := Mpiexec(linuxSignals).Usage()
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) > 56 {
		t.Errorf("%d lines", len(lines))
	}
	for _, line := range lines {
		if len(line) > 80 {
			t.Errorf("%d columns: %s", len(line), line)
		}
		if len(line) > helpColumn && strings.HasPrefix(line, "  -") && line[helpColumn-2:helpColumn] != "  " && line[helpColumn-1] != ' ' {
			t.Errorf("no blank before the explanation: %s", line)
		}
	}
	for _, o := range Mpiexec(linuxSignals).options {
		rest := strings.SplitAfterN(text, "\n  "+o.Dashed, 2)[1:]
		if got := len(rest) > 0 && !strings.HasPrefix(rest[0], "-"); got != (o.Topic() != "") {
			t.Errorf("%s in the help: %v; its topic is %q", o.Dashed, got, o.Topic())
		}
	}
}

func TestExplain(t *testing.T) {
	for _, name := range []string{"-host", "--host", "hosts", "-H", "HOST"} {
		text, err := Mpiexec(linuxSignals).Explain(name)
		if err != nil || !strings.HasPrefix(text, "-host LIST   hosts to use: ") || !strings.Contains(text, "Also written: -hosts -H --nodelist -hosts-group\n") {
			t.Errorf("Explain(%q) = %q, %v", name, text, err)
		}
	}
	text, err := Mpiexec(linuxSignals).Explain("--nooversubscribe")
	if err != nil || !strings.Contains(text, "--nooversubscribe means MPIEXEC_OVERBOOK=no") {
		t.Errorf("got %q, %v", text, err)
	}
	for _, o := range Mpiexec(linuxSignals).options {
		text, err := Mpiexec(linuxSignals).Explain(o.Dashed)
		if err != nil || !strings.HasPrefix(text, o.Dashed) {
			t.Errorf("Explain(%s) = %q, %v", o.Dashed, text, err)
		}
		for line := range strings.Lines(text) {
			if len(line) > 81 {
				t.Errorf("%s: %d columns: %s", o.Dashed, len(line), line)
			}
		}
	}
	for _, r := range foreignOptions {
		for name := range strings.SplitSeq(r.names, ",") {
			if _, ours := Mpiexec(linuxSignals).findName(normalize(name)); ours { // in another spelling: --trace is ours, and -trace is not
				continue
			}
			text, err := Mpiexec(linuxSignals).Explain("--" + name)
			if says := strings.ReplaceAll(text, "\n", " ") + fmt.Sprint(err); !strings.Contains(says, r.advice) {
				t.Errorf("Explain(%s) = %q, %v", name, text, err)
			}
		}
	}
	_, err = Mpiexec(linuxSignals).Explain("-hostz")
	var usage *usererr.Error
	if !errors.As(err, &usage) || !strings.Contains(err.Error(), "did you mean -host") {
		t.Errorf("got %v", err)
	}
}

// -help WORD, such as torch, searches the help.
func TestHelpSearches(t *testing.T) {
	table := Mpiexec(linuxSignals)
	for word, option := range map[string]string{"torch": "--env-compat", "MASTER_ADDR": "--env-compat", "gpu": "-gpus-per-proc", "orte_default_hostfile": "-hostfile", "WCOLL": "-hostfile"} {
		text, err := table.HelpOn(word)
		if err != nil || !strings.Contains(text, "  "+option) || strings.Count(text, "\n") > 12 {
			t.Errorf("-help %s: %v\n%s", word, err, text)
		}
	}
	if text, err := table.HelpOn("mpijob"); err != nil || !strings.Contains(text, "  --ps ") { // it is no option, and yet what a user looks for
		t.Errorf("-help mpijob: %v\n%s", err, text)
	}
	_, err := table.HelpOn("envrionment")
	if want := "no option has \"envrionment\" in its help"; err == nil || err.Error() != want || !strings.Contains(usererr.Hint(err), "-help environment") {
		t.Errorf("%v; %s", err, usererr.Hint(err))
	}
	if _, err := table.HelpOn("qqqqqqqqq"); usererr.Hint(err) != "mpiexec -help all lists the options" {
		t.Errorf("%v; %s", err, usererr.Hint(err))
	}
}

// DIAG-11: scripts tell launchers apart by words in the first line.
func TestVersionText(t *testing.T) {
	text := VersionText("1.2", []string{"1.1", "2.0"})
	first, rest, _ := strings.Cut(text, "\n")
	if first != "mpiexec (Remshell) 1.2" || rest != "Supported PMI versions: 1.1, 2.0\nCopyright the Remshell authors. License: Apache-2.0\n" {
		t.Errorf("got %q", text)
	}
	for _, word := range []string{"HYDRA", "Open MPI", "Intel"} {
		if strings.Contains(strings.ToLower(first), strings.ToLower(word)) {
			t.Errorf("%q has %q in it", first, word)
		}
	}
}

func TestShellSplit(t *testing.T) {
	for text, want := range map[string][]string{
		"":                   nil,
		"  a  b\tc\n":        {"a", "b", "c"},
		`'a b' "c d" e\ f`:   {"a b", "c d", "e f"},
		`"a\"b\\c\d"`:        {`a"b\c\d`},
		`'a\'`:               {`a\`},
		`a'b'"c"d`:           {"abcd"},
		`'' ""`:              {"", ""},
		`-o 'Proxy=x %h' \'`: {"-o", "Proxy=x %h", "'"},
		`a\`:                 {`a\`},
	} {
		got, err := shellSplit(text)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("shellSplit(%q) = %q, %v; want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"'", `a "b`, `"\"`} {
		if got, err := shellSplit(text); err == nil {
			t.Errorf("shellSplit(%q) = %q without an error", text, got)
		}
	}
}

// A Line records where each value comes from, for later messages.
func TestOrigin(t *testing.T) {
	line, err := Mpiexec(linuxSignals).Parse(strings.Fields("-timeout 5 -hosts a,b -np 2 x : -n 1 -ppn=1 y"), Sources{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		origin        func(string) (GivenOption, bool)
		name, want    string
		section, word int
	}{
		{line.Origin, "timeout", "-timeout 5", 1, 1},
		{line.Apps[0].Origin, "n", "-np 2", 1, 5},
		{line.Apps[1].Origin, "n", "-n 1", 2, 9},
		{line.Apps[1].Origin, "host", "-hosts a,b", 1, 3},
		{line.Apps[1].Origin, "ppn", "-ppn 1", 2, 11},
	} {
		if g, ok := c.origin(c.name); !ok || g.String() != c.want || g.AppNumber != c.section || g.Position != c.word {
			t.Errorf("%s: %v in app context %d, word %d; want %v", c.name, g, g.AppNumber, g.Position, c)
		}
	}
	if g, ok := line.Apps[0].Origin("ppn"); ok {
		t.Errorf("app context 1 has %v", g)
	}
}
