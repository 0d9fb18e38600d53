package ledger

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// ownDirs lists the user directories of the test's user.
func ownDirs(t *testing.T, d *Dir) []string {
	t.Helper()
	all, err := filepath.Glob(fmt.Sprintf("%s-%d*", d.Path(), os.Geteuid()))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// A directory that another process of the user has created, and whose mode it has not set yet, is used. A second
// directory would hide entries of the first from those who look for their own.
func TestOwnDirThatIsBeingMade(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir)
	name := fmt.Sprintf("%s-%d", d.Path(), os.Geteuid())
	if err := os.Mkdir(name, 0o700); err != nil {
		t.Fatal(err)
	}
	fd, s, err := d.openOwnDir()
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(fd)
	if all := ownDirs(t, d); len(all) != 1 || filepath.Base(name) != s.name {
		t.Errorf("opened %s, there are %q", s.name, all)
	}
	if _, err := d.openUserDir(s); err != nil {
		t.Errorf("it is not valid for others: %v", err)
	}
}

// Processes that need their user's directory at the same time all use the same one, also if its name is taken.
func TestOwnDirIsOne(t *testing.T) {
	for what, isTaken := range map[string]bool{"free": false, "taken": true} {
		for range 50 {
			dir := t.TempDir()
			if isTaken {
				if err := os.WriteFile(fmt.Sprintf("%s-%d", open(t, dir).Path(), os.Geteuid()), nil, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			var opening sync.WaitGroup
			used, begin := make([]string, 8), make(chan bool)
			for i := range used {
				d := open(t, dir)
				opening.Go(func() {
					<-begin
					fd, s, err := d.openOwnDir()
					if err != nil {
						t.Error(err)
						return
					}
					unix.Close(fd)
					used[i] = s.name
				})
			}
			close(begin)
			opening.Wait()
			for _, name := range used {
				if name != used[0] {
					t.Fatalf("%s: %q", what, used)
				}
			}
		}
	}
}
