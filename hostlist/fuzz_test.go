package hostlist

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// checkErrors fails if an error cannot be shown: its caret is outside its line, or it contains a control
// character.
func checkErrors(t *testing.T, err error) {
	var list Errors
	if !errors.As(err, &list) {
		return
	}
	for _, err := range list {
		var at *SyntaxError
		if !errors.As(err, &at) {
			continue
		}
		if length := utf8.RuneCountInString(at.Source); at.Col < 1 || at.Col > length+1 || at.Width < 1 {
			t.Fatalf("column %d, width %d in %q", at.Col, at.Width, at.Source)
		}
		if at.Reason == "" || strings.ContainsFunc(at.Error(), func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' }) {
			t.Fatalf("unfit for a terminal: %q", at.Error())
		}
	}
	if len(list) > maxErrors+1 {
		t.Fatalf("%d errors", len(list))
	}
}

// checkEntries fails if a host could mean something in a remote shell, or if folding and expanding changes
// the names.
func checkEntries(t *testing.T, entries []Entry) {
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Host
		for _, word := range []string{e.Host, e.Label(), e.Address} {
			if strings.HasPrefix(word, "-") || strings.ContainsAny(word, " \t\n\"'\\`$;&|<>()*?!") {
				t.Fatalf("host %q", word)
			}
		}
		if e.Host == "" || e.Slots < 0 || e.Port < 0 || e.Col < 1 {
			t.Fatalf("entry %+v", e)
		}
	}
	// A list of names may not be one entry of too many.
	if len(names) > 1000 {
		return
	}
	back, err := Expand(FoldList(names))
	if len(names) > 0 && (err != nil || !slices.Equal(back, names)) {
		t.Fatalf("%q folds to %q and back to %q %v", names, FoldList(names), back, err)
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"n[01-03,7]:2,alice@gpu[1-2],^n02", "[fe80::1]:4,::1,fe80::1%eth0", "a:1:bob:fe80::2", "n[1-10/3]x[a,b]",
		"a,,b", "n[3-1]", "u@", "+n0", "a b", "a#b", "[[", "n[99999999999999999999-9]", "é[1-2]",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, expr string) {
		entries, err := Parse("-host", expr)
		checkErrors(t, err)
		checkEntries(t, entries)
		if err == nil && len(entries) == 0 {
			t.Fatal("neither hosts nor an error")
		}
		joined, err := Join(entries)
		checkErrors(t, err)
		if err == nil && len(joined) > len(entries) {
			t.Fatalf("%d entries, %d hosts", len(entries), len(joined))
		}
	})
}

func FuzzReadFile(f *testing.F) {
	for _, seed := range []string{
		"donner:2 binding=core user=foo   # first two\n", "alice@node1 slots=4 max_slots=8 port=2222\r\n",
		"node1 4 all.q@node1 UNDEFINED\n", "node[1-3] node7 login1\n^node2\n", "!include other.hosts\n",
		"!include F\n", "a slots = 4 type=\"x y\" env=A:1\n", "\ufeffa\n", "a user= port=2\n", "!x\n", "a,b c\n", "= =\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		entries, err := readText(text)
		checkErrors(t, err)
		checkEntries(t, entries)
		if err == nil && !hasHost(entries) {
			t.Fatal("neither hosts nor an error")
		}
		_, err = Join(entries)
		checkErrors(t, err)
	})
}
