package hostlist

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

// vectors reads a table of testdata/hostlist. Fields are separated by bars; lines with "#" are comments.
func vectors(t *testing.T, name string, fields int) [][]string {
	t.Helper()
	var rows [][]string
	for _, line := range strings.Split(strings.TrimSpace(load(t, name)), "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		row := strings.SplitN(line, "|", fields)
		if len(row) != fields {
			t.Fatalf("%s: %q has %d fields, not %d", name, line, len(row), fields)
		}
		for i := range row {
			row[i] = strings.TrimSpace(row[i])
		}
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		t.Fatalf("%s has no rows", name)
	}
	return rows
}

type fileCase struct{ title, file, want string }

// readFileCases reads a file of titles, host files and expected results.
func readFileCases(t *testing.T, name string) []fileCase {
	t.Helper()
	var all []fileCase
	for _, part := range strings.Split(load(t, name), "\n--- ")[1:] {
		title, rest, _ := strings.Cut(part, "\n")
		file, want, ok := strings.Cut(rest, "\n=>\n")
		if !ok {
			t.Fatalf("%s: %q has no =>", name, title)
		}
		all = append(all, fileCase{title, file + "\n", strings.TrimSuffix(want, "\n")})
	}
	return all
}

func load(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "testdata", "hostlist", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// openMap returns an open function for files in memory.
func openMap(files map[string]string) func(string) (io.ReadCloser, error) {
	fsys := fstest.MapFS{}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return func(name string) (io.ReadCloser, error) { return fsys.Open(name) }
}

func readText(text string) ([]Entry, error) {
	return ReadFile("F", openMap(map[string]string{
		"F":           text,
		"other.hosts": "other1\r\nother2:4\r\n",
		"loop.hosts":  "!include F\n",
	}), nil)
}

// entryText formats an entry as the test vectors do.
func entryText(e Entry) string {
	var b strings.Builder
	if e.Exclude {
		b.WriteString("^")
	}
	b.WriteString(e.Host)
	for _, n := range []struct {
		name  string
		value int
	}{{"slots", e.Slots}, {"max_slots", e.MaxSlots}} {
		if n.value != 0 {
			fmt.Fprintf(&b, " %s=%d", n.name, n.value)
		}
	}
	attrs := map[string]string{"alias": e.Alias, "addr": e.Address}
	maps.Copy(attrs, e.Attrs)
	if e.User != "" {
		b.WriteString(" user=" + e.User)
	}
	if e.Port != 0 {
		fmt.Fprintf(&b, " port=%d", e.Port)
	}
	for _, name := range slices.Sorted(maps.Keys(attrs)) {
		switch value := attrs[name]; {
		case strings.Contains(value, " "):
			fmt.Fprintf(&b, " %s=%q", name, value)
		case value != "":
			b.WriteString(" " + name + "=" + value)
		}
	}
	for _, v := range e.Env {
		fmt.Fprintf(&b, " env=%q", v)
	}
	return b.String()
}

func entriesText(entries []Entry, sep string) string {
	lines := make([]string, len(entries))
	for i, e := range entries {
		lines[i] = entryText(e)
	}
	return strings.Join(lines, sep)
}

func TestStyles(t *testing.T) {
	for _, s := range readFileCases(t, "styles.txt") {
		entries, err := readText(s.file)
		got := entriesText(entries, "\n")
		if err != nil {
			got = err.Error()
		}
		if got != s.want {
			t.Errorf("%s:\n%s\ngot:\n%s\nwant:\n%s", s.title, s.file, got, s.want)
		}
		for _, variant := range []string{
			"\ufeff" + s.file,
			strings.ReplaceAll(s.file, "\n", "\r\n"),
			strings.ReplaceAll(s.file, "\n", " \t\n\t "),
			strings.TrimSuffix(s.file, "\n"),
		} {
			entries, err := readText(variant)
			if got := entriesText(entries, "\n"); err != nil || got != s.want {
				t.Errorf("%s, as %q:\ngot:\n%s %v\nwant:\n%s", s.title, variant, got, err, s.want)
			}
		}
	}
}

func TestBrokenFiles(t *testing.T) {
	for _, s := range readFileCases(t, "broken.txt") {
		entries, err := readText(s.file)
		if err == nil {
			_, err = Join(entries)
		}
		if err == nil {
			t.Errorf("%s: no error", s.title)
			continue
		}
		if got := err.Error(); got != s.want {
			t.Errorf("%s:\n%s\ngot:\n%s\nwant:\n%s", s.title, s.file, got, s.want)
		}
	}
}

// firstLine returns an error in the form of the one-line tables.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return "error: " + line
}

func TestExpand(t *testing.T) {
	for _, row := range vectors(t, "expand.txt", 2) {
		names, err := Expand(row[0])
		got := strings.Join(names, " ")
		if err != nil {
			got = firstLine(err)
		}
		if got != row[1] {
			t.Errorf("Expand(%q):\ngot  %s\nwant %s", row[0], got, row[1])
		}
	}
}

// A message about many hosts is short: twelve entries, and how many more there are.
func TestBrief(t *testing.T) {
	var odd, even []string
	for i := range 100 {
		odd, even = append(odd, fmt.Sprintf("n%d", 2*i+1)), append(even, fmt.Sprintf("n%d", i))
	}
	for _, test := range []struct {
		names []string
		want  string
	}{
		{even, "n[0-99]"},
		{odd[:12], "n[1,3,5,7,9,11,13,15,17,19,21,23]"},
		{odd[:13], "n[1,3,5,7,9,11,13,15,17,19,21,23] and 1 more"},
		{odd, "n[1,3,5,7,9,11,13,15,17,19,21,23] and 88 more"},
		{append(odd[:20:20], even...), "n[0-99]"},
		{[]string{"b", "a", "b"}, "a,b"},
		{nil, ""},
	} {
		if got := FoldBrief(test.names); got != test.want {
			t.Errorf("%d names: %s, want %s", len(test.names), got, test.want)
		}
	}
}

func TestFold(t *testing.T) {
	for _, row := range vectors(t, "fold.txt", 2) {
		if got := Fold(strings.Fields(row[0])); got != row[1] {
			t.Errorf("Fold(%q):\ngot  %s\nwant %s", row[0], got, row[1])
		}
	}
	if got := Fold(nil); got != "" {
		t.Errorf("Fold of nothing is %q", got)
	}
}

func hostSlots(entries []Entry) string {
	words := make([]string, len(entries))
	for i, e := range entries {
		words[i] = e.Host
		if e.Slots != 0 {
			words[i] += fmt.Sprintf(":%d", e.Slots)
		}
	}
	return strings.Join(words, " ")
}

func TestJoin(t *testing.T) {
	for _, row := range vectors(t, "join.txt", 2) {
		entries, err := Parse("-host", row[0])
		if err == nil {
			entries, err = Join(entries)
		}
		got := hostSlots(entries)
		if err != nil {
			got = firstLine(err)
		}
		if got != row[1] {
			t.Errorf("Join(%q):\ngot  %s\nwant %s", row[0], got, row[1])
		}
	}
}

func TestUnique(t *testing.T) {
	for list, want := range map[string]string{
		"a,b,a,A": "a b", "a:2,b:1,a:3": "a:2 b:1", "a,a:2": "a", "^b,a,b,b": "a", "a": "a",
	} {
		entries, err := Parse("-host", list)
		if err == nil {
			entries, err = Join(Unique(entries))
		}
		if got := hostSlots(entries); err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", list, got, err, want)
		}
	}
}

func TestFilter(t *testing.T) {
	for _, row := range vectors(t, "filter.txt", 3) {
		hosts, err := readText(strings.ReplaceAll(row[0], " ", "\n"))
		if err == nil {
			hosts, err = Join(hosts)
		}
		list, err2 := Parse("-host", row[1])
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		left, err := Filter(hosts, list)
		got := hostSlots(left)
		if err != nil {
			got = firstLine(err)
		}
		if got != row[2] {
			t.Errorf("Filter(%q, %q):\ngot  %s\nwant %s", row[0], row[1], got, row[2])
		}
	}
}

// Two aliases make two nodes of one machine (HOST-8), and attributes in several entries of one host are
// merged.
func TestJoinAttributes(t *testing.T) {
	entries, err := readText("localhost alias=a slots=1\nlocalhost alias=b slots=1\n" +
		"n1 user=u env=A:1\nn1 port=22 env=B:2 type=x\n^a\n")
	if err != nil {
		t.Fatal(err)
	}
	hosts, err := Join(entries)
	want := `localhost slots=1 alias=b; n1 slots=2 user=u port=22 type=x env="A=1" env="B=2"`
	if got := entriesText(hosts, "; "); err != nil || got != want {
		t.Errorf("got  %s %v\nwant %s", got, err, want)
	}
}

func TestMissingFile(t *testing.T) {
	_, err := ReadFile("cluster.hosts", openMap(nil), nil)
	if want := "host file cluster.hosts: file does not exist"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	_, err = readText("\xff\xfen\x00")
	if err == nil || !strings.Contains(err.Error(), "UTF-16") {
		t.Errorf("UTF-16: got %v", err)
	}
}

// A relative include is relative to the including file.
func TestIncludeFolders(t *testing.T) {
	open := openMap(map[string]string{
		"site/all":        "!include racks/one\n!include 'racks/t wo' # both\n",
		"site/racks/one":  "a\n!include ../spare\n",
		"site/racks/t wo": "b\n",
		"site/spare":      "c\n",
	})
	entries, err := ReadFile("site/all", open, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, fmt.Sprintf("%s %s:%d:%d", e.Host, e.File, e.Line, e.Col))
	}
	want := "a site/racks/one:1:1, c site/spare:1:1, b site/racks/t wo:1:1"
	if strings.Join(got, ", ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, ", "), want)
	}
}

// Files that grow without end are refused before they take much time or memory. Otherwise this test would
// not end.
func TestBounds(t *testing.T) {
	files := map[string]string{"F": "!include 0\n"}
	for i := range 12 {
		files[fmt.Sprint(i)] = strings.Repeat(fmt.Sprintf("!include %d\n", i+1), 10)
	}
	files["12"] = "a\n"
	if _, err := ReadFile("F", openMap(files), nil); err == nil || !strings.Contains(err.Error(), "too many files are included") {
		t.Errorf("ten to the twelfth includes: %.200v", err)
	}
	list := strings.Repeat("n[1-65536],", 1000) + "a"
	if _, err := Parse("-host", list); err == nil || !strings.Contains(err.Error(), "more than 1048576 hosts") {
		t.Errorf("65 million names: %.200v", err)
	}
	name := "n[1-65536]" + strings.Repeat("x", 1<<20)
	if _, err := Parse("-host", name); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("64 GiB of names: %.200v", err)
	}
}

// The caret stands below the wrong characters of the source line, and no control character reaches the
// terminal.
func TestErrorWindow(t *testing.T) {
	_, err := readText("grün\t\tn;\n" + strings.Repeat("abcdefghi ", 50) + "x\x1b[2J\n")
	lines := strings.Split(err.Error(), "\n")
	want := []string{
		`F:1:8: ";" cannot be part of a host name`,
		"  1 | grün\t\tn;",
		"    |     \t\t ^",
		`F:2:502: "\x1b" cannot be part of a host name`,
		"  2 | " + strings.Repeat("bcdefghi a", 5) + "bcdefghi x\ufffd[2J",
		"    | " + strings.Repeat(" ", 60) + "^",
	}
	if !slices.Equal(lines, want) {
		t.Errorf("got:\n%q\nwant:\n%q", lines, want)
	}
}

// File names are quoted if a terminal cannot print them (found by FuzzReadFile).
func TestUnprintableNames(t *testing.T) {
	open := openMap(map[string]string{"F": "!include \r0\n!include \"\x1b[2J\"\n", "\x1b[2J": "a:x\n!include F\n"})
	_, err := ReadFile("F", open, nil)
	want := []string{`F:1:10: cannot include "\r0": file does not exist`, `"\x1b[2J":1:3: slot count "x" is not a number`,
		`"\x1b[2J":2:10: the files include one another: "F -> \x1b[2J -> F"`}
	var got []string
	for line := range strings.SplitSeq(err.Error(), "\n") {
		if !strings.HasPrefix(line, " ") {
			got = append(got, line)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// Errors unwrap to SyntaxErrors, for errors.As.
func TestErrorTypes(t *testing.T) {
	_, err := readText("a:x\nb:y\n")
	var list Errors
	var first *SyntaxError
	if !errors.As(err, &list) || len(list) != 2 || !errors.As(err, &first) || first.Line != 1 || first.Col != 3 {
		t.Errorf("got %#v", err)
	}
	var path *fs.PathError
	if errors.As(err, &path) {
		t.Error("a syntax error is no PathError")
	}
}

func TestIsName(t *testing.T) {
	for word, want := range map[string]bool{
		"n1": true, "n_1.example.org": true, "10.0.0.1": true, "::1": true, "fe80::1%eth0": true, "grün": true,
		"": false, "-oProxyCommand=x": false, "-n": false, "n1:2": false, "alice@n1": false, "n[1-2]": false, "a;b": false, "a b": false,
		"$(x)": false, "fe80::1%$x": false, "[::1]": false, "a,b": false, "a/b": false, "a\n": false,
	} {
		if got := IsName(word); got != want {
			t.Errorf("IsName(%q) = %v", word, got)
		}
	}
}

// randomNames returns typical host names, and some unusual ones.
func randomNames(r *rand.Rand) []string {
	shapes := []string{"n%d", "node%02d", "r%dn%d", "10.0.%d.%d", "host", "%03d", "a-%d-b%02d", "fe80::1%d", "x%d.y", "%d%d"}
	names := make([]string, 1+r.IntN(30))
	for i := range names {
		shape := shapes[r.IntN(len(shapes))]
		args := make([]any, strings.Count(shape, "%"))
		for j := range args {
			args[j] = r.IntN([]int{3, 12, 120}[r.IntN(3)])
		}
		names[i] = fmt.Sprintf(shape, args...)
	}
	return names
}

func TestFoldRoundTrip(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 0))
	for range 5000 {
		names := randomNames(r)
		back, err := Expand(FoldList(names))
		if err != nil || !slices.Equal(back, names) {
			t.Fatalf("seed %d: FoldList(%q) = %s, back %q %v", seed, names, FoldList(names), back, err)
		}
		set, err := Expand(Fold(names))
		if err != nil || !slices.Equal(slices.Sorted(slices.Values(set)),
			slices.Compact(slices.Sorted(slices.Values(names)))) {
			t.Fatalf("seed %d: Fold(%q) = %s, back %q %v", seed, names, Fold(names), set, err)
		}
		r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		if again := Fold(names); again != Fold(set) {
			t.Fatalf("seed %d: order matters: %s and %s", seed, again, Fold(set))
		}
	}
}

func BenchmarkReadFile10000(b *testing.B) {
	var text strings.Builder
	for i := range 10000 {
		fmt.Fprintf(&text, "node%05d slots=4 user=alice\n", i)
	}
	for b.Loop() {
		if _, err := readText(text.String()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFold10000(b *testing.B) {
	names, _ := Expand("node[00000-09999]")
	for b.Loop() {
		Fold(names)
	}
}
