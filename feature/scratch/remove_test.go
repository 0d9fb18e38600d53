//go:build linux

package scratch

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"remshell/launch/launchtest"
)

func TestMain(m *testing.M) { launchtest.Main(m) }

// A testPlace is a directory for folders, with a root for records and a folder elsewhere that must not change.
type testPlace struct{ dir, root, elsewhere string }

func newTestPlace(t *testing.T) testPlace {
	t.Helper()
	temp, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p := testPlace{temp, filepath.Join(temp, "records"), filepath.Join(temp, "elsewhere")}
	must(t, os.MkdirAll(filepath.Join(p.elsewhere, "below"), 0o755), os.WriteFile(filepath.Join(p.elsewhere, "below/file"), nil, 0o644))
	return p
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// make makes a folder and returns it.
func (p testPlace) make(t *testing.T) *folder {
	t.Helper()
	f, err := makeFolder([]string{p.root}, filepath.Join(p.dir, newFolderName()), "job", false)
	must(t, err)
	if info, err := os.Lstat(f.path); err != nil || info.Mode() != os.ModeDir|0o700 {
		t.Fatalf("it is %v, %v", info, err)
	}
	return f
}

// checkGone checks that a folder and its record are removed, and that nothing else is.
func (p testPlace) checkGone(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("%s stays: %v", path, err)
	}
	if left, _ := os.ReadDir(filepath.Join(p.root, "scratch")); len(left) > 0 {
		t.Errorf("records stay: %v", left)
	}
	p.checkElsewhere(t)
}

func (p testPlace) checkElsewhere(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(p.elsewhere, "below/file")); err != nil {
		t.Error(err)
	}
}

// Whatever ranks leave in the folder is removed, and nothing to which its links lead.
func TestRemovesWhatRanksLeave(t *testing.T) {
	for name, leave := range map[string]func(t *testing.T, p testPlace, path string){
		"nothing": func(*testing.T, testPlace, string) {},
		"files": func(t *testing.T, p testPlace, path string) {
			for i := range 3000 {
				must(t, os.WriteFile(filepath.Join(path, fmt.Sprint(i)), nil, 0))
			}
			must(t, unix.Mkfifo(filepath.Join(path, "fifo"), 0o600), os.MkdirAll(filepath.Join(path, "a/b/c"), 0o700))
		},
		"links": func(t *testing.T, p testPlace, path string) {
			must(t, os.MkdirAll(filepath.Join(path, "sub/deeper"), 0o700), os.RemoveAll(filepath.Join(path, "sub/deeper")),
				os.Symlink(p.elsewhere, filepath.Join(path, "sub/deeper")), os.Symlink("/", filepath.Join(path, "root")), os.Symlink("..", filepath.Join(path, "up")))
		},
		"a deep tree": func(t *testing.T, p testPlace, path string) {
			fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY, 0)
			must(t, err)
			for range 2000 {
				must(t, unix.Mkdirat(fd, "d", 0o700))
				below, err := unix.Openat(fd, "d", unix.O_RDONLY|unix.O_DIRECTORY, 0)
				must(t, err)
				unix.Close(fd)
				fd = below
			}
			unix.Close(fd)
		},
		"directories without access": func(t *testing.T, p testPlace, path string) {
			must(t, os.MkdirAll(filepath.Join(path, "closed/below"), 0o700), os.WriteFile(filepath.Join(path, "closed/below/file"), nil, 0o600),
				os.Chmod(filepath.Join(path, "closed/below"), 0), os.Chmod(filepath.Join(path, "closed"), 0), os.Chmod(path, 0))
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newTestPlace(t)
			f := p.make(t)
			leave(t, p, f.path)
			if err := f.remove(); err != nil {
				t.Error(err)
			}
			p.checkGone(t, f.path)
			// The same if the helper was killed.
			f = p.make(t)
			leave(t, p, f.path)
			removeLeftFolders([]string{p.root}, "")
			if _, err := os.Lstat(f.path); err != nil {
				t.Errorf("the folder of a living helper: %v", err)
			}
			f.record.Close() // as the kernel does
			removeLeftFolders([]string{p.root}, "")
			p.checkGone(t, f.path)
		})
	}
}

// A folder, or a link, that has the name of the job's folder by the end stays.
func TestReplacedFolderStays(t *testing.T) {
	for name, replace := range map[string]func(p testPlace, path string) error{
		"link":   func(p testPlace, path string) error { return os.Symlink(p.elsewhere, path) },
		"folder": func(p testPlace, path string) error { return os.Rename(p.elsewhere, path) },
	} {
		t.Run(name, func(t *testing.T) {
			p := newTestPlace(t)
			for _, killed := range []bool{false, true} {
				f := p.make(t)
				must(t, os.Rename(f.path, f.path+".old"), replace(p, f.path))
				if killed {
					f.record.Close()
					removeLeftFolders([]string{p.root}, "")
				} else if err := f.remove(); err == nil {
					t.Error("no error")
				}
				if _, err := os.Stat(filepath.Join(f.path, "below/file")); err != nil {
					t.Error(err)
				}
				if name == "folder" {
					must(t, os.Rename(f.path, p.elsewhere))
				}
			}
		})
	}
}

// A file system that is mounted below is not entered. The rest of the folder is removed, and the error names it.
func TestMountsAreNotCrossed(t *testing.T) {
	p := newTestPlace(t)
	f := p.make(t)
	mounted := filepath.Join(f.path, "a/mnt")
	must(t, os.MkdirAll(mounted, 0o700), os.WriteFile(filepath.Join(f.path, "file"), nil, 0o600))
	if err := unix.Mount(p.elsewhere, mounted, "", unix.MS_BIND, ""); err != nil {
		t.Skip(err)
	}
	defer unix.Unmount(mounted, unix.MNT_DETACH)
	if err := f.remove(); err == nil || !strings.HasPrefix(err.Error(), "a/mnt: ") {
		t.Errorf("error %v", err)
	}
	if _, err := os.Lstat(filepath.Join(f.path, "file")); err == nil {
		t.Error("a file stays")
	}
	p.checkElsewhere(t)
}

// Below another user's sticky directory the folder is made and removed, and what others have there stays. Where everybody
// may replace it, it is not made. Ordinary users remove directories without access as root does.
func TestAsAnOrdinaryUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to become another user")
	}
	const ours, others = 54321, 54322
	temp, err := os.MkdirTemp("/tmp", "remshell-scratch-test-")
	must(t, err)
	defer os.RemoveAll(temp)
	sticky, open := filepath.Join(temp, "sticky"), filepath.Join(temp, "open")
	must(t, os.Chmod(temp, 0o755), os.Mkdir(sticky, 0o700), os.Chmod(sticky, os.ModeSticky|0o777), os.Chown(sticky, others, others), os.Mkdir(open, 0o700), os.Chmod(open, 0o777),
		os.Mkdir(filepath.Join(sticky, "theirs"), 0o755), os.Chown(filepath.Join(sticky, "theirs"), others, others), os.Mkdir(filepath.Join(temp, "records"), 0o700), os.Chown(filepath.Join(temp, "records"), ours, ours))
	test, err := os.Executable()
	must(t, err)
	program := filepath.Join(temp, "test")
	content, err := os.ReadFile(test)
	must(t, err, os.WriteFile(program, content, 0o755))
	cmd := exec.Command(program, "-test.run", "^TestOrdinaryUserPart$", "-test.v")
	cmd.Dir, cmd.Env = temp, []string{"SCRATCH_TEST=" + temp}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ours, Gid: ours}}
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestOrdinaryUserPart") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestOrdinaryUserPart is the part of TestAsAnOrdinaryUser that runs as that user.
func TestOrdinaryUserPart(t *testing.T) {
	temp := os.Getenv("SCRATCH_TEST")
	if temp == "" {
		t.Skip("run by TestAsAnOrdinaryUser")
	}
	roots := []string{filepath.Join(temp, "records")}
	if _, err := makeFolder(roots, filepath.Join(temp, "open", newFolderName()), "job", false); err == nil || !strings.Contains(err.Error(), "every user can replace files in") {
		t.Errorf("in a folder that everybody may change: %v", err)
	}
	f, err := makeFolder(roots, filepath.Join(temp, "sticky", newFolderName()), "job", false)
	must(t, err)
	closed := filepath.Join(f.path, "closed")
	must(t, os.MkdirAll(filepath.Join(closed, "below"), 0o700), os.WriteFile(filepath.Join(closed, "below/file"), nil, 0o400),
		os.Chmod(filepath.Join(closed, "below"), 0o500), os.Chmod(closed, 0), os.Symlink(filepath.Join(temp, "sticky/theirs"), filepath.Join(f.path, "theirs")), os.Chmod(f.path, 0o500))
	if err := f.remove(); err != nil {
		t.Error(err)
	}
	left, _ := os.ReadDir(filepath.Join(temp, "sticky"))
	records, _ := os.ReadDir(filepath.Join(temp, "records/scratch"))
	if len(left) != 1 || left[0].Name() != "theirs" || len(records) > 0 {
		t.Errorf("left are %v and records %v", left, records)
	}
}
