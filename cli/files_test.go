package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A file that can make mpiexec run programs is rejected if every user can write or replace it (TRUST-27).
func TestCodeThatEverybodyCanWrite(t *testing.T) {
	const sticky = os.ModeSticky | 0o777
	const path, env, names = "n1 path=/opt/mpiexec\n", "n1 env=LD_PRELOAD:/tmp/x.so\n", "n1 slots=2\n"
	for _, test := range []struct {
		name         string
		text         string
		file, folder os.FileMode
		key          string // in the message; empty: the file is accepted
	}{
		{"control", path, 0o644, 0o755, ""},
		{"for a group", path, 0o664, 0o775, ""},
		{"for everybody", path, 0o666, 0o755, "path="},
		{"for everybody, env=", env, 0o646, 0o755, "env="},
		{"for everybody, names alone", names, 0o666, 0o777, ""},
		{"folder for everybody", path, 0o644, 0o777, "path="},
		{"sticky folder", path, 0o644, sticky, ""},
		{"for everybody in a sticky folder", env, 0o666, sticky, "env="},
	} {
		t.Run(test.name, func(t *testing.T) {
			above := t.TempDir()
			folder := filepath.Join(above, "folder")
			file, link := filepath.Join(folder, "file"), filepath.Join(above, "link")
			if err := os.Mkdir(folder, 0o700); err != nil {
				t.Fatal(err)
			}
			write := func(text string) {
				t.Helper()
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				os.Chmod(file, test.file)
				os.Chmod(folder, test.folder)
			}
			os.Symlink(file, link)
			write(test.text)
			including := filepath.Join(above, "including")
			if err := os.WriteFile(including, []byte("!include "+file+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{file, link, including} {
				printed, code := dryRun("-hostfile", name)
				if name == including {
					name = file
				}
				refused := fmt.Sprintf("mpiexec: %s is writable by every user, so others could use %s in it to run any program as you\n  hint: ", name, test.key)
				if test.key == "" && code != 0 || test.key != "" && (!strings.HasPrefix(printed, refused) || code != 125) {
					t.Errorf("%s: code %d, %q", name, code, printed)
				}
			}
			write("[[node]]\nname = \"n1\"\n")
			for _, name := range []string{file, link} {
				printed, code := dryRun("--cluster", name)
				refused := fmt.Sprintf("mpiexec: %s is writable by every user, so others could use it to run any program as you\n  hint: ", name)
				if open := test.file&0o002 != 0 || test.folder == 0o777; open != (strings.HasPrefix(printed, refused) && code == 125) {
					t.Errorf("cluster file %s: code %d, %q", name, code, printed)
				}
			}
		})
	}
}

// A file of another user that can run programs is rejected, and so is one reached by another user's symbolic link. The
// remedy in the message works.
func TestCodeOfAnotherUser(t *testing.T) {
	const otherUID = 12345
	const code, names, cluster = "n1 path=/opt/mpiexec\n", "n1 slots=2\n", "[[node]]\nname = \"n1\"\n"
	for _, test := range []struct {
		name, option, text string
		mode               os.FileMode
		spoil              func(file string) (named string, err error)
		want               string // FILE is the file's name; empty: the file is accepted
	}{
		{"names of hosts", "-hostfile", names, 0o644, otherUsersFile, ""},
		{"a host file", "-hostfile", code, 0o644, otherUsersFile, "FILE belongs to uid 12345, so others could use path= in it to run any program as you\n  hint: "},
		{"a cluster file", "--cluster", cluster, 0o644, otherUsersFile, "FILE belongs to uid 12345, so others could use it to run any program as you\n  hint: "},
		{"an included file", "-hostfile", code, 0o644, func(file string) (string, error) {
			including := file + ".all"
			return including, errors.Join(os.Chown(file, otherUID, -1), os.WriteFile(including, []byte("!include "+file+"\n"), 0o600))
		}, "FILE belongs to uid 12345, so others could use path= in it to run any program as you\n  hint: "},
		{"a link", "-hostfile", code, 0o644, otherUsersLink, "FILE.link is a symbolic link that belongs to uid 12345, so others could use path= in it to run any program as you\n  hint: "},
		{"a link to a cluster file", "--cluster", cluster, 0o644, otherUsersLink, "FILE.link is a symbolic link that belongs to uid 12345, so others could use it to run any program as you\n  hint: "},
		{"one that everybody can write", "--cluster", cluster, 0o666, func(file string) (string, error) { return file, nil }, "FILE is writable by every user, so others could use it to run any program as you\n  hint: "},
		{"of a name that a shell has to have quoted", "-hostfile", code, 0o644, func(file string) (string, error) {
			odd := file + " $(odd)'s"
			return odd, errors.Join(os.Rename(file, odd), os.Chown(odd, otherUID, -1))
		}, "FILE $(odd)'s belongs to uid 12345, so others could use path= in it to run any program as you\n  hint: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			folder, home := filepath.Join(t.TempDir(), "sticky"), t.TempDir()
			file := filepath.Join(folder, "file")
			for _, err := range []error{os.Mkdir(folder, 0o700), os.Chmod(folder, os.ModeSticky|0o777),
				os.WriteFile(file, []byte(test.text), 0o600), os.Chmod(file, test.mode), os.WriteFile(filepath.Join(home, "file"), []byte("kept"), 0o600)} {
				if err != nil {
					t.Fatal(err)
				}
			}
			named, err := test.spoil(file)
			if errors.Is(err, os.ErrPermission) {
				t.Skip("only root gives files away")
			}
			if err != nil {
				t.Fatal(err)
			}
			printed, exit := dryRunWithHome(home, test.option, named)
			want := ""
			if test.want != "" {
				want = "mpiexec: " + strings.ReplaceAll(test.want, "FILE", file) + "check the contents of the file, copy it ("
			}
			if !strings.HasPrefix(printed, want) || (exit == 0) != (want == "") {
				t.Fatalf("exit %d, %q, want %q", exit, printed, want)
			}
			if want == "" {
				return
			}
			command, _, _ := strings.Cut(strings.TrimPrefix(printed, want), "), and give the path of the copy")
			if out, err := exec.Command("sh", "-c", command).CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", command, err, out)
			}
			copies, _ := filepath.Glob(filepath.Join(home, "file?*"))
			if text, _ := os.ReadFile(filepath.Join(home, "file")); len(copies) != 1 || string(text) != "kept" {
				t.Fatalf("%s: copies are %q, and what was there is %q", command, copies, text)
			}
			if printed, exit := dryRunWithHome(home, test.option, copies[0]); exit != 0 {
				t.Errorf("the copy: exit %d, %q", exit, printed)
			}
		})
	}
}

func otherUsersFile(file string) (string, error) { return file, os.Chown(file, 12345, -1) }

func otherUsersLink(file string) (string, error) {
	link := file + ".link"
	return link, errors.Join(os.Symlink(file, link), os.Lchown(link, 12345, -1))
}

// The user's configuration file must belong to the user too.
func TestConfigurationOfAnotherUser(t *testing.T) {
	home := t.TempDir()
	file := filepath.Join(home, ".config/mpiexec/config")
	for _, err := range []error{os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte("launcher-exec /tmp/evil\n"), 0o600)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if printed, exit := dryRunWithHome(home, "-host", "n1"); exit != 0 {
		t.Fatalf("control: exit %d, %q", exit, printed)
	}
	none := newUserFiles(System{})
	if f, err := none.open("/dev/null"); err != nil || none.checkTrust("/dev/null") != nil {
		t.Errorf("no configuration: %v, %v", err, none.checkTrust("/dev/null"))
	} else {
		f.Close()
	}
	if err := os.Chown(file, 12345, -1); err != nil {
		t.Skip("only root gives files away")
	}
	want := "mpiexec: " + file + " belongs to uid 12345, so others could use it to run any program as you\n  hint: check the contents of the file, copy it (cp " + file + " " + home + "/config), and give the path of the copy with MPIEXEC_CONFIG\n"
	printed, exit := dryRunWithHome(home, "-host", "n1")
	if exit != 125 || printed != want {
		t.Errorf("exit %d, %q, want %q", exit, printed, want)
	}
}

// The owner is checked of the open file: its name may lead to another file later.
func TestTheOwnerIsThatOfTheOpenFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(file, 12345, -1); err != nil {
		t.Skip("only root gives files away")
	}
	files := newUserFiles(System{In: strings.NewReader("")})
	f, err := files.open(file)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	for _, err := range []error{os.Remove(file), os.WriteFile(file, nil, 0o600)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if files.checkTrust(file) == nil {
		t.Error("what another user wrote is obeyed, since the name leads to a file of ours now")
	}
}

// dryRun runs --dry-run --no-probe, and returns its standard error and exit code.
func dryRun(args ...string) (string, int) { return dryRunWithHome("/nowhere", args...) }

// dryRunWithHome is dryRun with a home directory.
func dryRunWithHome(home string, args ...string) (string, int) {
	var out, errs bytes.Buffer
	args = append(append([]string{"--dry-run", "--no-probe", "-n", "1"}, args...), "true")
	code := Main(context.Background(), args, System{In: strings.NewReader(""), Out: &out, Err: &errs, Getwd: os.Getwd, FS: os.DirFS("/"), Environ: []string{"HOME=" + home, "USER=me"}})
	return errs.String(), code
}

// A host file is read once, however long the request waits.
func TestHostFilesAreReadOnce(t *testing.T) {
	text := "a b"
	open := openCached(func(string) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil })
	for range 2 {
		f, err := open("hosts")
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := io.ReadAll(f); string(got) != "a b" {
			t.Errorf("it holds %q", got)
		}
		text = "c"
	}
}
