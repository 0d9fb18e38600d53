package userfile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// otherUID is another user.
const otherUID = 12345

// stickyDir creates a directory like /tmp.
func stickyDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(dir, "sticky")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, os.ModeSticky|0o777)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// chownToOther changes the owner of a file to another user, if the test may do that.
func chownToOther(t *testing.T, name string) {
	t.Helper()
	if err := os.Lchown(name, otherUID, otherUID); err != nil {
		t.Skip("only root gives files away")
	}
}

// A link that another user has created in a directory for all users is not followed, wherever it is in
// the path. All other links are.
func TestLinksOfOthers(t *testing.T) {
	dir := stickyDir(t)
	t.Chdir(dir)
	victim := filepath.Join(t.TempDir(), "victim")
	for _, err := range []error{
		os.MkdirAll("own/below", 0o700), os.MkdirAll("theirs", 0o755), os.WriteFile(victim, []byte("kept"), 0o600),
		os.Symlink(victim, "link"), os.Symlink("../link", "own/tolink"), os.Symlink("own", "mine"), os.Symlink(filepath.Dir(victim), "folder"),
		os.Symlink(victim, "theirs/link"), os.Symlink("loop", "loop"), os.Symlink("own/new", "dangling"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	chownToOther(t, "link")
	chownToOther(t, "folder")
	chownToOther(t, "theirs")
	chownToOther(t, "theirs/link")
	for name, otherOwner := range map[string]string{
		"link": "link", dir + "/link": dir + "/link", "own/tolink": "link", "folder/new": "folder", "./mine/../folder/victim": "folder",
		"mine/new": "", "mine/below/../other": "", "dangling": "", "theirs/link": "", "/dev/null": "", "own/below/x": "",
	} {
		f, err := OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o600)
		if err == nil {
			f.Close()
		}
		var wrong *OtherUserError
		if errors.As(err, &wrong); (wrong != nil) != (otherOwner != "") || wrong != nil && (wrong.Path != otherOwner || wrong.UID != otherUID || !wrong.Link) || wrong == nil && err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Create("loop"); !errors.Is(err, syscall.ELOOP) {
		t.Errorf("loop: %v", err)
	}
	if _, err := Create("none/x"); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "none/x") {
		t.Errorf("none/x: %v", err)
	}
	if text, err := os.ReadFile(victim); string(text) != "kept" {
		t.Errorf("the file behind the links is %q, %v", text, err)
	}
	if _, err := os.Stat("own/new"); err != nil {
		t.Error(err)
	}
}

// A file or pipe that another user has created in a directory for all users is not written, and the
// pipe is not waited for.
func TestFilesOfOthers(t *testing.T) {
	dir := stickyDir(t)
	file, pipe, own := filepath.Join(dir, "file"), filepath.Join(dir, "pipe"), filepath.Join(dir, "own")
	for _, err := range []error{os.WriteFile(file, []byte("theirs"), 0o666), syscall.Mkfifo(pipe, 0o666), os.WriteFile(own, []byte("ours"), 0o666)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	chownToOther(t, file)
	chownToOther(t, pipe)
	for _, name := range []string{file, pipe} {
		if path, err := ResolveForWriting(name); err == nil {
			t.Errorf("%s would be replaced", path)
		}
		var wrong *OtherUserError
		if _, err := Create(name); !errors.As(err, &wrong) || wrong.Path != name || wrong.Link || wrong.Hint() == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if text, err := os.ReadFile(file); string(text) != "theirs" {
		t.Errorf("it is %q, %v", text, err)
	}
	for _, name := range []string{file, own} { // reading is allowed
		f, err := Open(name)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	f, err := Create(own)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if err := os.Chmod(dir, 0o777); err != nil { // then other users could have done anything else as well
		t.Fatal(err)
	}
	if f, err = Create(file); err != nil {
		t.Fatal(err)
	}
	f.Close()
}

// Descriptors that are open already can be named.
func TestOpenDescriptors(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	f, err := Create("/dev/fd/" + strconv.Itoa(int(w.Fd())))
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(f, "text")
	f.Close()
	w.Close()
	if text, _ := io.ReadAll(r); string(text) != "text" {
		t.Errorf("%q", text)
	}
}

// Resolve leads to the same file as the kernel, and its result has no links.
func FuzzResolve(f *testing.F) {
	dir, err := filepath.EvalSymlinks(f.TempDir())
	if err != nil {
		f.Fatal(err)
	}
	for _, err := range []error{
		os.MkdirAll(filepath.Join(dir, "a/b/c"), 0o700), os.WriteFile(filepath.Join(dir, "a/b/f"), nil, 0o600),
		os.Symlink("../b/c", filepath.Join(dir, "a/b/l")), os.Symlink(dir, filepath.Join(dir, "a/r")), os.Symlink("r/a/b", filepath.Join(dir, "a/d")),
		os.Symlink("../..", filepath.Join(dir, "a/b/u")), os.Symlink("a//b/./f", filepath.Join(dir, "g")), os.Symlink("o", filepath.Join(dir, "o")),
	} {
		if err != nil {
			f.Fatal(err)
		}
	}
	for _, name := range []string{"a/d/l/../f", "g", "a/b/u/a/r/g", "o", "a/r/../a", "./a/.//b/c/../../b/f", "", "/", "a/none/../b", "a/b/f/", "a/b/f/.."} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		name = filepath.Clean(dir) + "/" + name
		want, err := os.Stat(name)
		got, failed := Resolve(name)
		if err != nil {
			return
		}
		if failed != nil {
			t.Fatalf("%q: %v", name, failed)
		}
		at, err := os.Lstat(got)
		if err != nil || !os.SameFile(at, want) {
			t.Errorf("%q leads to %q: %v", name, got, err)
		}
		if plain, err := filepath.EvalSymlinks(got); err != nil || plain != got && !strings.HasPrefix(got, "/proc") {
			t.Errorf("%q: links are in %q (%v)", name, got, err)
		}
	})
}
