package main

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// repository returns a repository with one Go file, one document and the page of help.
func repository(goFile, document string) fstest.MapFS {
	return fstest.MapFS{
		"a/a.go":                       {Data: []byte("package a\n\n" + goFile)},
		"a/a_test.go":                  {Data: []byte("package a\n\n// Test is not drawn.\nfunc Test() { f(\"a text of a test\") }\n")},
		"a/atest/a.go":                 {Data: []byte("package atest\n\n// Helper is not drawn.\nfunc Helper() {}\n")},
		"tools/b/b.go":                 {Data: []byte("package b\n\n// B is a tool.\nfunc B() { say(\"a text of a tool\") }\n")},
		"doc/a.md":                     {Data: []byte(document)},
		"doc/options.md":               {Data: []byte("One. Two. Three.\n")},
		"CHANGELOG.md":                 {Data: []byte("One. Two. Three.\n")},
		"cli/option/texts/options.txt": {Data: []byte("# Help.\n\n--one\n  Explains one.\n\n--two\n  Explains\n  two.\n")},
	}
}

// textsOf returns the texts of samples, or fails the test.
func textsOf(t *testing.T) func([]sample, error) []string {
	return func(found []sample, err error) (texts []string) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range found {
			texts = append(texts, s.text)
		}
		return texts
	}
}

func TestCommentsHaveTheirDeclaration(t *testing.T) {
	got := textsOf(t)(collectComments(repository(`
// F does it.
// It may fail.
func F() error {
	return nil
}

// The counts.
const (
	// one is first.
	one = 1
	two = 2
)
`, "")))
	want := []string{"// F does it.\n// It may fail.\nfunc F() error {", "// The counts.\nconst (", "// one is first.\none = 1", "// B is a tool.\nfunc B() { say(\"a text of a tool\") }"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestMessagesAreWhole(t *testing.T) {
	got := textsOf(t)(collectMessages(repository(`
type o struct {
	n int `+"`name:\"-n\" arg:\"N\" help:\"number of ranks\"`"+`
}

type p struct {
	one bool `+"`name:\"--one\" help:\"is one\"`"+`
}

var foreignPatterns = []string{"text of another program"}

const macLabel = "input of a MAC"

var rules = []rule{{pattern: "text of another program", kind: k, step: "connect", why: "no answer in time"}}

var texts = "\n--three\n  Explains three.\n"

func f(host string) error {
	if strings.Contains(host, "text of another program") || host == "one or the other" {
		panic("a text for nobody")
	}
	if host == "" {
		return fmt.Errorf("cannot reach %s after %d tries: %w", host, 3, err)
	}
	say("cmd=three words for programs")
	say("app context " + strconv.Itoa(i+1) + " of " + text.Count(c.Apps, "app context") + " needs " + quoted(hostNames[0]))
	say(&Error{Code: "bad-value", Source: "--sort", Token: word, Problem: "is not an order", Allowed: []string{"up", "down"}})
	say(host + ": cannot run " + fmt.Sprintf("%q in the folder", name))
	return &usererr.Error{Text: "no host given " + host, Remedy: "name hosts with -host", Code: 2}
}
`, "")))
	want := []string{
		"-n N  number of ranks",
		"--one  is one",
		"no answer in time",
		"--three\n  Explains three.",
		"cannot reach {host} after {3} tries: {err}",
		"app context {i} of {n} app contexts needs {host names}",
		`--sort: "{word}" is not an order; allowed: up, down`,
		"{host}: cannot run {name} in the folder",
		"no host given {host}\nname hosts with -host",
		"--one  is one\n  Explains one.",
		"--two\n  Explains\n  two.",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A message that always has a prefix is drawn with it, and without its code.
func TestMessagesHaveTheirPrefix(t *testing.T) {
	repo := repository("", "")
	repo["doctor/a.go"] = &fstest.MapFile{Data: []byte("package doctor\n\nvar x = newFinding(c, Warning, \"clock\", \"the clock is wrong\", \"set the clock\")\n")}
	repo["sshx/a.go"] = &fstest.MapFile{Data: []byte("package sshx\n\nvar x = newDialError(t, \"connect\", KindLost, \"the connection broke\")\n")}
	got := textsOf(t)(collectMessages(repo))
	for _, want := range []string{"{host}: the clock is wrong\nset the clock", "{host}: connect: the connection broke"} {
		if !slices.Contains(got, want) {
			t.Errorf("got\n%s\nnot %q", strings.Join(got, "\n"), want)
		}
	}
}

// A text that always follows another text is drawn with an ellipsis. Macros of troff and parts of JSON are not drawn.
func TestContinuationsHaveAnEllipsis(t *testing.T) {
	repo := repository("", "")
	repo["format/a.go"] = &fstest.MapFile{Data: []byte("package format\n\nvar x = []string{\", no other job there\", \". It may be given several times\", \".TH APRUN of Remshell version\", \", \\\"token\\\": null here it is\"}\n")}
	got := textsOf(t)(collectMessages(repo))
	for _, want := range []string{"..., no other job there", ".... It may be given several times"} {
		if !slices.Contains(got, want) {
			t.Errorf("got\n%s\nnot %q", strings.Join(got, "\n"), want)
		}
	}
	for _, text := range got {
		if strings.Contains(text, "APRUN") || strings.Contains(text, "token") {
			t.Errorf("drew %q", text)
		}
	}
}

func TestPassagesHaveThreeSentences(t *testing.T) {
	got := textsOf(t)(collectPassages(repository("", `# Title. One. Two.

One. Two.

One. Two.
Three.

| a. | b. | c. |

    one. two. three.

- One.
- Two.
- Three.

## Section

One. Two. Four.

#### A-1

#### A-2

One. Two. Six.

# Other

One. Two. Five.
`)))
	if want := []string{"[Title. One. Two.]\nOne. Two.\nThree.", "[Title. One. Two.]\n- One.\n- Two.\n- Three.", "[Title. One. Two. > Section]\nOne. Two. Four.",
		"[Title. One. Two. > Section > A-2]\nOne. Two. Six.", "[Other]\nOne. Two. Five."}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTheSeedDecides(t *testing.T) {
	var from []sample
	for _, letter := range "abcdefghijklmnopqrstuvwxyz" {
		from = append(from, sample{text: string(letter)})
	}
	first, again, other := draw(from, 1, 10), draw(from, 1, 10), draw(from, 2, 10)
	if !slices.Equal(first, again) || slices.Equal(first, other) {
		t.Errorf("seed 1 drew %v, then %v; seed 2 drew %v", first, again, other)
	}
	slices.SortFunc(first, func(a, b sample) int { return strings.Compare(a.text, b.text) })
	if once := slices.Compact(slices.Clone(first)); len(once) != 10 || len(draw(from, 1, 100)) != len(from) {
		t.Errorf("drew %v", first)
	}
}
