package text

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"slotz", "slots", 1}, {"solts", "slots", 1}, {"host", "hots", 1}, {"ppn", "np", 2}, {"abc", "xyz", 3}} {
		if got := EditDistance(c.a, c.b); got != c.want || EditDistance(c.b, c.a) != c.want {
			t.Errorf("Distance(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

func TestCount(t *testing.T) {
	for want, got := range map[string]string{
		"1 CPU": Count(1, "CPU"), "0 CPUs": Count(0, "CPU"), "1 process": Count(1, "process"), "2 processes": Count(2, "process"),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Equal items are grouped in the order of their first occurrence. Items without a name are left out.
func TestGroups(t *testing.T) {
	names := []string{"a1", "b2", "", "a3", "c4", "b5"}
	got := Groups(names, func(s string) (string, string) { return s[:min(1, len(s))], s })
	want := []Group[string]{{"a", []string{"a1", "a3"}}, {"b", []string{"b2", "b5"}}, {"c", []string{"c4"}}}
	if !slices.EqualFunc(got, want, func(g, w Group[string]) bool { return g.Common == w.Common && slices.Equal(g.Names, w.Names) }) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestColumns(t *testing.T) {
	rows := [][]string{{"rank", "", "node", "CPU"}, {"0", "", "höst", "1.5 s"}, {"10000"}, {"1", "", "", "2 s"}}
	want := "  rank   node  CPU\n  0      höst  1.5 s\n  10000\n  1            2 s\n"
	if got := Columns("  ", rows); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if got := Columns("  ", [][]string{{"", "a"}, {"", ""}}); got != "  a\n\n" {
		t.Errorf("an empty column: %q", got)
	}
	if got := Columns("", nil); got != "" {
		t.Errorf("no rows: %q", got)
	}
}

// A folded line has all words of the whole line, in order, and no line is longer than necessary.
func FuzzWrapLine(f *testing.F) {
	f.Add("mpiexec: three ranks do not fit", 20, 4)
	f.Add("  hint      start  fewer ranks ", 25, 9)
	f.Fuzz(func(t *testing.T, line string, width, indent int) {
		if !utf8.ValidString(line) || strings.ContainsAny(line, "\n\t\r\v\f\u0085\u00a0") || width > 1000 || indent < 0 || indent > 1000 || len(line) > 10_000 {
			return
		}
		lines := WrapLine(line, width, indent)
		if got, want := strings.Fields(strings.Join(lines, "\n")), strings.Fields(line); !slices.Equal(got, want) {
			t.Errorf("%q in %d: %q", line, width, lines)
		}
		for _, l := range lines {
			if words := strings.Fields(l); width >= leastWidth && utf8.RuneCountInString(strings.TrimRight(l, " ")) > width && len(words) > 1 {
				t.Errorf("%q in %d: %q could be shorter", line, width, l)
			}
		}
	})
}
