//go:build linux

package stage

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"remshell/helper/rank"
	"remshell/job"
	"remshell/wire"
)

// A testReceiver is a receiver that gets its messages from a test.
type testReceiver struct {
	*receiver
	root  string
	sent  chan wire.Message
	ended chan *rank.Error
}

func newTestReceiver(t *testing.T, contents ...string) *testReceiver {
	t.Helper()
	p := &testReceiver{root: filepath.Join(t.TempDir(), "remshell"), sent: make(chan wire.Message, 100), ended: make(chan *rank.Error, 1)}
	m := &StageFiles{}
	for i, text := range contents {
		name := string(rune('a' + i))
		sum := sha256.Sum256([]byte(text))
		m.Files = append(m.Files, job.StagedFile{Name: name, Path: "/no/where/" + name, Size: int64(len(text)), Mode: 0o500})
		m.Sums = append(m.Sums, hex.EncodeToString(sum[:]))
	}
	p.receiver = newReceiver(m, []string{p.root}, func(m wire.Message) error { p.sent <- m; return nil },
		func(_ *folder, failed *rank.Error) { p.ended <- failed })
	t.Cleanup(p.close)
	return p
}

func (p *testReceiver) expectMissing(t *testing.T, want ...int) {
	t.Helper()
	m, ok := (<-p.sent).(*MissingFiles)
	if !ok || len(m.Files) != len(want) || len(want) > 0 && m.Files[0] != want[0] {
		t.Fatalf("%+v, want %v", m, want)
	}
}

// A chunk that is not the next one, or does not match the announced file, ends the staging with an error. Its data is
// no file that ranks or other jobs could use.
func TestChunksThatWereNotRequested(t *testing.T) {
	for what, test := range map[string]struct {
		pieces []FileChunk
		reason string
	}{
		"another file":      {[]FileChunk{{File: 1, Bytes: []byte("x")}}, "mpiexec sent 1 bytes of file 1, but the host waits for the remaining bytes of file 0"},
		"no such file":      {[]FileChunk{{File: 7, Bytes: []byte("x")}}, "but the host waits for the remaining bytes of file"},
		"negative":          {[]FileChunk{{File: -1, Bytes: []byte("x")}}, "but the host waits for the remaining bytes of file"},
		"too long":          {[]FileChunk{{Bytes: []byte("four")}, {Bytes: []byte("+")}}, "but the host waits for the remaining bytes of file"},
		"nothing":           {[]FileChunk{{}}, "mpiexec sent 0 bytes of file 0"},
		"something else":    {[]FileChunk{{Bytes: []byte("FOUR")}}, "the file changed while mpiexec sent it"},
		"packed badly":      {[]FileChunk{{Size: 4, Bytes: []byte("four")}}, "a compressed part of a file has 0 bytes instead of 4"},
		"packed too large":  {[]FileChunk{{Size: chunkSize + 1, Bytes: []byte("x")}}, "a part of a file has the impossible size of 262145 bytes"},
		"packed, and short": {[]FileChunk{{Size: -4, Bytes: []byte("x")}}, "a part of a file has the impossible size of -4 bytes"},
	} {
		p := newTestReceiver(t, "four", "other")
		p.expectMissing(t, 0, 1)
		for i := range test.pieces {
			p.takePiece(&test.pieces[i])
		}
		failed := <-p.ended
		if failed == nil || failed.Code != job.ExitInternal || !strings.Contains(failed.Reason, test.reason) {
			t.Errorf("%s: %+v, want %q", what, failed, test.reason)
		}
		if found, _ := filepath.Glob(filepath.Join(p.root, "stage", "*", "sha256-*")); len(found) > 0 && what != "too long" {
			t.Errorf("%s: %q", what, found)
		}
		p.close()
		if _, err := os.Stat(filepath.Join(p.root, "stage")); err == nil {
			t.Errorf("%s: left behind", what)
		}
	}
}

// An empty file, and one with the same contents as another, are not sent.
func TestFilesThatAreNotSent(t *testing.T) {
	p := newTestReceiver(t, "", "four", "four")
	p.expectMissing(t, 1)
	p.takePiece(&FileChunk{File: 1, Bytes: []byte("fo")})
	p.takePiece(&FileChunk{File: 1, Bytes: []byte("ur")})
	if failed := <-p.ended; failed != nil {
		t.Fatal(failed)
	}
	for name, want := range map[string]string{"a": "", "b": "four", "c": "four"} {
		file := filepath.Join(p.folder.filesDir(), name)
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		if text, _ := os.ReadFile(file); string(text) != want || info.Mode() != 0o500 {
			t.Errorf("%s: %q, mode %v", name, text, info.Mode())
		}
	}
}

// Chunks beyond the window are not kept.
func TestChunksBeyondTheWindow(t *testing.T) {
	s := &receiver{pieces: make(chan *FileChunk, maxPieces(1))}
	taken := 0
	for s.takePiece(&FileChunk{}) {
		taken++
	}
	if most := window/chunkSize + 2; taken != most {
		t.Errorf("%d pieces were taken, want %d", taken, most)
	}
}

// A folder that other users could change, or have made, is not used; the next one is.
func TestStageFoldersOfOthers(t *testing.T) {
	for what, spoil := range map[string]func(root string) error{
		"a link":               func(root string) error { return os.Symlink(t.TempDir(), root) },
		"a file":               func(root string) error { return os.WriteFile(root, nil, 0o600) },
		"written by others":    func(root string) error { os.Mkdir(root, 0o700); return os.Chmod(root, 0o777) },
		"under one that is":    func(root string) error { return os.Chmod(filepath.Dir(root), 0o777) },
		"its folder is a link": func(root string) error { os.Mkdir(root, 0o700); return os.Symlink(t.TempDir(), root+"/stage") },
		"somebody else's": func(root string) error {
			if os.Geteuid() != 0 {
				return os.Symlink("/", root)
			}
			os.Mkdir(root, 0o700)
			return os.Chown(root, 12345, 12345)
		},
	} {
		bad, good := filepath.Join(t.TempDir(), "x"), filepath.Join(t.TempDir(), "x")
		if err := spoil(bad); err != nil {
			t.Fatal(err)
		}
		f, err := makeFolder([]string{bad, good}, newFolderName(), nil)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if !strings.HasPrefix(f.dir, good) {
			t.Errorf("%s: %s", what, f.dir)
		}
		f.removeAll()
	}
}

// Folders of killed helpers are removed. Those of running helpers, and of other hosts, are not.
func TestRemoveLeftFolders(t *testing.T) {
	root := filepath.Join(t.TempDir(), "x")
	make := func(name string) *folder {
		f, err := makeFolder([]string{root}, name, []job.StagedFile{{Name: "p", Size: 1}})
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	lives, dead, strange := make(newFolderName()), make(newFolderName()), make("ffff.x")
	dead.lock.Close()
	strange.lock.Close()
	removeLeftFolders([]string{root, "/no/where"})
	for f, want := range map[*folder]bool{lives: true, dead: false, strange: true} {
		if _, err := os.Stat(f.dir); (err == nil) != want {
			t.Errorf("%s: %v", f.dir, err)
		}
	}
	lives.removeAll()
}

// Another user can make folders with our names, and links in them. These are neither read nor removed.
func TestRemoveLeftFoldersOfOthers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives files away")
	}
	const stranger = 12345
	victim := t.TempDir()
	for what, spoil := range map[string]func(root string) error{
		"the folder is of another user": func(root string) error { return os.Chown(root, stranger, stranger) },
		"others may write to it":        func(root string) error { return os.Chmod(root, 0o777) },
		"what is in it is of another":   func(root string) error { return os.Chown(root+"/stage", stranger, stranger) },
		"the folder is a link": func(root string) error {
			return errors.Join(os.Rename(root, root+".real"), os.Symlink(root+".real", root))
		},
		"a link is in it": func(root string) error {
			return errors.Join(os.Rename(root+"/stage", victim+"/stage"), os.Symlink(victim+"/stage", root+"/stage"))
		},
	} {
		root := filepath.Join(t.TempDir(), "x")
		f, err := makeFolder([]string{root}, newFolderName(), []job.StagedFile{{Name: "p", Size: 1}})
		if err != nil {
			t.Fatal(err)
		}
		f.lock.Close() // as the kernel does
		if err := spoil(root); err != nil {
			t.Fatal(err)
		}
		removeLeftFolders([]string{root})
		if _, err := os.Stat(filepath.Join(f.filesDir(), "p")); err != nil {
			t.Errorf("%s: what is there was removed: %v", what, err)
		}
	}
}

// Files staged by another user are not copied: that user could make endlessly many, and each would be opened.
func TestNothingIsCopiedFromOthers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives files away")
	}
	p := newTestReceiver(t, "four")
	p.expectMissing(t, 0)
	theirs := filepath.Join(t.TempDir(), "x")
	other := filepath.Join(theirs, "stage", "other")
	if err := os.MkdirAll(other, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(other, "sha256-"+p.sums[0]), []byte("four"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.roots = append(p.roots, theirs)
	if found := p.sources(0); len(found) != 2 {
		t.Errorf("control: %q", found)
	}
	if err := os.Chown(theirs, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	if found := p.sources(0); len(found) != 1 {
		t.Errorf("files of another user are among %q", found)
	}
}
