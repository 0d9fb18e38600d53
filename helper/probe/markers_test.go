//go:build linux

package probe

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Marker files of a killed helper are removed an hour later by the next Create, and nothing else is.
func TestMarkersOfKilledHelper(t *testing.T) {
	tag := "old" + rand.Text()
	old := time.Now().Add(-2 * markerMaxAge)
	lay := func(name, text string, at time.Time) string {
		name = filepath.Join(markerDir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Skip(err) // no directory of shared memory on this machine
		}
		t.Cleanup(func() { os.Remove(name) })
		if err := os.Chtimes(name, at, at); err != nil {
			t.Fatal(err)
		}
		return name
	}
	gone := lay("remshell-"+tag+"-killed", "", old)
	stay := []string{
		lay("remshell-"+tag+"-lives", "", time.Now()),
		lay("remshell-"+tag+"-full", "text", old),
		lay("remshell-"+tag+"-of.another.kind", "", old),
		lay("remshell-"+tag+"-one-more", "", old),
	}
	if os.Getuid() == 0 {
		foreign := lay("remshell-"+tag+"-foreign", "", old)
		if err := os.Chown(foreign, 12345, -1); err != nil {
			t.Fatal(err)
		}
		stay = append(stay, foreign)
	}
	var m MarkerFiles
	if why := m.Create("new"+rand.Text(), "word"); why != "" {
		t.Fatal(why)
	}
	defer m.Remove()
	if _, err := os.Lstat(gone); err == nil {
		t.Error("the word of a killed helper still lies there")
	}
	for _, name := range append(stay, m...) {
		if _, err := os.Lstat(name); err != nil {
			t.Error(err)
		}
	}
}

// A user who fills the directory of shared memory cannot make the search last longer than its limit.
func TestFindMarkersAmongManyFiles(t *testing.T) {
	tag := "many" + rand.Text()
	var m MarkerFiles
	for _, word := range []string{"one", "two", "three"} {
		if why := m.Create(tag, word); why != "" {
			t.Fatal(why)
		}
	}
	defer m.Remove()
	if found := FindMarkers(tag, 10); len(found) != 3 {
		t.Errorf("found are %q", found)
	}
	if found := FindMarkers(tag, 2); len(found) != 2 {
		t.Errorf("found are %q, of at most 2", found)
	}
	eachMarker(time.Now().Add(-time.Second), func(tag, word string) bool {
		t.Errorf("%s-%s is read behind the deadline", tag, word)
		return false
	})
}
